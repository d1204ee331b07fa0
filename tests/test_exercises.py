"""Exercises: right answers pass, wrong ones fail where they should and learn why."""

import importlib
import io
import os
import random
import signal
import subprocess
import sys
from collections import defaultdict
from dataclasses import replace

import numpy
import pytest
import torch
from generated_answers import (
    ALL,
    generated,
    lines_of,
    spoilt,
    with_results,
    written_lines,
)
from torch.nn.modules import module

from bookkit.exercises import (
    Break,
    Build,
    Idea,
    Predict,
    check,
    checking,
    exercises,
    load,
    numbers,
    question,
)
from bookkit.exercises.testing import run_tests
from grading.wrong_answers import parsed, wrong_answers
from pages import write_exercises


def of_kind(kind):
    found = [exercise for exercise in ALL if isinstance(exercise, kind)]
    return pytest.mark.parametrize("exercise", found, ids=lambda each: each.name)


@pytest.fixture(autouse=True)
def no_failures():
    checking.failures.clear()


# -- Every exercise --------------------------------------------------------------------


@of_kind(Build)
def test_right_answers_pass(exercise):
    for answer in exercise.rights:
        found = run_tests(exercise, answer)
        assert found.failed == set(), found.fault


def wrongs(exercise):
    """Return the wrong answers to an exercise; an endless one is for another test."""
    found = wrong_answers()[exercise.name]
    return [wrong for wrong in found if wrong.fails != ["endless"]]


REVERSED = {"true_means_hide", "true_means_hidden", "true_is_hidden"}


@of_kind(Build)
def test_wrong_answers_fail_where_they_should_and_no_message_shows_the_solution(
    exercise, monkeypatch
):
    monkeypatch.setattr(checking, "failures", defaultdict(lambda: 3))  # every hint
    listed, failed = [], []
    lines = lines_of(exercise.rights[0])
    for wrong in wrongs(exercise):
        found = run_tests(exercise, wrong.answer)
        names = [name for name, _, fault in found.tests if fault]
        assert names, wrong.name
        listed.append(f"{wrong.name}: {' '.join(wrong.fails)}")
        failed.append(f"{wrong.name}: {' '.join(names)}")  # to copy from a failure
        assert found.fault.says.startswith("True and") == (wrong.name in REVERSED)
        report = checking.report_of(exercise, found)
        shown = repr(report) + report._repr_html_()
        for line in lines - written_lines(wrong.source):
            assert line not in shown, wrong.name
    assert listed == failed


@of_kind(Build)
def test_an_exercise_has_enough_answers_and_three_hints(exercise):
    assert len(exercise.rights) >= 4  # the solution and three variants
    assert len(wrong_answers()[exercise.name]) >= 8
    assert len(exercise.hints) == 3
    assert all(len(idea.more) <= 2 for idea in exercise.ideas)
    assert exercise.rights[0].__name__ == exercise.call.partition("(")[0]


# Changes that no legal input can show: the mean does not ask for the order.
SHOW_NOTHING = {("recipes-2", "samples turned axis -1")}


@of_kind(Build)
def test_what_nobody_wrote_is_refused_in_a_sentence_that_fits(exercise):
    for kind, answer in generated(exercise):
        found = run_tests(exercise, answer)
        if (exercise.name, kind) in SHOW_NOTHING:
            assert not found.failed
            continue
        assert found.failed, kind
        assert found.fault.says, kind
        # Ids that are turned into negative ones are no legal input.
        assert found.first != "runs" or kind.endswith("inverted"), found.fault.says
        if found.first == "everywhere" and kind.startswith("result"):
            says = found.fault.says
            assert "computed from its own inputs?" in says, says


@of_kind(Build)
def test_the_numbers_of_every_input_are_compared(exercise):
    ideas = [(idea.name, case) for idea in exercise.ideas for case in idea.cases]
    for name, case in [*ideas, ("example", exercise.example)]:
        found = run_tests(exercise, with_results(exercise, spoilt, only=case))
        assert found.failed, name


def test_a_wrong_answer_names_what_it_replaces():
    text = "# masks-4\n\nname: first\n- lengths\n+ sizes\n"
    (wrong,) = parsed(text, {"masks-4": load("masks-4")})
    with pytest.raises(ValueError, match=r"masks-4, name: .* must stand once"):
        wrong.source  # noqa: B018


