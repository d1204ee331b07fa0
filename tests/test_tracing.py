import dataclasses
import gc
import sys
import tempfile
import time
import weakref
from contextlib import contextmanager, nullcontext, suppress
from functools import wraps
from pathlib import Path

import pytest
import torch
from torch import nn

from bookkit.listing.tracing import trace

B, T, D = 2, 5, 7


def record(run, start):
    """The record of the only statement that starts so."""
    found = [
        record
        for statement, record in zip(run.statements, run.records, strict=True)
        if statement.key.startswith(start)
    ]
    assert len(found) == 1, start
    return found[0]


def made(run, start):
    """What that statement made: names to texts."""
    return {value.name: value.text for value in record(run, start).made}


def statuses(run, start):
    return {value.name: value.status for value in record(run, start).made}


def times(run):
    return [record.times for record in run.records]


# -- What runs -------------------------------------------------------------------------


def test_the_result_is_that_of_the_call_and_so_are_the_random_numbers():
    def draw(size):
        x = torch.rand(size)
        return x + torch.rand(size)

    torch.manual_seed(0)
    expected, after = draw(T), torch.rand(T)
    torch.manual_seed(0)
    run = trace(draw, T)
    assert torch.equal(run.result, expected)
    assert torch.equal(torch.rand(T), after)


def test_the_reading_of_a_clock_is_not_shown_since_it_is_another_in_every_run():
    def measure(x):
        began = time.perf_counter()
        total = x.sum().item()
        seconds = time.perf_counter() - began
        return total, seconds > 0

    run = trace(measure, torch.ones(3))
    assert made(run, "began") == {"began": "read from a clock"}
    assert made(run, "total") == {"total": "3.0"}
    assert made(run, "seconds") == {"seconds": "read from a clock"}


def test_the_name_of_a_temporary_folder_is_not_shown_since_it_is_another_in_every_run():
    def describe(folder):
        source = f"{folder}/state"
        return source

    with tempfile.TemporaryDirectory() as folder:
        run = trace(describe, folder)
        where = Path(folder).parent
    assert made(run, "source =") == {"source": f"'{where}/tmp…/state'"}
    assert made(trace(describe, "tmp_letters/"), "source =") == {
        "source": "'tmp_letters//state'"
    }


def test_an_argument_may_be_named_call():
    def ring(call):
        return call

    assert made(trace(ring, call=3), "return") == {"returned": "3"}


def test_arguments_are_what_the_def_makes_without_self():
    class Thing:
        def method(self, x, *args, y=3, **kwargs):
            return x

    assert made(trace(Thing().method, 1, 2, z=4), "def") == {
        "x": "1",
        "args": "(2,)",
        "y": "3",
        "kwargs": "{'z': 4}",
    }


def test_what_the_function_makes_itself_is_no_argument():
    def f(*args, **kwargs):
        x = y = z = 1
        return x + y + z

    assert made(trace(f, 2), "def") == {"args": "(2,)", "kwargs": "{}"}


def test_a_module_means_its_forward_and_other_modules_are_stepped_over():
    class Double(nn.Module):
        def forward(self, x):
            y = x + x
            return y

    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Double()

        def forward(self, x):
            x = self.inner(x)
            x = self.inner(x)
            return x

    run = trace(Twice(), torch.ones(T))
    assert run.function is Twice.forward
    assert times(run) == [1, 1, 1, 1]
    assert made(run, "return") == {"returned": "all 4"}


def test_only_the_module_itself_is_walked_not_another_of_its_class():
    class Tag(nn.Module):
        def __init__(self, tag):
            super().__init__()
            self.tag = tag

        def forward(self):
            tag = self.tag
            return tag

    outer, inner = Tag("outer"), Tag("inner")
    outer.register_forward_pre_hook(lambda module, args: inner() and None)
    assert made(trace(outer), "tag") == {"tag": "'outer'"}


def test_recursion_is_stepped_over():
    def factorial(n):
        if n == 0:
            return 1
        smaller = factorial(n - 1)
        return n * smaller

    run = trace(factorial, 5)
    assert run.result == 120
    assert times(run) == [1, 1, 0, 1, 1]
    assert made(run, "smaller") == {"smaller": "24"}


