"""Read the wrong answers of a page, for the tests, the teacher and the marks.

``pages/NAME/wrong_answers.txt`` is not installed. An entry is a name, the tests that
fail, and what is written instead of a line of the solution, or of a part of it::

    one_word_more: back ends padding
    - <= back
    + <= back + 1

"name of other:" begins with another correct answer. An entry without "-" is a whole
body, and one without "+" leaves something out.
"""

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from textwrap import dedent, indent

from bookkit.exercises.checking import exercises, files
from bookkit.exercises.exercise import Build

Change = tuple[list[str], list[str]]  # what stands there, and what is written instead


@dataclass
class WrongAnswer:
    """A mistake that people make.

    Args:
        exercise: That it answers.
        name: What is wrong, in words joined by "_".
        fails: The tests that it fails, in their order.
        base: The name of the correct answer that it changes.
        changes: Pairs of what stands in the base and what is written instead; a pair
            without the first is the whole body.
    """

    exercise: Build
    name: str
    fails: list[str]
    base: str
    changes: list[Change]

    @cached_property
    def source(self) -> str:
        """The whole function."""
        old, new = self.changes[0]
        if re.match(rf"(def|class) {self.name}\b", new[0] if new else ""):
            return "\n".join(new)
        rights = {name_of(right): right for right in self.exercise.rights}
        base = rights[self.base or name_of(self.exercise.rights[0])]
        lines = dedent(inspect.getsource(base)).splitlines()
        lines = [line for line in lines if not line.startswith("@")]
        lines[0] = re.sub(r"^def \w+", f"def {self.name}", lines[0])
        if not old:
            start = ast.parse("\n".join(lines)).body[0].body[0].lineno - 1
            body = indent("\n".join(new), "    ")
            return "\n".join([*lines[:start], body])
        for old, new in self.changes:
            lines = replaced(lines, old, new, f"{self.exercise.name}, {self.name}")
        return "\n".join(lines)

    @cached_property
    def answer(self) -> Callable:
        """What a reader would give to ``check``."""
        right = self.exercise.rights[0]
        names = dict(vars(sys.modules[type_or_function(right).__module__]))
        exec(self.source, names)
        made = names[self.name]
        return made() if isinstance(made, type) else made

    @property
    def shown(self) -> str:
        """The mistake as a teacher reads it: the changed lines, or the function."""
        if not self.changes[0][0]:
            return self.source
        rows = []
        for old, new in self.changes:
            rows += [*(f"- {line}" for line in old), *(f"+ {line}" for line in new)]
        return "\n".join(rows)


def type_or_function(answer: object) -> object:
    return answer if inspect.isfunction(answer) else type(answer)


def name_of(answer: object) -> str:
    return type_or_function(answer).__name__


def replaced(lines: list[str], old: list[str], new: list[str], name: str) -> list[str]:
    """Replace whole lines, or a part of one line, that stand there exactly once.

    Raises:
        ValueError: If they do not.
    """
    found = [
        at
        for at in range(len(lines) - len(old) + 1)
        if [line.strip() for line in lines[at : at + len(old)]]
        == [line.strip() for line in old]
    ]
    if len(found) == 1:
        (at,) = found
        space = lines[at][: len(lines[at]) - len(lines[at].lstrip())]
        return [
            *lines[:at],
            *(f"{space}{line}" for line in new),
            *lines[at + len(old) :],
        ]
    text = "\n".join(lines)
    if len(old) != 1 or text.count(old[0]) != 1:
        raise ValueError(f"{name}: {old} must stand once in the solution")
    return text.replace(old[0], "\n".join(new)).split("\n")


@cache
def wrong_answers() -> dict[str, list[WrongAnswer]]:
    """Return the wrong answers to each exercise; none where they are not installed."""
    found = {}
    for path in files("wrong_answers.txt"):
        builds = {each.name: each for each in exercises()[path.parent.name]}
        for each in parsed(path.read_text("utf-8"), builds):
            found.setdefault(each.exercise.name, []).append(each)
    return found


def parsed(text: str, builds: dict[str, Build]) -> Iterator[WrongAnswer]:
    """Yield the wrong answers in a text."""
    for heading, title, changes in entries(text):
        what, _, fails = title.partition(": ")
        name, _, base = what.partition(" of ")
        yield WrongAnswer(builds[heading], name, fails.split(), base, changes)


def entries(text: str) -> Iterator[tuple[str, str, list[Change]]]:
    """Yield heading, title and changes of each entry in a text."""
    heading, title, changes = "", "", []
    for line in [*text.splitlines(), "# "]:
        mark, rest = line[:1], line[2:]
        if mark in {"-", "+"} and line[1:2] in {"", " "}:
            if not changes or (mark == "-" and changes[-1][1]):
                changes.append(([], []))
            changes[-1][mark == "+"].append(rest)
        elif line:
            if changes:
                yield heading, title, changes
            title, changes = line, []
            heading = rest if mark == "#" else heading
