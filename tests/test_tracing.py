"""What a walk does to the run: nothing. What is followed, and what is refused."""

import gc
import sys
import weakref
from functools import wraps

import pytest
import torch
from refusals import assert_refused, over
from torch import nn
from walked import Countdown, inner, middle, numbers, outer

from bookkit.listing.tracing import trace


def made(part):
    """What the statements of a function made, the last of each name."""
    return {value.name: value.text for record in part.records for value in record.made}


def times(part):
    return [record.times for record in part.records]


def calls(part):
    """The calls that its statements made, and those in them."""
    called = [call for record in part.records for call in record.calls.values()]
    return {call.function.__name__: calls(call) for call in called}


@pytest.mark.parametrize("depth", [0, 1])
def test_the_result_is_that_of_the_call_and_nothing_of_the_run_is_kept_alive(depth):
    kept = []

    def add(x):
        y = x + torch.rand(5)
        kept.append(weakref.ref(y))
        return y

    def draw(x):
        y = add(x)
        return nn.Dropout()(y + torch.rand(5))

    torch.manual_seed(0)
    expected, after = draw(torch.zeros(5)), torch.rand(5)
    torch.manual_seed(0)
    gc.disable()
    try:
        run = trace(draw, torch.zeros(5), depth=depth)
        assert kept[-1]() is None
    finally:
        gc.enable()
    assert torch.equal(run.result, expected)
    assert torch.equal(torch.rand(5), after)


def test_the_tracer_that_was_there_is_put_back_whatever_the_call_does():
    def nested():
        trace(inner, 3)
        return inner(5)

    def broken():
        raise KeyError("cat")

    before = sys.gettrace()
    sys.settrace(mine := lambda *event: None)
    try:
        run = trace(nested, also=[inner])
        with pytest.raises(KeyError, match="cat"):
            trace(broken)
        assert sys.gettrace() is mine
    finally:
        sys.settrace(before)
    assert made(run.also[0]) == {"x": "5", "doubled": "10", "returned": "10"}


# -- What is followed ------------------------------------------------------------------


def test_recursion_is_stepped_over():
    def factorial(call):
        if call == 0:
            return 1
        smaller = factorial(call - 1)
        return call * smaller

    run = trace(factorial, call=5)
    assert run.result == 120
    assert times(run) == [1, 1, 0, 1, 1]
    assert made(run)["smaller"] == "24"


def test_the_function_under_decorators_is_walked_also_without_versions_of_tensors():
    def loud(function):
        return wraps(function)(lambda x: function(x) + 1)

    @loud
    @torch.inference_mode()
    def double(x):
        y = 2 * x
        return y

    run = trace(double, torch.ones(3))
    assert run.result.tolist() == [3, 3, 3]
    assert made(run)["y"] == made(run)["returned"] == "all 2"
    assert run.statements[0].lines[:2] == ["@loud", "@torch.inference_mode()"]


def test_only_the_module_itself_is_walked_not_another_of_its_class():
    class Tag(nn.Module):
        def forward(self):
            tag = self.tag
            return tag

    first, second = Tag(), Tag()
    first.tag, second.tag = "first", "second"
    first.register_forward_pre_hook(lambda module, args: second() and None)
    assert made(trace(first))["tag"] == "'first'"


def test_functions_are_followed_within_a_run_each_the_first_time():
    run = trace(outer, 1, also=[numbers, inner])
    assert [part.function for part in run.also] == [numbers, inner]
    assert made(run.also[1]) == {"x": "1", "doubled": "2", "returned": "2"}
    assert times(run.also[1]) == [1, 1, 1]


def test_calls_are_recorded_as_deep_as_was_asked_but_checks_and_other_packages():
    one = {"middle": {}, "inner": {}, "numbers": {}, "__post_init__": {}}
    two = one | {"middle": {"inner": {}}}
    found = [calls(trace(outer, 1, depth=depth)) for depth in (0, 1, 9)]
    assert found == [{}, one, two]


def test_the_last_call_of_a_line_is_the_one_whose_values_the_line_shows():
    run = trace(outer, 1, depth=2)
    called = [list(record.calls.values()) for record in run.records]
    assert [[made(call).get("x") for call in line] for line in called] == [
        *([], [], [], ["3"]),  # y, of three passes
        *(["14"], ["1"], [], ["1", None]),  # both; numbers once; x not in the last pass
    ]
    run = trace(middle, 1, also=[inner], depth=1)  # what the listing shows is the same
    assert list(run.records[1].calls.values()) == run.also


# -- Exceptions and refusals -----------------------------------------------------------


def test_an_expected_exception_is_kept_and_marked_wherever_it_went_through():
    def fail(x):
        raise ValueError(f"got {x}")

    def f(x):
        y = fail(x)
        return y

    run = trace(f, 3, also=[fail], raises=ValueError)
    assert str(run.error) == "got 3"
    assert (run.error.__traceback__, run.result) == (None, None)
    assert run.also[0].records[1].raised == run.records[1].raised == "ValueError: got 3"
    assert times(run) == [1, 1, 0]
    with pytest.raises(ValueError, match="got 4"):
        trace(f, 4, raises=TypeError)


def pieces():
    yield 3


@wraps(inner)
def instead(x):
    return 3


space = {}
exec("def without_source():\n    return 3", space)


@over(
    [
        (TypeError, "there is no Python function to walk in len", lambda: trace(len)),
        (TypeError, "function to walk in Countdown", lambda: trace(Countdown())),
        (TypeError, "pieces runs in pieces", lambda: trace(pieces)),
        (TypeError, "made with def can be walked", lambda: trace(lambda x: x)),
        (OSError, "the source of without", lambda: trace(space["without_source"])),
        (RuntimeError, "without ever running inner", lambda: trace(instead, 3)),
        (
            RuntimeError,
            "inner was to raise KeyError and did not",
            lambda: trace(inner, 3, raises=KeyError),
        ),
        (
            ValueError,
            "run of inner never came to middle",
            lambda: trace(inner, 3, also=[middle]),
        ),
    ]
)
def test_a_call_that_cannot_be_walked_is_refused(error, text, call):
    assert_refused(error, text, call)
