"""Boxes, arrows, words and cells: one language for the book's drawings.

    d = Drawing(width=6, height=2)
    words = d.box(1, 1, "words", kind="source")
    vectors = d.box(4, 1, "vectors", kind="embedding")
    d.arrow(words, vectors, "look up")

A kind is a name of ``bookkit.colours``. Lengths are units of the drawing, 0.6
inches each; x grows to the right and y upwards. Ten units are as wide as a telephone
shows without scrolling.
"""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import (
    BoxStyle,
    Ellipse,
    FancyArrowPatch,
    FancyBboxPatch,
    Rectangle,
)
from matplotlib.text import Text

from bookkit.colours import COLOURS, EDGES

UNIT = 0.6
SIZES = {"normal": 10, "small": 9}
STRONGEST = 0.6  # so that ink can be read on the darkest cell, in light and in dark
Point = tuple[float, float]


class Box(NamedTuple):
    """A rectangle of a drawing, by its sides.

    ``left``, ``right``, ``top`` and ``bottom`` are the points amid each side, and
    ``centre`` is the one in the middle.
    """

    left: Point
    bottom: Point
    right: Point
    top: Point

    @classmethod
    def around(cls, x: float, y: float, width: float, height: float) -> "Box":
        """Make the box with this centre and size."""
        across, up = width / 2, height / 2
        return cls((x - across, y), (x, y - up), (x + across, y), (x, y + up))

    @property
    def centre(self) -> Point:
        """The point in the middle."""
        return self.top[0], self.left[1]


