"""The tests of an answer, from "it can be called" to the ideas of the chapter.

No test hides a wrong number: after the ideas, one test compares the numbers of all
inputs.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor

from bookkit.exercises.calling import (
    NUMBERS,
    Printed,
    Raised,
    call,
    gradients,
    refusal,
)
from bookkit.exercises.exercise import Build, Case, Fault, Idea
from bookkit.exercises.state import as_before


class Run:
    """Calls an answer, and the solution to compare it with.

    Args:
        build: The exercise.
        answer: The reader's.
        lenient: Whether a result with the right numbers in another shape is compared as
            if it had the right one, as a grader would. The test of the shape is strict.

    Attributes:
        used: The names of the functions of torch and of the library that it called.
        printed: The beginning of what it printed.
        count: How many positions the last call computed, if it was asked.
        reshaped: Whether a wrong shape was overlooked.
    """

    def __init__(self, build: Build, answer: Callable, lenient: bool = False) -> None:
        self.build, self.answer, self.lenient = build, answer, lenient
        self.used, self.printed, self.count = set(), Printed(), 0
        self.reshaped = False

    # What a process of its own does otherwise.

    def refusal(self) -> tuple[str, str]:
        """Say why the answer cannot be called, and which test fails."""
        return refusal(self.answer, len(self.build.example))

    def attempt(self, case: Case, d_ff: int = 0) -> tuple[object, list]:
        """Call the answer with copies of the arguments: its result, and the copies."""
        given = list(copy.deepcopy(case).values())
        with as_before():
            made, self.count = call(self.answer, given, self.printed, self.used, d_ff)
        return made, given

    def own_gradients(self, case: Case) -> list[Tensor | None]:
        """Return the gradient of every argument that can have one."""

        def run(given: list) -> object:
            with as_before():
                return call(self.answer, given, self.printed, self.used)[0]

        with as_before():
            return gradients(run, list(case.values()))

    # What is the same everywhere.

    def __call__(self, case: Case, strict: bool = False) -> tuple:
        """Return the results for a case, if their types and shapes are right."""
        results = list(self.results(case))
        expected = self.solution(case)
        for i, name in enumerate(self.build.returns):
            result, wanted = results[i], expected[i]
            if not isinstance(wanted, Tensor) or result.shape == wanted.shape:
                continue
            if self.lenient and not strict and result.numel() == wanted.numel():
                results[i] = result.reshape(wanted.shape)
                self.reshaped = True
                continue
            axes = self.build.returns[name]
            says = wrong_shape(name, axes, wanted.shape, result.shape)
            raise Fault(says, case, result)
        return tuple(results)

    def solution(self, case: Case) -> tuple:
        """Return the solution's results for a case."""
        return self.apart(self.build.rights[0](*copy.deepcopy(case).values()))

    def apart(self, made: object) -> tuple:
        """Take several results apart; one result is a tuple of one."""
        several = len(self.build.returns) > 1 and isinstance(made, tuple | list)
        return tuple(made) if several else (made,)

    def tensors(self, case: Case) -> list[tuple[str, Tensor, Tensor]]:
        """List the results that are tensors: name, the answer's, and the solution's."""
        both = zip(self.build.returns, self(case), self.solution(case), strict=True)
        return [each for each in both if isinstance(each[2], Tensor)]

    def gradients(self, case: Case) -> dict[str, Tensor]:
        """Return the gradient of every floating-point argument, zeros for none."""
        try:
            found = self.own_gradients(case)
        except Raised as error:
            raise fault_of(error, case) from None
        both = zip(case, found, strict=True)
        return {name: value for name, value in both if value is not None}

    def results(self, case: Case) -> tuple:
        """Return the answer's results for a case, if they are of the right types."""
        made = self.call(case)[0]
        results = self.apart(made)
        wanted = {
            name: Tensor if isinstance(axes, str) else axes
            for name, axes in self.build.returns.items()
        }
        if len(results) == len(wanted) and all(
            map(isinstance, results, wanted.values())
        ):
            for name, result in zip(wanted, results, strict=True):
                if isinstance(result, Tensor) and not is_ordinary(result):
                    raise Fault(f"{name} must be an ordinary, dense tensor.", case)
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

    def call(self, case: Case, d_ff: int = 0) -> tuple[object, list]:
        """Call the answer as ``attempt`` does; what it raises is a fault."""
        try:
            return self.attempt(case, d_ff)
        except Raised as error:
            raise fault_of(error, case) from None


