"""The course: no solution reaches a student, and the grades are those deserved."""

import csv
import inspect
import io
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
import torch
from book_files import BOOK, ROOT
from torch import nn

import course
from bookkit.exercises import Build, exercises, limits, load

BUILDS = [
    each
    for listed in exercises().values()
    for each in listed
    if isinstance(each, Build)
]
PAGE = (BOOK / "teaching.md").read_text("utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course") / "course"
    course.write(folder)
    return folder


def cells(path):
    notebook = json.loads(Path(path).read_text("utf-8"))
    return {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}


# -- The tests that nbgrader runs ------------------------------------------------------


listed_tests = cache(lambda name: course.tests_of(load(name)))


def held(exercise, answer):
    """Return which of the exercise's tests hold for an answer."""
    function = exercise.call.partition("(")[0]

    def holds(source):
        names = {"torch": torch, function: answer}
        try:
            limits.call(lambda: exec(source, names), [], limits.Printed())
        except (Exception, limits.TooLong):
            return False
        return True

    return [holds(source) for _, source, _ in listed_tests(exercise.name)]


@pytest.mark.parametrize("exercise", BUILDS, ids=lambda each: each.name)
def test_right_answers_get_all_points_and_wrong_ones_do_not(exercise, monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.4)
    hidden = [hidden for *_, hidden in listed_tests(exercise.name)]
    assert any(hidden)
    assert not all(hidden)
    for right in exercise.rights:
        assert all(held(exercise, right)), right
    for wrong, _ in exercise.wrongs:
        results = held(exercise, wrong)
        kept = [holds for holds, is_hidden in zip(results, hidden, strict=True)]
        assert not all(kept), wrong.__name__


def test_hidden_tests_have_other_numbers():
    for exercise in BUILDS:
        for seed, idea in enumerate(exercise.ideas):
            case = idea.cases[0]
            if any(
                isinstance(value, torch.Tensor)
                and value.is_floating_point()
                and (value.isfinite() & (value != 0)).any()
                for value in case.values()
            ):
                other = course.other_numbers(exercise, case, seed)
                code = course.assertions(exercise, case)
                assert course.assertions(exercise, other) != code, idea.says


def test_a_solution_needs_no_more_than_the_imports_of_the_notebook():
    for exercise in BUILDS:
        names = {}
        exec(course.IMPORTS, names)
        exec(course.with_markers(exercise), names)
        answer = names[exercise.call.partition("(")[0]]
        assert all(held(exercise, answer)), exercise.name


# -- The editions ----------------------------------------------------------------------


def lines_of(answer):
    answer = answer if inspect.isfunction(answer) else type(answer)
    lines = [
        line.partition("#")[0].strip() for line in inspect.getsource(answer).split("\n")
    ]
    return {
        line for line in lines if len(line) > 8 and not line.startswith(("@", "def "))
    }


def released(source):
    """Return a cell as nbgrader releases it."""
    for what in ("SOLUTION", "HIDDEN TESTS"):
        source = re.sub(f"(?s)### BEGIN {what}.*?### END {what}", "", source)
    return source


def test_no_line_of_a_solution_is_in_the_editions_for_students(made):
    texts = [
        "\n".join(cells(path).values()) for path in (made / "student").glob("*.ipynb")
    ]
    graded = (made / "nbgrader").rglob("*.ipynb")
    texts += [released("\n".join(cells(path).values())) for path in graded]
    assert len(texts) == 2 * len(exercises())
    whole = {line.strip() for text in texts for line in text.split("\n")}
    for exercise in BUILDS:
        for right in exercise.rights:
            assert not lines_of(right) & whole, exercise.name
    for listed in exercises().values():
        for exercise in listed:
            assert not any(exercise.answer in text for text in texts), exercise.name


def test_the_teacher_sees_every_solution_and_every_mistake(made):
    for path, _, listed in course.write_exercises.notebooks():
        text = "\n".join(cells(made / "teacher" / path.name).values())
        for exercise in listed:
            assert exercise.answer in text
            for wrong, _ in getattr(exercise, "wrongs", []):
                wrong = wrong if inspect.isfunction(wrong) else type(wrong)
                assert f" {wrong.__name__}(" in text, wrong


