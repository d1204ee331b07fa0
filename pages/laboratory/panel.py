"""Panels: inputs that run real code in a notebook, and show its result.

A panel is live if a kernel answers. A built page, paper, and a notebook that has not
been run show how it starts and what one move does.
"""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import count
from typing import Any

import anywidget
import matplotlib.pyplot as plt
import traitlets
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bookkit.controls.control import KIT, STYLE, Control, read
from bookkit.svg import inline

VIEW = "application/vnd.jupyter.widget-view+json"
PANEL_STYLE = STYLE + read("panel.css", __file__)
HINT = "This is how the panel starts. To move it, run this notebook in JupyterLab."
STILL_HINT = (
    "The page computes this control. In JupyterLab the cell above runs the real code."
)
_numbers = count()  # of figures: no two on a page have the same names inside


@dataclass(frozen=True)
class Input:
    """An input of a panel. ``slide`` and the other functions here make one.

    Args:
        kind: The name of the function that made it, which says how it is drawn.
        label: Its name, which screen readers read aloud.
        value: Its first value; for ``press``, the function to call.
        choices: The values to choose from.
    """

    kind: str
    label: str
    value: Any
    choices: tuple = ()

    def __post_init__(self) -> None:
        if self.kind in ("slide", "choose") and self.value not in self.choices:
            choices = ", ".join(map(str, self.choices))
            raise ValueError(f"value must be one of {choices}, got {self.value}")


def slide(label: str, choices: Sequence, value: Any) -> Input:
    """Make a slider over a few values, smallest first.

    Args:
        label: Its name.
        choices: The values, shown as ``str`` writes them.
        value: The first value.

    Raises:
        ValueError: If ``value`` is none of ``choices``.
    """
    return Input("slide", label, value, tuple(choices))


def choose(label: str, choices: Sequence, value: Any) -> Input:
    """Make a list to choose from. Args and Raises are those of ``slide``."""
    return Input("choose", label, value, tuple(choices))


def tick(label: str, value: bool = False) -> Input:
    """Make a tick box."""
    return Input("tick", label, value)


def write(label: str, value: str = "") -> Input:
    """Make a text field."""
    return Input("write", label, value)


def press(label: str, action: Callable) -> Input:
    """Make a button.

    Args:
        label: Its name.
        action: Called when it is pressed, with the values of the other inputs; returns
            the same kinds of results as ``run``.
    """
    return Input("press", label, action)


class _Live(anywidget.AnyWidget):
    """What the page and the kernel share."""

    _esm = f"{KIT}\n{read('panel.js', __file__)}"
    _css = PANEL_STYLE
    title = traitlets.Unicode().tag(sync=True)
    inputs = traitlets.List().tag(sync=True)
    values = traitlets.Dict().tag(sync=True)  # of choices the number
    state = traitlets.Dict().tag(sync=True)  # one message: words and pictures agree


