"""The course: no solution reaches a student, and the grades are those deserved."""

import csv
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from book_files import BOOK, ROOT
from generated_answers import BUILDS, lines_of
from torch import nn

from bookkit.exercises import Build, exercises, load
from course import editions as course
from grading.marks import points
from grading.wrong_answers import wrong_answers

PAGE = (BOOK / "teaching.md").read_text("utf-8")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("course") / "course"
    course.write(folder)
    return folder


def cells(path):
    notebook = json.loads(Path(path).read_text("utf-8"))
    return {cell["id"]: "".join(cell["source"]) for cell in notebook["cells"]}


# -- The editions ----------------------------------------------------------------------


def test_students_get_no_line_of_a_solution_and_teachers_all_and_every_mistake(made):
    students = (made / "student").glob("*.ipynb")
    texts = ["\n".join(cells(path).values()) for path in students]
    assert len(texts) == len(exercises())
    whole = {line.strip() for text in texts for line in text.split("\n")}
    for exercise in BUILDS:
        for right in exercise.rights:
            assert not lines_of(right) & whole, exercise.name
    for path, _, listed in course.write_exercises.notebooks():
        shown = "\n".join(cells(made / "teacher" / path.name).values())
        for exercise in listed:
            assert not any(exercise.answer in text for text in texts), exercise.name
            assert exercise.answer in shown
            for wrong in wrong_answers().get(exercise.name, []):
                assert wrong.shown in shown, wrong.name


def test_each_exercise_has_a_place_for_its_points(made):
    for path, _, listed in course.write_exercises.notebooks():
        source = made / "nbgrader" / "source" / path.stem / path.name
        notebook = json.loads(source.read_text("utf-8"))
        graders = [cell["metadata"].get("nbgrader", {}) for cell in notebook["cells"]]
        worth = {each["grade_id"]: each.get("points") for each in graders if each}
        for exercise in listed:
            if isinstance(exercise, Build):
                assert worth[f"{exercise.name}-points"] == points(exercise)
                assert worth[f"{exercise.name}-answer"] is None
            else:
                assert worth[f"{exercise.name}-reason"] == 2


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


def test_the_archive_is_the_same_each_time(made, tmp_path):
    course.write(tmp_path / "again")
    for name, folder in (("one", made), ("two", tmp_path / "again")):
        course.pack(folder, tmp_path / f"{name}.zip")
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


# -- Students --------------------------------------------------------------------------

RIGHT = """def from_lengths(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None, None, :]"""
STUDENTS = {
    "right": RIGHT,
    "one_slip": RIGHT.replace("<", "<="),
    "blank": None,
    "cannot_be_parsed": RIGHT.replace("def", "de"),
    "endless": "while True:\n    pass",
    "html": f"{RIGHT}\n\n\nraise ValueError('<script>alert()</script>')",
}
FULL = points(load("masks-4"))
POINTS = dict.fromkeys(STUDENTS, "0.0") | {"one_slip": f"{0.6 * FULL:.1f}"}
POINTS |= dict.fromkeys(("right", "html", "deleted", "pasted"), f"{FULL:.1f}")
POINTS |= dict.fromkeys(("not_json", "other_name"), "")
SCRIPT = "<script>alert()</script> [x](javascript:alert) ![](attachment:a.png)"


@pytest.fixture(scope="module")
def submitted(made, tmp_path_factory):
    """A course with one small assignment, released and handed in by many students."""
    folder = tmp_path_factory.mktemp("graded") / "course"
    shutil.copytree(made, folder)
    source = folder / "nbgrader" / "source"
    shutil.rmtree(source)
    (source / "lengths").mkdir(parents=True)
    graded = course.editions("lengths", [load("masks-4")])["nbgrader"]
    course.nbformat.write(graded, source / "lengths" / "lengths.ipynb")
    nbgrader(folder, "generate_assignment")
    released = folder / "nbgrader" / "release" / "lengths" / "lengths.ipynb"

    def hand_in(student, written, name="lengths.ipynb"):
        path = folder / "nbgrader" / "submitted" / student / "lengths" / name
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(written), "utf-8")

    def notebook(answer):
        written = json.loads(released.read_text("utf-8"))
        (cell,) = [c for c in written["cells"] if c["id"] == "masks-4-answer"]
        cell["source"] = answer or cell["source"]
        return written, cell

    for student, answer in STUDENTS.items():
        hand_in(student, notebook(answer)[0])
    deleted, _ = notebook(RIGHT)
    deleted["cells"] = [c for c in deleted["cells"] if c["id"] != "masks-4-points"]
    hand_in("deleted", deleted)
    pasted, answer = notebook(RIGHT)  # once more, of another exercise, and a text
    about = {**answer["metadata"]["nbgrader"], "grade_id": "heads-2-answer"}
    locked = {"nbgrader": {**about, "locked": True, "grade_id": "x-1"}}
    image = {"a.png": {"image/png": "iVBORw0KGgo="}}
    words = {"cell_type": "markdown", "source": SCRIPT, "attachments": image}
    pasted["cells"] += [
        {**answer, "id": "again"},
        {**answer, "id": "pasted", "metadata": {"nbgrader": about}},
        {**words, "id": "text", "metadata": locked},
    ]
    hand_in("pasted", pasted)
    hand_in("not_json", "hello")
    hand_in("other_name", notebook(RIGHT)[0], "lengths (1).ipynb")
    return folder


def nbgrader(folder, command, *options):
    """Run nbgrader as the guide says, and return what it printed."""
    programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    words = [] if command == "export" else ["lengths"]
    done = subprocess.run(
        [sys.executable, "-m", "nbgrader", command, *options, *words],
        cwd=folder / "nbgrader",
        env=os.environ | {"PATH": programs},
        capture_output=True,
        text=True,
    )
    return done.stdout + done.stderr


@pytest.mark.slow
def test_every_student_gets_the_grade_that_is_deserved(submitted):
    printed = nbgrader(submitted, "autograde")
    nbgrader(submitted, "export")
    with open(submitted / "nbgrader" / "grades.csv", encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    found = {name: row["points"] for name, row in rows.items()}
    assert found == POINTS, printed[-2000:]
    says = {name: row["what happened"] for name, row in rows.items()}
    assert "cannot be read" in says["not_json"]
    assert "lengths (1).ipynb was not graded" in says["other_name"]
    nbgrader(submitted, "generate_feedback")
    pages = {
        path.parts[-3]: path.read_text("utf-8")
        for path in (submitted / "nbgrader" / "feedback").rglob("*.html")
    }
    assert "Count the open keys of each sentence" in pages["one_slip"]
    for name in ("html", "pasted"):
        assert "<script>alert" not in pages[name]
        assert "javascript:alert" not in pages[name]
