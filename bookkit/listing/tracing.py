"""Run a call once and record what each of its statements made."""

import ast
import dataclasses
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from types import CellType, FrameType, FunctionType
from typing import Any

from torch import nn

from bookkit.listing.changes import Held, describe_changes, take_stock
from bookkit.listing.statements import Statement, read_statements
from bookkit.listing.values import Value, describe

IN_PIECES = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


@dataclasses.dataclass
class Record:
    """What happened at one statement.

    Attributes:
        times: How often it ran.
        entered: How often the block below it was entered, if it is a header.
        made: What it made the last time that it ran.
        raised: The exception that came out of it the last time, in words.
        calls: The functions that it called the last time, if they are recorded: of each
            its last call.
    """

    times: int = 0
    entered: int = 0
    made: list[Value] = dataclasses.field(default_factory=list)
    raised: str = ""
    calls: dict[Any, "Part"] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Part:
    """A function that has run, its statements, and what happened at each."""

    function: FunctionType
    statements: list[Statement]
    records: list[Record] = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        self.records = [Record() for _ in self.statements]


@dataclasses.dataclass
class Run(Part):
    """A call that has run, what was followed within it, and the outcome."""

    also: list[Part] = dataclasses.field(default_factory=list)
    result: Any = None
    error: BaseException | None = None


def trace(
    call: Callable,
    /,
    *args: Any,
    also: Sequence[Callable] = (),
    depth: int = 0,
    raises: type[BaseException] | tuple[()] = (),
    **kwargs: Any,
) -> Run:
    """Run ``call(*args, **kwargs)`` and record its first frame, statement by statement.

    Whatever the call calls is stepped over, except the functions in ``also`` and those
    within ``depth``. A tracer that was at work, such as a debugger's, waits until then.

    Args:
        call: A function, a method, a module (its ``forward``) or a class (its
            ``__init__``, or the ``__post_init__`` of a dataclass).
        *args: Handed to the call.
        also: What the call calls, directly or not, and shall be followed as well: of
            each, the first time that it runs.
        depth: How many levels of calls to record: of functions of the same package,
            each in the record of the line that called it. Argument checks are left out.
        raises: An exception that the call must raise; it is kept instead of thrown.
        **kwargs: Handed to the call.

    Raises:
        OSError: If the function's source is not at hand.
        RuntimeError: If the call never reached the function, or did not raise what it
            was to raise.
        TypeError: If there is no Python function to walk, or it runs in pieces.
        ValueError: If the call never reached a function in ``also``.
    """
    found = [_find_function(followed) for followed in (call, *also)]
    read = [(function, read_statements(function.__code__)) for function, _ in found]
    run = Run(*read[0], also=[Part(*pair) for pair in read[1:]])
    name = run.function.__qualname__
    receivers = [receiver for _, receiver in found]
    tracer = _Tracer(list(map(_Watch, [run, *run.also], receivers)), depth)
    before = sys.gettrace()
    sys.settrace(tracer.on_call)
    try:
        run.result = call(*args, **kwargs)
    except raises as error:
        run.error = error.with_traceback(None)
    finally:
        sys.settrace(before)
    if not run.records[0].times:
        raise RuntimeError(f"the call ended without ever running {name}") from run.error
    if raises and run.error is None:
        raise RuntimeError(f"{name} was to raise {raises.__name__} and did not")
    for part in run.also:
        if not part.records[0].times:
            missed = part.function.__qualname__
            raise ValueError(f"the run of {name} never came to {missed}")
    return run


def _find_function(call: Callable) -> tuple[FunctionType, Any]:
    """Find the Python function that the call runs, and the object it is bound to."""
    target = call
    if isinstance(call, nn.Module):
        target = call.forward
    elif isinstance(call, type):
        target = getattr(call, "__post_init__", call.__init__)
    receiver = getattr(target, "__self__", None)
    function = inspect.unwrap(getattr(target, "__func__", target))
    if not inspect.isfunction(function):
        name = getattr(call, "__qualname__", type(call).__name__)
        raise TypeError(f"there is no Python function to walk in {name}")
    if function.__code__.co_flags & IN_PIECES:
        raise TypeError(f"{function.__qualname__} runs in pieces: it cannot be walked")
    return function, receiver