def test_a_class_means_its_init_and_the_result_is_the_object():
    class Thing:
        def __init__(self, size):
            self.size = size

    run = trace(Thing, 3)
    assert run.function is Thing.__init__
    assert run.result.size == 3
    assert made(run, "self.size") == {"self.size": "3"}


def test_a_dataclass_means_its_post_init():
    @dataclasses.dataclass
    class Thing:
        size: int

        def __post_init__(self):
            self.area = self.size**2

    run = trace(Thing, size=3)
    assert run.function is Thing.__post_init__
    assert made(run, "self.area") == {"self.area": "9"}


class Shelf:
    @classmethod
    def of(cls, size):
        shelf = cls()
        return shelf, size


def test_a_class_method_is_walked_without_cls():
    assert made(trace(Shelf.of, 3), "def") == {"size": "3"}


def test_the_function_under_decorators_is_walked():
    def loud(function):
        @wraps(function)
        def wrapper(x):
            return function(x) + 1

        return wrapper

    @loud
    @torch.no_grad()
    def double(x):
        y = 2 * x
        return y

    run = trace(double, 3)
    assert run.result == 7
    assert made(run, "return") == {"returned": "6"}
    assert run.statements[0].lines[:2] == ["@loud", "@torch.no_grad()"]


# -- What is a statement ---------------------------------------------------------------


def test_a_statement_over_several_lines_runs_once():
    # fmt: off
    def table(a, b):
        if (
            a
            and b
        ):
            x = [
                a,
                abs(b),
            ]
        return x
    # fmt: on

    run = trace(table, 1, 2)
    assert times(run) == [1, 1, 1, 1]
    assert [len(statement.lines) for statement in run.statements] == [1, 4, 4, 1]
    assert record(run, "if").entered == 1


def test_docstrings_are_left_out_and_comments_kept():
    def f():
        """Left out.

        # Not a comment.
        """
        # Why it is one.
        x = "# no comment"  # a trailing one

        # Below a blank line.
        return x

    run = trace(f)
    define, assign, leave = run.statements
    assert define.lines == ["def f():"]
    assert assign.lines == ['    x = "# no comment"']
    assert assign.comment == "# a trailing one"
    assert assign.above == ["    # Why it is one."]
    assert leave.above == ["    # Below a blank line."]
    first = f.__code__.co_firstlineno
    assert [s.first - first for s in run.statements] == [0, 6, 9]


def test_a_comment_below_a_header_belongs_to_the_next_line():
    def f(x):
        if x:
            # Why it changes.

            x = 3
        return x

    header, assign = trace(f, 3).statements[1:3]
    assert header.lines == ["    if x:"]
    assert assign.above == ["        # Why it changes."]


def test_a_function_with_nothing_but_a_docstring_is_its_def():
    def f():
        """Nothing else."""

    run = trace(f)
    assert [statement.key for statement in run.statements] == ["def f():"]


def test_comprehensions_lambdas_and_inner_functions_belong_to_their_line():
    # fmt: off
    def f(n):
        squares = [
            i * i
            for i in range(n)
            if i
        ]
        # fmt: on
        double = lambda x: 2 * x  # noqa: E731

        def triple(x):
            y = 3 * x
            return y

        return double(triple(sum(squares)))

    run = trace(f, 4)
    assert run.result == 84
    assert times(run) == [1, 1, 1, 1, 1]
    assert made(run, "squares") == {"squares": "[1, 4, 9]"}
    assert list(made(run, "def triple")) == ["triple"]


def test_a_body_on_the_line_of_the_def_is_one_row():
    # fmt: off
    def f(x): return x
    # fmt: on

    run = trace(f, 3)
    assert run.result == 3
    assert made(run, "def") == {"x": "3"}


def test_an_inner_function_is_one_row_with_its_decorators():
    def f():
        @torch.no_grad()
        @torch.inference_mode()
        def inner():
            return 3

        return inner()

    run = trace(f)
    assert [statement.key for statement in run.statements] == [
        "def f():",
        "def inner():",
        "return inner()",
    ]
    assert run.statements[1].lines[0] == "    @torch.no_grad()"


