"""Points for an answer: half for a start, the rest for the tests that it passes."""

import ast
import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import count
from textwrap import dedent

import torch
from torch import Tensor

from bookkit.exercises import question
from bookkit.exercises.calling import LONGEST, Raised
from bookkit.exercises.checking import load, report_of
from bookkit.exercises.exercise import Break, Build, Case, Fault
from bookkit.exercises.report import Report
from bookkit.exercises.testing import STOP, Results, Run, agrees, run_tests
from grading.process import Process, RunElsewhere, readable
from grading.wrong_answers import wrong_answers

# What no answer in a class may import, where the book is installed.
HIDDEN = ["transformer_lib", "pages", "grading", "your_transformer"]
UNCOUNTED = STOP | {"shape", "everywhere"}  # a constant passes these, or they repeat
SLIP = 0.6  # of the points, for an answer with one mistake that we know


def share(run: Run, results: Results) -> float:
    """Return the share of an exercise's points that an answer earns.

    An answer that passes no more tests than a constant result does earns nothing, and
    neither does one that calls what the task forbids. One that passes more earns half,
    and the other half grows with the tests that it passes. One mistake that the page
    lists costs no more than ``1 - SLIP``, however many tests it fails.
    """
    if any(part in name for part in run.build.forbids for name in run.used):
        return 0.0
    if results.fault is None:
        return 0.9 if run.reshaped else 1.0
    held = len(results.held - UNCOUNTED)
    every = held + len(results.failed - UNCOUNTED)
    every += len([name for name, _ in results.waiting if name not in UNCOUNTED])
    idle = by_a_constant(run.build)
    earned = 0.0
    if held > idle:
        earned = 0.5 + 0.5 * (held - idle) / (every - idle + 1)
    return max(earned, SLIP if known_mistake(run) else 0.0)


def known_mistake(run: Run) -> str:
    """Return the name of the listed mistake whose results an answer has, or ""."""
    cases = [*(case for idea in run.build.ideas for case in idea.cases)]
    cases.append(run.build.example)
    outcomes = [outcome(run, case) for case in cases]
    if all(map(is_idle, cases, outcomes)):
        return ""
    for wrong in wrong_answers().get(run.build.name, []):
        if wrong.fails == ["endless"]:
            continue
        other = Run(run.build, wrong.answer, lenient=True)
        if all(
            agree(ours, outcome(other, case))
            for ours, case in zip(outcomes, cases, strict=True)
        ):
            return wrong.name
    return ""


def outcome(run: Run, case: Case) -> tuple | str:
    """Return the results for a case, or what is wrong with them in words."""
    try:
        return run(case)
    except Fault as fault:
        return fault.says


def is_idle(case: Case, results: tuple | str) -> bool:
    """Whether each result is an argument of the call, or the same number throughout."""
    given = [value for value in case.values() if isinstance(value, Tensor)]
    return not isinstance(results, str) and all(
        isinstance(result, Tensor)
        and (
            result.unique().numel() < 2
            or any(
                value.numel() == result.numel()
                and agree((result.reshape(value.shape),), (value,))
                for value in given
            )
        )
        for result in results
    )


def agree(ours: tuple | str, theirs: tuple | str) -> bool:
    if isinstance(ours, str) or isinstance(theirs, str):
        return ours == theirs
    return all(
        agrees(one, other) if isinstance(one, Tensor) else one == other
        for one, other in zip(ours, theirs, strict=True)
    )


@cache
def by_a_constant(build: Build) -> int:
    """Count the tests that the best constant, or argument, passes as the result."""
    idle = [constant(build, fill) for fill in (0, 1)]
    idle += [argument(build, place) for place in range(len(build.example))]
    runs = [Run(build, each, lenient=True) for each in idle]
    held = [run_tests(build, run=run).held - UNCOUNTED for run in runs]
    return max(map(len, held))


