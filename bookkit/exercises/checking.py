"""Check an answer to an exercise of the book."""

import importlib
from collections import Counter
from functools import cache
from pathlib import Path

import pages
from bookkit.exercises.calling import is_stub
from bookkit.exercises.exercise import Build, Exercise
from bookkit.exercises.question import Question, reply
from bookkit.exercises.report import Report, picture, written
from bookkit.exercises.testing import Results, run_tests, tests_of

NOTHING = object()
failures = Counter()  # in this process, by exercise and, for a *Build*, by test
TITLES = "Hint", "Hint: the idea", "Hint: the line"  # as on the page
WHOLE = {"runs", "shape", "finite"}  # if one fails, the exercise's hints may help


def files(name: str) -> list[Path]:
    """List the files of this name in the folders of the pages."""
    folders = {Path(folder).resolve() for folder in pages.__path__}
    return sorted(path for each in folders for path in each.glob(f"*/{name}"))


@cache
def exercises() -> dict[str, list[Exercise]]:
    """Return the exercises of every page, by the name of its folder in ``pages``."""
    names = [path.parent.name for path in files("exercises.py")]
    return {
        name: importlib.import_module(f"pages.{name}.exercises").EXERCISES
        for name in names
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
    if not isinstance(name, str) or name not in found:
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
        ValueError: If there is no such exercise.
    """
    exercise = load(name)
    if not isinstance(exercise, Build):
        if answer is NOTHING:
            return Question(exercise)
        earned = dict(zip(TITLES, exercise.hints[: failures[name] + 1], strict=False))
        report = reply(exercise, answer, earned)
        if report.passed is False:
            failures[name] += 1
        return report
    if answer is NOTHING or is_stub(answer):
        tests = [(says, None) for says, _ in tests_of(exercise).values()]
        headline = f"not written yet. {len(tests)} tests wait."
        says = "Write it in this cell of the notebook, and run it."
        return Report(name, None, headline, says, tests=tests)
    found = run_tests(exercise, answer)
    if found.fault:
        failures[name, found.first] += 1
    return report_of(exercise, found)


def hints_for(exercise: Build, test: str) -> dict[str, str]:
    """Return the hints that the reader has earned by failing a test, by their titles.

    The first failure has the message alone, which for an idea says where to look.
    """
    hints = list(zip(TITLES, exercise.hints, strict=True)) if test in WHOLE else []
    for idea in exercise.ideas:
        if idea.name == test:
            own = list(zip(("Hint", "Another hint"), idea.more, strict=False))
            hints = own or list(zip(TITLES, exercise.hints, strict=True))[1:]
    return dict(hints[: max(failures[exercise.name, test] - 1, 0)])


def report_of(exercise: Build, found: Results) -> Report:
    """Turn the results of the tests into a report."""
    tests = [(says, fault is None) for _, says, fault in found.tests]
    tests += [(says, None) for _, says in found.waiting]
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
        {} if fault.interrupted else hints_for(exercise, found.first),
        tests,
    )
