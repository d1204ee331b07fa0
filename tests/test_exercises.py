"""Exercises: right answers pass, wrong ones fail where they should and learn why."""

import functools
import inspect
import io
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections import defaultdict
from dataclasses import replace

import pytest
import torch
import write_exercises
from book_files import ROOT

from bookkit.exercises import (
    Break,
    Build,
    Idea,
    Predict,
    check,
    checking,
    exercises,
    limits,
    load,
    numbers,
    question,
)
from bookkit.exercises.testing import run_tests, tests_of

LISTED = exercises()
ALL = [exercise for listed in LISTED.values() for exercise in listed]


def of_kind(kind):
    found = [exercise for exercise in ALL if isinstance(exercise, kind)]
    return pytest.mark.parametrize("exercise", found, ids=lambda each: each.name)


def answers(kind):
    """Parametrise over the right or the wrong answers to every *Build*."""
    found = [
        pytest.param(exercise, answer, id=f"{exercise.name}-{name_of(answer)}")
        for exercise in ALL
        if isinstance(exercise, Build)
        for answer in getattr(exercise, kind)
    ]
    return pytest.mark.parametrize(("exercise", "answer"), found)


def name_of(answer):
    answer = answer[0] if isinstance(answer, tuple) else answer
    return getattr(answer, "__name__", type(answer).__name__)


@pytest.fixture(autouse=True)
def short(monkeypatch):
    monkeypatch.setattr(limits, "SECONDS", 0.4)
    checking.failures.clear()


# -- Every exercise --------------------------------------------------------------------


@functools.cache  # some wrong answers take as long as they may
def climbed(name, answer):
    return run_tests(load(name), answer)


@answers("rights")
def test_a_right_answer_passes(exercise, answer):
    found = run_tests(exercise, answer)
    assert found.failed == set(), found.fault


@answers("wrongs")
def test_a_wrong_answer_fails_exactly_where_it_should(exercise, answer):
    wrong, fails = answer
    assert fails
    assert climbed(exercise.name, wrong).failed == fails


@answers("wrongs")
def test_no_message_shows_a_line_of_the_solution(exercise, answer, monkeypatch):
    own = written_lines(answer[0])
    monkeypatch.setattr(checking, "failures", defaultdict(lambda: 3))  # every hint
    report = check(exercise.name, answer[0])
    shown = repr(report) + report._repr_html_()
    for line in written_lines(exercise.rights[0]) - own:
        assert line not in shown


def written_lines(answer):
    answer = answer if inspect.isfunction(answer) else type(answer)
    lines = [
        line.partition("#")[0].strip() for line in inspect.getsource(answer).split("\n")
    ]
    return {
        line for line in lines if len(line) > 8 and not line.startswith(("@", "def "))
    }


@of_kind(Build)
def test_an_exercise_has_enough_answers_and_three_hints(exercise):
    assert len(exercise.rights) >= 4  # the solution and three variants
    assert len(exercise.wrongs) >= 8
    assert len(exercise.hints) == 3
    assert all(len(idea.more) <= 2 for idea in exercise.ideas)
    assert exercise.rights[0].__name__ == exercise.call.partition("(")[0]


def changed(exercise, change):
    """Return the solution with a change of each result."""

    def answer(*arguments):
        made = exercise.rights[0](*arguments)
        if isinstance(made, tuple):
            return tuple(map(change, made))
        return change(made)

    return answer


def in_place(exercise):
    def answer(*arguments):
        made = exercise.rights[0](*arguments)
        first = next(each for each in arguments if isinstance(each, torch.Tensor))
        with torch.no_grad():
            first.zero_() if first.any() else first.fill_(1)
        return made

    return answer


# Mistakes that any exercise may meet, by the test that finds them.
COMMON = {
    "callable": lambda exercise: 5,
    "arguments": lambda exercise: lambda: None,
    "runs": lambda exercise: lambda *arguments: 1 / 0,
    "returns": lambda exercise: changed(exercise, lambda result: object()),
    "shape": lambda exercise: changed(exercise, lambda result: result[None]),
    "dtype": lambda exercise: changed(
        exercise,
        lambda result: result.float() if result.is_floating_point() else result.byte(),
    ),
    "finite": lambda exercise: changed(exercise, lambda result: result / 0),
    "unchanged": in_place,
    "gradient": lambda exercise: changed(exercise, lambda result: result.detach()),
    "larger": lambda exercise: wrong_for(exercise, exercise.example),
}