@of_kind(Build)
def test_every_idea_catches_a_wrong_answer(exercise):
    caught = {name for wrong in wrongs(exercise) for name in wrong.fails}
    assert {idea.name for idea in exercise.ideas} <= caught
    assert not exercise.forbids or "forbidden" in caught


@of_kind(Predict)
def test_the_code_gives_what_is_right_and_each_likely_answer_has_a_sentence(exercise):
    assert exercise.computed() == exercise.right
    assert len(exercise.replies) >= 3
    assert len(set(exercise.replies.values())) == len(exercise.replies)
    for answer in exercise.replies:
        assert check(exercise.name, answer).passed == (answer == exercise.right)


@of_kind(Break)
def test_what_breaks_held_before(exercise):
    assert all(holds(exercise.intact) for _, holds, _ in exercise.checks.values())
    assert 0 < len(exercise.right) < len(exercise.checks)
    assert check(exercise.name, exercise.right).passed
    assert check(exercise.name, ", ".join(exercise.right)).passed
    for letter in exercise.checks:
        report = check(exercise.name, exercise.right ^ {letter})
        assert not report.passed
        # A letter that is given is explained, and one that is missing is not named.
        told = letter not in exercise.right
        assert (exercise.checks[letter][2] in report.says) == told
        assert told or "check fails" in report.says
        opposite = f"Check {letter} {'fails' if told else 'holds'}"
        assert not exercise.checks[letter][2].startswith(opposite)


@pytest.mark.parametrize(
    ("name", "answer", "passed", "says"),
    [
        ("masks-6", "", False, "2 checks fail."),
        ("masks-6", "c", False, "You are right about c. One more check fails."),
        ("masks-6", "a", False, "Check a holds: "),
        ("masks-6", "E,c, d", False, "You are right about c and e. Check d holds: "),
        ("masks-6", "c and e", True, ""),
        ("masks-6", ["E", "c"], True, ""),
        ("masks-6", "x", None, "answer must be letters of a, b, c, d, e, such as 'ab'"),
        ("masks-6", 3, None, "answer must be letters of"),
        ("masks-1", "b", True, ""),
        ("masks-1", "sentence 4", None, "answer must be one of a (the padding of sen"),
        ("masks-1", 4, None, "got 4."),
        ("masks-2", "many", None, "answer must be a number, got 'many'."),
    ],
)
def test_an_answer_is_confirmed_or_explained_and_nothing_missing_is_named(
    name, answer, passed, says
):
    report = check(name, answer)
    assert report.passed is passed
    assert says in report.says
    assert (report.passed is False) == bool(checking.failures)


def test_a_question_shows_the_form_of_its_answer():
    assert repr(check("masks-6")).endswith('check("masks-6", "ab")')
    assert "  b: the padding of sentence 2\n" in repr(check("masks-1"))


def test_a_report_prints_where_its_mark_cannot_be_written(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "cp1252"))
    print(check("masks-6", "b"))


def test_exercises_are_numbered_in_order():
    for chapter, listed in exercises().items():
        label = chapter.replace("_", "-")
        numbered = [f"{label}-{number}" for number in range(1, len(listed) + 1)]
        assert [exercise.name for exercise in listed] == numbered


def test_the_notebooks_hold_what_the_exercises_say():
    for path, notebook, listed in write_exercises.notebooks():
        text = write_exercises.written(write_exercises.with_exercises(notebook, listed))
        assert text == path.read_text("utf-8"), "run pages.write_exercises"


ALONE = """
import sys
sys.modules["transformer_lib"] = None  # importing it fails
from bookkit.exercises import Build, check, exercises
for listed in exercises().values():
    for exercise in listed:
        answer = exercise.rights[0] if isinstance(exercise, Build) else exercise.right
        assert check(exercise.name, answer).passed, exercise.name
"""


def test_a_check_needs_no_library_and_works_from_any_folder(tmp_path):
    command = [sys.executable, "-c", ALONE]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr


def test_the_old_place_names_the_new_one():
    with pytest.raises(ImportError, match=r"from bookkit.exercises import check"):
        importlib.import_module("transformer_lib.exercises")
    with pytest.raises(ImportError, match=r"Copy the new check.py from"):
        importlib.import_module("transformer_lib.yours.progress")