class Panel:
    """Let the reader change the arguments of a function, and show what it returns.

        def share(power, shifted):
            weights = torch.tensor([1.0, 2.0, 3.0]) ** power + shifted
            return plot_lines(range(3), {"": weights}), f"The last is {weights[2]:.2f}."

        Panel("Powers", share, power=slide("power", [1, 2], 1), shifted=tick("shift"))

    Args:
        title: The name, which screen readers read aloud.
        run: Called with the values of the inputs, by name, whenever one changes. It
            returns words that describe the result, or a tuple of things to show that
            ends with the words. Axes and figures become pictures, described by their
            label or the words; an object with ``_repr_html_``, such as a listing, shows
            itself; anything else is shown as text. An exception becomes a sentence,
            and the last good result stays, dimmed.
        still: What a page shows instead of the first result: a control that the page
            computes.
        move: Name of an argument to a new value. A page also shows, in a fold, the
            words, pictures and tables that ``run`` returns after this move.
        **inputs: Name of the argument to ``slide``, ``choose``, ``tick``, ``write`` or
            ``press``; a button passes nothing to ``run``.

    Attributes:
        values: The current values of the inputs.
        words: The words of the last good result.
        wrong: The error as a sentence, or nothing.
        html: The HTML shown with the words.

    Raises:
        TypeError: If an input was not made by one of these functions.
    """

    def __init__(
        self,
        title: str,
        run: Callable,
        *,
        still: Control | None = None,
        move: Mapping[str, Any] | None = None,
        **inputs: Input,
    ) -> None:
        for name, made in inputs.items():
            if not isinstance(made, Input):
                raise TypeError(
                    f"{name} must be made by slide, choose, tick, write or press, "
                    f"got {type(made).__name__}"
                )
        self.title, self.run, self.still = title, run, still
        self.move = move or {}
        self._inputs = inputs
        self._live = _Live(
            title=title,
            inputs=[_described(name, made) for name, made in inputs.items()],
            values={
                name: made.choices.index(made.value) if made.choices else made.value
                for name, made in inputs.items()
                if made.kind != "press"
            },
        )
        self.words = self.wrong = self.html = ""
        self._runs = count(1)
        self.answer(run)
        self._live.observe(lambda _: self.answer(self.run), names="values")
        self._live.on_msg(
            lambda _, message, __: self.answer(inputs[message["press"]].value)
        )

    @property
    def values(self) -> dict[str, Any]:
        """Look up the values that the page sent; it sends the index of a choice."""
        return {
            name: self._inputs[name].choices[value]
            if self._inputs[name].choices
            else value
            for name, value in self._live.values.items()
        }

    def answer(self, call: Callable) -> None:
        """Call a function, and show its result, or its exception as a sentence.

        Args:
            call: A function such as ``run``. Another thread may call this method, to
                show the progress of long work.
        """
        try:
            *shown, words = _parts(call(**self.values))
            html = "".join(as_html(each, words) for each in shown)
            self.words, self.wrong, self.html = words, "", html
        except Exception as error:  # the caller is a message, which nobody reads
            wrong = str(error)
            if type(error) is not ValueError or not wrong:
                wrong = f"{type(error).__name__}: {wrong}"
            self.wrong = wrong
        self._live.state = {
            "run": next(self._runs),
            "words": self.words,
            "wrong": self.wrong,
            "html": self.html,
        }

    def __repr__(self) -> str:
        return f"{self.title}\n{self.wrong or self.words}"

    def _repr_html_(self) -> str:
        if self.still is not None:
            return f"{self.still._repr_html_()}<p>{STILL_HINT}</p>"
        rows = self._rows(self.values)
        return (
            f'<section class="control c-still tex2jax_ignore" '
            f'aria-label="{escape(self.title)}">'
            f'<p class="c-title">{escape(self.title)}</p>'
            f'<ul class="c-row">{rows}</ul>'
            f'<p class="{"c-wrong" if self.wrong else "c-says"}">'
            f"{escape(self.wrong or self.words)}</p>"
            f'<div class="c-shown{" c-old" if self.wrong else ""}">{self.html}</div>'
            f"{self._after_move()}"
            f'<p class="c-hint">{HINT}</p></section>'
        )

    def _rows(self, values: Mapping[str, Any]) -> str:
        """Write what some inputs say, each as an item of a list."""
        return "".join(
            f"<li>{escape(self._inputs[name].label)} <b>{escape(str(value))}</b></li>"
            for name, value in values.items()
        )

    def _after_move(self) -> str:
        """Write what the recorded move changes and what it shows, in a fold."""
        if not self.move:
            return ""
        *shown, words = _parts(self.run(**self.values | self.move))
        light = [each for each in shown if isinstance(each, (Axes, Figure, Table))]
        html = "".join(as_html(each, words) for each in light)
        return (
            "<details><summary>What one move does</summary>"
            f'<ul class="c-row">{self._rows(self.move)}</ul>'
            f'<p class="c-says">{escape(words)}</p><div class="c-shown">'
            f"{html}</div></details>"
        )

    def _repr_mimebundle_(self, **kwargs: object) -> tuple[dict, dict]:
        made = self._live._repr_mimebundle_(**kwargs)
        data, metadata = made if isinstance(made, tuple) else (made, {})
        words = {"text/html": self._repr_html_(), "text/plain": repr(self)}
        return {VIEW: data[VIEW]} | words, metadata


@dataclass(frozen=True)
class Table:
    """Rows of text for a panel to show.

    Args:
        columns: The heading of each column.
        rows: A text for each column; the first is the row's name.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]

    def _repr_html_(self) -> str:
        head = "".join(f'<th scope="col">{escape(name)}</th>' for name in self.columns)
        body = "".join(
            f'<tr><th scope="row">{escape(name)}</th>'
            + "".join(f"<td>{escape(text)}</td>" for text in cells)
            + "</tr>"
            for name, *cells in self.rows
        )
        return (
            '<div class="c-scroll" tabindex="0" data-lm-suppress-shortcuts>'
            f'<table class="c-rows"><tr>{head}</tr>{body}</table></div>'
        )


def as_html(shown: Any, words: str) -> str:
    """Write a result as HTML.

    Args:
        shown: A figure or its axes, an object that shows itself, or anything else.
        words: The description of a figure without a label.
    """
    if isinstance(shown, Axes):
        shown = shown.figure
    if isinstance(shown, Figure):
        file = io.StringIO()
        shown.savefig(file, format="svg", bbox_inches="tight", metadata={"Date": None})
        plt.close(shown)  # or the next cell would show it once more
        alt = shown.get_label() or words
        return inline(file.getvalue(), alt, f"panel-{next(_numbers)}-")
    if hasattr(shown, "_repr_html_"):
        return shown._repr_html_()
    return f"<pre>{escape(str(shown))}</pre>"


def _parts(result: Any) -> tuple:
    """Refuse a result without words."""
    parts = result if isinstance(result, tuple) else (result,)
    if not parts or not isinstance(parts[-1], str):
        kind = type(parts[-1]).__name__ if parts else "an empty tuple"
        raise TypeError(f"run must return words, or words last, got {kind}")
    return parts


def _described(name: str, made: Input) -> dict[str, Any]:
    choices = list(map(str, made.choices))
    return {"name": name, "kind": made.kind, "label": made.label, "choices": choices}