def fault_of(error: Raised, case: Case) -> Fault:
    says = f"It raises {error.says}"
    return Fault(says, case, trace=error.trace, raised=error.name)


def is_ordinary(result: Tensor) -> bool:
    try:
        plain = result.layout == torch.strided and result.dtype in NUMBERS
        return plain and result.device.type != "meta" and not result.is_nested
    except Exception:  # of a tensor that only looks like one
        return False


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
    test, says = run.refusal()
    if test == "callable":
        raise Fault(says)


def takes_arguments(run: Run) -> None:
    """It accepts the arguments."""
    test, says = run.refusal()
    if test == "arguments":
        raise Fault(f"It must accept the arguments of {run.build.call}: {says}.")


def runs(run: Run) -> None:
    """It runs without an error."""
    run.call(run.build.example)


def returns_results(run: Run) -> None:
    """The result has the right type."""
    run.results(run.build.example)


def has_shape(run: Run) -> None:
    """The result has the right shape."""
    run(run.build.example, strict=True)


def keeps_dtype(run: Run) -> None:
    """It keeps the dtype and the device."""
    example = run.build.example
    for name, result, expected in run.tensors(example):
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
    return torch.allclose(result.to(expected), expected, 1e-5, 1e-7, equal_nan=True)


def is_finite(run: Run) -> None:
    """The numbers are finite."""
    example = run.build.example
    for name, result, _ in run.tensors(example):
        if not (finite := result.isfinite()).all():
            at = tuple((~finite).nonzero()[0].tolist())
            says = f"Every number of {name} must be finite, and one of them is "
            says += f"{result[at].item()}."
            says = EXCHANGED if exchanged(run, example) else says
            raise Fault(says, example, result, at)


def leaves_arguments(run: Run) -> None:
    """It leaves its arguments unchanged."""
    example = run.build.example
    _, after = run.call(example)
    for (name, before), given in zip(example.items(), after, strict=True):
        if isinstance(before, Tensor) and not torch.equal(before, given):
            says = f"It changes {name}, which still belongs to the caller. Which step "
            says += "writes into it?"
            raise Fault(says, example)


def should_have_gradient(build: Build) -> dict[str, Tensor]:
    """Return the solution's gradients without those that are zero up to rounding.

    The bias of the keys, for example, has a gradient of zero: softmax ignores it.
    """
    given = list(build.example.values())
    found = gradients(lambda arguments: build.rights[0](*arguments), given)
    return {
        name: value
        for name, value in zip(build.example, found, strict=True)
        if value is not None and value.abs().max() > 1e-12
    }


def passes_gradient(run: Run) -> None:
    """A gradient reaches every input that needs one."""
    example, expected = run.build.example, should_have_gradient(run.build)
    found = run.gradients(example)
    for name, gradient in expected.items():
        if not found[name].any():
            says = f"No gradient reaches {name}: is it detached, rounded, or turned "
            says += "into plain numbers?"
            raise Fault(says, example)
        if not torch.allclose(found[name].to(gradient.dtype), gradient, 1e-4, 1e-6):
            says = f"The result is right, but not the gradient of {name}: "
            says += "is a part of the computation detached?"
            raise Fault(says, example)


def is_right_everywhere(run: Run) -> None:
    """It is right on every input, small and large."""
    build = run.build
    cases = [case for idea in build.ideas for case in idea.cases]
    for case in [*cases, build.example]:
        try:
            build.compare(run, case)
        except Fault as fault:
            fault.says = fault.says or where_wrong(run, case)
            fault.case = case
            raise


ONE_OF = {"B": "sentence", "H": "head", "T": "query", "S": "key"}


def where_wrong(run: Run, case: Case) -> str:
    """Say along which axis the slices of a result are exchanged, or what to check."""
    letters = []
    for axes, result, expected in zip(
        run.build.returns.values(), run(case), run.solution(case), strict=True
    ):
        if not isinstance(expected, Tensor) or not expected.dim():
            continue
        named = axes.split()[-expected.dim() :]
        letters += [letter for letter in named if letter not in letters]
        for axis, letter in zip(range(-len(named), 0), named, strict=True):
            if are_exchanged(result.to(expected), expected, axis):
                one = ONE_OF.get(letter, "index")
                return (
                    f"Along axis {letter}, the numbers of one {one} appear at another. "
                    f"Is each {one} computed from its own inputs?"
                )
    known = [ONE_OF[letter] for letter in letters if letter in ONE_OF] or ["number"]
    return (
        "Each idea holds on its own, but these numbers are wrong. Is each "
        f"{' and each '.join(known)} computed from its own inputs?"
    )