def wrong_for(exercise, case):
    """Make an answer that is right for every case but one."""

    def answer(*arguments):
        is_case = str(arguments) == str(tuple(case.values()))
        result = exercise.rights[0](*arguments)
        return spoilt(result) if is_case else result

    return answer


def spoilt(result):
    if isinstance(result, tuple):
        return (*result[:-1], spoilt(result[-1]))
    if isinstance(result, torch.Tensor) and not result.is_floating_point():
        return ~result if result.dtype == torch.bool else result + 1
    if isinstance(result, list | str):
        return result[:0]
    return result + 1 if isinstance(result, int) else 1.5 * result + 0.1


@of_kind(Build)
def test_every_test_catches_a_wrong_answer(exercise):
    caught = set().union(*(fails for _, fails in exercise.wrongs))
    for name in COMMON.keys() & tests_of(exercise).keys():
        found = run_tests(exercise, COMMON[name](exercise))
        # An idea may have the example among its cases.
        ideas = {idea.name for idea in exercise.ideas} if name == "larger" else set()
        assert found.first in {name, *ideas}
        caught.add(name)
    assert caught == tests_of(exercise).keys()


@of_kind(Predict)
def test_each_likely_prediction_has_a_sentence_of_its_own(exercise):
    assert len(exercise.replies) >= 3
    assert len(set(exercise.replies.values())) == len(exercise.replies)
    for answer in exercise.replies:
        assert check(exercise.name, answer).passed == (answer == exercise.right)


@of_kind(Predict)
def test_what_should_be_predicted_is_what_the_code_gives(exercise):
    assert exercise.computed() == exercise.right


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


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("", "2 checks fail."),
        ("c", "You are right about c. One more check fails."),
        ("E", "You are right about e. One more check fails."),
        ("a", "Check a holds: "),
        ("bc", "You are right about c. Check b holds: "),
        ("c, e, d", "You are right about c and e. Check d holds: "),
    ],
)
def test_a_letter_is_confirmed_and_a_missing_one_is_not_named(answer, says):
    report = check("masks-6", answer)
    assert not report.passed
    assert report.says.startswith(says)


def test_a_report_prints_where_its_mark_cannot_be_written(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), "cp1252"))
    print(check("masks-6", "b"))


def test_the_form_of_several_letters_is_shown():
    assert repr(check("masks-6")).endswith('check("masks-6", "ab")')
    with pytest.raises(ValueError, match="such as 'ab', got 'c and e'"):
        check("masks-6", "c and e")


@of_kind(Break)
def test_the_reason_of_a_check_says_what_the_check_does(exercise):
    for letter, (_, _, why) in exercise.checks.items():
        opposite = "holds" if letter in exercise.right else "fails"
        assert not why.startswith(f"Check {letter} {opposite}")


@pytest.mark.parametrize("chapter", LISTED)
def test_exercises_are_numbered_in_order(chapter):
    names = [exercise.name for exercise in LISTED[chapter]]
    label = chapter.replace("_", "-")
    assert names == [f"{label}-{number}" for number in range(1, len(names) + 1)]


def test_the_notebooks_hold_what_the_exercises_say():
    for path, notebook, listed in write_exercises.notebooks():
        text = write_exercises.written(write_exercises.with_exercises(notebook, listed))
        assert text == path.read_text("utf-8"), "run scripts/write_exercises.py"


ALONE = """
import pkgutil, sys
import transformer_lib
for _, name, _ in pkgutil.iter_modules(transformer_lib.__path__):
    if name != "exercises":
        sys.modules[f"transformer_lib.{name}"] = None  # importing it fails
from bookkit.exercises import Build, check, exercises
for listed in exercises().values():
    for exercise in listed:
        answer = exercise.rights[0] if isinstance(exercise, Build) else exercise.right
        assert check(exercise.name, answer).passed, exercise.name
"""