class Drawing:
    """An empty drawing; what is drawn on it shows itself at the end of the cell.

    Args:
        width: In units of the drawing.
        height: In units of the drawing.
        ax: Where to draw, on axes with limits of their own; a new figure without it.
    """

    def __init__(self, width: float, height: float, ax: Axes | None = None):
        if ax is None:
            size = (width * UNIT, height * UNIT)
            figure = plt.figure(figsize=size, layout="none")
            ax = figure.add_axes((0, 0, 1, 1))
            ax.set(xlim=(0, width), ylim=(0, height))
        ax.set_aspect("equal")
        ax.axis("off")
        self.ax = ax

    def box(
        self,
        x: float,
        y: float,
        text: str = "",
        kind: str = "plain",
        width: float = 2,
        height: float = 0.8,
        *,
        code: bool = False,
    ) -> Box:
        """Draw a box with words in it; one that says "+" is round.

        Args:
            x: Of its centre.
            y: Of its centre.
            text: What it says; a line break makes two lines.
            kind: What it is, which gives its colours.
            width: Of the box.
            height: Of the box.
            code: Whether the words are set as code.

        Raises:
            ValueError: If the words are wider than the box.
        """
        corner, fill = (x - width / 2, y - height / 2), COLOURS[kind][0]
        look = {"facecolor": fill, "edgecolor": EDGES[kind][0], "linewidth": 1}
        style = BoxStyle("Round", pad=0, rounding_size=0.12)
        patch = FancyBboxPatch(corner, width, height, boxstyle=style, **look)
        if text == "+":
            patch = Ellipse((x, y), width, height, **look)
        self.ax.add_patch(patch)
        needs = _width(self.text(x, y, text, code=code))
        if text and needs > width:
            raise ValueError(f"{text!r} needs a width of {needs:.1f}, got {width}")
        return Box.around(x, y, width, height)

    def text(
        self,
        x: float,
        y: float,
        text: str,
        size: str = "normal",
        align: str = "center",
        *,
        code: bool = False,
        kind: str = "ink",
    ) -> Text:
        """Write words.

        Args:
            x: Where they begin, end or have their middle: see ``align``.
            y: Of their middle.
            text: The words.
            size: "normal" or "small".
            align: "left", "center" or "right".
            code: Whether they are set as code.
            kind: What they speak of, which gives their colour.
        """
        colour = EDGES.get(kind, COLOURS[kind])[0]
        look = {"size": SIZES[size], "color": colour, "ha": align, "va": "center"}
        family = {"family": "monospace"} if code else {}
        return self.ax.text(x, y, text, **look, **family)

    def arrow(
        self,
        start: Box | Point,
        end: Box | Point,
        label: str = "",
        kind: str = "plain",
        bend: float = 0,
        *,
        thickness: float = 1.2,
    ) -> None:
        """Draw an arrow, between two boxes from the sides that face one another.

        Args:
            start: A box or a point.
            end: A box or a point.
            label: Words on its middle.
            kind: What flows along it, which gives its colour.
            bend: How far it swings to the right of its way, as a share of its length.
            thickness: Of its line, in points.
        """
        start, end = _side(start, end), _side(end, start)
        look = {"arrowstyle": "-|>", "mutation_scale": 11, "shrinkA": 0, "shrinkB": 0}
        look |= {"connectionstyle": f"arc3,rad={bend}", "color": EDGES[kind][0]}
        self.ax.add_patch(FancyArrowPatch(start, end, linewidth=thickness, **look))
        if label:
            across, up = end[0] - start[0], end[1] - start[1]
            x = (start[0] + end[0] + bend * up) / 2
            y = (start[1] + end[1] - bend * across) / 2
            words = self.text(x, y, label, size="small")
            paper = COLOURS["paper"][0]
            words.set_bbox({"facecolor": paper, "edgecolor": "none", "pad": 1})

    def path(
        self, points: Sequence[Point], kind: str = "plain", *, arrow: bool = True
    ) -> None:
        """Draw a line from point to point, round a corner too.

        Args:
            points: Two or more.
            kind: What flows along it, which gives its colour.
            arrow: Whether it ends in a tip.
        """
        colour = EDGES[kind][0]
        x, y = zip(*(points[:-1] if arrow else points), strict=True)
        self.ax.plot(x, y, color=colour, linestyle="-", linewidth=1.2, zorder=1)
        if arrow:
            self.arrow(*points[-2:], kind=kind)

    def cells(
        self,
        x: float,
        y: float,
        values: Sequence[Sequence[float | str]],
        kind: str = "attention",
        shade: Sequence[Sequence[float]] | None = None,
        rows: Sequence[str] | None = None,
        columns: Sequence[str] | None = None,
        *,
        width: float = 0.8,
        height: float = 0.6,
        code: bool = False,
    ) -> Box:
        """Draw a grid of cells with what stands in them, the first row at the top.

        Args:
            x: Of the lower left corner.
            y: Of the lower left corner.
            values: Numbers, shown to two places, whole ones without; or words.
            kind: What the cells are, which gives their colours.
            shade: How strong each cell is, from 0 to 1; all are alike without it.
            rows: Words beside the rows.
            columns: Words above the columns.
            width: Of a cell.
            height: Of a cell.
            code: Whether what stands around and in the cells is set as code.

        Returns:
            The box of the cells, without the words around them.
        """
        edge, top = EDGES[kind][0], y + len(values) * height
        for i, row in enumerate(values):
            middle = top - (i + 0.5) * height
            for j, value in enumerate(row):
                fill = COLOURS[kind][0] if shade is None else edge
                alpha = 1 if shade is None else STRONGEST * float(shade[i][j])
                corner = (x + j * width, top - (i + 1) * height)
                look = {"facecolor": (fill, alpha), "edgecolor": edge, "linewidth": 0.8}
                self.ax.add_patch(Rectangle(corner, width, height, **look))
                self.text(x + (j + 0.5) * width, middle, _words(value), code=code)
            if rows is not None:
                self.text(x - 0.15, middle, rows[i], align="right", code=code)
        for j, name in enumerate(columns or []):
            self.text(x + (j + 0.5) * width, top + 0.28, name, code=code)
        across, up = max(map(len, values)) * width, top - y
        return Box.around(x + across / 2, y + up / 2, across, up)

    def frame(
        self, around: Box | tuple[float, float, float, float], label: str = ""
    ) -> Box:
        """Draw a dashed frame.

        Args:
            around: A box, which gets some air, or left, bottom, right and top.
            label: Words above its upper left corner.
        """
        left, bottom, right, top = around
        if isinstance(around, Box):
            left, bottom = left[0] - 0.25, bottom[1] - 0.25
            right, top = right[0] + 0.25, top[1] + 0.25
        look = {"fill": False, "edgecolor": EDGES["plain"][0], "linestyle": (0, (4, 3))}
        size = right - left, top - bottom
        self.ax.add_patch(Rectangle((left, bottom), *size, linewidth=0.9, **look))
        self.text(left, top + 0.2, label, size="small", align="left", kind="quiet")
        return Box.around((left + right) / 2, (bottom + top) / 2, *size)


def _width(words: Text) -> float:
    """Measure words, in units of a drawing on a figure of its own."""
    return words.get_window_extent().width / words.figure.dpi / UNIT


def _side(one: Box | Point, other: Box | Point) -> Point:
    """Choose where an arrow leaves a box on its way to another box or point."""
    if not isinstance(one, Box):
        return one
    x, y = other.centre if isinstance(other, Box) else other
    across, up = x - one.centre[0], y - one.centre[1]
    wide, high = one.right[0] - one.left[0], one.top[1] - one.bottom[1]
    if abs(across) * high > abs(up) * wide:
        return one.right if across > 0 else one.left
    return one.top if up > 0 else one.bottom


def _words(value: float | str) -> str:
    if isinstance(value, str):
        return value
    value = value.item() if hasattr(value, "item") else value
    words = f"{value:.2f}" if isinstance(value, float) else str(value)
    return words.replace("-", "\N{MINUS SIGN}")
