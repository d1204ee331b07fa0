"""Build the book with warnings as errors, executing only what changed.

Jupyter Book executes a chapter again when the chapter's own code changed. This script
adds what Jupyter Book cannot see: if the library or the pins changed, it executes every
chapter again. After a failed build it makes Sphinx read every page again, because
Sphinx reports a problem only while it reads the page.
"""

import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from website.builder.execute import ExecutionFailed, execute

# A change here can change the output of any cell: execute all chapters again.
EXECUTED_WITH = ["transformer_lib", "bookkit", "pages", "models", "measurements"]
EXECUTED_WITH += ["requirements.txt"]
# A change here can change every page: render all of them again.
RENDERED_WITH = ["_config.yml", "website", "_toc.yml"]
RENDERED_WITH += ["book/references.bib"]
ALL_AGAIN = "The library, its data or the pins changed"
MODEL = "models/multi30k-en-de"  # has its own licence, so some copies lack it
COMPLAINT = re.compile(r"^.*?(?:WARNING|ERROR|CRITICAL): .*$", re.MULTILINE)
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
# Anything else that was raised, and what Jupyter Book prints before it raises its own.
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
        if state:
            print(f"{ALL_AGAIN}: executing all chapters")
        shutil.rmtree(build / ".jupyter_cache", ignore_errors=True)
    if rendered not in state:
        for folder in (".doctrees", "html/_modules"):  # the latter may have old modules
            shutil.rmtree(build / folder, ignore_errors=True)
    build.mkdir(exist_ok=True)
    # The second hash is added below, so a failed build makes the next one start afresh.
    state_file.write_bytes(executed)

    began = time.monotonic()
    try:
        count = execute(root)
    except ExecutionFailed as error:
        print(f"\n{plain(str(error))}\n\nThe book was not built.")
        return 1
    ready = time.monotonic()
    status, page, complaints = jupyter_book(root)
    if status != 0:
        print(f"\n{explain(complaints, page)}\n")
        print(f"The book was not built (jupyter-book ended with status {status}).")
        return 1
    state_file.write_bytes(executed + b"\n" + rendered)
    print(
        f"\nExecuted {count} notebooks in {ready - began:.0f} s, "
        f"rendered the pages in {time.monotonic() - ready:.0f} s.\n"
        f"The book is at {build / 'html' / 'index.html'}"
    )
    return 0


def without_model(root: Path) -> str:
    """Name the chapters that lack the model of the captions, or return nothing."""
    name = Path(MODEL).name.encode()
    chapters = sorted((root / "book").glob("*.ipynb"))
    users = [path.stem for path in chapters if name in path.read_bytes()]
    if (root / MODEL).is_dir() or not users:
        return ""
    return (
        f"{MODEL} is missing, and these chapters load it: {', '.join(users)}.\n"
        "The others run without it in JupyterLab (.venv/bin/jupyter lab book), and so "
        "do the library and models/grammar-en-de."
    )


def digest(root: Path, names: list[str]) -> str:
    """Hash these files, and all files in these folders."""
    total = hashlib.sha256()
    for name in names:
        top = root / name
        for path in sorted(top.rglob("*")) if top.is_dir() else [top]:
            inside = path.relative_to(root)
            # Leave out what a build itself creates, and what is only read by people.
            left_out = {"__pycache__", "build", "README.md"} & set(inside.parts)
            left_out = left_out or ".egg-info/" in inside.as_posix()
            if path.is_file() and not left_out:
                total.update(inside.as_posix().encode() + b"\0")
                total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()


def jupyter_book(root: Path) -> tuple[int, str, str]:
    """Run the strict build.

    Returns:
        Its status, the last page that it began, and what it wrote to stderr.
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
    page = ""
    try:
        for line in map(plain, process.stdout):
            if "HTML pages are" in line:  # what follows is Jupyter Book's own farewell
                break
            print(line, end="", flush=True)
            if begun := PAGE.search(line):
                page = begun[1].strip()
        process.stdout.read()
    except BaseException:  # such as SIGTERM
        process.terminate()
        raise
    finally:
        status = process.wait()
        reader.join()
    return status, page, plain("".join(complaints))


def plain(text: str) -> str:
    """Remove the colours of a terminal."""
    return COLOUR.sub("", text)


def explain(complaints: str, page: str) -> str:
    """Reduce what Jupyter Book wrote to Sphinx's warnings, or to the last error."""
    if raised := RAISED.findall(complaints.rpartition(BECAUSE)[0]):
        return f"{page} was the last page that was begun:\n\n{raised[-1]}"
    return "\n".join(COMPLAINT.findall(complaints)) or complaints.strip()


def end(number: int, frame: object) -> None:
    """Exit in order, so that kernels and Jupyter Book are stopped first."""
    sys.exit(128 + number)


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    if sys.stdout is not None:
        sys.stdout.reconfigure(errors="backslashreplace")  # a page may say anything
    try:
        sys.exit(main(Path(__file__).resolve().parents[2]))
    except OSError as error:  # such as a full disk
        sys.exit(f"The book was not built: {error}")