def test_a_check_needs_no_chapter():
    done = subprocess.run(
        [sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr


# -- What readers tried ----------------------------------------------------------------


def wrong(name, answer):
    found = [each for each, _ in load(name).wrongs if each.__name__ == answer]
    assert len(found) == 1
    return check(name, found[0])


@pytest.mark.parametrize(
    ("name", "answer", "says"),
    [
        ("masks-3", "true_means_hide", "True and False are exchanged"),
        ("masks-4", "true_means_hidden", "True and False are exchanged"),
        ("masks-5", "true_is_hidden", "True and False are exchanged"),
        ("attention-4", "true_means_hidden", "True and False are exchanged"),
        ("masks-4", "one_too_many", "Count the open keys"),
        ("masks-5", "a_large_number", "with any finite scores"),
        ("masks-5", "average_of_nothing", "with any finite scores"),
        ("masks-5", "no_second_fill", "what is 0/0?"),
        ("attention-4", "root_of_the_length", "Of which size do you take the root?"),
        ("attention-4", "root_of_the_values", "Of which size do you take the root?"),
        ("attention-4", "keys_turned_round", "The larger the score"),
        ("attention-4", "plain_average", "The larger the score"),
        ("attention-4", "asks_whether_a_tensor_is_true", "needs a single True or"),
        ("attention-3", "a_pair_taken_away", "return a pair: the values and their ind"),
        ("masks-4", "without_the_axis", "Two shapes do not fit together"),
        ("training-2", "not_corrected", "too small at first"),
        ("training-2", "uphill", "Which way does the step go"),
        ("training-2", "old_means_returned", "the new m and v"),
        ("training-well-2", "as_the_library", "How much does the right word get"),
        ("training-well-2", "pad_gets_a_share", "Count the words that share"),
        ("training-well-2", "padding_counts", "is the target `pad_id`"),
        ("transformer-2", "no_limit", "Count the new tokens"),
        ("transformer-2", "without_eos", "Is eos appended"),
        ("sublayers-2", "mean_taken_away", "subtract it"),
        ("heads-2", "one_transpose_too_many", "Which axes must change places"),
        ("heads-2", "root_of_the_model", "how wide are the vectors"),
    ],
)
def test_the_message_names_the_mistake(name, answer, says):
    assert says in wrong(name, answer).says


@pytest.mark.parametrize("exercise", [e for e in ALL if isinstance(e, Build)],
                         ids=lambda each: each.name)  # fmt: skip
def test_only_a_reversed_answer_is_called_reversed(exercise):
    reversed_ones = {"true_means_hide", "true_means_hidden", "true_is_hidden"}
    for answer, _ in exercise.wrongs:
        fault = climbed(exercise.name, answer).fault
        if fault.says.startswith("True and False"):
            assert answer.__name__ in reversed_ones


def test_the_sentence_that_is_wrong_is_shown():
    report = wrong("masks-4", "one_too_many")
    assert report.picture.caption.startswith("Your result at [1, 0]")
    assert report.picture.at == (0, 1)


def test_the_options_of_a_choice_have_letters_because_numbers_may_be_answers():
    assert "  b: the padding of sentence 2\n" in repr(check("masks-1"))
    assert check("masks-1", "b").passed
    with pytest.raises(ValueError, match=r"a \(the padding of sentence 4\).*got 4"):
        check("masks-1", 4)


# -- The engine ------------------------------------------------------------------------


def rows(x, weight, bias):
    return (x @ weight + bias).softmax(dim=0)


@pytest.fixture
def exercise(monkeypatch):
    """A small *Build*; its bias has a gradient of zero, as that of keys."""
    build = Build(
        name="rows-1",
        title="rows",
        task="Write it.",
        call="rows(x, weight, bias)",
        returns={"share": "T d_v"},
        example={"x": numbers(3, 2), "weight": numbers(2, 5), "bias": numbers(5)},
        ideas=[
            Idea(
                "one",
                "One row has it all.",
                "Which axis?",
                [{"x": numbers(1, 2), "weight": numbers(2, 3), "bias": numbers(3)}],
            )
        ],
        hints=("Look.", "Think.", "See."),
        answer="So.",
        rights=[rows],
    )
    monkeypatch.setattr(checking, "load", lambda name: build)
    return build


def test_a_gradient_of_zero_up_to_rounding_is_no_alarm(exercise):
    assert check("rows-1", rows).passed
    assert check("rows-1", lambda x, w, b: rows(x, w, b.detach())).passed
    report = check("rows-1", lambda x, w, b: rows(x, w.detach(), b))
    assert "No gradient reaches weight" in report.says


def test_a_gradient_that_is_lost_on_one_way_is_found(exercise):
    def half(x, weight, bias):
        scores = x @ weight + bias
        powers = (scores - scores.amax(dim=0)).exp()
        return powers / powers.sum(dim=0).detach()

    assert "right, but not the gradient" in check("rows-1", half).says


def test_a_result_may_be_something_else_than_a_tensor(monkeypatch):
    right = lambda text: text.split()  # noqa: E731
    idea = Idea("order", "In order.", "Which comes first?", [{"text": "a b"}])
    texts = ("words-1", "words", "Write it.", "words(text)", {"words": list})
    build = Build(*texts, {"text": "a b c"}, [idea], ("", "", ""), "", [right])
    monkeypatch.setattr(checking, "load", lambda name: build)
    assert check("words-1", right).passed
    assert "words (list), and returns str" in check("words-1", str.upper).says
    report = check("words-1", lambda text: text.split()[::-1])
    assert ("Which comes first?" in report.says, report.picture.rows) == (
        True,
        [["b", "a"]],
    )


def test_an_endless_answer_is_stopped_in_any_thread(exercise):
    def endless(x, weight, bias):
        while True:
            x = x + 1

    reports = []
    thread = threading.Thread(target=lambda: reports.append(check("rows-1", endless)))
    thread.start()
    thread.join()
    for report in [check("rows-1", endless), *reports]:
        assert "stopped after 0.4 seconds" in report.says
        assert "x = x + 1" in report.trace or "while True" in report.trace


def test_a_swallowed_exception_does_not_end_the_watch(exercise):
    class Sleeper:
        """Whatever is raised while the library calls ``sleep`` for it is ignored."""

    def slow(x, weight, bias):
        weakref.finalize(Sleeper(), time.sleep, 0.5)
        for _ in range(3):
            x = x + 1
        return x

    assert "stopped" in check("rows-1", slow).says


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarm on Windows")
def test_an_answer_that_catches_everything_is_stopped(exercise):
    def stubborn(x, weight, bias):
        while True:
            try:
                x = x + 1
                x = x - 1
                x = x + 1
                x = abs(x)
            except:  # noqa: E722
                pass

    before = signal.getsignal(signal.SIGALRM)
    for _ in range(2):
        assert "stopped" in check("rows-1", stubborn).says
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL) == (0, 0)


def test_an_answer_that_was_stopped_is_not_run_again(exercise):
    calls = []

    def endless_for_one_row(x, weight, bias):
        calls.append(len(x))
        while len(x) == 1:
            calls[-1] += 0
        return rows(x, weight, bias)

    exercise.ideas = [*exercise.ideas, *exercise.ideas]
    report = check("rows-1", endless_for_one_row)
    assert "stopped" in report.says
    assert calls.count(1) == 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="no limit elsewhere")