def test_text_that_reaches_out_of_the_indentation_stays_as_it_is():
    def f():
        text = """
one
        two"""
        return text

    run = trace(f)
    assert run.statements[1].lines == ['    text = """', "one", '    two"""']


def test_what_a_comprehension_calls_its_items_is_not_what_the_line_made():
    def f(x):
        squares = [x * x for x in range(x)]
        return squares

    assert list(made(trace(f, 3), "squares")) == ["squares"]


def test_statements_on_one_line_are_one_row():
    # fmt: off
    def f(x):
        x = x; y = x; z = y + 1  # noqa: E702
        if z > 1: return z  # noqa: E701
        return y
    # fmt: on

    run = trace(f, 3)
    assert made(run, "x = x") == {"x": "3", "y": "3", "z": "4"}
    assert made(run, "if") == {"returned": "4"}
    assert times(run) == [1, 1, 1, 0]


# -- Where it goes ---------------------------------------------------------------------


def test_branches_are_counted_when_they_are_entered():
    def sign(x):
        if x > 0:
            return 1
        elif x < 0:
            return -1
        else:
            return 0

    counts = {
        x: [(r.times, r.entered) for r in trace(sign, x).records] for x in (3, -3)
    }
    assert counts[3] == [(1, 0), (1, 1), (1, 0), (0, 0), (0, 0), (0, 0), (0, 0)]
    assert counts[-3] == [(1, 0), (1, 0), (0, 0), (1, 1), (1, 0), (0, 0), (0, 0)]


def test_a_for_loop_counts_its_passes_and_keeps_the_last():
    def add(xs):
        total = 0
        for i, x in enumerate(xs):
            total += x + 0 * i
        return total

    run = trace(add, [3, 5, 7])
    assert record(run, "for").entered == 3
    assert made(run, "for") == {"i": "2", "x": "7"}
    assert statuses(run, "for") == {"i": "", "x": ""}
    assert record(run, "total +=").times == 3
    assert made(run, "total +=") == {"total": "15"}
    assert trace(add, []).records[2].entered == 0


def test_a_loop_without_a_pass_makes_nothing():
    def f(x):
        for x in []:
            x += 1
        return x

    assert record(trace(f, 3), "for").made == []


def test_a_while_loop_counts_its_passes_even_without_a_condition():
    def count(n):
        while n > 2:
            n -= 1
        while True:
            n -= 1
            if n < 0:
                break
        return n

    run = trace(count, 5)
    assert record(run, "while n").entered == 3
    assert record(run, "while True").entered == 3


def test_a_loop_in_a_loop_counts_both():
    def f():
        for i in range(2):
            for j in range(3):
                last = i, j
        return last

    run = trace(f)
    assert [record.entered for record in run.records[1:3]] == [2, 6]
    assert made(run, "return") == {"returned": "(1, 2)"}


def test_leaving_a_with_block_is_not_entering_it_again():
    def f():
        with nullcontext(3) as x:
            y = x
        for _ in range(2):
            with nullcontext():
                z = y
        return z

    run = trace(f)
    assert record(run, "with nullcontext(3)").times == 1
    assert made(run, "with nullcontext(3)") == {"x": "3"}
    assert record(run, "with nullcontext()").times == 2


def test_a_return_out_of_with_and_finally_is_made_by_its_own_line():
    def f(log):
        with nullcontext():
            try:
                return len(log)
            finally:
                log.append(3)

    run = trace(f, [])
    assert made(run, "return") == {"returned": "0"}
    assert made(run, "log.append") == {"log[0]": "3"}


def test_match_cases_are_branches():
    def f(x):
        match x:
            case 3:
                y = "three"
            case (a, *_):
                y = a
        return y

    run = trace(f, (5, 7))
    assert record(run, "case 3").entered == 0
    assert record(run, "case (a").entered == 1
    assert made(run, "case (a") == {"a": "5"}


