"""Write the course: notebooks for students and teachers, nbgrader's source, the plans.

``python -m course.editions`` writes ``_build/course`` and one archive of it. Everything
about an exercise comes from ``pages``, both plans from
``book/teaching.md``, the slides from the built pages; other texts are in ``course``.
"""

import ast
import copy
import re
import shutil
import zipfile
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from bookkit.exercises import Build, Predict
from bookkit.exercises.testing import tests_of
from course.slides import slides
from grading.marks import points
from grading.wrong_answers import wrong_answers
from pages import write_exercises
from pages.write_exercises import ROOT
from transformer_lib.files import atomic_write
from website.bundle.bundle import NAME, add, files

IMPORTS = """import math
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import check"""
PLANS = {
    "Twelve weeks": ("Week", "In class", "Homework"),
    "Three days": ("Day", "Morning", "Afternoon"),
}
REASON = {
    "Predict": "Before you check it: your prediction, and the reason. "
    "After the check: what was wrong in the reason?",
    "Break": "For each check that fails: why does it fail?",
}
# What the teacher looks for, by the kind of exercise.
GRADING = {
    "Build": "The tests give the points. Ask the student why each line is there.",
    "Predict": "Two points for the reason. A wrong prediction that is explained well "
    "earns both.",
    "Break": "One point for the letters, two for the reasons. “It raises” is half a "
    "reason.",
}


# -- Notebooks -------------------------------------------------------------------------


def notebook(cells: list) -> nbformat.NotebookNode:
    language = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": language, "language_info": {"name": "python"}}
    return new_notebook(cells=cells, metadata=metadata, nbformat_minor=5)


def text(name: str, source: str, **grader) -> nbformat.NotebookNode:
    return with_grader(new_markdown_cell(source, id=name), grader)


def code(name: str, source: str, **grader) -> nbformat.NotebookNode:
    return with_grader(new_code_cell(source, id=name), grader)


def with_grader(cell: nbformat.NotebookNode, grader: dict) -> nbformat.NotebookNode:
    if grader:
        usual = {"schema_version": 3, "grade_id": cell.id, "task": False}
        usual |= {"grade": False, "locked": False, "solution": False}
        cell.metadata["nbgrader"] = usual | grader
    return cell


def heading(number: int, exercise) -> str:
    return f"## {number} {exercise.kind}: {exercise.title}\n\n{exercise.task}"


def teacher_cells(number: int, exercise):
    """Return the question, the answer, how to grade it, and the typical mistakes."""
    yield text(exercise.name, heading(number, exercise))
    if isinstance(exercise, Build):
        ask = f'check("{exercise.name}", {exercise.call.partition("(")[0]})'
        solution = write_exercises.solution(exercise).strip()
        yield code(f"{exercise.name}-solution", f"{solution}\n\n\n{ask}")
    notes = f"**Answer.** {exercise.answer}\n\n**Grading.** {GRADING[exercise.kind]}"
    yield text(f"{exercise.name}-notes", f"{notes}\n\n{mistakes(exercise)}")


def mistakes(exercise) -> str:
    """List the typical mistakes, and what to ask about each, in Markdown."""
    if isinstance(exercise, Predict):
        rows = [("the student says", "reply")]
        rows += [(str(given), says) for given, says in exercise.replies.items()]
        return table(rows)
    if not isinstance(exercise, Build):
        rows = [("check", "", "why")]
        for letter, (says, _, why) in exercise.checks.items():
            state = "fails" if letter in exercise.right else "holds"
            rows.append((f"{letter}: {says}", state, why))
        return table(rows)
    said = {name: says for name, (says, _) in tests_of(exercise).items()}
    said["endless"] = "It never ends."
    hints = {idea.name: idea.hint for idea in exercise.ideas}
    rows = [("mistake", "the first test that fails", "what to ask")]
    listings = []
    for wrong in wrong_answers()[exercise.name]:
        ask = next((hints[name] for name in wrong.fails if name in hints), "")
        name = wrong.name.replace("_", " ")
        others = f" And {len(wrong.fails) - 1} more." if len(wrong.fails) > 1 else ""
        rows.append((name, said[wrong.fails[0]] + others, ask))
        listings.append(f"# {name}\n{wrong.shown}")
    shown = "\n\n".join(listings)
    return f"{table(rows)}\n\nWhat is written instead:\n\n```diff\n{shown}\n```"