@pytest.mark.parametrize(
    "huge",
    [
        lambda x, w, b: torch.ones(10**6, 10**6),
        lambda x, w, b: bytearray(10**11),
        lambda x, w, b: [x] * 10**10,
    ],
)
def test_a_huge_answer_is_stopped(exercise, huge):
    assert "needs gigabytes" in check("rows-1", huge).says


def test_a_large_result_has_no_picture(exercise):
    report = check("rows-1", lambda x, w, b: torch.ones(100, 100))
    assert "is (100, 100)" in report.says
    assert report.picture is None


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
    hints = [check("rows-1", lambda x, w, b: x).hints for _ in range(5)]
    assert hints == [exercise.hints[:count] for count in (0, 1, 2, 3, 3)]
    # The message of an idea is its first hint.
    reports = [check("rows-1", wrong_axis) for _ in range(4)]
    assert all("Which axis?" in report.says for report in reports)
    hints = [report.hints for report in reports]
    assert hints == [(), ("Think.",), *[("Think.", "See.")] * 2]
    assert check("rows-1", rows).hints == ()


def test_a_test_may_have_hints_of_its_own(exercise):
    exercise.ideas = [replace(exercise.ideas[0], more=("Rows or columns?",))]
    hints = [check("rows-1", wrong_axis).hints for _ in range(3)]
    assert hints == [(), ("Rows or columns?",), ("Rows or columns?",)]


