"""Your Transformer: correct models of any style pass, and wrong ones learn why."""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache

import pytest
import torch
from axe import findings
from book_files import ROOT

from bookkit.exercises import testing
from bookkit.exercises.report import written
from grading import process
from grading.wrong_answers import entries
from your_transformer import grade, worker
from your_transformer import progress as yours
from your_transformer.milestones import MILESTONES, judged, milestone

MODELS = ROOT / "course" / "your_transformer" / "models"
HANDED_OUT = ROOT / "course" / "your_transformer" / "handed_out"
# By piece and name: code of functional.py, what is written instead, and the message.
MISTAKES = {}
for step, title, [(old, new)] in entries((MODELS / "mistakes.txt").read_text("utf-8")):
    name, _, says = title.partition(": ")
    MISTAKES.setdefault(step, {})[name] = "\n".join(old), "\n".join(new), says
LISTED = [(step, name) for step, names in MISTAKES.items() for name in names]
STYLES = "by_library", "functional", "sequence_first"


def folder_of(model, path, change=("", ""), more=""):
    """Make a student's folder whose adapters are one of the models, and more."""
    text = (MODELS / f"{model}.py").read_text("utf-8")
    assert not change[0] or text.count(change[0]) == 1
    (path / "adapters.py").write_text(f"{text.replace(*change)}\n{more}\n", "utf-8")
    return path


def wrong(step, name, path):
    return folder_of("functional", path, MISTAKES[step][name][:2])


@pytest.mark.parametrize("model", STYLES)
def test_a_correct_model_passes_every_piece(model, tmp_path):
    folder = folder_of(model, tmp_path)
    for report in yours.check_all(folder):
        if report.name not in MILESTONES:
            assert report.passed, report


@pytest.mark.parametrize(
    ("step", "name"), [each for each in LISTED if each[1] != "endless"]
)
def test_a_mistake_is_named_and_no_solution_is_shown(step, name, tmp_path):
    folder = wrong(step, name, tmp_path)
    build = yours.BY_NAME[step].build
    every_test = testing.tests_of(build)
    record = {"failures": {step: dict.fromkeys(every_test, 9)}, "passed": {}}
    (folder / yours.RECORD).write_text(json.dumps(record), "utf-8")
    report = yours.check_step(step, folder)
    assert report.passed is False
    assert MISTAKES[step][name][2] in report.says
    for idea in build.ideas:
        if f"“{idea.says}”" in report.says:
            assert tuple(report.hints.values()) == (idea.more or build.hints[1:])
    report = replace(report, trace="")  # the student's own lines
    shown = repr(report) + report._repr_html_()
    assert not [line for line in solutions() if line in shown]


@cache
def solutions():
    """Return the lines of the library's layers and of the models that pass."""
    files = [*MODELS.glob("*.py"), *(ROOT / "transformer_lib/model").glob("*.py")]
    lines = {
        line.strip() for path in files for line in path.read_text("utf-8").split("\n")
    }
    return {line for line in lines if len(line) > 20}


def test_every_piece_has_mistakes_and_the_folder_that_is_handed_out_none_yet():
    assert list(MISTAKES) == list(yours.BY_NAME)
    assert min(map(len, MISTAKES.values())) >= 3
    reports = yours.check_all(HANDED_OUT)
    assert [report.name for report in reports] == yours.STEPS
    assert not any(report.passed for report in reports)
    assert all(report.headline == "not written yet." for report in reports[:10])
    assert "0 of 14 steps are done. Next: attention (" in yours.summary(reports)
    adapters = yours.load_adapters(HANDED_OUT)
    assert "build is not written" in milestone("translate", adapters).headline


def test_hints_come_one_by_one_in_new_processes(tmp_path):
    folder = wrong("logits", "no root", tmp_path)
    counts = [len(yours.check_step("logits", folder).hints) for _ in range(4)]
    assert counts == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("import sys; sys.exit(0)", "SystemExit: 0"),
        ("\tx = 1", "TabError|IndentationError"),
        ("import no_such", "ModuleNotFoundError: No module named 'no_such'"),
    ],
)
def test_a_file_that_cannot_be_imported_is_never_right(tmp_path, capsys, line, says):
    folder = folder_of("functional", tmp_path, more=line)
    number = (folder / "adapters.py").read_text("utf-8").count("\n")
    assert yours.main(folder, ["attention"]) == 2
    assert re.match(rf"adapters.py, line {number}: ({says})", capsys.readouterr().err)


def test_a_damaged_record_counts_as_an_empty_one(tmp_path):
    folder = folder_of("functional", tmp_path)
    for text in ("", "[]", '{"failures": 3}', '{"failures": {"a": 1}, "passed": {}}'):
        (folder / yours.RECORD).write_text(text, "utf-8")
        assert yours.check_step("attention", folder).passed


def test_a_milestone_stays_reached_until_the_code_changes(tmp_path):
    folder = folder_of("functional", tmp_path)
    progress = yours.Progress(folder)
    progress.keep(yours.Report("reverse", True, "done"))
    assert yours.Progress(folder).reached("reverse").headline == "reached."
    (folder / "mine.py").write_text("x = 1\n")
    assert "earlier version" in yours.Progress(folder).reached("reverse").headline


def test_the_page_escapes_text(tmp_path):
    report = yours.Report("attention", False, "<b>", "<script>", trace="<i>")
    page = yours.as_html([report], [report])
    for bad in ("<b>", "<script></p>", "<i>"):
        assert bad not in page
    assert '<html lang="en">' in page
    assert "http" not in page


