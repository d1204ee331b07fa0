"""Check an answer to an exercise of the book."""

import importlib
import pkgutil
from collections import Counter
from pathlib import Path

from transformer_lib.exercises.exercise import Build, Exercise, Stopped
from transformer_lib.exercises.ladder import Climb, climb, is_stub, rungs
from transformer_lib.exercises.question import Question, reply
from transformer_lib.exercises.report import Report, picture, written

NOTHING = object()
failures = Counter()  # in this process, by exercise and, for a *Build*, by test
WHOLE = {"runs", "shape", "finite"}  # if one fails, the exercise's hints may help


def exercises() -> dict[str, list[Exercise]]:
    """Return the exercises of every chapter, by the name of its module."""
    folder = Path(__file__).parent
    modules = {
        name: importlib.import_module(f"{__package__}.{name}")
        for _, name, _ in pkgutil.iter_modules([str(folder)])
    }
    return {
        name: module.EXERCISES
        for name, module in modules.items()
        if hasattr(module, "EXERCISES")
    }


def load(name: str) -> Exercise:
    """Find an exercise.

    Args:
        name: Such as ``masks-4``.

    Raises:
        ValueError: If there is no such exercise.
    """
    listed = exercises()
    found = {exercise.name: exercise for each in listed.values() for exercise in each}
    if name not in found:
        chapter = str(name).rpartition("-")[0].replace("-", "_")
        near = [exercise.name for exercise in listed.get(chapter, [])] or list(listed)
        raise ValueError(f"name must be an exercise, {', '.join(near)}, got {name!r}")
    return found[name]


def check(name: str, answer: object = NOTHING) -> Report | Question:
    """Check an answer, or ask the question.

    Args:
        name: Of the exercise, such as ``masks-4``.
        answer: For *Build* the function, or anything that can be called like it; for
            *Predict* the text of the choice or its letter, a number, or a shape; for
            *Break* the letters of the checks that fail. Without an answer, a *Predict*
            or *Break* asks, and a *Build* lists its tests.

    Returns:
        A report, or the question as a form. Both show themselves in a notebook and
        print as text.

    Raises:
        ValueError: If there is no such exercise, or ``answer`` cannot be an answer to
            its question.
    """
    exercise = load(name)
    if not isinstance(exercise, Build):
        if answer is NOTHING:
            return Question(exercise)
        report = reply(exercise, answer, exercise.hints[: failures[name] + 1])
        failures[name] += not report.passed
        return report
    if answer is NOTHING or is_stub(answer):
        tests = [(says, None) for says, _ in rungs(exercise).values()]
        headline = f"not written yet. {len(tests)} tests wait."
        return Report(name, None, headline, tests=tests)
    found = climb(exercise, answer)
    if found.fault:
        failures[name, found.first] += 1
    return report_of(exercise, found)


def hints_for(exercise: Build, test: str) -> tuple[str, ...]:
    """Return the hints that the reader has earned by failing a test.

    The first failure has the message alone, which for an idea says where to look.
    """
    hints = exercise.hints if test in WHOLE else ()
    for idea in exercise.ideas:
        if idea.name == test:
            hints = idea.more or exercise.hints[1:]
    return hints[: failures[exercise.name, test] - 1]


def report_of(exercise: Build, found: Climb) -> Report:
    """Turn the results of the tests into a report."""
    tests = [(says, fault is None) for _, says, fault in found.tests]
    tests += [(says, None) for says in found.waiting]
    printed, fault = found.printed, found.fault
    if fault is None:
        headline = f"right. All {len(tests)} tests hold."
        return Report(exercise.name, True, headline, printed=printed, tests=tests)
    held = sum(held is True for _, held in tests)
    failed = next(says for says, held in tests if held is False)
    case = {} if fault.case is None else fault.case
    return Report(
        exercise.name,
        False,
        f"not yet. {held} of {len(tests)} tests hold.",
        f"This fails: “{failed}” {fault.says}",
        [written(name, value) for name, value in case.items()],
        picture(fault.result, fault.at),
        fault.trace,
        printed,
        () if isinstance(fault, Stopped) else hints_for(exercise, found.first),
        tests,
    )
