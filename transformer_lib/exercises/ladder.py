"""The tests of an answer, from "it can be called" to the ideas of the chapter."""

import inspect
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from transformer_lib.exercises import limits
from transformer_lib.exercises.exercise import Build, Case, Fault, Idea, Stopped, same

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
}
NOT_THEIRS = {__file__, limits.__file__}  # files whose lines no traceback shows


class Run:
    """Calls an answer, and the solution to compare it with.

    Args:
        build: The exercise.
        answer: The reader's.
    """

    def __init__(self, build: Build, answer: Callable) -> None:
        self.build, self.answer = build, answer
        self.printed = limits.Printed()

    def __call__(self, case: Case) -> tuple:
        """Return the results for a case, if their types and shapes are right."""
        results = self.results(case)
        for name, result, expected in self.tensors(case, results):
            if result.shape != expected.shape:
                axes = self.build.returns[name]
                says = wrong_shape(name, axes, expected.shape, result.shape)
                raise Fault(says, case, result)
        return results

    def solution(self, case: Case) -> tuple:
        """Return the solution's results for a case."""
        return self.apart(self.build.rights[0](*limits.fresh(case).values()))

    def apart(self, made: object) -> tuple:
        """Take several results apart; one result is a tuple of one."""
        several = len(self.build.returns) > 1 and isinstance(made, tuple | list)
        return tuple(made) if several else (made,)

    def tensors(self, case: Case, results: tuple) -> list[tuple[str, Tensor, Tensor]]:
        """List the results that are tensors: name, the answer's, and the solution's."""
        both = zip(self.build.returns, results, self.solution(case), strict=True)
        return [each for each in both if isinstance(each[2], Tensor)]

    def gradients(self, case: Case) -> dict[str, Tensor]:
        """Return the gradient of every floating-point argument, zeros for none."""
        try:
            return gradients(lambda given: self.with_arguments(given, case), case)
        except RuntimeError as error:  # from backward
            raise Fault(
                f"The gradient cannot be computed. {plain(error)}", case
            ) from None

    def results(self, case: Case) -> tuple:
        """Return the answer's results for a case, if they are of the right types."""
        made = self.call(case)
        results = self.apart(made)
        wanted = {
            name: Tensor if isinstance(axes, str) else axes
            for name, axes in self.build.returns.items()
        }
        if len(results) == len(wanted) and all(
            map(isinstance, results, wanted.values())
        ):
            return results
        kinds = type(made).__name__
        if isinstance(made, tuple | list):
            inside = ", ".join(type(each).__name__ for each in made[:3])
            kinds = f"a {kinds} of {inside or 'nothing'}"
        asked = " and ".join(
            f"{name} ({kind.__name__})" for name, kind in wanted.items()
        )
        says = f"It must return {asked}, and returns {kinds}."
        if made is None:
            says += " Is a return missing?"
        raise Fault(says, case)

    def call(self, case: Case) -> object:
        """Call the answer with copies of the arguments."""
        return self.with_arguments(limits.fresh(case), case)

    def with_arguments(self, arguments: Case, case: Case) -> object:
        """Call the answer with these very arguments."""
        try:
            return limits.call(self.answer, list(arguments.values()), self.printed)
        except limits.TooLong as error:
            says = f"It was stopped after {limits.SECONDS:g} seconds. Does a loop end?"
            raise Stopped(says, case, trace=own_lines(error)) from None
        except MemoryError as error:
            says = "It was stopped because it needs gigabytes of memory, and a few "
            says += "kilobytes are enough. Which tensor is so large?"
            raise Stopped(says, case, trace=own_lines(error)) from None
        except (Exception, SystemExit) as error:
            trace = own_lines(error)
            raise Fault(f"It raises {plain(error)}", case, trace=trace) from None


def plain(error: BaseException) -> str:
    """Say an error in its own first line, and in plain words if there are any."""
    text = (str(error).strip().splitlines() or [""])[0].partition(" Hint:")[0]
    says = f"{type(error).__name__}{text and ': '}{text}"
    why = next((PLAIN[part] for part in PLAIN if part in text), "")
    return f"{says.rstrip('.')}. {why}" if why else says


def own_lines(error: BaseException) -> str:
    """Cut a traceback to the lines of the reader."""
    lines = [
        f"line {frame.lineno}, in {frame.name}\n    {frame.line}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename not in NOT_THEIRS
        and not frame.filename.startswith(limits.LIBRARIES)
    ]
    if len(lines) > 6:  # where the reader's code was entered, and where it ended
        lines = [*lines[:3], "...", *lines[-3:]]
    return "\n".join(lines)


