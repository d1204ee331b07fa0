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
import signal
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
MODEL = "models/multi30k-en-de"  # with terms of its own, so not everyone has it
COMPLAINT = re.compile(r"^.*?(?:WARNING|ERROR|CRITICAL): .*$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
FAILED_CELL = re.compile(
    r"error occurred while executing the following cell:\n-{3,}\n(.*?)\n-{3,}\n(.*?)"
    r"\n+The above exception was the direct cause",
    re.DOTALL,
)
FAILED_NOTEBOOK = re.compile(r"ExecutionError: (.*\.ipynb)$", re.MULTILINE)
# Anything else that was raised, and what Jupyter Book says before it raises its own.
RAISED = re.compile(r"^(?:\w+\.)*\w+(?:Error|Exception)\b.*", re.MULTILINE)
BECAUSE = "The above exception was the direct cause of the following"
PAGE = re.compile(r"(?:reading sources|writing output)\.\.\. \[.*?\] (.+)")


def main(root: Path) -> int:
    """Build the book in ``root`` and return the exit status."""
    if lack := without_model(root):
        print(f"{lack}\nThe book was not built.")
        return 1
    build, state_file = root / "_build", root / "_build" / "inputs.txt"
    state = state_file.read_bytes().split() if state_file.is_file() else []
    executed = digest(root, EXECUTED_WITH).encode()
    rendered = executed + digest(root, RENDERED_WITH).encode()
    if executed not in state:
        shutil.rmtree(build / ".jupyter_cache", ignore_errors=True)
    if rendered not in state:
        shutil.rmtree(build / ".doctrees", ignore_errors=True)
    build.mkdir(exist_ok=True)
    # The second comes back below: a build that fails, or is cut off, starts afresh.
    state_file.write_bytes(executed)

    began = time.monotonic()
    status, seconds, page, complaints = jupyter_book(root)
    if status != 0:
        print(f"\n{explain(complaints, page, root)}\n")
        print(f"The book was not built (jupyter-book ended with status {status}).")
        return 1
    state_file.write_bytes(executed + b"\n" + rendered)
    rest = time.monotonic() - began - sum(seconds)
    print(
        f"\nExecuted {len(seconds)} notebooks in {sum(seconds):.0f} s, "
        f"everything else took {rest:.0f} s.\n"
        f"The book is at {build / 'html' / 'index.html'}"
    )
    return 0


def without_model(root: Path) -> str:
    """Say which chapters miss the model of the captions, or nothing if it is there."""
    name = Path(MODEL).name.encode()
    chapters = sorted((root / "book").glob("*.ipynb"))
    users = [path.stem for path in chapters if name in path.read_bytes()]
    if (root / MODEL).is_dir() or not users:
        return ""
    return (
        f"{MODEL} is missing, and these chapters load it: {', '.join(users)}.\n"
        "The others run without it in JupyterLab (make lab), and so do the library and "
        "models/grammar-en-de."
    )


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


def jupyter_book(root: Path) -> tuple[int, list[float], str, str]:
    """Run the strict build.

    Returns:
        Its status, each notebook's seconds, the last page that was begun, and stderr.
    """
    program = "from jupyter_book.cli.main import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-Pc", program, "build", root, "-W", "-n", "--keep-going"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
        env=os.environ
        | {"PYTHONUNBUFFERED": "1", "PYTHONIOENCODING": "utf-8", "PYTHONUTF8": "1"},
    )
    complaints: list[str] = []
    reader = threading.Thread(target=lambda: complaints.extend(process.stderr))
    reader.start()
    seconds, page = [], ""
    try:
        for line in map(uncoloured, process.stdout):
            if "HTML pages are" in line:  # what follows is Jupyter Book's own farewell
                break
            print(line, end="", flush=True)
            if ran := re.search(r"Executed notebook in ([\d.]+) seconds", line):
                seconds.append(float(ran[1]))
            if begun := PAGE.search(line):
                page = begun[1].strip()
        process.stdout.read()
    except BaseException:  # such as being told to end
        process.terminate()
        raise
    finally:
        status = process.wait()
        reader.join()
    return status, seconds, page, uncoloured("".join(complaints))


def uncoloured(text: str) -> str:
    return COLOUR.sub("", text)


def explain(complaints: str, page: str, root: Path) -> str:
    """Say plainly what went wrong: notebook, cell and error, or Sphinx's warnings."""
    notebook, cell = FAILED_NOTEBOOK.search(complaints), FAILED_CELL.search(complaints)
    if not (notebook and cell):
        if raised := RAISED.findall(complaints.rpartition(BECAUSE)[0]):
            return f"{page} was the last page that was begun:\n\n{raised[-1]}"
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


def end(number: int, frame: object) -> None:
    """Leave in order, and so not without Jupyter Book."""
    sys.exit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    if sys.stdout is not None:
        sys.stdout.reconfigure(errors="backslashreplace")  # a page may say anything
    try:
        sys.exit(main(Path(__file__).resolve().parents[1]))
    except OSError as error:  # such as a full disk
        sys.exit(f"The book was not built: {error}")