# -- What readers tried ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("attention-4", "asks_whether_a_tensor_is_true", "needs a single True or"),
        ("attention-3", "a_pair_taken_away", "return a pair: the values and their ind"),
        ("masks-4", "without_the_axis", "Two shapes do not fit together"),
        ("transformer-2", "no_limit", "Count the new tokens"),
    ],
)
def test_the_message_names_the_mistake(name, answer, says):
    (wrong,) = [each for each in wrong_answers()[name] if each.name == answer]
    assert says in check(name, wrong.answer).says


def test_the_sentence_that_is_wrong_is_shown():
    report = check(
        "masks-4", lambda lengths, size: torch.ones(len(lengths), 1, 1, size).bool()
    )
    assert report.picture.caption.startswith("Your result at [1, 0]")


# -- The engine ------------------------------------------------------------------------


def rows(x, weight, bias):
    return (x @ weight + bias).softmax(dim=0)


@pytest.fixture
def exercise(monkeypatch):
    """A small *Build*; its bias has a gradient of zero, as that of keys."""
    case = {"x": numbers(1, 2), "weight": numbers(2, 3), "bias": numbers(3)}
    build = Build(
        name="rows-1",
        title="rows",
        task="Write it.",
        call="rows(x, weight, bias)",
        returns={"share": "T d_v"},
        example={"x": numbers(3, 2), "weight": numbers(2, 5), "bias": numbers(5)},
        ideas=[Idea("one", "One row has it all.", "Which axis?", [case])],
        hints=("Look.", "Think.", "See."),
        answer="So.",
        rights=[rows],
    )
    monkeypatch.setattr(checking, "load", lambda name: build)
    return build


def test_a_gradient_of_zero_up_to_rounding_is_no_alarm(exercise):
    assert check("rows-1", rows).passed
    assert check("rows-1", lambda x, w, b: rows(x, w, b.detach())).passed


def test_a_result_may_be_something_else_than_a_tensor(monkeypatch):
    right = lambda text: text.split()  # noqa: E731
    idea = Idea("order", "In order.", "Which comes first?", [{"text": "a b"}])
    texts = ("words-1", "words", "Write it.", "words(text)", {"words": list})
    build = Build(*texts, {"text": "a b c"}, [idea], ("", "", ""), "", [right])
    monkeypatch.setattr(checking, "load", lambda name: build)
    assert check("words-1", right).passed
    assert "words (list), and returns str" in check("words-1", str.upper).says
    report = check("words-1", lambda text: text.split()[::-1])
    assert "Which comes first?" in report.says
    assert report.picture.rows == [["b", "a"]]


def test_an_endless_answer_can_be_stopped_gets_no_hint_and_is_not_run_again(exercise):
    rows_of = []

    def endless_for_one_row(x, weight, bias):
        rows_of.append(len(x))
        while len(x) == 1:
            signal.raise_signal(signal.SIGINT)  # as the stop button does
        return rows(x, weight, bias)

    exercise.ideas = [*exercise.ideas, *exercise.ideas]
    for _ in range(2):
        rows_of.clear()
        report = check("rows-1", endless_for_one_row)
        assert "It was interrupted. Does a loop end?" in report.says
        assert "raise_signal" in report.trace
        assert report.hints == {}
        assert rows_of.count(1) == 1