def test_everyone_can_read_the_page(tab, tmp_path):
    reports = [yours.Report(name, None, "not written yet.") for name in yours.STEPS]
    last = yours.check_step("logits", wrong("logits", "no root", tmp_path))
    (tmp_path / yours.PAGE).write_text(yours.as_html(reports, [last]), "utf-8")
    tab.set_viewport_size({"width": 400, "height": 800})
    card = "getComputedStyle(document.querySelector('.exercise')).backgroundColor"
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        tab.goto((tmp_path / yours.PAGE).as_uri())
        assert findings(tab) == []
        assert tab.evaluate("document.documentElement.scrollWidth") <= 400
        white = tab.evaluate(card) == "rgb(255, 255, 255)"
        assert white == (scheme == "light")


def test_the_command_checks_a_step_and_writes_the_page(tmp_path, capsys):
    folder = tmp_path / "mine"
    shutil.copytree(HANDED_OUT, folder)
    folder_of("functional", folder)
    assert yours.main(folder, ["attention"]) == 0
    said = capsys.readouterr().out
    assert "✓ attention: right." in said
    assert "Next: reverse (" in said
    command = [sys.executable, "-W", "error", str(folder / "check.py")]
    path = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, capture_output=True, text=True, env=path)
    assert done.stdout.startswith("? attention "), done.stderr
    assert "11 of 14 steps are done" in (folder / yours.PAGE).read_text("utf-8")
    assert yours.main(folder, ["atention"]) == 2
    assert "name must be one of attention" in capsys.readouterr().err


def test_a_report_writes_few_weights_in_full_and_counts_many():
    few = {"a": torch.ones(2), "b": torch.zeros(1)}
    assert written("w", few) == "w:\n    'a' = [1, 1]\n    'b' = [0]"
    assert written("w", {"a": torch.ones(41)}) == "w: 1 tensors"


def test_a_milestone_that_is_interrupted_says_so(tmp_path):
    ends = "\ndef build(config):\n    raise KeyboardInterrupt\n"
    report = yours.check_step("translate", folder_of("functional", tmp_path, more=ends))
    assert report.passed is False
    assert "It was interrupted. Does a loop end?" in report.says
    assert "in build" in report.trace


@pytest.mark.parametrize("name", MILESTONES)
def test_values_that_are_no_tokens_reach_no_milestone(name):
    for values in ({}, {"written": 3}, {"written": [["a"], None]}):
        values |= dict.fromkeys(("greedy", "greedy_cached"), 5)
        assert judged(name, values).passed is False


@pytest.mark.parametrize(
    "line",
    [
        "import transformer_lib",
        "import your_transformer.pieces as mine",
        "model = __import__('transformer_lib.model')",
    ],
)
def test_code_of_the_book_is_named_in_the_verdict(tmp_path, line):
    folder = folder_of("functional", tmp_path)
    assert yours.of_the_book(folder) == ""
    assert "book" not in yours.check_step("causal_mask", folder).says
    (folder / "mine.py").write_text(line + "\n", "utf-8")
    assert "mine.py, line 1, uses `" in yours.check_step("causal_mask", folder).says


STUDENTS = {
    "good": "",
    "exits": "import sys\nsys.exit(0)",
    "sleeps": "def attention(*arguments):\n    time.sleep(1000)",
    "=1+1": "import transformer_lib\nif os.fork() == 0:\n    time.sleep(1000)",
}
POINTS = {"exits": "", "sleeps": "2.0", "missing": ""}
SAYS = {
    "exits": "could not be run: adapters.py, line",
    "missing": "could not be run: adapters.py is missing",
    "'=1+1": "that is the book's code and not yours",
}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Linux and macOS")
def test_a_class_is_graded_whatever_a_student_does(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(grade, "STEPS", ["attention", "causal_mask"])
    monkeypatch.setattr(process, "SECONDS", 1.0)
    (tmp_path / "missing").mkdir()
    for name, code in STUDENTS.items():
        (tmp_path / name).mkdir()
        more = f"\nimport os\nimport time\n\n{code}"
        folder_of("functional", tmp_path / name, more=more)
    assert grade.main(tmp_path) == 0
    with open(tmp_path / "grades.csv", encoding="utf-8") as file:
        rows = {row["student"]: row for row in csv.DictReader(file)}
    assert rows.keys() == {"missing", "'=1+1", *STUDENTS} - {"=1+1"}
    column = f"of {sum(grade.POINTS.values())} points"
    for name, row in rows.items():
        assert row[column] == POINTS.get(name, "4.0")
        assert SAYS.get(name, "") in row["what happened"]
    page = (tmp_path / "feedback" / "sleeps.html").read_text("utf-8")
    assert "it was stopped after 1 seconds. Does a loop end?" in page
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True).stdout
    assert str(worker.__file__) not in left


@pytest.mark.slow
@pytest.mark.parametrize(("model", "name"), [*zip(STYLES, MILESTONES, strict=True)])
def test_a_correct_model_reaches_a_milestone(model, name, tmp_path):
    torch.set_default_dtype(torch.float32)
    report = yours.check_step(name, folder_of(model, tmp_path))
    assert report.passed, report


PEEKS = "does the decoder see what it must predict?"
LOGITS, DECODER = "That is no rounding. Check `logits`", "That is no rounding. Check"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "name", "step", "message"),
    [
        ("logits", "peeking", "reverse", PEEKS),
        ("logits", "no root", "translate", LOGITS),
        ("decoder", "unmasked memory", "translate", DECODER),
        ("greedy_cached", "position 0", "cache", "the position of the newest word"),
        ("greedy_cached", "plain greedy", "cache", "Does a token enter the decoder tw"),
    ],
)
def test_a_wrong_model_fails_a_milestone_and_reads_where(
    piece, name, step, message, tmp_path
):
    torch.set_default_dtype(torch.float32)
    report = yours.check_step(step, wrong(piece, name, tmp_path))
    assert report.passed is False
    assert message in report.says
