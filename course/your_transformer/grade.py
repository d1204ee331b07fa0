"""Grade a class: ``python -m your_transformer.grade FOLDER``.

Each folder in FOLDER is a student's, with ``adapters.py``. Its code runs in a process
of its own, and the verdict is computed outside it. ``FOLDER/grades.csv`` has the points
of each piece and milestone, and ``FOLDER/feedback`` a page for each student.
"""

import csv
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bookkit.exercises.calling import Raised, unpacked
from bookkit.exercises.report import Report
from bookkit.exercises.testing import run_tests
from grading.marks import harmless, share
from grading.process import Process, RunElsewhere
from transformer_lib.files import atomic_write
from your_transformer import worker
from your_transformer.milestones import MILESTONES, judged
from your_transformer.pieces import float64
from your_transformer.progress import BY_NAME, STEPS, as_html, of_the_book, report_of

POINTS = {name: 4 if name in MILESTONES else 2 for name in STEPS}
MINUTES = 10  # for a milestone; half a minute is usual


def grade(folder: Path) -> Iterator[tuple[float, Report]]:
    """Yield the points and the report of each step of a student's folder.

    Raises:
        Raised: If its code cannot be imported at all.
    """
    path = Path(worker.__file__)
    with Process(["folder", str(folder.resolve())], path) as process:
        process.start()
        for name in STEPS:
            process.starts, process.spent = 0, 0.0  # each step begins anew
            try:
                part, report = graded(name, process)
            except Raised as error:
                says = f"It raises {error.says}"
                part, report = 0.0, Report(name, False, "it stopped.", says)
            yield round(part * POINTS[name], 1), report


def graded(name: str, process: Process) -> tuple[float, Report]:
    """Return the share of a step's points, and what ``check.py`` says."""
    if name in MILESTONES:
        try:
            values = process.ask("milestone", name, seconds=60 * MINUTES)["values"]
        except Raised as error:
            if error.name == "NotImplementedError":
                return 0.0, Report(name, None, "not written yet.")
            says = f"It raises {error.says}"
            return 0.0, Report(name, False, "it stopped.", says, trace=error.trace)
        report = judged(name, unpacked(values))
        return float(bool(report.passed)), report
    piece = BY_NAME[name]
    run = RunElsewhere(piece.build, process)
    if run.is_missing():
        return 0.0, Report(name, False, "not found.", f"There is no function {name}.")
    with float64():
        found = run_tests(piece.build, run=run)
        report = report_of(piece, found)
        return (0.0 if report.passed is None else share(run, found)), report


def main(folder: Path) -> int:
    """Grade every student's folder; a row is written as soon as it is known."""
    students = sorted(
        each
        for each in folder.iterdir()
        if each.is_dir() and each.name != "feedback" and not each.name.startswith(".")
    )
    if not students:
        print(f"{folder} has no folder with a student's adapters.py", file=sys.stderr)
        return 2
    (folder / "feedback").mkdir(exist_ok=True)
    with open(folder / "grades.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        most = sum(POINTS.values())
        table.writerow(["student", f"of {most} points", "what happened", *STEPS])
        for student in students:
            began, says, results = time.monotonic(), of_the_book(student), []
            try:
                results = list(grade(student))
            except Raised as error:
                says = f"could not be run: {error.says}"
            points = [points for points, _ in results]
            total = round(sum(points), 1) if results else ""
            row = [harmless(student.name), total, says, *points]
            table.writerow(row)
            file.flush()
            page = folder / "feedback" / f"{student.name}.html"
            with atomic_write(page) as unfinished:
                reports = [report for _, report in results]
                unfinished.write_text(as_html(reports, reports, says), "utf-8")
            seconds = time.monotonic() - began
            print(f"{student.name}: {total} points, {seconds:.0f} seconds. {says}")
    return 0


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("Name the folder with a folder for each student.")
    sys.exit(main(Path(sys.argv[1])))
