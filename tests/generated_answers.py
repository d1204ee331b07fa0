"""Wrong answers that nobody wrote: the solution with a change of inputs or results."""

import copy
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from bookkit.exercises.exercise import Build


def with_results(build: Build, change: Callable) -> Callable:
    """Return the solution with a change of each result."""

    def answer(*arguments):
        made = build.rights[0](*arguments)
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


def on_tensors(change: Callable) -> Callable:
    return lambda value: change(value) if isinstance(value, Tensor) else value


def first_for_all(axis: int) -> Callable:
    def change(value):
        if not -value.dim() <= axis < value.dim() or value.size(axis) < 2:
            return value
        return value.narrow(axis, 0, 1).expand_as(value).clone()

    return on_tensors(change)


def turned(axis: int) -> Callable:
    return on_tensors(
        lambda value: value.flip(axis) if -value.dim() <= axis < value.dim() else value
    )


def shifted(axis: int) -> Callable:
    return on_tensors(
        lambda value: (
            value.roll(1, axis) if -value.dim() <= axis < value.dim() else value
        )
    )


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
    if isinstance(value, Tensor):
        return torch.zeros_like(value)
    return type(value)()


def first_of_the_weights(weights):
    """Ignore every weight but the first."""
    return {
        name: value if place == 0 else torch.zeros_like(value)
        for place, (name, value) in enumerate(weights.items())
    }


def generated(build: Build) -> Iterator[tuple[str, Callable]]:
    """Yield wrong answers, each with the name of its kind."""
    names = list(build.example)
    cases = [case for idea in build.ideas for case in idea.cases] + [build.example]
    for kind, change in (
        ("spoilt", spoilt),
        ("inverted", inverted),
        ("zero", nothing),
    ):
        yield f"result {kind}", with_results(build, change)
    solved = build.rights[0](*copy.deepcopy(build.example).values())
    solved = solved if isinstance(solved, tuple) else (solved,)
    ranks = max((each.dim() for each in solved if isinstance(each, Tensor)), default=0)
    for axis in range(-ranks, 0):
        if any(size_of(each, axis) > 1 for each in solved):
            for kind, change in (
                ("first of", first_for_all),
                ("turned", turned),
                ("shifted", shifted),
            ):
                name = f"result {kind} axis {axis}"
                yield name, with_results(build, change(axis))
    for place, name in enumerate(names):
        values = [case.get(name) for case in cases]
        tensors = [value for value in values if isinstance(value, Tensor)]
        for axis in range(-max((each.dim() for each in tensors), default=0), 0):
            if any(size_of(each, axis) > 1 for each in tensors):
                for kind, change in (("first of", first_for_all), ("turned", turned)):
                    kind = f"{name} {kind} axis {axis}"
                    yield kind, with_input(build, place, change(axis))
        if tensors:
            yield f"{name} inverted", with_input(build, place, on_tensors(inverted))
            yield f"{name} zero", with_input(build, place, on_tensors(nothing))
        elif all(isinstance(value, int | float) for value in values):
            fixed = build.example[name]
            yield (
                f"{name} always {fixed}",
                with_input(build, place, lambda value, fixed=fixed: fixed),
            )
        elif all(isinstance(value, dict) for value in values):
            yield f"{name} ignored", with_input(build, place, first_of_the_weights)
        for other in range(place):
            both = build.example[name], build.example[names[other]]
            if all(isinstance(each, Tensor) for each in both) and (
                both[0].shape == both[1].shape
            ):
                yield (
                    f"{names[other]} and {name} exchanged",
                    exchanged(build, other, place),
                )


def exchanged(build: Build, one: int, other: int) -> Callable:
    def answer(*arguments):
        arguments = list(arguments)
        arguments[one], arguments[other] = arguments[other], arguments[one]
        return build.rights[0](*arguments)

    return answer


def size_of(value: object, axis: int) -> int:
    is_there = isinstance(value, Tensor) and -value.dim() <= axis < value.dim()
    return value.size(axis) if is_there else 0


def wrong_for(build: Build, case: dict, change: Callable) -> Callable:
    """Make an answer that is wrong for one case alone."""

    def answer(*arguments):
        is_case = str(arguments) == str(tuple(case.values()))
        made = build.rights[0](*arguments)
        if not is_case:
            return made
        return tuple(map(change, made)) if isinstance(made, tuple) else change(made)

    return answer