class _Tracer:
    """Finds the frames to watch."""

    def __init__(self, watches: "list[_Watch]", depth: int) -> None:
        self.waiting = watches
        self.active: list[_Watch] = []  # each is called by the one before it
        self.depth = depth
        self.package = _package(watches[0].part.function.__module__)

    def on_call(self, frame: FrameType, event: str, arg: Any) -> Callable | None:
        for watch in self.waiting:
            if watch.is_target(frame):
                self.waiting.remove(watch)
                break
        else:
            watch = self.enter(frame)
        if watch is None:
            return None
        if self.active:
            watch.level = self.active[-1].level + 1
            if watch.level <= self.depth:
                self.active[-1].note_call(frame, watch.part)
        self.active.append(watch)
        return watch.follow(frame, self.active)

    def enter(self, frame: FrameType) -> "_Watch | None":
        """Watch a frame that a recorded line has called, if it is worth a look."""
        code = frame.f_code
        if not self.active or self.active[-1].level >= self.depth:
            return None
        if _package(frame.f_globals.get("__name__", "")) != self.package:
            return None
        is_check = code.co_name.lstrip("_").startswith(("check_", "require_"))
        if is_check or code.co_name.startswith("<") or code.co_flags & IN_PIECES:
            return None
        try:
            statements = read_statements(code)
        except (OSError, TypeError):  # generated, such as a dataclass's __init__
            return None
        cells = tuple(CellType() for _ in code.co_freevars)
        function = FunctionType(code, frame.f_globals, closure=cells)
        return _Watch(Part(function, statements), None)


def _package(module: str) -> str:
    return module.partition(".")[0]


class _Watch:
    """Follows the first frame of a function from line to line."""

    def __init__(self, part: Part, receiver: Any) -> None:
        self.part = part
        self.receiver = receiver
        self.row_at = {
            number: row
            for row, statement in enumerate(part.statements)
            for number in range(statement.first, statement.last + 1)
        }
        self.row: int | None = None  # the statement that is running
        self.before: dict[str, Held] = {}  # what its names held when it began
        self.returning: int | None = None
        self.level = 0

    def follow(self, frame: FrameType, active: "list[_Watch]") -> Callable:
        self.active = active
        self.part.records[0].times = 1
        self.part.records[0].made = list(self.arguments(frame))
        self.row = 0
        return self.on_event

    def is_target(self, frame: FrameType) -> bool:
        code = self.part.function.__code__
        if frame.f_code is not code or self.receiver is None:
            return frame.f_code is code
        return frame.f_locals.get(code.co_varnames[0]) is self.receiver

    def arguments(self, frame: FrameType) -> Iterator[Value]:
        code = frame.f_code
        stars = bool(code.co_flags & inspect.CO_VARARGS)
        stars += bool(code.co_flags & inspect.CO_VARKEYWORDS)
        count = code.co_argcount + code.co_kwonlyargcount + stars
        for name in code.co_varnames[:count]:
            if name not in ("self", "cls"):
                yield from describe(name, frame.f_locals[name])

    def on_event(self, frame: FrameType, event: str, arg: Any) -> Callable:
        row = self.row_at.get(frame.f_lineno)
        if event == "line" and row is not None and row != self.row:
            self.finish(frame, self.part.statements[row])
            self.begin(frame, row)
        elif event == "exception" and row is not None:
            kind, error, _ = arg
            is_loop = self.part.statements[row].is_a(ast.For)
            if not (is_loop and issubclass(kind, StopIteration)):
                self.part.records[row].raised = f"{kind.__name__}: {error}"
        elif event == "return":
            self.active.remove(self)
            self.finish(frame, None)
            if self.returning is not None:
                record = self.part.records[self.returning]
                if not record.raised:
                    record.made += describe("returned", arg)
        return self.on_event

    def note_call(self, frame: FrameType, called: Part) -> None:
        if self.row:
            self.part.records[self.row].calls[frame.f_code] = called

    def begin(self, frame: FrameType, row: int) -> None:
        statement, came_from = self.part.statements[row], self.row
        self.row = row
        inside = came_from and self.part.statements[came_from].first in statement.body
        if statement.is_a(ast.With) and inside:
            self.row = None  # it is left, not entered
            return
        record = self.part.records[row]
        record.times += 1
        record.raised = ""
        if not statement.is_a(ast.For):  # its header calls once and runs often
            record.calls = {}
        self.before = take_stock(statement, frame.f_locals)
        if statement.is_a(ast.Return):
            self.returning = row

    def finish(self, frame: FrameType, following: Statement | None) -> None:
        """Record what the running statement made, now that another one follows."""
        if not self.row:  # nothing, or the def, whose arguments are made
            return
        statement, record = self.part.statements[self.row], self.part.records[self.row]
        enters = following is not None and following.first == statement.body.start
        record.entered += enters and bool(statement.body)
        if statement.is_a(ast.For) and not enters:
            return  # an exhausted loop makes nothing
        after = take_stock(statement, frame.f_locals)
        made = describe_changes(statement, self.before, after, bool(record.raised))
        record.made = list(made)