def wrong_shape(name: str, axes: str, expected: torch.Size, found: torch.Size) -> str:
    """Say how a shape differs, with the letters of the axes."""
    letters = axes.split()[-len(expected) :]
    says = f"The shape of {name} must be ({', '.join(letters)}), here "
    says += f"{tuple(expected)}, and is {tuple(found)}."
    of_size = dict(zip(reversed(expected), reversed(letters), strict=False))
    if sorted(found) == sorted(expected) and len(set(expected)) == len(expected):
        order = ", ".join(of_size[size] for size in found)
        says += f" These are the right axes in the order ({order})."
    return says


# -- The tests that every exercise shares; the reader sees their docstrings ------------


def is_callable(run: Run) -> None:
    """It can be called."""
    if isinstance(run.answer, type):
        name = run.answer.__name__
        raise Fault(f"{name} is a class. Pass an object that it makes: {name}().")
    if not callable(run.answer):
        kind = type(run.answer).__name__
        raise Fault(f"Pass the function itself, without calling it: this is a {kind}.")


def takes_arguments(run: Run) -> None:
    """It accepts the arguments."""
    try:
        forward = getattr(run.answer, "forward", run.answer)
        inspect.signature(forward).bind(*run.build.example.values())
    except TypeError as error:
        says = f"It must accept the arguments of {run.build.call}: {error}."
        raise Fault(says) from None
    except ValueError:  # a function written in C has no signature
        pass


def runs(run: Run) -> None:
    """It runs without an error."""
    run.call(run.build.example)


def returns_results(run: Run) -> None:
    """The result has the right type."""
    run.results(run.build.example)


def has_shape(run: Run) -> None:
    """The result has the right shape."""
    run(run.build.example)


def keeps_dtype(run: Run) -> None:
    """It keeps the dtype and the device."""
    example = run.build.example
    for name, result, expected in run.tensors(example, run(example)):
        for what in ("dtype", "device"):
            found, wanted = getattr(result, what), getattr(expected, what)
            if found != wanted:
                says = f"The {what} of {name} must be {wanted} here, and is {found}."
                raise Fault(says, example)


EXCHANGED = "True and False are exchanged. What does True mean here?"


def exchanged(run: Run, case: Case) -> bool:
    """Whether the answer is right with True and False exchanged in a mask.

    The example decides, because a small case may be ambiguous; only if it has no mask,
    the case does.
    """
    example = run.build.example
    for given in (example, case):
        masks = [name for name, value in given.items() if is_boolean(value)]
        solution = run.solution(given)
        try:
            if masks:
                turned = given | {name: ~given[name] for name in masks}
                return all(map(agrees, run(turned), solution))
            if all(map(is_boolean, solution)):
                results = [result.bool() for result in run(given)]
                return all(map(agrees, results, [~mask for mask in solution]))
        except Fault:
            return False
    return False


def is_boolean(value: object) -> bool:
    return isinstance(value, Tensor) and value.dtype == torch.bool


def agrees(result: object, expected: object) -> bool:
    if not (isinstance(result, Tensor) and isinstance(expected, Tensor)):
        return False
    return torch.allclose(result.to(expected), expected, 1e-5, 1e-7)


def is_finite(run: Run) -> None:
    """The numbers are finite."""
    example = run.build.example
    for name, result, _ in run.tensors(example, run(example)):
        if not (finite := result.isfinite()).all():
            at = tuple((~finite).nonzero()[0].tolist())
            says = f"Every number of {name} must be finite, and one of them is "
            says += f"{result[at].item()}."
            says = EXCHANGED if exchanged(run, example) else says
            raise Fault(says, example, result, at)


def leaves_arguments(run: Run) -> None:
    """It leaves its arguments unchanged."""
    given = limits.fresh(run.build.example)
    run.with_arguments(given, run.build.example)
    for name, before in run.build.example.items():
        if isinstance(before, Tensor) and not torch.equal(before, given[name]):
            says = f"It changes {name}, which still belongs to the caller. Which step "
            says += "writes into it?"
            raise Fault(says, run.build.example)


def gradients(call: Callable, example: Case) -> dict[str, Tensor]:
    """Return the gradient of every floating-point argument; zeros where none came."""
    arguments = limits.fresh(example)
    inputs = {
        name: value.requires_grad_()
        for name, value in arguments.items()
        if isinstance(value, Tensor) and value.is_floating_point()
    }
    results = call(arguments)
    results = results if isinstance(results, tuple | list) else (results,)
    totals = [
        (result * torch.arange(1.0, result.numel() + 1).view(result.shape).sin()).sum()
        for result in results
        if isinstance(result, Tensor) and result.requires_grad
    ]
    if not totals or not inputs:
        return {name: torch.zeros_like(value) for name, value in inputs.items()}
    found = torch.autograd.grad(sum(totals), list(inputs.values()), allow_unused=True)
    return {
        name: torch.zeros_like(value) if gradient is None else gradient
        for (name, value), gradient in zip(inputs.items(), found, strict=True)
    }


