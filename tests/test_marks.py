"""Marks: an answer runs elsewhere, and one slip costs less than half."""

import os

import pytest
import torch
from generated_answers import BUILDS

from bookkit.exercises import load
from bookkit.exercises.calling import packed, unpacked
from bookkit.exercises.testing import Run, run_tests
from course.editions import IMPORTS
from grading import marks, process
from grading.wrong_answers import wrong_answers
from pages import write_exercises

of_build = pytest.mark.parametrize("exercise", BUILDS, ids=lambda each: each.name)
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="Linux and macOS")


def share_of(exercise, answer):
    run = Run(exercise, answer, lenient=True)
    return marks.share(run, run_tests(exercise, run=run))


# An answer that does nothing yet: its results are an argument, or always the same.
IDLE = {("since-2017-2", "unchanged"), ("one-stack-2", "everything")}
IDLE |= {("beyond-text-2", "only_reshaped")}


@of_build
def test_one_listed_slip_costs_less_than_half_and_never_nothing(exercise):
    for wrong in wrong_answers()[exercise.name]:
        if wrong.fails == ["endless"]:
            continue
        share = share_of(exercise, wrong.answer)
        if (exercise.name, wrong.name) in IDLE or wrong.fails == ["forbidden"]:
            assert share == 0, wrong.name
        else:
            assert 0.5 < share < 1, wrong.name


@of_build
def test_a_constant_or_an_argument_earns_nothing_and_a_right_answer_all(exercise):
    idle = [marks.constant(exercise, fill) for fill in (0, 1)]
    idle += [marks.argument(exercise, i) for i in range(len(exercise.example))]
    assert {share_of(exercise, answer) for answer in idle} == {0.0}
    assert {share_of(exercise, right) for right in exercise.rights} == {1.0}
    assert 6 <= marks.points(exercise) <= 12


@of_build
def test_the_numbers_are_not_those_that_check_shows(exercise):
    given = exercise.example.values()
    if any(isinstance(x, torch.Tensor) and x.is_floating_point() for x in given):
        other = marks.with_other_numbers(exercise.name).example
        assert str(other) != str(exercise.example)


@pytest.mark.slow
@of_build
def test_a_right_answer_earns_everything_in_its_process(exercise):
    share, report = marks.grade(
        exercise.name, [IMPORTS, write_exercises.solution(exercise)]
    )
    assert share == 1, report


NONE = "def window_mask(*arguments):\n    "
LATE = "stopped after 0.5 seconds"
HOSTILE = {
    "right": ("", 1.0, "right."),
    "_exit": (f"{NONE}import os; os._exit(0)", 0.0, "It raises SystemExit: it exits"),
    "loop": (f"{NONE}\n    while True: pass", 0.0, LATE),
    "patched": (f"torch.isclose = torch.equal = id\n{NONE}return 0", 0.0, "must ret"),
    "the solution": (  # the import fails, so the earlier function stays
        "import bookkit.exercises.checking as c\nwindow_mask = c.load('masks-3')",
        1.0,
        "right.",
    ),
    "stops reading": (
        f"{NONE}import os, signal; os.kill(os.getpid(), signal.SIGSTOP)",
        0.0,
        LATE,
    ),
    "a word on the wire": (
        f"{NONE}import os\n    [os.write(n, b'[1]\\n') for n in range(3, 9)]",
        0.0,
        "It raises",
    ),
    "kills its parent": ("import os\nos.kill(os.getppid(), 9)", 1.0, "right."),
    "forks": ("import os, time\nif not os.fork(): time.sleep(99)", 1.0, "right."),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HOSTILE)
def test_what_an_answer_does_proves_nothing_and_harms_nobody(name, monkeypatch):
    monkeypatch.setattr(process, "SECONDS", 0.5)
    monkeypatch.setattr(process, "STARTS", 1)
    code, share, says = HOSTILE[name]
    here = os.getcwd()
    found, report = marks.grade(
        "masks-3", [IMPORTS, write_exercises.solution(load("masks-3")), code]
    )
    assert (found, says in repr(report)) == (share, True), report
    assert os.getcwd() == here


@pytest.mark.slow
@pytest.mark.parametrize(
    ("given", "share"), [(', "c and e"', 1), (', "a"', 0), ("", 0)]
)
def test_letters_are_read_as_check_reads_them(given, share):
    assert marks.grade("masks-6", [IMPORTS, f'check("masks-6"{given})'])[0] == share


@pytest.mark.parametrize(
    "value",
    [
        torch.tensor([[1.5, -float("inf")], [float("nan"), 2]]).double(),
        torch.tensor([True, False]),
        torch.zeros(0, 3, dtype=torch.int64),
        torch.tensor(3, dtype=torch.bfloat16),
        [1, (2.5, None), {"a": [True], 3: "x"}, float("inf")],
    ],
)
def test_a_value_comes_back_as_it_was_sent(value):
    found = unpacked(packed(value))
    assert type(found) is type(value)
    assert str(found) == str(value)
    assert getattr(found, "dtype", 0) == getattr(value, "dtype", 0)


def test_what_comes_back_is_never_code_and_a_name_is_no_formula():
    found = unpacked({"code": "exit()", "type": "Secret"})
    assert type(found).__name__ == "Secret"
    assert [marks.harmless(name) for name in ("=1+1", "ada")] == ["'=1+1", "ada"]
