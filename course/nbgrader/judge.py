"""The parts of nbgrader that the course replaces: no notebook runs in a kernel.

Each answer runs in a process of its own and is judged outside it, by the tests of
``check``. The formats, the points given by hand and the feedback remain nbgrader's.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output
from nbgrader.api import Gradebook, MissingEntry
from nbgrader.plugins import ExportPlugin
from nbgrader.preprocessors import (
    DeduplicateIds,
    NbGraderPreprocessor,
    OverwriteCells,
)

from bookkit.exercises import exercises
from grading.marks import grade, harmless

SIZE = ".exercise.exercise { font-size: 14px; }"  # as the rest of nbgrader's pages


def about(cell: NotebookNode) -> dict:
    return cell.metadata.get("nbgrader", {})


class Judge(NbGraderPreprocessor):
    """Grades each exercise, and writes what ``check`` says below it."""

    def preprocess(self, nb, resources):
        cells = [cell for cell in nb.cells if cell.cell_type == "code"]
        for cell in cells:
            cell.outputs = []
        for cell in cells:
            name, _, what = about(cell).get("grade_id", "").rpartition("-")
            if what != "points":
                continue
            answers = [
                place
                for place, each in enumerate(cells)
                if about(each).get("grade_id") == f"{name}-answer"
            ]
            before = cells[: answers[-1] + 1] if answers else []
            sources = [each.source for each in before if not about(each).get("grade")]
            share, report = grade(name, sources)
            earned = round(share * about(cell)["points"], 1)
            html = f"{report._repr_html_()}<style>{SIZE}</style>"
            shown = {"text/plain": repr(report), "text/html": html}
            cell.outputs = [
                new_output("execute_result", {"text/plain": f"{earned}"}),
                new_output("display_data", shown),
            ]
        return nb, resources


class Deduplicate(DeduplicateIds):
    """Leaves a copied cell without a grade, instead of ending the run of the class."""

    def preprocess(self, nb, resources):
        nb, resources = super().preprocess(nb, resources)
        for cell in nb.cells:
            if cell.metadata.get("nbgrader") == {}:
                del cell.metadata["nbgrader"]
        return nb, resources


class Overwrite(OverwriteCells):
    """Leaves a cell of another notebook without a grade."""

    def preprocess_cell(self, cell, resources, index):
        cell, resources = super().preprocess_cell(cell, resources, index)
        if "grade_id" not in about(cell):
            cell.metadata.pop("nbgrader", None)
        return cell, resources


class EscapeText(NbGraderPreprocessor):
    """Keeps a student's HTML out of the pages that the teacher opens."""

    ours = frozenset(each.name for listed in exercises().values() for each in listed)

    def preprocess_cell(self, cell, resources, index):
        # The text of an exercise was overwritten with ours, whatever stood there.
        if cell.cell_type != "code" and about(cell).get("grade_id") not in self.ours:
            source = cell.source.replace("&", "&amp;").replace("<", "&lt;")
            cell.source = re.sub(r"(?i)script\s*:", "script ", source)
        return cell, resources


class Table(ExportPlugin):
    """Writes ``grades.csv``: a row for each student and assignment, none left out."""

    def export(self, gradebook: Gradebook) -> None:
        with open(self.to or "grades.csv", "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file)
            for assignment in gradebook.assignments:
                if self.assignment and assignment.name not in self.assignment:
                    continue
                names = [
                    cell.name
                    for notebook in assignment.notebooks
                    for cell in notebook.grade_cells
                ]
                head = ["student", "assignment", "points", f"of {assignment.max_score}"]
                table.writerow([*head, "what happened", *names])
                for row in self.rows(gradebook, assignment, names):
                    table.writerow([harmless(f"{cell}") for cell in row])

    def rows(self, gradebook, assignment, names) -> Iterator[list]:
        here = Path(__file__).resolve().parent
        folders = here.glob(f"submitted/*/{assignment.name}")
        students = {folder.parent.name for folder in folders}
        students |= {student.id for student in gradebook.students}
        for student in sorted(students):
            folder = here / "submitted" / student / assignment.name
            graded = here / "autograded" / student / assignment.name
            files = sorted(path.name for path in folder.glob("*"))
            expected = [f"{notebook.name}.ipynb" for notebook in assignment.notebooks]
            try:
                submission = gradebook.find_submission(assignment.name, student)
            except MissingEntry:
                submission = None
            others = [name for name in files if name not in expected]
            says = f"other files: {', '.join(others)}" if others else ""
            if not files:
                says = "nothing was handed in"
            elif submission is None or not any(graded.glob("*.ipynb")):
                says = "; ".join(map(unreadable, sorted(folder.glob("*"))))
                submission = None
            if submission is None:
                yield [student, assignment.name, "", "", says]
                continue
            points = {}
            for notebook in submission.notebooks:
                for each in notebook.grades:
                    waits = each.needs_manual_grade
                    points[each.name] = "by hand" if waits else round(each.score, 1)
            yield [
                student, assignment.name, round(submission.score, 1),
                submission.max_score, says, *(points.get(name, "") for name in names),
            ]  # fmt: skip


def unreadable(path: Path) -> str:
    """Say why a file has no points."""
    if path.suffix != ".ipynb":
        return f"{path.name} is no notebook"
    try:
        nbformat.read(path, as_version=4)
    except Exception as error:  # of whatever was handed in
        says = str(error).partition("\n")[0][:80]
        return f"{path.name} cannot be read: {says}"
    return f"{path.name} was not graded: is it named after the assignment?"
