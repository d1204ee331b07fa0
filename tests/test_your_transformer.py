"""Your Transformer: correct models of any style pass, and wrong ones learn why."""

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

from bookkit.exercises import limits
from bookkit.exercises.report import written
from bookkit.exercises.testing import tests_of
from your_transformer import milestones
from your_transformer import progress as yours
from your_transformer.milestones import MILESTONES, captions, milestone
from your_transformer.models.mistakes import MISTAKES

MODELS = ROOT / "tests" / "your_transformers"
HANDED_OUT = ROOT / "course" / "your_transformer"
every_model = pytest.mark.parametrize(
    "model", ["by_library", "functional", "sequence_first"]
)


def folder_of(model, path, change=("", "")):
    """Make a student's folder whose adapters are one of the models."""
    text = (MODELS / f"{model}.py").read_text("utf-8")
    assert not change[0] or text.count(change[0]) == 1
    (path / "adapters.py").write_text(text.replace(*change), "utf-8")
    return path


def wrong(step, name, path):
    return folder_of("functional", path, MISTAKES[step][name][:2])


@every_model
def test_a_correct_model_passes_every_piece(model, tmp_path):
    folder = folder_of(model, tmp_path)
    for report in yours.check_all(folder):
        if report.name not in MILESTONES:
            assert report.passed, report


@pytest.mark.parametrize(
    ("step", "name"), [(step, name) for step, each in MISTAKES.items() for name in each]
)
def test_a_mistake_is_named_and_no_solution_is_shown(step, name, tmp_path, monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 1)
    folder = wrong(step, name, tmp_path)
    build = yours.BY_NAME[step].build
    every_test = tests_of(build)
    record = {"failures": {step: dict.fromkeys(every_test, 9)}, "passed": {}}
    (folder / yours.RECORD).write_text(json.dumps(record), "utf-8")
    report = yours.check_step(step, folder)
    assert report.passed is False
    assert MISTAKES[step][name][2] in report.says
    for idea in build.ideas:
        if f"“{idea.says}”" in report.says and "stopped" not in report.says:
            assert report.hints == (idea.more or build.hints[1:])
    report = replace(report, trace="")  # the student's own lines
    shown = repr(report) + report._repr_html_()
    assert not [line for line in solutions() if line in shown]


@cache
def solutions():
    """Return the lines of the library's layers and of the models that pass."""
    files = [*MODELS.glob("*.py"), *(ROOT / "transformer_lib/model").glob("*.py")]
    files.remove(MODELS / "mistakes.py")
    lines = {
        line.strip() for path in files for line in path.read_text("utf-8").split("\n")
    }
    return {line for line in lines if len(line) > 20}


def test_every_piece_has_at_least_three_mistakes():
    assert list(MISTAKES) == list(yours.BY_NAME)
    assert min(map(len, MISTAKES.values())) >= 3


def test_the_folder_that_is_handed_out_is_empty_and_complete():
    reports = yours.check_all(HANDED_OUT)
    assert [report.name for report in reports] == yours.STEPS
    assert not any(report.passed for report in reports)
    assert all(report.headline == "not written yet." for report in reports[:10])
    assert "0 of 14 steps are done. Next: attention (" in yours.summary(reports)


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
    folder = folder_of("functional", tmp_path)
    text = (folder / "adapters.py").read_text("utf-8")
    (folder / "adapters.py").write_text(f"{text}\n{line}\n", "utf-8")
    assert yours.main(folder, ["attention"]) == 2
    number = text.count("\n") + 2
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
    page = yours.as_html([report], report)
    for bad in ("<b>", "<script></p>", "<i>"):
        assert bad not in page
    assert '<html lang="en">' in page
    assert "http" not in page


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everyone_can_read_the_page(scheme, tab, tmp_path):
    reports = [yours.Report(name, None, "not written yet.") for name in yours.STEPS]
    last = yours.check_step("logits", wrong("logits", "no root", tmp_path))
    (tmp_path / yours.PAGE).write_text(yours.as_html(reports, last), "utf-8")
    tab.emulate_media(color_scheme=scheme)
    tab.set_viewport_size({"width": 400, "height": 800})
    tab.goto((tmp_path / yours.PAGE).as_uri())
    assert findings(tab) == []
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400
    card = "getComputedStyle(document.querySelector('.exercise')).backgroundColor"
    white = tab.evaluate(card) == "rgb(255, 255, 255)"
    assert white == (scheme == "light")