def are_exchanged(result: Tensor, expected: Tensor, axis: int) -> bool:
    """Whether each slice along an axis is right for some place, but not for its own."""
    slices, wanted = result.unbind(axis), expected.unbind(axis)
    if all(map(agrees, slices, wanted)):
        return False
    return all(any(agrees(one, other) for other in wanted) for one in slices)


def is_own(run: Run) -> None:
    """It avoids what the task forbids."""
    for name in run.used:
        if any(part in name for part in run.build.forbids):
            says = f"The numbers are right, but they come from `{name}`, and the task "
            raise Fault(says + "asks for your own steps.")


STOP = {"callable", "arguments", "runs", "returns"}
ALL_RIGHT = {"gradient", "forbidden"}  # they make no sense while numbers are wrong
FIRST = {
    "callable": is_callable,
    "arguments": takes_arguments,
    "runs": runs,
    "returns": returns_results,
    "shape": has_shape,
    "dtype": keeps_dtype,
    "finite": is_finite,
    "unchanged": leaves_arguments,
}
LAST = {
    "everywhere": is_right_everywhere,
    "gradient": passes_gradient,
    "forbidden": is_own,
}
SHARED = FIRST | LAST


@dataclass
class Results:
    """What the tests found: for each one its name, its words, and a fault or None."""

    tests: list[tuple[str, str, Fault | None]] = field(default_factory=list)
    waiting: list[tuple[str, str]] = field(default_factory=list)
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

    @property
    def held(self) -> set[str]:
        return {name for name, _, fault in self.tests if fault is None}


def tests_of(build: Build) -> dict[str, tuple[str, Callable]]:
    """List the tests of an exercise, in order."""
    results = Run(build, None).solution(build.example)
    tensors = [result for result in results if isinstance(result, Tensor)]
    left_out = set()
    if not tensors:
        left_out |= {"shape", "dtype"}
    if not any(result.is_floating_point() for result in tensors):
        left_out.add("finite")
    if not any(isinstance(value, Tensor) for value in build.example.values()):
        left_out.add("unchanged")
    if not should_have_gradient(build):
        left_out.add("gradient")
    if not build.forbids:
        left_out.add("forbidden")
    tests = {name: (test.__doc__, test) for name, test in FIRST.items()}
    tests |= {idea.name: (idea.says, idea) for idea in build.ideas}
    tests |= {name: (test.__doc__, test) for name, test in LAST.items()}
    return {name: test for name, test in tests.items() if name not in left_out}


def run_tests(
    build: Build, answer: Callable | None = None, run: Run | None = None
) -> Results:
    """Test an answer. Each call leaves every setting as it was.

    A failed test does not hide the later ones, unless they make no sense without it.

    Args:
        build: The exercise.
        answer: What the reader wrote.
        run: How it is called, if not simply in this process.
    """
    run, done = run or Run(build, answer), Results()
    stop = STOP if run.lenient else STOP | {"shape", "finite"}
    with torch.random.fork_rng(devices=[]), torch.enable_grad():
        torch.manual_seed(0)
        for name, (says, test) in tests_of(build).items():
            if done.failed if name in ALL_RIGHT else done.failed & stop:
                done.waiting.append((name, says))
                continue
            if name == "everywhere" and done.failed - {"dtype", "unchanged"}:
                done.waiting.append((name, says))  # an idea has said it better
                continue
            try:
                if isinstance(test, Idea):
                    try_idea(run, test)
                else:
                    test(run)
                done.tests.append((name, says, None))
            except Fault as fault:
                done.tests.append((name, says, fault))
                if fault.interrupted:  # it is not run again
                    stop = SHARED.keys() | {name}
    done.printed = run.printed.getvalue()
    return done


def try_idea(run: Run, idea: Idea) -> None:
    """Try the cases of an idea, and say its hint about the first that fails."""
    for case in idea.cases:
        try:
            idea.compare(run, case)
        except Fault as fault:
            if not fault.raised and exchanged(run, case):
                fault.says = EXCHANGED
            fault.says = fault.says or idea.hint
            fault.case = fault.case if fault.case is not None else case
            raise
