"""Call an answer, in this process or, for marks, in a separate one.

Run as a script, this file is the separate process: it reads one request per line from
the first file descriptor that it is given, and writes one reply per line to the second.
It needs only torch, so that the solutions can be kept away from it. Tensors cross in a
plain format, never as a pickle.
"""

import base64
import contextlib
import copy
import inspect
import io
import json
import linecache
import os
import sys
import sysconfig
import traceback
import types
import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

PRINTED = 500  # characters of output that are kept
LONGEST = 300  # characters of an error
LIBRARIES = "<frozen", *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))
BOOK = f"{os.sep}transformer_lib{os.sep}"
# What an ordinary tensor holds.
NUMBERS = [torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64]
NUMBERS += [torch.float16, torch.bfloat16, torch.float32, torch.float64]
NOT_THEIRS = {__file__}  # files whose lines no traceback shows

# What an error of torch means, by a part of its text.
PLAIN = {
    "return_types": "With `dim`, functions such as `max`, `min` and `sort` return a "
    "pair: the values and their indices.",
    "value of Tensor with more than one value": "An `if` needs a single True or False, "
    "and this tensor holds several.",
    "maximum recursion depth": "The function calls itself without end.",
    "cannot be multiplied": "In a product, the last axis of the left tensor must be as "
    "long as the last but one of the right tensor.",
    "first two dimensions of batch2": "In a product, the last axis of the left tensor "
    "must be as long as the last but one of the right tensor.",
    "must match the existing size": "A shape does not fit where you expand, or write.",
    "too many indices": "The tensor has fewer axes than that: print its shape.",
    "Dimension out of range": "The tensor has fewer axes than that: print its shape.",
    "same dtype": "The tests use float64. A tensor that you make needs the dtype of "
    "the arguments.",
    "expected scalar type": "The tests use float64. A tensor that you make needs "
    "the dtype of the arguments.",
    "converted to Python scalars": "This needs a single number, and the tensor holds "
    "several. torch has such functions for tensors.",
    "NoneType": "Something is None here: an argument, or the result of a function "
    "without a return.",
    "does not match the shape of the indexed": "In square brackets a mask must have "
    "the shape of the tensor itself; `masked_fill` and `where` broadcast it.",
    "modified by an inplace operation": "Its backward pass needs a tensor that "
    "your code has overwritten. Make a new one, for example with `masked_fill`.",
    "bitwise_": "The signs &, | and ~ need booleans. `torch.zeros` and `torch.ones` "
    "make floating-point numbers unless you ask for another dtype.",
    "must match the size of tensor": "Two shapes do not fit together: write them below "
    "each other, aligned on the right. An axis of length 1 fits any.",
    "tried to allocate": "A few kilobytes are enough. Which tensor is so large?",
    "MemoryError": "A few kilobytes are enough. What is so large?",
    "KeyboardInterrupt": "It was interrupted. Does a loop end?",
}


class Printed(io.StringIO):
    """Keeps the beginning of what is written, and cannot be closed."""

    def close(self) -> None: ...

    def write(self, text: str) -> int:
        room = PRINTED - self.tell()
        if room >= 0:
            super().write(text[:room])
            super().write("…" if len(text) > room else "")
        return len(text)


class Raised(Exception):
    """An answer raised something.

    Args:
        says: What, in words that begin with its name.
        trace: The answer's lines that led there.
    """

    def __init__(self, says: str, trace: str = "") -> None:
        super().__init__(says)
        self.says, self.trace = says, trace
        self.name = says.partition(":")[0].partition(".")[0]


class Used(TorchFunctionMode):
    """Notes the names of the functions of torch and of the library that are called."""

    def __init__(self) -> None:
        super().__init__()
        self.names = set()

    def __enter__(self) -> "Used":
        self.before = sys.getprofile()
        sys.setprofile(self.note)
        return super().__enter__()

    def __exit__(self, *error: object) -> None:
        super().__exit__(*error)
        sys.setprofile(self.before)

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.names.add(getattr(function, "__name__", ""))
        return function(*args, **(kwargs or {}))

    def note(self, frame: types.FrameType, event: str, function: object) -> None:
        file = frame.f_code.co_filename
        if event == "c_call":
            self.names.add(function.__name__)
        elif event == "call" and (file.startswith(LIBRARIES) or BOOK in file):
            self.names.add(frame.f_code.co_name)


class Positions(TorchDispatchMode):
    """Counts how many positions enter a feed-forward network.

    Every style of code multiplies there, by a matrix with an axis of ``d_ff``; no other
    axis may have this size.
    """

    def __init__(self, d_ff: int) -> None:
        super().__init__()
        self.d_ff, self.count = d_ff, 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if function.overloadpacket.__name__ in PRODUCTS and self.d_ff in made.shape:
            self.count += made.numel() // self.d_ff
        return made