def test_a_caught_exception_is_seen_where_it_came_out():
    def f(text):
        try:
            x = int(text)
        except ValueError as error:
            x = str(error)[:7]
        return x

    run = trace(f, "three")
    assert record(run, "x = int").raised.startswith("ValueError: invalid literal")
    assert record(run, "x = int").made == []
    assert record(run, "except").entered == 1
    assert made(run, "except") == {"error": "ValueError"}
    assert made(run, "return") == {"returned": "'invalid'"}
    assert [r.times for r in trace(f, "3").records] == [1, 1, 1, 0, 0, 1]


def test_a_line_that_raises_has_not_made_its_name_again():
    def f(text):
        number = 0
        with suppress(ValueError):
            number = int(text)
        return number

    assert record(trace(f, "three"), "number = int").made == []


def test_a_line_that_raised_once_and_then_no_more_did_not_raise_the_last_time():
    def f(texts):
        for text in texts:
            with suppress(ValueError):
                number = int(text)
        return number

    run = trace(f, ["three", "3"])
    assert record(run, "number").raised == ""
    assert made(run, "number") == {"number": "3"}


def test_a_return_that_raises_returns_nothing():
    def f(text):
        return int(text)

    assert record(trace(f, "three", raises=ValueError), "return").made == []


def test_the_end_of_an_iterator_is_no_exception():
    class Countdown:
        n = 3

        def __iter__(self):
            return self

        def __next__(self):
            self.n -= 1
            if self.n < 0:
                raise StopIteration
            return self.n

    def f():
        for n in Countdown():
            last = n
        return last

    assert record(trace(f), "for").raised == ""


# -- What a line made ------------------------------------------------------------------


def test_a_name_made_again_says_so_and_equal_values_say_so():
    def f(x):
        y = x + 1
        y = y * 2
        y = y.clone()
        y = y.relu()
        y = y.float()
        n = 1
        n = 2 - 1
        n = True
        z = 0.5
        z = z + 0
        w = x + 0
        w = w.nan_to_num(nan=5.0, neginf=float("-inf"))
        return y, n, z, w

    run = trace(f, torch.tensor([1.0, float("nan"), float("-inf")]))
    lines = [
        list(statuses(run, f"y = {code}").values()) for code in ("x", "y *", "y.c")
    ]
    assert lines == [[""], ["changed"], ["same values"]]
    assert statuses(run, "y = y.relu") == {"y": "changed"}
    assert statuses(run, "y = y.float") == {"y": "changed"}
    assert statuses(run, "n = 1") == {"n": ""}
    assert statuses(run, "n = 2 - 1") == {"n": "same values"}
    assert statuses(run, "n = True") == {"n": "changed"}
    assert statuses(run, "z = z") == {"z": "same values"}
    assert statuses(run, "w = w") == {"w": "changed"}


def test_a_name_bound_to_the_same_object_again_has_the_same_values():
    def f(x):
        x = x.contiguous()
        return x

    assert statuses(trace(f, torch.ones(T)), "x =") == {"x": "same values"}


def test_in_place_changes_are_seen_although_the_object_is_the_same():
    def f(x, module):
        x.zero_()
        x[0] = 3.0
        y = x.add_(1)
        nn.init.ones_(module.weight)
        return y

    run = trace(f, torch.ones(T), nn.Linear(2, 3))
    assert statuses(run, "x.zero_") == {"x": "changed in place"}
    assert made(run, "x[0]") == {"x": "0 to 3"}
    assert statuses(run, "y =") == {"y": "", "x": "changed in place"}
    assert made(run, "nn.init") == {"module.weight": "all 1"}


def test_lines_that_only_look_make_nothing():
    def f(x, module, words):
        x.sum()
        module(x)
        len(words)
        return None

    run = trace(f, torch.ones(2), nn.Linear(2, 3), ["a"])
    assert [r.made for r in run.records[1:4]] == [[], [], []]


def test_lists_and_dictionaries_changed_in_place_show_what_is_new():
    def f(words, counts):
        words.append("cat")
        counts["cat"] = 1
        counts.update(cat=2)
        words.clear()
        words.extend(range(9))
        return words

    run = trace(f, ["the"], {})
    assert made(run, "words.append") == {"words[1]": "'cat'"}
    assert made(run, "counts[") == {"counts['cat']": "1"}
    assert statuses(run, "counts[") == {"counts['cat']": ""}
    assert statuses(run, "counts.update") == {"counts['cat']": "changed"}
    assert made(run, "words.clear") == {"words": "[]"}
    assert statuses(run, "words.clear") == {"words": "changed in place"}
    assert made(run, "words.extend") == {"words": "[0, 1, 2, 3, 4, 5, …]"}