def constant(build: Build, fill: int) -> Callable:
    """Make an answer that returns the same whatever it is given."""

    def alike(result: object) -> object:
        if isinstance(result, Tensor):
            return torch.full_like(result, fill)
        return type(result)([fill]) if isinstance(result, list) else type(result)(fill)

    def answer(*arguments: object) -> object:
        results = build.rights[0](*arguments)
        several = isinstance(results, tuple)
        return tuple(map(alike, results)) if several else alike(results)

    return answer


def argument(build: Build, place: int) -> Callable:
    """Make an answer that returns one of its arguments, if it has the right size."""

    def answer(*arguments: object) -> object:
        made, given = build.rights[0](*arguments), arguments[place]
        fits = isinstance(made, Tensor) and isinstance(given, Tensor)
        if not fits or given.numel() != made.numel():
            return constant(build, 0)(*arguments)
        return given.reshape(made.shape)

    return answer


@cache
def with_other_numbers(name: str) -> Build:
    """Change the real numbers of every input, so that none can be looked up."""
    build = load(name)
    runs, seeds = [Run(build, right) for right in build.rights], count(1)

    def changed(case: Case, compare: Callable) -> Case:
        other = other_numbers(case, next(seeds))
        try:
            for run in runs:
                compare(run, other)
        except Fault:  # the test depends on these very numbers
            return case
        return other

    ideas = [
        replace(idea, cases=[changed(case, idea.compare) for case in idea.cases])
        for idea in build.ideas
    ]
    example = changed(build.example, build.compare)
    return replace(build, ideas=ideas, example=example)


def other_numbers(case: Case, seed: int) -> Case:
    """Scale the real numbers of a case a little; equal ones stay equal."""
    generator = torch.Generator().manual_seed(seed)
    other = dict(case)
    for name, value in case.items():
        if isinstance(value, Tensor) and value.is_floating_point():
            factor = 0.9 + 0.2 * torch.rand((), generator=generator, dtype=value.dtype)
            other[name] = value * factor
    return other


def grade(name: str, cells: Sequence[str]) -> tuple[float, Report]:
    """Grade the answer to a *Build* or a *Break* in a process of its own.

    Args:
        name: Of the exercise.
        cells: The code of the notebook, up to the cell with the answer.

    Returns:
        The share of the points, and what ``check`` says.
    """
    exercise = load(name)
    with Process(["cells", list(cells), HIDDEN]) as process:
        try:
            with readable():
                process.start()
                faults = [f"A cell raises {each}" for each in process.began["faults"]]
                asked = str(process.began["asked"].get(name, ""))[:LONGEST]
            if isinstance(exercise, Break):
                return grade_letters(exercise, asked)
            run = RunElsewhere(with_other_numbers(name), process)
            if run.is_missing():
                return 0.0, Report(name, None, "not written.", " ".join(faults))
            found = run_tests(run.build, run=run)
        except Raised as error:
            if len(cells) > 2 and not process.began:  # without what others spoil
                return grade(name, [cells[0], cells[-1]])
            says = f"The notebook could not be run. It raises {error.says}"
            return 0.0, Report(name, False, "not run.", says, trace=error.trace)
        return share(run, found), report_of(exercise, found)


def grade_letters(exercise: Break, given: str) -> tuple[float, Report]:
    """Grade the letters of a *Break*."""
    if not given:
        return 0.0, Report(exercise.name, None, "not written.")
    report = question.reply(exercise, given, {})
    return float(bool(report.passed)), report


def points(exercise: Build) -> int:
    """Return what an exercise is worth: two points for each statement of its solution.

    At least six, because even a short one wants thought, and at most twelve.
    """
    tree = ast.parse(dedent(inspect.getsource(exercise.rights[0])))
    written = [node for node in ast.walk(tree.body[0]) if isinstance(node, ast.stmt)]
    return min(max(2 * (len(written) - 1), 6), 12)


def harmless(name: str) -> str:
    """Keep a spreadsheet from reading a name as a formula."""
    return f"'{name}" if name.startswith(("=", "+", "-", "@", "\t", "\r")) else name