PRODUCTS = {"mm", "addmm", "bmm", "baddbmm", "convolution"}


def plain(error: BaseException) -> str:
    """Say an error in its own first line, and in plain words if there are any."""
    kind = str(type(error).__name__)[:LONGEST]
    try:
        text = (str(error).strip().splitlines() or [""])[0].partition(" Hint:")[0]
    except BaseException:  # of its own making
        text = "an error that cannot be printed"
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    says = f"{kind}{text and ': '}{text}"
    why = next((PLAIN[part] for part in PLAIN if part in says), "")
    return f"{says.rstrip('.')}. {why}" if why else says


def own_lines(error: BaseException) -> str:
    """Cut a traceback to the lines of the reader."""
    lines = [
        f"line {frame.lineno}, in {frame.name}\n    {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in NOT_THEIRS and not frame.filename.startswith(LIBRARIES)
    ]
    if len(lines) > 6:  # where the reader's code was entered, and where it ended
        lines = [*lines[:3], "...", *lines[-3:]]
    return "\n".join(lines)


def refusal(answer: object, count: int) -> tuple[str, str]:
    """Say why something cannot be called with so many arguments, and which test fails.

    Both are empty if it can be called.
    """
    try:
        return why_not(answer, count)
    except BaseException:  # an object that is a trap is tried nevertheless
        return "", ""


def why_not(answer: object, count: int) -> tuple[str, str]:
    if isinstance(answer, type):
        name = answer.__name__
        says = f"{name} is a class. Pass an object that it makes: {name}()."
        return "callable", says
    if not callable(answer):
        kind = type(answer).__name__
        says = f"Pass the function itself, without calling it: this is a {kind}."
        return "callable", says
    try:
        inspect.signature(getattr(answer, "forward", answer)).bind(*range(count))
    except TypeError as error:
        return "arguments", str(error)
    except ValueError:  # a function written in C has no signature
        pass
    return "", ""


def is_stub(answer: object) -> bool:
    """Whether the body of a function is still ``...``."""

    def empty(): ...

    if not isinstance(answer, types.FunctionType):
        return False
    code = answer.__code__
    return code.co_code == empty.__code__.co_code and code.co_consts[-1] is None


def call(
    answer: Callable, arguments: list, printed: Printed, used: set[str], d_ff: int = 0
) -> tuple[object, int]:
    """Call an answer, and return its result and how many positions it computed.

    Args:
        answer: The reader's.
        arguments: Its arguments, which it may spoil.
        printed: Keeps what it prints.
        used: Gets the names of the functions of torch and of the library that it calls.
        d_ff: The size by which a position is recognised; 0 counts nothing.

    Raises:
        Raised: If it raises anything, or is interrupted.
    """
    watch, positions, quiet = Used(), Positions(d_ff), warnings.catch_warnings()
    counting = positions if d_ff else contextlib.nullcontext()
    redirect = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed)
    try:
        with redirect[0], redirect[1], quiet, watch, counting:
            warnings.simplefilter("ignore")  # torch names lines of its own sources
            return answer(*arguments), positions.count
    except BaseException as error:  # also exit() and the stop button
        raise Raised(plain(error), own_lines(error)) from None
    finally:
        used.update(watch.names)


def gradients(call: Callable, arguments: list) -> list[Tensor | None]:
    """Return a gradient for every argument that can have one; zeros where none came.

    Args:
        call: Takes a list of arguments and returns the results.
        arguments: Some of them tensors.
    """
    arguments = copy.deepcopy(arguments)
    inputs = [
        value.requires_grad_()
        for value in arguments
        if isinstance(value, Tensor) and value.is_floating_point()
    ]
    results = call(arguments)
    results = results if isinstance(results, tuple | list) else (results,)
    totals = [
        (result * torch.arange(1.0, result.numel() + 1).view(result.shape).sin()).sum()
        for result in results
        if isinstance(result, Tensor) and result.requires_grad
    ]
    found = [None] * len(inputs)
    if totals and inputs:
        try:
            found = torch.autograd.grad(sum(totals), inputs, allow_unused=True)
        except BaseException as error:  # also of a backward that the answer defines
            raise Raised(plain(error), own_lines(error)) from None
    by_input = {
        id(value): torch.zeros_like(value) if gradient is None else gradient
        for value, gradient in zip(inputs, found, strict=True)
    }
    return [by_input.get(id(value)) for value in arguments]


# -- In a process of its own -----------------------------------------------------------


