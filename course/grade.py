"""Grade notebooks without nbgrader, by the same tests; a table for a spreadsheet.

``python grade.py 05_masks FOLDER > grades.csv`` runs every notebook in FOLDER and its
subfolders, each in a process of its own. Run it in a container: see README.md.
"""

import contextlib
import csv
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

SECONDS = 120  # for one notebook
CELL_SECONDS = 5  # for one cell, on Linux and macOS
SOURCE = Path(__file__).resolve().parent / "nbgrader" / "source"


def code_cells(path):
    """Return the code cells of a notebook: nbgrader's metadata, and the code."""
    notebook = json.loads(Path(path).read_text("utf-8"))
    return [
        (cell["metadata"].get("nbgrader", {}), "".join(cell["source"]))
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]


def tests(assignment):
    """Return the tests of an assignment: points and code, by name."""
    cells = code_cells(SOURCE / assignment / f"{assignment}.ipynb")
    return {
        about["grade_id"]: (about["points"], code)
        for about, code in cells
        if about.get("grade")
    }


def too_long(number, frame):
    raise TimeoutError("the cell ran too long")


def run_cell(code, names):
    """Run a cell, and return whether it ended without an error."""
    if hasattr(signal, "alarm"):
        signal.alarm(CELL_SECONDS)
    try:
        exec(compile(code, "<cell>", "exec"), names)
        return True
    except BaseException:  # also SystemExit: the next cell runs nevertheless
        return False
    finally:
        if hasattr(signal, "alarm"):
            signal.alarm(0)


def run_notebook(assignment, path):
    """Run a student's notebook, then the tests, and print the name of each that holds.

    What the student's code prints goes nowhere.
    """
    results = os.fdopen(os.dup(1), "w", buffering=1)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    if hasattr(signal, "alarm"):
        signal.signal(signal.SIGALRM, too_long)
    wanted = tests(assignment)
    written = code_cells(path)
    names = {"__name__": "__main__"}
    setup = next(
        code
        for about, code in code_cells(SOURCE / assignment / f"{assignment}.ipynb")
        if about.get("grade_id") == "imports"
    )
    exec(setup, names)  # it also hides the book, where the solutions are
    for about, code in written:
        if not about.get("grade"):
            run_cell(code, names)
    for name, (_, code) in wanted.items():
        if run_cell(code, names):
            results.write(f"{name}\n")


def grade(assignment, path):
    """Return the points of each test; what was reached before a crash counts."""
    command = [sys.executable, __file__, "--run", assignment, str(path)]
    child = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        printed, _ = child.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        printed, _ = child.communicate()
    held = set(printed.split())
    return [
        points if name in held else 0 for name, (points, _) in tests(assignment).items()
    ]


def main(assignment, folder):
    sys.stdout.reconfigure(errors="backslashreplace")  # a file may have any name
    table = csv.writer(sys.stdout, lineterminator="\n")
    wanted = tests(assignment)
    total = sum(points for points, _ in wanted.values())
    table.writerow(["notebook", f"of {total} points", *wanted])
    for path in sorted(Path(folder).rglob("*.ipynb")):
        points = grade(assignment, path)
        table.writerow([path.relative_to(folder), sum(points), *points])


if __name__ == "__main__":
    if sys.argv[1] == "--run":
        with contextlib.suppress(BrokenPipeError):
            run_notebook(*sys.argv[2:])
    else:
        main(*sys.argv[1:])
