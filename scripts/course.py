"""Write the course: notebooks for students and teachers, nbgrader's source, the plans.

``python scripts/course.py`` writes ``_build/course`` and one archive of it. Everything
about an exercise comes from ``bookkit/exercises``, both plans from
``book/teaching.md``, the slides from the built pages; other texts are in ``course``.
"""

import ast
import inspect
import re
import shutil
import zipfile
from itertools import count
from pathlib import Path
from textwrap import dedent, fill

import nbformat
import slides
import torch
import write_exercises
from bundle import NAME, add, files
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from torch import Tensor
from write_exercises import ROOT

from bookkit.exercises import Build, Predict
from bookkit.exercises.exercise import Case
from bookkit.exercises.testing import Run, gradients, tests_of, should_have_gradient
from transformer_lib.files import whole_file

IMPORTS = """import math
from collections import Counter

import torch
from torch import nn
from torch.nn import functional as F"""
CLOSED = """import sys

sys.modules["transformer_lib"] = None  # this notebook needs only torch"""
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


# -- The tests of an exercise ----------------------------------------------------------


def literal(value: object) -> str:
    """Write an argument or a result as code that needs only torch."""
    if not isinstance(value, Tensor):
        return repr(value)
    written = str(value.tolist())
    if value.numel() == 0:
        return f"torch.zeros({tuple(value.shape)}, dtype={value.dtype})"
    if not value.is_floating_point():
        return f"torch.tensor({written})"
    written = re.sub(r"-?\b(inf|nan)\b", r'float("\g<0>")', written)
    return f"torch.tensor({written}, dtype={value.dtype})"


def rounded(value: object, digits: int) -> object:
    if not isinstance(value, Tensor) or not value.is_floating_point():
        return value
    short = [float(f"{number:.{digits}g}") for number in value.flatten().tolist()]
    return torch.tensor(short, dtype=value.dtype).view(value.shape)


def has_real_numbers(case: Case) -> bool:
    return any(
        isinstance(value, Tensor) and value.is_floating_point()
        for value in case.values()
    )


def other_numbers(exercise: Build, case: Case, seed: int) -> Case:
    """Change the real numbers of a case a little, if all correct answers still agree.

    Zeros and infinities stay, because a case may depend on them.
    """
    generator = torch.Generator().manual_seed(seed)
    other = dict(case)
    for name, value in case.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            noise = torch.rand(value.shape, generator=generator, dtype=value.dtype)
            other[name] = value * (0.9 + 0.2 * noise)
    expected = Run(exercise, None).solution(other)
    for right in exercise.rights:
        found = Run(exercise, right).results(other)
        for ours, theirs in zip(found, expected, strict=True):
            if isinstance(theirs, Tensor):
                if not torch.allclose(ours.to(theirs), theirs, 1e-5, 1e-7):
                    return case
            elif ours != theirs:
                return case
    return other


def called(exercise: Build, case: Case) -> list[str]:
    """Return code that calls the answer for a case."""
    given = ",\n".join(f"    {literal(value)}" for value in case.values())
    results, function = ", ".join(exercise.returns), exercise.call.partition("(")[0]
    call = f"{results} = {function}(*arguments)"
    return [f"arguments = [\n{given},\n]", "before = str(arguments)", call]


def assertions(exercise: Build, case: Case) -> str:
    """Return code that calls the answer for a case and compares the numbers."""
    case = {name: rounded(value, 5) for name, value in case.items()}
    lines = called(exercise, case)
    lines.append('assert str(arguments) == before, "it changes its arguments"')
    names = list(exercise.returns)
    for name, expected in zip(names, Run(exercise, None).solution(case), strict=True):
        if not isinstance(expected, Tensor):
            lines.append(f"assert {name} == {expected!r}, {name}")
            if isinstance(expected, list):
                kinds = sorted({type(each).__name__ for each in expected})
                found = f"sorted({{type(each).__name__ for each in {name}}})"
                lines.append(f"assert {found} == {kinds}, {name}")
            continue
        lines += [
            f"assert {name}.shape == {tuple(expected.shape)}, {name}.shape",
            f"assert {name}.dtype == {expected.dtype}, {name}.dtype",
            f"expected = {literal(rounded(expected, 8))}",
        ]
        if expected.is_floating_point():
            far = f"({name} - expected).abs()"
            lines.append(f"assert ({far} < 1e-6 + 1e-5 * expected.abs()).all(), {name}")
        else:
            lines.append(f"assert {name}.tolist() == expected.tolist(), {name}")
    return "\n".join(map(wrapped, lines))