def should_have_gradient(build: Build) -> dict[str, Tensor]:
    """Return the solution's gradients without those that are zero up to rounding.

    The bias of the keys, for example, has a gradient of zero: softmax ignores it.
    """
    found = gradients(lambda given: build.rights[0](*given.values()), build.example)
    return {name: value for name, value in found.items() if value.abs().max() > 1e-12}


def passes_gradient(run: Run) -> None:
    """A gradient reaches every input that needs one."""
    example, expected = run.build.example, should_have_gradient(run.build)
    found = run.gradients(example)
    try:
        same(run, example)
    except Fault:
        return  # wrong numbers have wrong gradients: the last test reports them
    for name, gradient in expected.items():
        if not found[name].any():
            says = f"No gradient reaches {name}: is it detached, rounded, or turned "
            says += "into plain numbers?"
            raise Fault(says, example)
        if not torch.allclose(found[name].to(gradient.dtype), gradient, 1e-4, 1e-6):
            says = f"The result is right, but not the gradient of {name}: "
            says += "is a part of the computation detached?"
            raise Fault(says, example)


def is_right_at_size(run: Run) -> None:
    """It is right on a larger example."""
    try:
        run.build.compare(run, run.build.example)
    except Stopped:
        raise
    except Fault as fault:
        fault.says = "The small cases are right, and a larger one is wrong. Does each "
        fault.says += "sentence, head, query and key count for itself?"
        fault.case = run.build.example
        raise


STOP = {"callable", "arguments", "runs", "returns", "shape", "finite"}
RUNGS = {
    "callable": is_callable,
    "arguments": takes_arguments,
    "runs": runs,
    "returns": returns_results,
    "shape": has_shape,
    "dtype": keeps_dtype,
    "finite": is_finite,
    "unchanged": leaves_arguments,
    "gradient": passes_gradient,
    "larger": is_right_at_size,  # the last, after the ideas
}


@dataclass
class Climb:
    """What the tests found: for each one its name, its words, and a fault or None."""

    tests: list[tuple[str, str, Fault | None]] = field(default_factory=list)
    waiting: list[str] = field(default_factory=list)
    printed: str = ""

    @property
    def fault(self) -> Fault | None:
        """The first fault, which usually explains the others."""
        return next((fault for _, _, fault in self.tests if fault), None)

    @property
    def first(self) -> str:
        """The name of the first test that failed, or nothing."""
        return next((name for name, _, fault in self.tests if fault), "")

    @property
    def failed(self) -> set[str]:
        return {name for name, _, fault in self.tests if fault}


def rungs(build: Build) -> dict[str, tuple[str, Callable]]:
    """List the tests of an exercise, in order."""
    shared, results = dict(RUNGS), Run(build, None).solution(build.example)
    tensors = [result for result in results if isinstance(result, Tensor)]
    if not tensors:
        del shared["shape"], shared["dtype"]
    if not any(result.is_floating_point() for result in tensors):
        del shared["finite"]
    if not any(isinstance(value, Tensor) for value in build.example.values()):
        del shared["unchanged"]
    if not should_have_gradient(build):
        del shared["gradient"]
    said = {name: (test.__doc__, test) for name, test in shared.items()}
    last = {"larger": said.pop("larger")}
    return said | {idea.name: (idea.says, idea) for idea in build.ideas} | last


def climb(build: Build, answer: Callable) -> Climb:
    """Test an answer.

    A failed test does not hide the later ones, unless they make no sense without it.
    """
    run, done = Run(build, answer), Climb()
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        for name, (says, test) in rungs(build).items():
            makes_no_sense = done.failed if name == "larger" else done.failed & STOP
            if makes_no_sense or isinstance(done.fault, Stopped):
                done.waiting.append(says)
                continue
            try:
                if name in RUNGS:
                    test(run)
                else:
                    try_idea(run, test)
                done.tests.append((name, says, None))
            except Fault as fault:
                done.tests.append((name, says, fault))
    done.printed = run.printed.getvalue()
    return done


def try_idea(run: Run, idea: Idea) -> None:
    """Try the cases of an idea, and say its hint about the first that fails."""
    for case in idea.cases:
        try:
            idea.compare(run, case)
        except Fault as fault:
            if not isinstance(fault, Stopped) and exchanged(run, case):
                fault.says = EXCHANGED
            fault.says = fault.says or idea.hint
            fault.case = fault.case if fault.case is not None else case
            raise


def is_stub(answer: object) -> bool:
    """Whether the body of a function is still ``...``."""

    def empty(): ...

    code = getattr(answer, "__code__", None)
    return code is not None and (
        code.co_code == empty.__code__.co_code and code.co_consts[-1] is None
    )