def test_a_student_is_told_how_many_tests_are_hidden(made):
    for path, _, listed in course.write_exercises.notebooks():
        source = cells(made / "nbgrader" / "source" / path.stem / path.name)
        for exercise in listed:
            if isinstance(exercise, Build):
                tests = [
                    source[key] for key in source if f"{exercise.name}-test-" in key
                ]
                hidden = sum("BEGIN HIDDEN" in test for test in tests)
                told = (
                    f"{len(tests) - hidden} tests are visible and {hidden} are hidden"
                )
                assert told in source[exercise.name]


def test_the_plans_are_those_of_the_teaching_page(made):
    text = (made / "assignments.md").read_text("utf-8")
    assert re.findall(r"^### (\w+ \d+)$", text, re.MULTILINE) == [
        *(f"Week {number}" for number in range(1, 13)),
        *(f"Day {number}" for number in range(1, 4)),
    ]
    titles = {label: title for label, (title, *_) in course.chapters_of_book().items()}
    plans = PAGE.partition("## Twelve weeks")[2].partition("## In class")[0]
    rows = re.findall(r"^\| \**\d+\** \| (.*) \| (.*) \|$", plans, re.MULTILINE)
    assert len(rows) == 15
    for cell in itertools.chain(*rows):
        named = re.sub(r"\{ref\}`([^`]+)`", lambda found: titles[found[1]], cell)
        assert f": {named}\n" in text
    for name in re.findall(r"`(\d\d_\w+)`", text):
        assert (made / "student" / f"{name}.ipynb").is_file()
    assert "Assignments: none" not in text


def test_a_student_gets_your_transformer_and_two_dialogues_for_the_assistant(made):
    handed_out = made / "your_transformer"
    names = {path.name for path in handed_out.iterdir()}
    assert names == {"AGENTS.md", "README.md", "adapters.py", "check.py"}
    rules = (handed_out / "AGENTS.md").read_text("utf-8")
    assert rules.count("## Example") == 2
    assert "You may not:" in rules


def test_the_archive_is_the_same_each_time(tmp_path):
    for name in ("one", "two"):
        course.write(tmp_path / name)
        course.pack(tmp_path / name, tmp_path / f"{name}.zip")
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()


def test_the_guide_names_every_file_and_pins_the_torch_of_the_book(made):
    guide = (made / "README.md").read_text("utf-8")
    for path in made.iterdir():
        assert path.name in f"{guide} README.md", path.name
    pins = (ROOT / "requirements.txt").read_text("utf-8").splitlines()
    ours = (made / "requirements.txt").read_text("utf-8").splitlines()
    assert [line for line in ours if line.startswith("torch")] == [
        line for line in pins if line.startswith("torch")
    ]


def test_the_numbers_of_the_exam_s_key_are_right():
    key = (ROOT / "course" / "teacher" / "exam_key.md").read_text("utf-8")
    answers = dict(re.findall(r"(?ms)^(\d+)\. (.*?)(?=^\d+\. |\n\n)", key))
    assert len(answers) == 10
    weights = torch.zeros(3, 8) @ torch.zeros(4, 8).mT
    assert f"Scores {tuple(weights.shape)}" in answers["1"]
    assert f"Output {tuple((weights @ torch.zeros(4, 5)).shape)}" in answers["1"]
    with pytest.raises(RuntimeError):
        torch.zeros(4, 2, 6, 6).masked_fill(torch.ones(4, 6).bool(), 0)
    assert answers["3"].startswith(f"{math.isqrt(64)} before")
    causal = torch.ones(9, 9).tril().bool()
    joined = causal & (torch.arange(9) < 6)
    differ = (causal != joined).any(dim=1).sum()
    assert answers["4"].startswith(f"{differ}, ")
    layer = nn.MultiheadAttention(512, 8, bias=False)
    assert f"{sum(each.numel() for each in layer.parameters()):,}" in answers["5"]
    assert f"= {math.log(8000):.2f}" in answers["8"]
    assert str(sum(step**2 for step in range(1, 11))) in answers["9"]
    assert str(sum(range(1, 11))) in answers["9"]
    assert f"{0.6 * 0.5:.2f}" in answers["10"]
    assert f"{0.4 * 0.9:.2f}" in answers["10"]


# -- Ten students ----------------------------------------------------------------------

