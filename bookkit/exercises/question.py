"""A question that the page asks: the reader commits first and then reads the reply."""

import base64
import itertools
import json
import re
from dataclasses import dataclass
from functools import cache
from html import escape
from importlib.resources import files
from string import ascii_lowercase

from bookkit.exercises.exercise import Break, Predict
from bookkit.exercises.report import Report, code, style

serial = itertools.count()


@cache
def script() -> str:
    return files("bookkit.exercises").joinpath("question.js").read_text("utf-8")


def form(exercise: Predict | Break) -> str:
    """Return what the reader gives: choice, several, shape or number."""
    if isinstance(exercise, Break):
        return "several"
    right = exercise.right
    if isinstance(right, str):
        return "choice"
    return "shape" if isinstance(right, tuple) else "number"


def key(exercise: Predict | Break, answer: object) -> str:
    """Write an answer in the one form in which answers are compared.

    Raises:
        ValueError: If it is no answer to this question.
    """
    kind = form(exercise)
    if kind == "several":
        several = isinstance(answer, list | tuple | set | frozenset)
        given = " ".join(map(str, answer)) if several else str(answer)
        written = {letter.lower(): letter for letter in exercise.checks}
        found = re.sub(r"\band\b|[^a-z0-9]", "", given.lower())
        letters = {written.get(letter, letter) for letter in found}
        if not letters <= exercise.checks.keys():
            known = ", ".join(exercise.checks)
            several = "".join(exercise.checks)[:2]
            raise ValueError(
                f"answer must be letters of {known}, such as {several!r}, "
                f"got {answer!r}"
            )
        return "".join(sorted(letters))
    if kind == "choice":
        options = dict(zip(ascii_lowercase, exercise.replies, strict=False))
        if answer in options.values():
            return answer
        if not isinstance(answer, str) or answer not in options:
            known = ", ".join(f"{letter} ({text})" for letter, text in options.items())
            raise ValueError(f"answer must be one of {known}, got {answer!r}")
        return options[answer]
    if kind == "shape":
        sizes = answer if isinstance(answer, tuple | list) else [answer]
        found = re.findall(r"\d+", " ".join(map(str, sizes)))
        return ", ".join(found)
    try:
        number = float(answer)
    except (TypeError, ValueError):
        raise ValueError(f"answer must be a number, got {answer!r}") from None
    near = [known for known in exercise.replies if is_near(number, known)]
    return str(near[0] if near else number)


def is_near(number: float, known: float) -> bool:
    """Whether a number is meant: exactly if it is whole, else up to one per cent."""
    return abs(number - known) <= (0 if known == int(known) else abs(known) / 100)


def replies(exercise: Predict | Break) -> dict[str, str]:
    """Return the sentence for each likely answer; for a *Break*, for each letter."""
    if isinstance(exercise, Break):
        return {letter: why for letter, (_, _, why) in exercise.checks.items()}
    return {key(exercise, answer): says for answer, says in exercise.replies.items()}


def judge(exercise: Predict | Break, answer: object) -> tuple[bool, str]:
    """Say whether an answer is right, with the sentence for it."""
    given, right = key(exercise, answer), key(exercise, exercise.right)
    says = replies(exercise)
    if isinstance(exercise, Predict):
        return given == right, says.get(given, exercise.otherwise)
    if given == right:
        return True, " ".join(says[letter] for letter in right)
    return False, partly(given, right, says)


def partly(given: str, right: str, says: dict[str, str]) -> str:
    """Reply to wrong letters without naming a missing one; as in question.js."""
    found = [letter for letter in given if letter in right]
    wrong = [letter for letter in given if letter not in right]
    confirmed = f"You are right about {' and '.join(found)}. " if found else ""
    if wrong:
        return confirmed + says[wrong[0]]
    missing = len(right) - len(found)
    more = " more" if found else ""
    if missing == 1:
        return f"{confirmed}One{more} check fails."
    return f"{confirmed}{missing}{more} checks fail."


def reply(exercise: Predict | Break, answer: object, hints: dict[str, str]) -> Report:
    """Report on an answer; what can be none is said, and counts as none."""
    try:
        right, says = judge(exercise, answer)
    except (TypeError, ValueError) as error:
        return Report(exercise.name, None, "no answer yet.", f"{error}.")
    headline = "right." if right else "not yet."
    return Report(exercise.name, right, headline, says, hints={} if right else hints)


@dataclass(frozen=True)
class Question:
    """The question as a form, which works on a page without a kernel.

    Args:
        exercise: A *Predict* or a *Break*.
    """

    exercise: Predict | Break

    @property
    def options(self) -> list[tuple[str, str]]:
        if isinstance(self.exercise, Break):
            checks = self.exercise.checks.items()
            return [(letter, f"{letter}: {says}") for letter, (says, _, _) in checks]
        if form(self.exercise) == "choice":
            return [(text, text) for text in self.exercise.replies]
        return []

    def __repr__(self) -> str:
        lines = [f"{self.exercise.name}: {self.exercise.title}"]
        lines += [
            f"  {'' if isinstance(self.exercise, Break) else f'{letter}: '}{text}"
            for letter, (_, text) in zip(ascii_lowercase, self.options, strict=False)
        ]
        answer = "..."
        if isinstance(self.exercise, Break):  # the form of an answer with two letters
            answer = f'"{"".join(self.exercise.checks)[:2]}"'
        lines.append(f'Answer with check("{self.exercise.name}", {answer})')
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        kind, number = form(self.exercise), next(serial)
        keeps = 'data-lm-suppress-shortcuts="true"'  # arrow keys stay with the input
        if self.options:
            box = "checkbox" if kind == "several" else "radio"
            inputs = "".join(
                f'<label><input type="{box}" name="e{number}" value="{escape(value)}" '
                f"{keeps}> {code(text)}</label>"
                for value, text in self.options
            )
        else:
            asks = "Your number" if kind == "number" else "Your shape, such as 2, 3"
            mode = "decimal" if kind == "number" else "text"
            inputs = (
                f'<label>{asks} <input type="text" inputmode="{mode}" '
                f'autocomplete="off" {keeps}></label>'
            )
        legend = {"several": "Which checks fail?", "choice": "Choose one"}
        data = {"kind": kind, "replies": replies(self.exercise)}
        data["right"] = key(self.exercise, self.exercise.right)
        data["otherwise"] = getattr(self.exercise, "otherwise", "")
        # Encoded, so that nobody reads the answer by accident.
        packed = base64.b64encode(json.dumps(data).encode()).decode()
        name = escape(self.exercise.name)
        return (
            f'<section class="exercise e-question tex2jax_ignore" '
            f'aria-label="Question {name}" data-answers="{packed}">'
            f"<style>{style()}</style><form><fieldset>"
            f"<legend>{legend.get(kind, 'Your prediction')}</legend>{inputs}"
            f'</fieldset><button type="submit" {keeps}>Commit</button></form>'
            '<output aria-live="polite"></output>'
            f"<script>(() => {{\n{script()}\n}})();</script></section>"
        )