def test_the_command_checks_a_step_and_writes_the_page(tmp_path, capsys):
    folder = tmp_path / "mine"
    shutil.copytree(HANDED_OUT, folder)
    folder_of("functional", folder)

    command = [sys.executable, "-W", "error", str(folder / "check.py"), "attention"]
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, capture_output=True, text=True, env=path)
    assert done.returncode == 0, done.stderr
    assert "✓ attention: right." in done.stdout
    assert "Next: reverse (" in done.stdout
    path["PYTHONIOENCODING"] = "ascii"
    done = subprocess.run(command[:-1], capture_output=True, text=True, env=path)
    assert done.stdout.startswith("? attention "), done.stderr
    assert "11 of 14 steps are done" in (folder / yours.PAGE).read_text("utf-8")
    assert yours.main(folder, ["atention"]) == 2
    assert "name must be one of attention" in capsys.readouterr().err


def test_checking_leaves_the_dtype_and_the_random_numbers_alone(tmp_path):
    torch.manual_seed(3)
    expected, dtype = torch.rand(1), torch.get_default_dtype()
    torch.manual_seed(3)
    yours.check_step("logits", folder_of("functional", tmp_path))
    assert torch.get_default_dtype() == dtype
    assert torch.equal(torch.rand(1), expected)


def test_a_report_writes_few_weights_in_full_and_counts_many():
    few = {"a": torch.ones(2), "b": torch.zeros(1)}
    assert written("w", few) == "w:\n    'a' = [1, 1]\n    'b' = [0]"
    assert written("w", {"a": torch.ones(41)}) == "w: 1 tensors"


def test_there_are_a_hundred_different_captions():
    assert len(set(captions())) == 100
    assert captions()[0] == "A man is sitting on a bench ."


def test_a_milestone_names_the_piece_that_is_not_written():
    adapters = yours.load_adapters(HANDED_OUT)
    assert "build is not written" in milestone("translate", adapters).headline


def test_an_endless_milestone_is_stopped(tmp_path, monkeypatch):
    monkeypatch.setattr(milestones, "MINUTES", 0.05)
    report = yours.check_step("translate", wrong("greedy", "endless", tmp_path))
    assert report.passed is False
    assert "stopped after 0.05 minutes, and half a minute is usual" in report.says
    assert "in greedy" in report.trace
    assert "milestones.py" not in report.trace


@pytest.mark.slow
@pytest.mark.parametrize("name", MILESTONES)
@every_model
def test_a_correct_model_reaches_every_milestone(model, name, tmp_path):
    torch.set_default_dtype(torch.float32)
    report = yours.check_step(name, folder_of(model, tmp_path))
    assert report.passed, report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("piece", "name", "step", "message"),
    [
        ("logits", "peeking", "reverse", "does the decoder see what it must predict?"),
        ("logits", "no root", "translate", "That is no rounding. Check `logits`"),
        ("decoder", "unmasked memory", "translate", "That is no rounding. Check"),
        ("greedy_cached", "position 0", "cache", "the position of the newest word"),
        (
            "greedy_cached",
            "plain greedy",
            "cache",
            "Does a token enter the decoder twice",
        ),
    ],
)
def test_a_wrong_model_fails_a_milestone_and_reads_where(
    piece, name, step, message, tmp_path
):
    torch.set_default_dtype(torch.float32)
    report = yours.check_step(step, wrong(piece, name, tmp_path))
    assert report.passed is False
    assert message in report.says
