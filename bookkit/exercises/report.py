"""What a check found, as HTML for a notebook and as text for a terminal."""

import sys
from dataclasses import dataclass, field
from functools import cache
from html import escape
from importlib.resources import files

import torch
from torch import Tensor

MOST = 10  # rows and columns of a picture


@cache
def style() -> str:
    """Return the style sheet of reports and questions."""
    return files("bookkit.exercises").joinpath("exercise.css").read_text("utf-8")


@dataclass(frozen=True)
class Picture:
    """A result as a small table, with one number marked.

    Args:
        caption: What it shows.
        rows: The numbers as text.
        at: Row and column of the marked one.
    """

    caption: str
    rows: list[list[str]]
    at: tuple[int, int] | None = None

    def text(self) -> str:
        width = max(len(cell) for row in self.rows for cell in row) + 2
        lines = [
            "".join(
                (f"[{cell}]" if (r, c) == self.at else f"{cell} ").rjust(width)
                for c, cell in enumerate(row)
            )
            for r, row in enumerate(self.rows)
        ]
        return "\n".join([f"{self.caption}:", *lines])

    def html(self) -> str:
        rows = "".join(
            "<tr>"
            + "".join(
                f"<td><mark>{escape(cell)}</mark>"
                '<span class="e-unseen"> wrong</span></td>'
                if (r, c) == self.at
                else f"<td>{escape(cell)}</td>"
                for c, cell in enumerate(row)
            )
            + "</tr>"
            for r, row in enumerate(self.rows)
        )
        return (
            f"<p>{escape(self.caption)}:</p>"
            '<div class="e-scroll" tabindex="0" role="region" '
            f'aria-label="{escape(self.caption)}"><table>{rows}</table></div>'
        )


def picture(result: object, at: tuple[int, ...] | None) -> Picture | None:
    """Draw the last two axes of a tensor, in the slice with the first wrong number."""
    if not isinstance(result, Tensor):
        cells = result if isinstance(result, list | tuple) else [result]
        if result is None or len(cells) > MOST:
            return None
        return Picture("Your result", [[str(cell)[:40] for cell in cells] or ["empty"]])
    if result.numel() == 0:
        return None
    result = result.detach()
    caption, front = "Your result", result.dim() - 2
    if front > 0:
        where = tuple(at[:front]) if at else (0,) * front
        result = result[where]
        caption += f" at [{', '.join(map(str, where))}]"
    rows = result.reshape(-1, result.size(-1) if result.dim() else 1)
    if rows.size(0) > MOST or rows.size(1) > MOST:
        return None
    if result.dtype == torch.bool:
        caption += " (T = True)"
    if at is not None:
        last = at[-2:]
        at = (0,) * (2 - len(last)) + tuple(last)
        caption += ", the first wrong one marked"
    return Picture(caption, [[shown(x) for x in row] for row in rows.tolist()], at)


def shown(value: object) -> str:
    """Write a number in a few characters."""
    if isinstance(value, bool):
        return "T" if value else "·"
    if isinstance(value, float):
        if abs(value) < 1e7 and value == int(value):
            return str(int(value))
        return f"{value:.3g}" if value and abs(value) < 0.01 else f"{value:.4g}"
    return str(value)


def written(name: str, value: object) -> str:
    """Write an argument: in full if it is small, otherwise its shape."""
    if isinstance(value, dict):  # of weights
        if sum(each.numel() for each in value.values()) > 40:
            return f"{name}: {len(value)} tensors"
        parts = [written(repr(key), each) for key, each in value.items()]
        return "\n    ".join([f"{name}:", *parts])
    if not isinstance(value, Tensor):
        return f"{name} = {value!r}"
    if value.numel() <= 16:
        return f"{name} = {in_full(value.tolist())}"
    kind = str(value.dtype).removeprefix("torch.")
    return f"{name}: {kind} of shape {tuple(value.shape)}"


def in_full(value: object) -> str:
    if isinstance(value, list):
        return f"[{', '.join(map(in_full, value))}]"
    return "True" if value is True else "False" if value is False else shown(value)


@dataclass(frozen=True)
class Report:
    """What a check found.

    Args:
        name: Of the exercise.
        passed: Whether the answer is right; None if there is none yet.
        headline: The result in a few words.
        says: What is wrong, or why it is right.
        inputs: The arguments that show it.
        picture: The reader's own result.
        trace: The reader's lines that led to an error.
        printed: What the answer printed.
        hints: As many as the reader has earned, by their titles.
        tests: Each test in words, with True, False, or None if it was not tried.
    """

    name: str
    passed: bool | None
    headline: str
    says: str = ""
    inputs: list[str] = field(default_factory=list)
    picture: Picture | None = None
    trace: str = ""
    printed: str = ""
    hints: dict[str, str] = field(default_factory=dict)
    tests: list[tuple[str, bool | None]] = field(default_factory=list)

    @property
    def mark(self) -> str:
        return {True: "✓", False: "✗", None: "·"}[self.passed]

    def __repr__(self) -> str:
        parts = [f"{self.mark} {self.name}: {self.headline}", self.says]
        if self.inputs:
            parts.append("\n  ".join(["With", *self.inputs]))
        if self.picture:
            parts.append(self.picture.text())
        if self.trace:
            parts.append(f"Where:\n{self.trace.rstrip()}")
        if self.printed:
            parts.append(f"It printed:\n{self.printed.rstrip()}")
        parts += [f"{title}. {hint}" for title, hint in self.hints.items()]
        # Not every terminal and file can hold the marks.
        encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
        text = "\n".join(filter(None, parts))
        return text.encode(encoding, "replace").decode(encoding)

    def _repr_html_(self) -> str:
        result = {True: "right", False: "wrong", None: "waiting"}[self.passed]
        parts = [
            f'<section class="exercise e-{result} tex2jax_ignore" '
            f'aria-label="Check of {escape(self.name)}"><style>{style()}</style>',
            f'<p class="e-headline"><span aria-hidden="true">{self.mark}</span> '
            f"{escape(self.name)}: {escape(self.headline)}</p>",
        ]
        if self.says:
            parts.append(f"<p>{code(self.says)}</p>")
        if self.inputs:
            items = "".join(f"<li><code>{escape(x)}</code></li>" for x in self.inputs)
            parts.append(f"<p>The smallest input that shows it:</p><ul>{items}</ul>")
        if self.picture:
            parts.append(self.picture.html())
        for title, text in (
            ("Where your code raised it", self.trace),
            ("What your code printed", self.printed),
        ):
            if text:
                parts.append(
                    f"<details><summary>{title}</summary>"
                    f"<pre>{escape(text.rstrip())}</pre></details>"
                )
        parts += [
            f"<p><strong>{title}.</strong> {code(hint)}</p>"
            for title, hint in self.hints.items()
        ]
        if self.tests:
            words = {True: "✓ holds", False: "✗ fails", None: "· not tried"}
            items = "".join(
                f"<li>{words[held]}: {escape(says)}</li>" for says, held in self.tests
            )
            parts.append(
                f"<details><summary>All {len(self.tests)} tests</summary>"
                f'<ul role="list">{items}</ul></details>'
            )
        return "".join([*parts, "</section>"])


def code(text: str) -> str:
    """Escape a text, and set what stands between backticks as code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{x}</code>" if i % 2 else x for i, x in enumerate(parts))