def table(rows: list[tuple[str, ...]]) -> str:
    """Write a table in Markdown; the first row is its head."""
    lines = [
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row)
        for row in rows
    ]
    lines.insert(1, "|---" * len(rows[0]))
    return "\n".join(f"{line} |" for line in lines)


def student_cells(number: int, exercise):
    """Return the question, a cell for the answer, and one for the points.

    They have nbgrader's metadata, and its marks around what a student does not get.
    """
    name, task = exercise.name, heading(number, exercise)
    graded = {"grade": True, "locked": True}
    if isinstance(exercise, Build):
        worth = points(exercise)
        told = f"{worth} points: half for an answer that starts to work, the rest for "
        told += "the tests that it passes. `check` runs the same tests."
        function = exercise.call.partition("(")[0]
        answer = f'{with_markers(exercise)}\n\n\ncheck("{name}", {function})'
        yield text(name, f"{task}\n\n{told}", locked=True)
        yield code(f"{name}-answer", answer, solution=True)
        yield code(f"{name}-points", f"# {worth} points", points=worth, **graded)
        return
    told = "Two points for the reason."
    if exercise.kind == "Break":
        checks = [f"* {a}: {says}" for a, (says, *_) in exercise.checks.items()]
        told = "One point for the letters. Two points for the reasons."
        task += "\n\n" + "\n".join(checks)
    elif isinstance(exercise.right, str):
        task += "\n\n" + "\n".join(f"* {reply}" for reply in exercise.replies)
    yield text(name, f"{task}\n\n{told}", locked=True)
    if exercise.kind == "Break":
        right = "".join(sorted(exercise.right))
        start = f'# Give the letters of the checks that fail: check("{name}", ...)'
        answer = f'### BEGIN SOLUTION\ncheck("{name}", "{right}")\n### END SOLUTION'
        yield code(f"{name}-answer", f"{start}\n{answer}", solution=True)
        yield code(f"{name}-points", "# 1 point", points=1, **graded)
    else:
        yield code(f"{name}-answer", f'check("{name}")')
    answer = f"### BEGIN SOLUTION\n{exercise.answer}\n### END SOLUTION"
    reason = f"*{REASON[exercise.kind]}*\n\n{answer}"
    yield text(f"{name}-reason", reason, grade=True, solution=True, points=2)


def with_markers(exercise: Build) -> str:
    """Return the solution; nbgrader removes what is between the markers."""
    lines = write_exercises.solution(exercise).strip().splitlines()
    start = ast.parse("\n".join(lines)).body[0].body[0].lineno - 1
    body = ["    ### BEGIN SOLUTION", *lines[start:], "    ### END SOLUTION"]
    return "\n".join([*lines[:start], *body])


def editions(title: str, exercises: list) -> dict[str, nbformat.NotebookNode]:
    """Return a chapter's notebooks: the teacher's, and the source of the students'."""
    made = {}
    for kind, cells_of in ("teacher", teacher_cells), ("nbgrader", student_cells):
        cells = [text("title", f"# Exercises: {title}"), code("imports", IMPORTS)]
        for number, exercise in enumerate(exercises, 1):
            cells += cells_of(number, exercise)
        made[kind] = notebook(cells)
    with_grader(made["nbgrader"].cells[1], {"locked": True})
    made["student"] = released(made["nbgrader"])
    return made


