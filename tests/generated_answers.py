"""Wrong answers that nobody wrote: the solution with a change of inputs or results."""

import copy
import inspect
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bookkit.exercises import exercises
from bookkit.exercises.exercise import Build, Case

ALL = [exercise for listed in exercises().values() for exercise in listed]
BUILDS = [exercise for exercise in ALL if isinstance(exercise, Build)]


def written_lines(source: str) -> set[str]:
    """Return the telling lines of a source, without comments."""
    lines = [line.partition("#")[0].strip() for line in source.split("\n")]
    heads = "@", "def "
    return {line for line in lines if len(line) > 8 and not line.startswith(heads)}


def lines_of(answer: object) -> set[str]:
    answer = answer if inspect.isfunction(answer) else type(answer)
    return written_lines(inspect.getsource(answer))


def with_results(build: Build, change: Callable, only: Case | None = None) -> Callable:
    """Return the solution with a change of each result, or for one case alone."""

    def answer(*arguments):
        spared = only is not None and str(arguments) != str(tuple(only.values()))
        made = build.rights[0](*arguments)
        if spared:
            return made
        return tuple(map(change, made)) if isinstance(made, tuple) else change(made)

    return answer


def with_input(build: Build, place: int, change: Callable) -> Callable:
    """Return the solution with a change of one argument."""

    def answer(*arguments):
        arguments = list(arguments)
        if place < len(arguments):
            arguments[place] = change(arguments[place])
        return build.rights[0](*arguments)

    return answer


def exchanged(build: Build, one: int, other: int) -> Callable:
    def answer(*arguments):
        arguments = list(arguments)
        arguments[one], arguments[other] = arguments[other], arguments[one]
        return build.rights[0](*arguments)

    return answer


def inverted(value):
    if isinstance(value, Tensor):
        return ~value if value.dtype == torch.bool else -value
    if isinstance(value, list | str):
        return value[::-1]
    return -value - 1


def spoilt(value):
    """Change every number, and everything else."""
    if isinstance(value, Tensor) and not value.is_floating_point():
        return ~value if value.dtype == torch.bool else value + 1
    if isinstance(value, list | str):
        return value[:0] if value else [*value, 0]
    return value + 1 if isinstance(value, int) else 1.5 * value + 0.1


def nothing(value):
    return torch.zeros_like(value) if isinstance(value, Tensor) else type(value)()


def first_of_the_weights(weights):
    """Ignore every weight but the first."""
    first = next(iter(weights))
    return {name: weights[name] if name == first else nothing(weights[name])
            for name in weights}  # fmt: skip


ALONG = {
    "first of": lambda value, axis: value.narrow(axis, 0, 1).expand_as(value).clone(),
    "turned": lambda value, axis: value.flip(axis),
    "shifted": lambda value, axis: value.roll(1, axis),
}


def along(axis: int, kind: str) -> Callable:
    change = ALONG[kind]
    return lambda value: change(value, axis) if size_of(value, axis) > 1 else value


def size_of(value: object, axis: int) -> int:
    is_there = isinstance(value, Tensor) and -value.dim() <= axis < value.dim()
    return value.size(axis) if is_there else 0


def axes_of(values: list) -> list[int]:
    """List the axes, from the last, along which any of these has several places."""
    ranks = max((each.dim() for each in values if isinstance(each, Tensor)), default=0)
    return [a for a in range(-ranks, 0) if any(size_of(each, a) > 1 for each in values)]


def generated(build: Build) -> Iterator[tuple[str, Callable]]:
    """Yield wrong answers, each with the name of its kind."""
    cases = [case for idea in build.ideas for case in idea.cases] + [build.example]
    kinds = {"spoilt": spoilt, "inverted": inverted, "zero": nothing}
    for kind, change in kinds.items():
        yield f"result {kind}", with_results(build, change)
    solved = build.rights[0](*copy.deepcopy(build.example).values())
    for axis in axes_of(list(solved) if isinstance(solved, tuple) else [solved]):
        for kind in ALONG:
            changed = with_results(build, along(axis, kind))
            yield f"result {kind} axis {axis}", changed
    names = list(build.example)
    for place, name in enumerate(names):
        given = build.example[name]
        values = [case.get(name) for case in cases]
        for axis in axes_of(values):
            for kind in ("first of", "turned"):
                changed = with_input(build, place, along(axis, kind))
                yield f"{name} {kind} axis {axis}", changed
        if any(isinstance(value, Tensor) for value in values):
            for kind, change in (("inverted", inverted), ("zero", nothing)):
                yield f"{name} {kind}", with_input(build, place, on_tensors(change))
        elif all(isinstance(value, int | float) for value in values):
            fixed = with_input(build, place, lambda _, given=given: given)
            yield f"{name} always {given}", fixed
        elif all(isinstance(value, dict) for value in values):
            yield f"{name} ignored", with_input(build, place, first_of_the_weights)
        for other in range(place):
            beside = build.example[names[other]]
            if all(isinstance(each, Tensor) for each in (given, beside)) and (
                given.shape == beside.shape
            ):
                both = f"{names[other]} and {name} exchanged"
                yield both, exchanged(build, other, place)


def on_tensors(change: Callable) -> Callable:
    return lambda value: change(value) if isinstance(value, Tensor) else value