RIGHT = """def from_lengths(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None, None, :]"""
WRONG = RIGHT.replace("(size)", "(int(lengths.max()))")
STUDENTS = {
    "right": RIGHT,
    "right_in_another_way": """def from_lengths(lengths, size):
    mask = torch.zeros(len(lengths), 1, 1, size, dtype=torch.bool)
    for row, length in enumerate(lengths.tolist()):
        mask[row, ..., :length] = True
    return mask""",
    "wrong": WRONG,
    "blank": None,
    "endless": "def from_lengths(lengths, size):\n    while True:\n        pass",
    "tampered": WRONG,
    "crash": "import os\n\n\ndef from_lengths(lengths, size):\n    os._exit(1)",
    "huge_output": RIGHT
    + "\n\n\nprint('mask ' * 10**7)\nfor i in range(10**5):\n    print(i)",
    "imports": "from bookkit.exercises import load\n\n"
    'from_lengths = load("masks-4").rights[0]',
    "showtraceback": WRONG
    + "\n\n\nget_ipython().showtraceback = lambda *rest, **names: None",
}
FULL = 7  # the tests of this exercise
# An endless loop in a test costs five seconds, so the assignment has one exercise.
POINTS = dict.fromkeys(STUDENTS, 0) | {
    "right": FULL,
    "right_in_another_way": FULL,
    "huge_output": FULL,
    "wrong": FULL - 2,  # two hidden tests have a mask that is wider
    "tampered": FULL - 2,
    "showtraceback": FULL - 2,
}


@pytest.fixture(scope="module")
def submitted(made, tmp_path_factory):
    """A course with one small assignment, released and handed in by ten students."""
    folder = tmp_path_factory.mktemp("graded") / "course"
    shutil.copytree(made, folder)
    source = folder / "nbgrader" / "source"
    shutil.rmtree(source)
    (source / "lengths").mkdir(parents=True)
    listed = [each for each in BUILDS if each.name == "masks-4"]
    graded = course.editions("lengths", listed)["nbgrader"]
    course.nbformat.write(graded, source / "lengths" / "lengths.ipynb")
    nbgrader(folder, "generate_assignment")
    notebook = folder / "nbgrader" / "release" / "lengths" / "lengths.ipynb"
    for student, answer in STUDENTS.items():
        written = json.loads(notebook.read_text("utf-8"))
        for cell in written["cells"]:
            if cell["id"] == "masks-4-answer" and answer:
                cell["source"] = answer
            if student == "tampered" and "-test-" in cell["id"]:
                cell["source"] = "assert True"
        path = folder / "nbgrader" / "submitted" / student / "lengths"
        path.mkdir(parents=True)
        (path / "lengths.ipynb").write_text(json.dumps(written), "utf-8")
    return folder


def nbgrader(folder, command, *options):
    """Run nbgrader as the guide says, and return its status and what it printed."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = [sys.executable, "-m", "nbgrader", command, *options]
    words += [] if command == "export" else ["lengths"]
    done = subprocess.run(
        words,
        cwd=folder / "nbgrader",
        env=os.environ | {"PATH": programs},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_ten_students_get_the_grades_that_they_deserve(submitted):
    status, printed = nbgrader(submitted, "autograde")
    nbgrader(submitted, "export")
    with open(submitted / "nbgrader" / "grades.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    grades = {row["student_id"]: float(row["score"] or 0) for row in rows}
    assert grades == POINTS, printed
    assert {float(row["max_score"]) for row in rows} == {FULL}
    assert status == 1
    assert "lengths' for student 'crash'" in printed  # the guide says what to do
    nbgrader(submitted, "generate_feedback")
    feedback = submitted / "nbgrader" / "feedback"
    returned = {path.parts[-3] for path in feedback.rglob("*.html")}
    assert returned == STUDENTS.keys() - {"crash"}


@pytest.mark.slow
def test_the_plain_script_gives_the_same_grades(submitted):
    done = subprocess.run(
        [sys.executable, "grade.py", "lengths", "nbgrader/submitted"],
        cwd=submitted,
        capture_output=True,
        text=True,
        check=True,
    )
    rows = list(csv.reader(io.StringIO(done.stdout)))
    grades = {Path(row[0]).parts[0]: int(row[1]) for row in rows[1:]}
    assert grades == POINTS