def released(source: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Remove the solutions, as nbgrader does."""
    made = copy.deepcopy(source)
    for cell in made.cells:
        stub = r"\1# Your code.\n\1..." if cell.cell_type == "code" else "Your answer."
        pattern = r"(?sm)^( *)### BEGIN SOLUTION.*?### END SOLUTION"
        cell.source = re.sub(pattern, stub, cell.source)
    return made


# -- The plans -------------------------------------------------------------------------


def plans(page: str, chapters: dict[str, tuple[str, str, bool]]) -> str:
    """Turn both plans of the teaching page into lists of assignments.

    Args:
        page: The teaching page.
        chapters: By label: the title, the notebook, and whether it has exercises.
    """
    by_number = {
        str(int(path[:2])): label
        for label, (_, path, _) in chapters.items()
        if path[:2].isdigit()
    }
    parts = ["# Assignments"]
    for name, words in PLANS.items():
        parts.append(f"## {name}")
        section = page.partition(f"\n## {name}\n")[2].partition("\n## ")[0]
        for row in re.findall(r"^\| \**\d.*", section, re.MULTILINE):
            number, *cells = (cell.strip() for cell in row.split("|")[1:-1])
            used = re.findall(r"\{ref\}`([^`]+)`", row)
            for found in re.findall(r"chapters? (\d+(?: or \d+)*)", row):
                used += [by_number[each] for each in re.findall(r"\d+", found)]
            assigned = [chapters[label] for label in dict.fromkeys(used)]
            assigned = [f"`{path}`" for _, path, graded in assigned if graded]
            lines = [f"### {words[0]} {number.strip('*')}", ""]
            for word, cell in zip(words[1:], cells, strict=True):
                lines.append(f"* {word}: {plain(cell, chapters)}")
            lines.append(f"* Assignments: {', '.join(assigned) or 'none'}")
            parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def plain(cell: str, chapters: dict[str, tuple[str, str, bool]]) -> str:
    """Replace references by the titles of the chapters."""
    return re.sub(r"\{ref\}`([^`]+)`", lambda found: chapters[found[1]][0], cell)


def chapters_of_book() -> dict[str, tuple[str, str, bool]]:
    """Return title, notebook's name and whether it has exercises, by label."""
    found = {}
    with_exercises = {path for path, _, _ in write_exercises.notebooks()}
    for path in sorted((ROOT / "book").glob("*.ipynb")):
        first = nbformat.read(path, 4).cells[0]
        title = first.source.partition("\n")[0].strip("# ")
        found[first.metadata.get("label")] = title, path.stem, path in with_exercises
    return found


# -- The folder ------------------------------------------------------------------------


def write(folder: Path) -> None:
    """Write the whole course into a folder.

    Raises:
        SystemExit: If somebody grades there.
    """
    if (folder / "nbgrader" / "gradebook.db").exists():
        raise SystemExit(f"{folder} has grades in it: move that folder away first.")
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns(
        "__pycache__",
        ".*",
        "editions.py",
        "slides.py",
        "progress.*",
        "your_transformer",
    )
    shutil.copytree(ROOT / "course", folder, ignore=left_out)
    handed_out = ROOT / "course" / "your_transformer" / "handed_out"
    shutil.copytree(handed_out, folder / "your_transformer", ignore=left_out)
    chapters = chapters_of_book()
    titles = {path: title for title, path, _ in chapters.values()}
    for path, _, exercises in write_exercises.notebooks():
        for kind, made in editions(titles[path.stem], exercises).items():
            nbformat.validate(made)
            place = folder / kind
            if kind == "nbgrader":
                place = place / "source" / path.stem
            place.mkdir(parents=True, exist_ok=True)
            nbformat.write(made, place / path.name)
    page = (ROOT / "book" / "teaching.md").read_text("utf-8")
    (folder / "assignments.md").write_text(plans(page, chapters), encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """Pack the folder; the same files give the same bytes."""
    with atomic_write(archive) as unfinished, zipfile.ZipFile(unfinished, "w") as file:
        for path in files(folder):
            name = path.relative_to(folder).as_posix()
            add(file, f"course/{name}", path.read_bytes())


if __name__ == "__main__":
    folder = ROOT / "_build" / "course"
    write(folder)
    slides.write(folder, ROOT / "_build" / "html" / "book")
    target = ROOT / "_build" / f"{NAME}-course.zip"
    pack(folder, target)
    print(f"The course is in {folder}, and the archive is {target}")