def test_a_test_that_says_all_has_no_hints(exercise):
    for _ in range(3):
        report = check("rows-1", lambda x, w, b: rows(x, w, b).float())
        assert report.hints == ()


def test_an_endless_answer_gets_no_hint_about_its_ideas(exercise):
    def endless(x, weight, bias):
        while True:
            x = x + 1

    assert [check("rows-1", endless).hints for _ in range(2)] == [(), ()]


def test_a_stub_is_not_a_failure(exercise):
    def rows(x, weight, bias):
        # Your code.
        ...

    for answer in ([], [rows]):
        report = check("rows-1", *answer)
        assert report.passed is None
        assert "11 tests wait" in repr(report)
    assert not checking.failures


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (torch.nn.Linear, "Linear is a class"),
        (None, "without calling it"),
        (lambda x: x, "too many positional arguments"),
        (lambda x, w, b: print(), "Is a return missing?"),
        (
            lambda x, w, b: (x, x),
            "share (Tensor), and returns a tuple of Tensor, Tensor",
        ),
        (lambda x, w, b: rows(x, w, b).T, "right axes in the order (d_v, T)"),
        (lambda x, w, b: rows(x, w, b).float(), "and is torch.float32"),
        (lambda x, w, b: x.add_(1) @ w, "It changes x"),
        (lambda x, w, b: (x @ w + b).softmax(dim=1), "Which axis?"),
        (lambda x, w, b: exit(), "It raises SystemExit"),
    ],
)
def test_a_message_says_what_is_wrong(exercise, answer, says):
    report = check("rows-1", answer)
    assert says in report.says
    assert says in repr(report)


def test_a_picture_shows_the_readers_own_result(exercise):
    report = check("rows-1", lambda x, w, b: (x @ w + b).softmax(dim=1))
    assert report.picture.at == (0, 0)
    assert "[" in report.picture.text()
    assert report._repr_html_().count("<mark>") == 1
    assert report.inputs[0].startswith("x = [[")


def test_the_random_numbers_of_the_notebook_stay_as_they_are(exercise):
    torch.manual_seed(1)
    expected = torch.rand(3)
    torch.manual_seed(1)
    check("rows-1", lambda x, w, b: torch.rand(3, 5))
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize("name", ["masks-99", "nothing-1", "report-1"])
def test_an_unknown_exercise_is_refused(name):
    with pytest.raises(ValueError, match=f"got '{name}'"):
        check(name)


SHAPE = Predict("a-1", "t", "q", (2, 3), {(2, 3): "Yes.", (3, 2): "No."}, ("h",), "a")
NUMBER = Predict("a-2", "t", "q", 0.5, {0.5: "Yes.", 2: "No."}, ("h",), "a")
COUNT = Predict("a-3", "t", "q", 65_000_002, {65_000_002: "Yes."}, ("h",), "a")


@pytest.mark.parametrize(
    ("exercise", "answer", "right"),
    [
        (SHAPE, torch.Size([2, 3]), True),
        (SHAPE, "(2, 3)", True),
        (SHAPE, [3, 2], False),
        (NUMBER, "0.5", True),
        (NUMBER, 1 / 2, True),
        (NUMBER, 0.499, True),
        (NUMBER, 0.49, False),
        (NUMBER, 3, False),
        (COUNT, 65_000_002, True),
        (COUNT, 65_000_001, False),
    ],
)
def test_a_prediction_may_be_written_in_several_ways(exercise, answer, right):
    assert question.judge(exercise, answer)[0] == right


def test_what_cannot_be_an_answer_is_refused():
    with pytest.raises(ValueError, match="must be a number, got 'many'"):
        question.judge(NUMBER, "many")
    choice = load("masks-1")
    with pytest.raises(ValueError, match="must be one of"):
        question.judge(choice, "none")


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