def gradient_assertions(exercise: Build, case: Case) -> str:
    """Return code that compares the gradients for a case."""
    example = {name: rounded(value, 5) for name, value in case.items()}
    expected = gradients(lambda given: exercise.rights[0](*given.values()), example)
    needed = should_have_gradient(exercise)
    places = [place for place, name in enumerate(example) if name in needed]
    lines = called(exercise, example)
    lines[1] = f"inputs = [arguments[i].requires_grad_() for i in {places}]"
    results = ", ".join(exercise.returns)
    lines.append(f"""total = 0
for result in [{results}]:
    factors = torch.arange(1.0, result.numel() + 1).view(result.shape).sin()
    total = total + (result * factors).sum()""")
    lines.append("found = torch.autograd.grad(total, inputs)")
    wanted = ",\n".join(f"    {literal(rounded(expected[name], 8))}" for name in needed)
    lines.append(f"expected = [\n{wanted},\n]")
    lines.append("""for ours, theirs in zip(found, expected, strict=True):
    assert ((ours - theirs).abs() < 1e-5 + 1e-4 * theirs.abs()).all(), ours""")
    return "\n".join(map(wrapped, lines))


def wrapped(statement: str) -> str:
    """Break the long lists of a statement."""
    kept = {"break_long_words": False, "break_on_hyphens": False}
    rows = statement.split("\n")
    return "\n".join(fill(row, 88, subsequent_indent="    ", **kept) for row in rows)


