"""Build the book strictly, executing only what changed.

Jupyter Book runs a chapter again when the chapter's own code changed. This script adds
what it cannot see. When the library, the pins or the configuration changed, every
chapter runs again. When a build failed, the next one reads every page again, because
Sphinx speaks of a fault only while it reads the page.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path

# A change here changes what a cell gives: execute all chapters again.
EXECUTED_WITH = ["transformer_lib", "models", "experiments", "_ext", "_config.yml"]
EXECUTED_WITH += ["requirements.txt"]
# A change here changes pages whose own source is the same: render all of them again.
RENDERED_WITH = ["_toc.yml", "book/_static", "book/references.bib"]
COMPLAINT = re.compile(r"^.*?(?:WARNING|ERROR|CRITICAL): .*$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FAILED_CELL = re.compile(
    r"error occurred while executing the following cell:\n-{3,}\n(.*?)\n-{3,}\n(.*?)"
    r"\n+The above exception was the direct cause",
    re.DOTALL,
)
FAILED_NOTEBOOK = re.compile(r"ExecutionError: (.*\.ipynb)$", re.MULTILINE)


def main(root: Path) -> int:
    """Build the book in ``root`` and return the exit status."""
    build, state_file = root / "_build", root / "_build" / "inputs.json"
    try:
        state = json.loads(state_file.read_text())
    except (FileNotFoundError, json.JSONDecodeError):  # none yet, or cut off
        state = {}
    executed = digest(root, EXECUTED_WITH)
    rendered = executed + digest(root, RENDERED_WITH)
    if state.get("executed") != executed:
        shutil.rmtree(build / ".jupyter_cache", ignore_errors=True)
    if state.get("rendered") != rendered:
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
    build.mkdir(exist_ok=True)
    # "rendered" comes back below: a build that fails, or is cut off, starts afresh.
    state_file.write_text(json.dumps({"executed": executed}))

    began = time.monotonic()
    status, seconds, complaints = jupyter_book(root)
    if status != 0:
        print(f"\n{explain(complaints, root)}\n")
        print(f"The book was not built (jupyter-book ended with status {status}).")
        return 1
    state_file.write_text(json.dumps({"executed": executed, "rendered": rendered}))
    rest = time.monotonic() - began - sum(seconds)
    print(
        f"\nExecuted {len(seconds)} notebooks in {sum(seconds):.0f} s, "
        f"everything else took {rest:.0f} s.\n"
        f"The book is at {build / 'html' / 'index.html'}"
    )
    return 0


def digest(root: Path, names: list[str]) -> str:
    """Hash the files with these names, and all that lies in folders of these names."""
    total = hashlib.sha256()
    for name in names:
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            inside = path.relative_to(root)
            # What a build itself makes is no input of it.
            if path.is_file() and not {"__pycache__", "made"} & set(inside.parts):
                total.update(inside.as_posix().encode() + b"\0")
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def jupyter_book(root: Path) -> tuple[int, list[float], str]:
    """Run the strict build; return its status, each notebook's seconds, and stderr."""
    program = Path(sys.executable).with_name("jupyter-book")
    process = subprocess.Popen(
        [program, "build", root, "-W", "-n", "--keep-going"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8"},
    )
    complaints: list[str] = []
    reader = threading.Thread(target=lambda: complaints.extend(process.stderr))
    reader.start()
    seconds = []
    for line in process.stdout:
        if "HTML pages are" in line:  # what follows is Jupyter Book's own farewell
            break
        print(COLOUR.sub("", line), end="", flush=True)
        if ran := re.search(r"Executed notebook in ([\d.]+) seconds", line):
            seconds.append(float(ran[1]))
    process.stdout.read()
    reader.join()
    return process.wait(), seconds, COLOUR.sub("", "".join(complaints))


def explain(complaints: str, root: Path) -> str:
    """Say plainly what went wrong: notebook, cell and error, or Sphinx's warnings."""
    notebook, cell = FAILED_NOTEBOOK.search(complaints), FAILED_CELL.search(complaints)
    if not (notebook and cell):
        # Only the lines of Sphinx, not what kernels say in between; or else all.
        return "\n".join(COMPLAINT.findall(complaints)) or complaints.strip()
    path = Path(notebook[1])
    source, error = cell[1].strip(), cell[2].strip()
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    names = [
        c.get("id", str(n))
        for n, c in enumerate(cells, start=1)
        if "".join(c["source"]).strip() == source
    ]
    return (
        f"{path.relative_to(root)} stopped at cell {' or '.join(names) or '?'}:\n\n"
        f"{source}\n\n{error}"
    )


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parents[1]))