def test_attributes_are_seen_buffers_and_parameters_too():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(2, 3)
            self.register_buffer("table", torch.zeros(T))
            self.scale, self._hidden = 2.0, 3

    run = trace(Layer)
    assert record(run, "super").made == []
    (linear,) = record(run, "self.linear").made
    assert (linear.name, linear.text) == ("self.linear", "Linear")
    assert [(p.name, p.shape) for p in linear.parts] == [
        ("weight", (3, 2)),
        ("bias", (3,)),
    ]
    assert made(run, "self.register") == {"self.table": "all 0"}
    assert made(run, "self.scale") == {"self.scale": "2.0", "self._hidden": "3"}


def test_what_an_object_does_not_store_is_passed_over():
    class Slotted:
        __slots__ = ("count",)

    def f(x):
        x.count = 3
        return x.count

    run = trace(f, Slotted())
    assert (record(run, "x.count").made, run.result) == ([], 3)


def test_attributes_of_a_class_are_seen():
    class Counter:
        count = 0

        @classmethod
        def add(cls):
            cls.count += 1
            return cls

    assert made(trace(Counter.add), "cls.count") == {"cls.count": "1"}


def test_no_property_runs_because_of_the_trace():
    class Counter:
        reads = 0

        @property
        def size(self):
            self.reads += 1
            return 3

    def f(counter):
        x = counter.size
        return x

    counter = Counter()
    trace(f, counter)
    assert counter.reads == 1


def test_every_way_to_bind_a_name_is_seen():
    def f(pair):
        (a, [b, *c]), d = pair, 3
        e: int = d
        e += 1
        import math
        import math as m

        return (g := e) + m.floor(b) + math.floor(a) + c[0] + g

    run = trace(f, (1, [2, 3]))
    assert made(run, "(a") == {"a": "1", "b": "2", "c": "[3]", "d": "3"}
    assert statuses(run, "e +=") == {"e": "changed"}
    assert made(run, "import math as m") == {"m": "math"}
    assert [value.name for value in run.records[4].made] == ["math"]
    assert made(run, "return") == {"g": "4", "returned": "14"}


def test_a_returned_tuple_of_tensors_is_shown_element_by_element():
    def f(x):
        return x, x.sum()

    run = trace(f, torch.ones(T))
    assert made(run, "return") == {"returned[0]": "all 1", "returned[1]": "5"}


def test_values_are_described_as_they_were_when_the_line_had_run():
    def f(x):
        y = x + 1
        y += 1
        return y

    run = trace(f, torch.zeros(T))
    assert made(run, "y = x") == {"y": "all 1"}
    assert made(run, "y +=") == {"y": "all 2"}


def test_tensors_without_versions_can_be_walked():
    @torch.inference_mode()
    def f(x):
        y = x + 1
        return y

    assert made(trace(f, torch.zeros(T)), "y =") == {"y": "all 1"}


@pytest.mark.parametrize("depth", [0, 1])
def test_nothing_of_the_run_is_kept_alive(depth):
    kept = []

    def add(x):
        y = x + 1
        kept.append(weakref.ref(y))
        return y

    def f(x):
        y = add(x)
        kept.append(weakref.ref(y))

    gc.disable()
    try:
        run = trace(f, torch.zeros(T), depth=depth)
        assert [ref() for ref in kept] == [None, None]
        assert run.result is None
    finally:
        gc.enable()


# -- Other tracers ---------------------------------------------------------------------


@contextmanager
def tracing(tracer):
    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        yield
    finally:
        sys.settrace(before)


def add_up(n):
    total = 0
    for i in range(n):
        total += half(i)
    return total


def half(x):
    y = x / 2
    return y


def seen_by(tracer_class, call):
    tracer = tracer_class()
    with tracing(tracer.hook):
        call()
        left = sys.gettrace()
    return tracer.events, left is tracer.hook or left == tracer.hook