class Trap:
    """Raises whenever something is asked of it."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __call__(self, *arguments):
        raise Unprintable


class Unprintable(BaseException):
    def __str__(self):
        raise RuntimeError


def half(x, weight, bias):
    scores = x @ weight + bias
    powers = (scores - scores.amax(dim=0)).exp()
    return powers / powers.sum(dim=0).detach()


DENSE = "must be an ordinary, dense tensor"
HUGE = "A few kilobytes are enough"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (torch.nn.Linear, "Linear is a class"),
        (None, "without calling it"),
        (lambda x: x, "too many positional arguments"),
        (lambda x, w, b: print(), "Is a return missing?"),
        (lambda x, w, b: (x, x), "share (Tensor), and returns a tuple of Tensor, Tens"),
        (lambda x, w, b: rows(x, w, b).T, "right axes in the order (d_v, T)"),
        (lambda x, w, b: rows(x, w, b).float(), "and is torch.float32"),
        (lambda x, w, b: x.add_(1) @ w, "It changes x"),
        (lambda x, w, b: rows(x, w.detach(), b), "No gradient reaches weight"),
        (half, "right, but not the gradient"),
        (lambda x, w, b: sys.exit(), "It raises SystemExit"),
        (lambda x, w, b: rows(x, w, b).to_sparse(), DENSE),
        (lambda x, w, b: rows(x, w, b).to("meta"), DENSE),
        (lambda x, w, b: torch.ones(10**7, 10**7), HUGE),
        (lambda x, w, b: [x] * 10**15, HUGE),
        (lambda x, w, b: torch.ones("y" * 10**6), "It raises TypeError"),
        (lambda x, w, b: next(iter(())), "It raises StopIteration"),
        (lambda x, w, b: rows(x, w, b) / 0, "Every number of share must be finite"),
    ],
)
def test_whatever_an_answer_does_a_report_says_what_is_wrong(exercise, answer, says):
    report = check("rows-1", answer)
    assert says in report.says
    assert says in repr(report)
    assert len(repr(report)) < 2500


def test_an_object_that_raises_at_every_touch_gets_a_report(exercise):
    assert "Unprintable: an error that cannot be" in check("rows-1", Trap()).says


SETTINGS = [  # how to read a setting, and what changes it
    (torch.get_default_dtype, lambda: torch.set_default_dtype(torch.float16)),
    (torch.get_default_device, lambda: torch.set_default_device("meta")),
    (torch.get_num_threads, lambda: torch.set_num_threads(1 + torch.get_num_threads())),
    (torch.is_grad_enabled, lambda: torch.set_grad_enabled(False)),
    (torch.is_anomaly_enabled, lambda: torch.autograd.set_detect_anomaly(True)),
    (
        torch.are_deterministic_algorithms_enabled,
        lambda: torch.use_deterministic_algorithms(True),
    ),
    (lambda: repr(torch.tensor(1 / 3)), lambda: torch.set_printoptions(precision=1)),
    (
        lambda: len(module._global_forward_hooks),
        lambda: module.register_module_forward_hook(print),
    ),
    (lambda: torch.isclose, lambda: setattr(torch, "isclose", None)),
    (lambda: torch.Tensor.tolist, lambda: setattr(torch.Tensor, "tolist", None)),
    (os.getcwd, lambda: os.chdir("/")),
    (lambda: dict(os.environ), lambda: os.environ.update(CHANGED="1")),
    (sys.getrecursionlimit, lambda: sys.setrecursionlimit(500)),
    (random.getstate, lambda: random.seed(5)),
    (lambda: numpy.random.get_state()[1].tolist(), lambda: numpy.random.seed(5)),  # noqa: NPY002
    (lambda: torch.get_rng_state().tolist(), lambda: torch.rand(3)),
    (lambda: signal.getitimer(signal.ITIMER_REAL), lambda: signal.alarm(1000)),
]


@pytest.mark.skipif(not hasattr(signal, "alarm"), reason="no alarm on Windows")
def test_a_check_leaves_every_setting_as_it_was(exercise):
    def change_everything(x, weight, bias):
        for _, change in SETTINGS:
            change()

    before = [read() for read, _ in SETTINGS]
    assert not check("rows-1", change_everything).passed
    assert [read() for read, _ in SETTINGS] == before


@pytest.mark.parametrize(
    "answer", [torch.nn.Softmax(-1), lambda x: torch.ops.aten.softmax(x, -1)]
)
def test_what_the_task_forbids_is_named(answer):
    says = check("attention-3", answer).says
    assert "The numbers are right, but they come from `softmax`" in says


def test_the_traceback_is_that_of_the_reader(exercise):
    def deep(x):
        return x @ torch.ones(7)

    report = check("rows-1", lambda x, w, b: deep(x))
    assert report.says.startswith("This fails: “It runs without an error.” It raises R")
    lines = report.trace.splitlines()
    assert [line.partition(", in ")[2] for line in lines[::2]] == ["<lambda>", "deep"]
    assert lines[3].strip() == "return x @ torch.ones(7)"


def test_what_an_answer_prints_and_writes_is_caught_and_escaped(exercise, capsys):
    def loud(x, weight, bias):
        print("<b>" * 1000)
        raise ValueError("<script>")

    html = check("rows-1", loud)._repr_html_()
    assert "&lt;script&gt;" in html
    assert html.count("&lt;b&gt;") < 200
    assert "…" in html
    assert "<script>" not in html
    assert capsys.readouterr() == ("", "")


def wrong_axis(x, weight, bias):
    return (x @ weight + bias).softmax(dim=1)


def test_each_test_has_three_hints_which_come_one_at_a_time(exercise):
    # Without a result, only the exercise's own hints can help.
    reports = [check("rows-1", lambda x, w, b: x) for _ in range(5)]
    hints = [tuple(report.hints.values()) for report in reports]
    assert hints == [exercise.hints[:count] for count in (0, 1, 2, 3, 3)]
    assert "Hint: the line. See." in repr(reports[-1])  # its name on the page
    # The message of an idea is its first hint.
    reports = [check("rows-1", wrong_axis) for _ in range(4)]
    assert all("Which axis?" in report.says for report in reports)
    hints = [tuple(report.hints.values()) for report in reports]
    assert hints == [(), ("Think.",), *[("Think.", "See.")] * 2]
    assert check("rows-1", rows).hints == {}
    # A test may have hints of its own.
    exercise.ideas = [replace(exercise.ideas[0], more=("Rows or columns?",))]
    hints = check("rows-1", wrong_axis).hints
    assert list(hints.values()) == ["Rows or columns?"]


def test_a_stub_is_not_a_failure(exercise):
    def rows(x, weight, bias):
        # Your code.
        ...

    for answer in ([], [rows]):
        report = check("rows-1", *answer)
        assert report.passed is None
        assert "11 tests wait" in repr(report)
    assert not checking.failures


def test_a_picture_shows_the_readers_own_result_unless_it_is_large(exercise):
    report = check("rows-1", wrong_axis)
    assert report.picture.at == (0, 0)
    assert "[" in report.picture.text()
    assert report._repr_html_().count("<mark>") == 1
    assert report.inputs[0].startswith("x = [[")
    report = check("rows-1", lambda x, w, b: torch.ones(100, 100))
    assert "is (100, 100)" in report.says
    assert report.picture is None


def test_an_unknown_exercise_is_refused():
    for name in ("masks-99", "nothing-1"):
        with pytest.raises(ValueError, match=f"got '{name}'"):
            check(name)


SHAPE = Predict("a-1", "t", "q", (2, 3), {(2, 3): "Yes.", (3, 2): "No."}, ("h",), "a")
NUMBER = Predict("a-2", "t", "q", 0.5, {0.5: "Yes.", 2: "No."}, ("h",), "a")
COUNT = Predict("a-3", "t", "q", 65_000_002, {65_000_002: "Yes."}, ("h",), "a")


@pytest.mark.parametrize(
    ("exercise", "answers", "right"),
    [
        (SHAPE, [torch.Size([2, 3]), "(2, 3)"], True),
        (SHAPE, [[3, 2]], False),
        (NUMBER, ["0.5", 1 / 2, 0.499], True),
        (NUMBER, [0.49, 3], False),
        (COUNT, [65_000_002], True),
        (COUNT, [65_000_001], False),
    ],
)
def test_a_prediction_may_be_written_in_several_ways(exercise, answers, right):
    found = [question.judge(exercise, answer)[0] for answer in answers]
    assert found == [right] * len(answers)


@of_kind(Predict | Break)
def test_the_answer_is_not_in_plain_view(exercise):
    html = check(exercise.name)._repr_html_()
    for says in question.replies(exercise).values():
        assert says not in html
    assert "http" not in html


@pytest.mark.parametrize("exercise", ALL, ids=lambda each: each.name)
def test_hints_and_replies_have_no_formulas_which_only_the_page_shows(exercise):
    texts = [*exercise.hints]
    if isinstance(exercise, Build):
        for idea in exercise.ideas:
            texts += [idea.says, idea.hint, *idea.more]
    else:
        texts += question.replies(exercise).values()
    assert [text for text in texts if "$" in text or text.count("`") % 2] == []
