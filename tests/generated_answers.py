"""Wrong answers that nobody wrote: the solution with a change of inputs or results."""

import copy
import inspect
from collections.abc import Callable, Iterator
from functools import partial

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


def with_arguments(build: Build, change: Callable) -> Callable:
    """Return the solution with a change of the list of its arguments."""
    return lambda *arguments: build.rights[0](*change(list(arguments)))


def at(place: int, change: Callable) -> Callable:
    """Change one argument, where it is given."""

    def changed(arguments):
        arguments[place : place + 1] = map(change, arguments[place : place + 1])
        return arguments

    return changed


def exchanged(one: int, other: int) -> Callable:
    def changed(arguments):
        arguments[one], arguments[other] = arguments[other], arguments[one]
        return arguments

    return changed


def inverted(value):
    return ~value if value.dtype == torch.bool else -value


def spoilt(value):
    """Change every number, and everything else."""
    if isinstance(value, Tensor) and not value.is_floating_point():
        return ~value if value.dtype == torch.bool else value + 1
    if isinstance(value, list | str):
        return value[:0] if value else [*value, 0]
    return value + 1 if isinstance(value, int) else 1.5 * value + 0.1


def first_of_the_weights(weights):
    """Ignore every weight but the first."""
    first, *others = weights
    zeros = {name: torch.zeros_like(weights[name]) for name in others}
    return {first: weights[first], **zeros}


def size_of(value: object, axis: int) -> int:
    is_there = isinstance(value, Tensor) and -value.dim() <= axis < value.dim()
    return value.size(axis) if is_there else 0


def along_axes(values: list) -> Iterator[tuple[str, Callable]]:
    """Yield changes along each axis on which any of these has several places."""
    ranks = max((each.dim() for each in values if isinstance(each, Tensor)), default=0)
    changes = {
        "first of": lambda value, axis: value.narrow(axis, 0, 1).expand_as(value),
        "turned": lambda value, axis: value.flip(axis),
    }
    for axis in range(-ranks, 0):
        if any(size_of(each, axis) > 1 for each in values):
            for kind, change in changes.items():
                yield f"{kind} axis {axis}", partial(along, axis, change)


def along(axis: int, change: Callable, value: object) -> object:
    return change(value, axis).clone() if size_of(value, axis) > 1 else value


def changes_of(values: list) -> Iterator[tuple[str, Callable]]:
    """Yield changes of an argument that has these values, the example's at the end."""
    yield from along_axes(values)
    if any(isinstance(value, Tensor) for value in values):
        for kind, change in (("inverted", inverted), ("zero", torch.zeros_like)):
            yield kind, partial(on_tensors, change)
    elif all(isinstance(value, int | float) for value in values):
        yield "always the same", lambda _: values[-1]
    elif all(isinstance(value, dict) for value in values):
        yield "ignored", first_of_the_weights


def on_tensors(change: Callable, value: object) -> object:
    return change(value) if isinstance(value, Tensor) else value


def generated(build: Build) -> Iterator[tuple[str, Callable]]:
    """Yield wrong answers, each with the name of its kind."""
    cases = [case for idea in build.ideas for case in idea.cases] + [build.example]
    solved = build.rights[0](*copy.deepcopy(build.example).values())
    for kind, change in along_axes(solved if isinstance(solved, tuple) else [solved]):
        yield f"result {kind}", with_results(build, change)
    for place, (name, given) in enumerate(build.example.items()):
        for kind, change in changes_of([case.get(name) for case in cases]):
            yield f"{name} {kind}", with_arguments(build, at(place, change))
        for other, beside in enumerate([*build.example.values()][:place]):
            if isinstance(given, Tensor) and given.shape == getattr(beside, "shape", 0):
                changed = with_arguments(build, exchanged(other, place))
                yield f"{name} exchanged with argument {other}", changed