def packed(value: object) -> object:
    """Write a value as JSON: a tensor as its bytes, anything unknown as its type."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().contiguous()
        data = bytes(value.reshape(-1).view(torch.uint8).tolist())
        kind = str(value.dtype).removeprefix("torch.")
        data = base64.b64encode(data).decode()
        return {"tensor": kind, "shape": list(value.shape), "data": data}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list):
        return [packed(each) for each in value]
    if isinstance(value, tuple):
        return {"tuple": [packed(each) for each in value]}
    if isinstance(value, dict):
        return {"dict": [[packed(key), packed(each)] for key, each in value.items()]}
    return {"code": repr(value), "type": type(value).__name__}


def unpacked(value: object, names: dict | None = None) -> object:
    """Read a value that ``packed`` wrote.

    Args:
        value: What JSON gave.
        names: What code may use. Without it no code runs, and an object of an unknown
            type becomes an empty one of the same name.
    """
    if isinstance(value, list):
        return [unpacked(each, names) for each in value]
    if not isinstance(value, dict):
        return value
    if "tensor" in value:
        dtype = {str(each): each for each in NUMBERS}[f"torch.{value['tensor']}"]
        data = bytearray(base64.b64decode(value["data"]))
        flat = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0).to(dtype)
        return flat.reshape(value["shape"])
    if "tuple" in value:
        return tuple(unpacked(each, names) for each in value["tuple"])
    if "dict" in value:
        pairs = value["dict"]
        return {unpacked(key, names): unpacked(each, names) for key, each in pairs}
    if names is None:
        return type(str(value["type"]), (), {})()
    return eval(value["code"], names)


class Worker:
    """Answers the requests of a grader."""

    def __init__(self) -> None:
        self.names = {"__name__": "__main__", "torch": torch}
        self.answers, self.asked = {}, {}
        self.printed = Printed()

    def check(self, name: str, answer: object = None) -> None:
        """Stand in the place of the book's ``check`` in a notebook."""
        if answer is not None:
            self.asked[name] = answer

    def cells(self, sources: list[str], hidden: list[str]) -> dict:
        """Run the cells of a notebook. Nothing of the book can be imported."""
        for name in hidden:
            sys.modules[name] = None
        for name in "bookkit", "bookkit.exercises":
            sys.modules[name] = types.ModuleType(name)
        sys.modules["bookkit.exercises"].check = self.check
        faults = []
        for number, source in enumerate(sources, 1):
            place = f"<cell {number}>"
            linecache.cache[place] = len(source), None, source.splitlines(True), place
            try:
                compiled = compile(source, place, "exec")
                call(exec, [compiled, self.names], self.printed, set())
            except Raised as error:
                faults.append(error.says)
            except (SyntaxError, ValueError) as error:
                faults.append(plain(error))
        self.answers = self.names
        return {"faults": faults, "asked": {k: str(v) for k, v in self.asked.items()}}

    def describe(self, name: str, count: int) -> dict:
        """Say whether an answer is there and can be called."""
        answer = self.answers.get(name)
        missing = name not in self.answers or is_stub(answer)
        test, says = refusal(answer, count)
        return {"missing": missing, "test": test, "says": says}

    def call(self, name: str, arguments: object, d_ff: int) -> dict:
        """Call an answer."""
        used, given = set(), unpacked(arguments, self.names)
        self.printed = Printed()
        made, count = call(self.answers[name], given, self.printed, used, d_ff)
        reply = {"made": packed(made), "arguments": packed(given), "count": count}
        return {**reply, "used": sorted(used), "printed": self.printed.getvalue()}

    def gradients(self, name: str, arguments: object) -> dict:
        """Compute the gradients of an answer."""
        given = unpacked(arguments, self.names)

        def run(arguments):
            return call(self.answers[name], arguments, Printed(), set())[0]

        return {"gradients": packed(gradients(run, given))}


def serve(requests: int, replies: int, worker: Worker) -> None:
    """Answer requests until there are no more."""
    with os.fdopen(requests) as lines, os.fdopen(replies, "w") as out:
        for line in lines:
            name, *arguments = json.loads(line)
            try:
                with torch.enable_grad():
                    reply = getattr(worker, name)(*arguments)
            except Raised as error:
                reply = {"raises": error.says, "trace": error.trace}
            print(json.dumps(reply), file=out, flush=True)
    os._exit(0)


def apart(worker: type[Worker]) -> None:
    """Serve in a child, so that the parent that an answer sees is not the grader."""
    requests, replies = map(int, sys.argv[1:3])
    if not os.fork():
        serve(requests, replies, worker())
    os.close(requests)
    os.close(replies)
    os.wait()
    os._exit(0)


if __name__ == "__main__":
    apart(Worker)