class PythonTracer:
    """Like coverage in Python: the same function sees calls and lines."""

    def __init__(self):
        self.events = []
        self.hook = self.trace

    def trace(self, frame, event, arg):
        if frame.f_code in (add_up.__code__, half.__code__):
            self.events.append((frame.f_code.co_name, event, frame.f_lineno))
        return self.trace


class TracerThatTakesTheHookBack(PythonTracer):
    """Like coverage in C: it installs itself anew whenever it sees a call."""

    def trace(self, frame, event, arg):
        if event == "call":
            sys.settrace(self.hook)
        return super().trace(frame, event, arg)


class CallTracer(PythonTracer):
    """Like a debugger that has no stop in these functions: calls only."""

    def trace(self, frame, event, arg):
        super().trace(frame, event, arg)


@pytest.mark.parametrize(
    "more", [{}, {"also": [half]}, {"depth": 1}], ids=["one", "two", "deep"]
)
@pytest.mark.parametrize(
    "tracer", [PythonTracer, TracerThatTakesTheHookBack, CallTracer]
)
def test_a_tracer_that_was_there_sees_what_it_would_have_seen(tracer, more):
    walked, restored = seen_by(tracer, lambda: trace(add_up, 3, **more))
    alone, _ = seen_by(tracer, lambda: add_up(3))
    assert walked == alone
    assert restored


@pytest.mark.parametrize(
    "tracer", [PythonTracer, TracerThatTakesTheHookBack, CallTracer]
)
def test_a_walk_may_run_within_a_walk_and_within_that(tracer):
    runs = {}

    def inner():
        runs["innermost"] = trace(add_up, 3, also=[half])
        return half(5)

    def outer():
        runs["inner"] = trace(inner, also=[half])
        total = add_up(4)
        return total

    def walk_all():
        runs["outer"] = trace(outer, also=[inner, add_up])

    walked, restored = seen_by(tracer, walk_all)
    assert restored
    assert record(runs["innermost"], "total +=").times == 3
    assert made(runs["inner"], "return") == {"returned": "2.5"}
    assert runs["inner"].also[0].records[1].times == 1
    assert made(runs["outer"], "total =") == {"total": "3.0"}
    assert [part.records[-1].times for part in runs["outer"].also] == [1, 1]
    alone, _ = seen_by(tracer, lambda: (add_up(3), half(5), add_up(4)))
    assert walked == alone


def test_a_debugger_that_is_told_to_continue_stays_out_of_the_way():
    lines = []

    def debugger(frame, event, arg):
        if frame.f_code is not add_up.__code__:
            return None
        lines.append(event)
        if len(lines) == 3:
            sys.settrace(None)  # "continue"
            return None
        return debugger

    with tracing(debugger):
        run = trace(add_up, 3)
        assert sys.gettrace() is None
    assert record(run, "total +=").times == 3


def test_a_tracer_that_starts_inside_is_left_in_charge():
    def debugger(frame, event, arg):
        return None

    def f():
        sys.settrace(debugger)
        return 3

    with tracing(None):
        run = trace(f)
        assert sys.gettrace() is debugger
    assert made(run, "return") == {"returned": "3"}


def test_a_debugger_that_takes_the_frame_over_ends_the_walk():
    def debugger(frame, event, arg):
        return debugger

    def f():
        sys._getframe().f_trace = debugger
        sys.settrace(debugger)
        return 3

    before = sys.gettrace()
    try:
        with pytest.raises(
            RuntimeError, match=r"another tracer took over while .*f ran"
        ):
            trace(f)
        assert sys.gettrace() is debugger
    finally:
        sys.settrace(before)


def test_no_tracer_is_left_behind_not_even_when_the_call_raises():
    def fail():
        raise KeyError("cat")

    before = sys.gettrace()
    with pytest.raises(KeyError, match="cat"):
        trace(fail)
    assert sys.gettrace() is before
    trace(half, 3)
    assert sys.gettrace() is before


# -- Exceptions ------------------------------------------------------------------------


def test_an_expected_exception_is_kept_and_marked_on_its_line():
    def fail(x):
        y = x + 1
        raise ValueError(f"got {y}")

    run = trace(fail, 2, raises=ValueError)
    assert str(run.error) == "got 3"
    assert run.error.__traceback__ is None
    assert record(run, "raise").raised == "ValueError: got 3"
    assert made(run, "y =") == {"y": "3"}


