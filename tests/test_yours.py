"""Your Transformer: correct models of any style pass, and wrong ones learn why."""

import shutil
import subprocess
import sys

import pytest
import torch
from book_files import ROOT

from transformer_lib.exercises.report import written
from transformer_lib.yours import progress as yours
from transformer_lib.yours.milestones import MILESTONES, captions, milestone

MODELS = ROOT / "tests" / "your_transformers"
HANDED_OUT = ROOT / "course" / "your_transformer"
every_model = pytest.mark.parametrize(
    "model", ["by_library", "functional", "sequence_first"]
)

# A line of functional.py, what a student writes instead, the step, and its message.
WRONG = {
    "root": (
        "x = table[tokens] * width**0.5",
        "x = table[tokens]",
        "logits",
        "what does chapter 1 multiply it by?",
    ),
    "unmasked memory": (
        "memory, memory, memory_mask, w,",
        "memory, memory, torch.tensor(True), w,",
        "decoder",
        "Padding of the source is hidden from the encoder and also from whom?",
    ),
    "peeking": (
        "mask = causal_mask(tgt.shape[1])",
        "mask = torch.tensor(True)",
        "logits",
        "Does the model make the causal mask itself?",
    ),
    "position": (
        "start=len(written))",
        "start=0)",
        "greedy_cached",
        "and at which positions?",
    ),
}


def folder_of(model, path, change=("", "")):
    """Make a student's folder whose adapters are one of the models."""
    text = (MODELS / f"{model}.py").read_text("utf-8")
    assert not change[0] or text.count(change[0]) == 1
    (path / "adapters.py").write_text(text.replace(*change), "utf-8")
    return path


def wrong(name, path):
    return folder_of("functional", path, WRONG[name][:2])


@every_model
def test_a_correct_model_passes_every_piece(model, tmp_path):
    folder = folder_of(model, tmp_path)
    for report in yours.check_all(folder):
        if report.name not in MILESTONES:
            assert report.passed, report


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_model_reads_why(name, tmp_path):
    _, _, step, message = WRONG[name]
    report = yours.check_step(step, wrong(name, tmp_path))
    assert report.passed is False
    assert message in report.says


@pytest.mark.parametrize("name", WRONG)
def test_no_message_shows_a_line_of_a_solution(name, tmp_path):
    folder = wrong(name, tmp_path)
    for _ in range(3):  # until all hints are out
        report = yours.check_step(WRONG[name][2], folder)
    assert len(report.hints) == 3
    shown = repr(report) + report._repr_html_()
    for source in [
        *MODELS.glob("*.py"),
        *(ROOT / "transformer_lib/model").glob("*.py"),
    ]:
        for line in source.read_text("utf-8").splitlines():
            assert len(line.strip()) < 20 or line.strip() not in shown


def test_the_folder_that_is_handed_out_is_empty_and_complete():
    reports = yours.check_all(HANDED_OUT)
    assert [report.name for report in reports] == yours.STEPS
    assert not any(report.passed for report in reports)
    assert all(report.headline == "not written yet." for report in reports[:10])
    assert "0 of 14 steps are done. Next: attention (" in yours.summary(reports)


def test_hints_come_one_by_one_in_new_processes(tmp_path):
    folder = wrong("root", tmp_path)
    counts = [len(yours.check_step("logits", folder).hints) for _ in range(4)]
    assert counts == [1, 2, 3, 3]


def test_a_damaged_record_counts_as_an_empty_one(tmp_path):
    folder = folder_of("functional", tmp_path)
    for text in ("", "[]", '{"failures": 3}', '{"failures": {"a": "b"}, "passed": {}}'):
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
    for bad in ("<b>", "<script>", "<i>"):
        assert bad not in page
    assert '<html lang="en">' in page
    assert "http" not in page


def test_the_command_checks_a_step_and_writes_the_page(tmp_path):
    folder = tmp_path / "mine"
    shutil.copytree(HANDED_OUT, folder)
    folder_of("functional", folder)

    def run(*names):
        command = [sys.executable, "-W", "error", str(folder / "check.py"), *names]
        return subprocess.run(
            command, capture_output=True, text=True, env={"PYTHONPATH": str(ROOT)}
        )

    done = run("attention")
    assert done.returncode == 0, done.stderr
    assert "✓ attention: right." in done.stdout
    assert "Next: reverse (" in done.stdout
    assert "11 of 14 steps are done" in (folder / yours.PAGE).read_text("utf-8")
    asked = run("atention")
    assert asked.returncode == 2
    assert "name must be one of attention" in asked.stderr


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


@pytest.mark.slow
@pytest.mark.parametrize("name", MILESTONES)
@every_model
def test_a_correct_model_reaches_every_milestone(model, name, tmp_path):
    report = yours.check_step(name, folder_of(model, tmp_path))
    assert report.passed, report


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "step", "message"),
    [
        ("peeking", "reverse", "does the decoder see what it must predict?"),
        ("root", "translate", "That is no rounding. Check `logits`"),
        ("unmasked memory", "translate", "That is no rounding. Check `logits`"),
        ("position", "cache", "the position of the newest word"),
    ],
)
def test_a_wrong_model_fails_a_milestone_and_reads_where(name, step, message, tmp_path):
    report = yours.check_step(step, wrong(name, tmp_path))
    assert report.passed is False
    assert message in report.says