def tests_of(exercise: Build) -> list[tuple[str, str, bool]]:
    """List the tests: what is tested, the code, and whether it is hidden.

    The visible ones are the smallest cases of the first ideas. The hidden ones are all
    ideas with other numbers, and the example.
    """
    first = exercise.ideas[: (len(exercise.ideas) + 1) // 2]
    tests = [(idea.says, assertions(exercise, idea.cases[0]), False) for idea in first]
    says = "Shapes, dtypes and numbers of a larger example."
    tests.append((says, assertions(exercise, exercise.example), True))
    if should_have_gradient(exercise):
        says = "A gradient reaches every input that needs one."
        cases = [exercise.example]
        cases += [
            case
            for idea in exercise.ideas
            if idea.name == "backward"
            for case in idea.cases
        ]
        code = "\n".join(gradient_assertions(exercise, case) for case in cases)
        tests.append((says, code, True))
    seeds = count(1)
    for place, idea in enumerate(exercise.ideas):
        others = [other_numbers(exercise, case, next(seeds)) for case in idea.cases]
        if place < len(first) and not has_real_numbers(idea.cases[0]):
            others = others[1:] or others  # the visible test has this very case
        code = "\n".join(assertions(exercise, case) for case in others)
        tests.append((idea.says, code, True))
    return tests


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


def student_cells(number: int, exercise):
    """Return the question, a cell to fill in, and the call of ``check``."""
    attempt = list(write_exercises.cells_of(number, exercise))[1]
    yield text(exercise.name, heading(number, exercise))
    yield code(f"{exercise.name}-try", "".join(attempt["source"]))
    if exercise.kind in REASON:
        yield text(f"{exercise.name}-reason", f"*{REASON[exercise.kind]}*")


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
    hints = {idea.name: idea.hint for idea in exercise.ideas}
    rows = [("mistake", "the first test that fails", "what to ask")]
    listings = []
    for wrong, fails in exercise.wrongs:
        wrong = wrong if inspect.isfunction(wrong) else type(wrong)
        failed = [name for name in said if name in fails]
        ask = next((hints[name] for name in failed if name in hints), "")
        name = wrong.__name__.replace("_", " ")
        others = f" And {len(failed) - 1} more." if len(failed) > 1 else ""
        rows.append((name, said[failed[0]] + others, ask))
        source = dedent(inspect.getsource(wrong)).strip()
        listings.append("\n".join(source.splitlines()[1:]))
    shown = "\n\n\n".join(listings)
    return f"{table(rows)}\n\nThe same mistakes as code:\n\n```python\n{shown}\n```"


def table(rows: list[tuple[str, ...]]) -> str:
    """Write a table in Markdown; the first row is its head."""
    lines = [
        "| " + " | ".join(" ".join(cell.split()).replace("|", "\\|") for cell in row)
        for row in rows
    ]
    lines.insert(1, "|---" * len(rows[0]))
    return "\n".join(f"{line} |" for line in lines)


def graded_cells(number: int, exercise):
    """Return the cells of an exercise with nbgrader's metadata and the solution."""
    name, graded = exercise.name, {"grade": True, "locked": True, "points": 1}
    written = {"grade": True, "solution": True, "points": 2}
    if isinstance(exercise, Build):
        tests = tests_of(exercise)
        hidden = sum(hidden for *_, hidden in tests)
        told = f"{len(tests) - hidden} tests are visible and {hidden} are hidden. "
        told += "Each test is worth one point."
        yield text(name, f"{heading(number, exercise)}\n\n{told}", locked=True)
        yield code(f"{name}-answer", with_markers(exercise), solution=True)
        for place, (says, source, hidden) in enumerate(tests, 1):
            if hidden:
                source = f"### BEGIN HIDDEN TESTS\n{source}\n### END HIDDEN TESTS"
                says = f"Hidden: {says}"
            source = f"{fill(f'# {says}', 88, subsequent_indent='# ')}\n{source}"
            yield code(f"{name}-test-{place}", source, **graded)
        return
    task = heading(number, exercise)
    if exercise.kind == "Break":
        checks = [f"* {a}: {says}" for a, (says, *_) in exercise.checks.items()]
        checks = "\n".join(checks)
        told = "One hidden test, one point: the letters. Two points: the reasons."
        yield text(name, f"{task}\n\n{checks}\n\n{told}", locked=True)
        variable = name.replace("-", "_")
        right = "".join(sorted(exercise.right))
        answer = f'### BEGIN SOLUTION\n{variable} = "{right}"\n### END SOLUTION'
        start = f"# The letters of the checks that fail: {variable} = ..."
        yield code(f"{name}-answer", f"{start}\n{answer}", solution=True)
        test = f'assert sorted(set({variable}) - set(", ")) == {sorted(right)}'
        test = f"### BEGIN HIDDEN TESTS\n{test}\n### END HIDDEN TESTS"
        yield code(f"{name}-test", f"# Hidden: the letters.\n{test}", **graded)
    else:
        choices = [f"* {reply}" for reply in exercise.replies]
        if isinstance(exercise.right, str):
            task = f"{task}\n\n" + "\n".join(choices)
        yield text(name, f"{task}\n\nTwo points for the reason.", locked=True)
    answer = f"### BEGIN SOLUTION\n{exercise.answer}\n### END SOLUTION"
    reason = f"*{REASON[exercise.kind]}*\n\n{answer}"
    yield text(f"{name}-reason", reason, **written)


def with_markers(exercise: Build) -> str:
    """Return the solution; nbgrader removes what is between the markers."""
    lines = write_exercises.solution(exercise).strip().splitlines()
    start = ast.parse("\n".join(lines)).body[0].body[0].lineno - 1
    body = ["    ### BEGIN SOLUTION", *lines[start:], "    ### END SOLUTION"]
    return "\n".join([*lines[:start], *body])


def editions(title: str, exercises: list) -> dict[str, nbformat.NotebookNode]:
    """Return a chapter's notebooks: the student's, the teacher's, and nbgrader's."""
    first = f"{IMPORTS}\n\nfrom bookkit.exercises import check"
    made = {}
    for kind, cells_of, start in (
        ("student", student_cells, [code("imports", first)]),
        ("teacher", teacher_cells, [code("imports", first)]),
        ("nbgrader", graded_cells, [code("imports", f"{CLOSED}\n\n{IMPORTS}")]),
    ):
        cells = [text("title", f"# Exercises: {title}"), *start]
        for number, exercise in enumerate(exercises, 1):
            cells += cells_of(number, exercise)
        made[kind] = notebook(cells)
    with_grader(made["nbgrader"].cells[1], {"locked": True})
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
    """Write the whole course into a folder."""
    shutil.rmtree(folder, ignore_errors=True)
    left_out = shutil.ignore_patterns("__pycache__", ".*", "progress.*")
    shutil.copytree(ROOT / "course", folder, ignore=left_out)
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
    with whole_file(archive) as unfinished, zipfile.ZipFile(unfinished, "w") as file:
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