def test_an_exception_from_below_is_marked_on_the_line_that_called():
    def fail(x):
        with suppress(KeyError):
            y = half(x)
        return y

    run = trace(fail, "x", raises=TypeError)
    assert record(run, "y = half").raised.startswith("TypeError: unsupported operand")
    assert record(run, "return").times == 0


def test_an_exception_that_does_not_come_is_an_error():
    with pytest.raises(RuntimeError, match="half was to raise ValueError and did not"):
        trace(half, 3, raises=ValueError)


def test_one_of_several_exceptions_may_be_asked_for():
    kinds = (ValueError, TypeError)
    assert isinstance(trace(half, "x", raises=kinds).error, TypeError)
    expected = "half was to raise ValueError or TypeError and did not"
    with pytest.raises(RuntimeError, match=expected):
        trace(half, 3, raises=kinds)


def test_another_exception_than_expected_goes_through():
    with pytest.raises(TypeError, match="unsupported operand"):
        trace(half, "x", raises=ValueError)


# -- Refusals --------------------------------------------------------------------------


def test_builtins_cannot_be_walked():
    with pytest.raises(TypeError, match=r"no Python function to walk in .*len"):
        trace(len, [])


def test_generators_cannot_be_walked():
    def f():
        yield 3

    with pytest.raises(TypeError, match="f runs in pieces: it cannot be walked"):
        trace(f)


def test_lambdas_cannot_be_walked():
    double = lambda x: 2 * x  # noqa: E731
    with pytest.raises(TypeError, match=r"made with def can be walked, not <lambda>"):
        trace(double, 3)
    functions = {
        "double": lambda x: 2 * x,
    }
    with pytest.raises(TypeError, match=r"made with def can be walked, not <lambda>"):
        trace(functions["double"], 3)


def test_a_function_without_source_is_refused():
    space = {}
    exec("def f():\n    return 3", space)
    with pytest.raises(OSError, match="the source of f is not at hand"):
        trace(space["f"])


def test_a_call_that_never_reaches_the_function_is_refused():
    @wraps(half)
    def wrapper(x):
        return 3

    with pytest.raises(RuntimeError, match="ended without ever running half"):
        trace(wrapper, 3)


# -- Several functions in one run ------------------------------------------------------


class Inner(nn.Module):
    def forward(self, x):
        y = x + 1
        return y


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x):
        x = self.first(x)
        x = self.second(x)
        return helper(self.second(x))


def helper(x):
    return helper(x[1:]) if len(x) > 1 else x


def test_functions_are_followed_within_a_run_each_the_first_time():
    outer = Outer()
    run = trace(outer, torch.zeros(2), also=[helper, outer.second])
    assert torch.equal(run.result, torch.full((1,), 3.0))
    assert [part.function for part in run.also] == [helper, Inner.forward]
    inner, second = run.also
    assert made(second, "y = x") == {"y": "all 2"}  # not 1, of the first; not 3
    assert made(inner, "def") == {"x": "all 3"}
    assert times(inner) == [1, 1]
    assert [value.shape for value in inner.records[0].made] == [(2,)]  # not (1,)
    assert made(run, "x = self.second") == {"x": "all 2"}
    assert times(run) == [1, 1, 1, 1]


def test_a_function_that_the_run_never_comes_to_is_an_error():
    outer = Outer()
    with pytest.raises(ValueError, match=r"Outer.forward never came to Inner.forward"):
        trace(outer, torch.zeros(2), also=[helper, Inner()])


def test_what_is_followed_within_a_run_may_raise_what_the_run_is_to_raise():
    def fail():
        raise KeyError("inside")

    def outer():
        fail()

    run = trace(outer, also=[fail], raises=KeyError)
    assert record(run.also[0], "raise").raised == "KeyError: 'inside'"
    assert record(run, "fail").raised == "KeyError: 'inside'"
    with pytest.raises(TypeError, match="no Python function to walk in len"):
        trace(outer, also=[len], raises=KeyError)
