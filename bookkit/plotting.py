"""The book's figures: tensors and labels in, Axes out."""

import sys
import warnings
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from itertools import count, pairwise

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from torch import Tensor

from bookkit.colours import COLOURS, EDGES, SERIES
from bookkit.drawing import Drawing

LINES = dict(zip((light for light, _ in SERIES), ("-", "--", "-.", ":"), strict=True))
MAY_ATTEND, HIDDEN = COLOURS["may_attend"][0], COLOURS["hidden"][0]
INK, QUIET, PAPER = (COLOURS[name][0] for name in ("ink", "quiet", "paper"))
LEADS = SERIES[0][0]


def use_book_style() -> None:
    """Set the looks of every figure, and turn warnings into errors.

    A notebook then shows figures as SVG, the same bytes for the same figure. A page
    that warns is a page with a fault: a chapter stops at the first warning.
    """
    warnings.simplefilter("error")
    # What the kernel itself warns of as it shuts down is no fault of the page.
    warnings.filterwarnings("ignore", module="ipykernel")
    colours = plt.cycler(color=list(LINES), linestyle=list(LINES.values()))
    ink = ("axes.edgecolor", "axes.labelcolor", "text.color", "xtick.color")
    plt.rcParams.update(
        {
            **dict.fromkeys((*ink, "ytick.color"), INK),
            "axes.grid": False,
            "axes.prop_cycle": colours,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.dpi": 100,
            "figure.facecolor": "white",
            "figure.figsize": (6, 3.5),
            "font.size": 10,
            "image.composite_image": False,
            "image.interpolation": "none",  # a cell stays a cell, however large
            "savefig.dpi": 100,
            "savefig.facecolor": "white",
            "svg.fonttype": "none",  # words stay words, in the font of the page
            "svg.hashsalt": "the same figure has the same names inside",
        }
    )
    if (ipython := sys.modules.get("IPython")) and ipython.get_ipython():
        from matplotlib_inline.backend_inline import set_matplotlib_formats

        set_matplotlib_formats("svg", metadata={"Date": None})


def plot_attention(
    weights: Tensor,
    queries: Sequence[str],
    keys: Sequence[str],
    ax: Axes | None = None,
    *,
    label: str = "weight",
) -> Axes:
    """Draw attention weights, rows ask and columns are asked, on a scale from 0 to 1.

    Args:
        weights: Shape (T, S), values in [0, 1].
        queries: T tokens.
        keys: S tokens.
        ax: Where to draw; a new square figure without it.
        label: What the colours mean.

    Raises:
        ValueError: If the labels do not fit ``weights``.
    """
    ax = _grid(weights, queries, keys, ax, cmap="Blues", vmin=0, vmax=1)
    _colour_bar(ax, label)
    return ax


def plot_heads(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str]
) -> list[Axes]:
    """Draw the attention weights of several heads in one row, at most 8 inches wide.

    Args:
        weights: Shape (H, T, S), values in [0, 1].
        queries: T tokens.
        keys: S tokens.

    Raises:
        ValueError: If the labels do not fit ``weights``.
    """
    size = (min(2 + 1.5 * len(weights), 8), 2.6)
    _, row = plt.subplots(1, len(weights), figsize=size, sharey=True, squeeze=False)
    for head, ax in enumerate(row[0]):
        _grid(weights[head], queries, keys, ax, cmap="Blues", vmin=0, vmax=1)
        ax.set_xlabel(f"head {head}")
    row[0][0].figure.colorbar(row[0][0].images[0], ax=list(row[0]), label="weight")
    return list(row[0])


def plot_mask(
    mask: Tensor, queries: Sequence[str], keys: Sequence[str], ax: Axes | None = None
) -> Axes:
    """Draw a mask in two colours: may attend, and hidden.

    Args:
        mask: Boolean, shape (T, S); True = may attend.
        queries: T tokens.
        keys: S tokens.
        ax: Where to draw; a new square figure without it.

    Raises:
        ValueError: If the labels do not fit ``mask``.
    """
    two = ListedColormap([HIDDEN, MAY_ATTEND])
    ax = _grid(mask.float(), queries, keys, ax, cmap=two, vmin=0, vmax=1)
    for side, size in ((ax.axvline, mask.size(1)), (ax.axhline, mask.size(0))):
        for edge in range(1, size):
            side(edge - 0.5, color=PAPER, linewidth=1, linestyle="-")
    if not ax.figure.legends:
        patches = [Patch(color=MAY_ATTEND), Patch(color=HIDDEN)]
        names = ["may attend", "hidden"]
        ax.figure.legend(patches, names, loc="outside lower center", ncols=2)
    return ax


def plot_signed(
    values: Tensor,
    rows: Sequence[str] | None = None,
    columns: Sequence[str] | None = None,
    ax: Axes | None = None,
    *,
    limit: float | None = None,
    label: str = "value",
) -> Axes:
    """Draw positive and negative values: red above zero, blue below, white at zero.

    Args:
        values: Shape (rows, columns).
        rows: Labels of the rows; numbers without them.
        columns: Labels of the columns; numbers without them.
        ax: Where to draw; a new figure without it.
        limit: The value of the deepest red; the largest absolute value without it.
        label: What the colours mean.

    Raises:
        ValueError: If the labels do not fit ``values``.
    """
    limit = values.abs().max().item() if limit is None else limit
    limits = {"vmin": -limit, "vmax": limit}
    ax = _grid(values, rows, columns, ax, cmap="RdBu_r", aspect="auto", **limits)
    _colour_bar(ax, label)
    return ax


def plot_numbers(
    values: Tensor,
    rows: Sequence[str],
    columns: Sequence[str],
    ax: Axes | None = None,
    *,
    limit: float | None = None,
) -> Axes:
    """Draw a table of numbers from 0 up: the darker the cell, the more.

    Args:
        values: Shape (rows, columns), none below 0.
        rows: Labels of the rows.
        columns: Labels of the columns.
        ax: Where to draw; a new figure without it.
        limit: The value of the darkest blue; the largest value without it.

    Raises:
        ValueError: If the labels do not fit ``values``.
    """
    limit = values.max().item() if limit is None else limit
    limits = {"vmin": 0, "vmax": limit}
    ax = _grid(values, rows, columns, ax, cmap="Blues", aspect="auto", **limits)
    ax.tick_params(axis="x", labelrotation=0)
    for (y, x), value in np.ndenumerate(_array(values)):
        ink = "white" if value > 0.6 * limit else "black"
        ax.text(x, y, f"{value:.2f}", ha="center", va="center", color=ink)
    return ax


def plot_lines(
    x: Tensor | Sequence[float],
    lines: Mapping[str, Tensor | Sequence[float]],
    ax: Axes | None = None,
) -> Axes:
    """Draw up to four lines over the same x, each in its own colour and line style.

    Args:
        x: Shape (points,).
        lines: Name to values, shape (points,).
        ax: Where to draw; a new figure without it.

    Raises:
        ValueError: If there are more than four lines.
    """
    if len(lines) > len(LINES):
        raise ValueError(
            f"lines must hold at most {len(LINES)} lines, got {len(lines)}"
        )
    ax = ax or plt.subplots()[1]
    for name, y in lines.items():
        ax.plot(_array(x), _array(y), label=name)
    if len(lines) > 1:
        ax.legend(frameon=False)
    return ax


def plot_tree(
    nodes: Mapping[tuple[str, ...], float],
    kept: Collection[tuple[str, ...]],
    ax: Axes | None = None,
) -> Axes:
    """Draw beginnings of sentences as a tree that grows to the right.

    Args:
        nodes: Beginnings, as words, and their probabilities. All begin with the same
            word, which is the root and is no node itself; every other beginning of
            theirs is one.
        kept: Those drawn in blue; the others are grey.
        ax: Where to draw; a new figure, as large as the tree, without it.

    Raises:
        ValueError: If ``kept`` holds what is no node, or a node hangs on nothing.
    """
    if unknown := set(kept) - nodes.keys():
        raise ValueError(f"kept must be nodes, got {unknown.pop()}")
    children = defaultdict(list)
    for words in sorted(nodes, key=nodes.get, reverse=True):
        children[words[:-1]].append(words)
    leaves, heights = count(), {}

    def place(words: tuple[str, ...]) -> float:
        below = [place(child) for child in children[words]]
        heights[words] = sum(below) / len(below) if below else -next(leaves)
        return heights[words]

    root = next(iter(nodes))[:1]
    place(root)
    if lost := nodes.keys() - heights.keys():
        raise ValueError(f"nodes must hang on the root {root[0]!r}, got {lost.pop()}")
    if ax is None:
        size = 0.95 * max(map(len, nodes)), 0.5 * next(leaves)
        ax = plt.subplots(figsize=size)[1]
    for words, y in heights.items():
        colour = LEADS if words in kept or words == root else QUIET
        look = {"boxstyle": "round", "facecolor": PAPER, "edgecolor": colour}
        label = words[0] if words == root else f"{words[-1]}\n{nodes[words]:.4g}"
        text = {"ha": "center", "va": "center", "size": 9, "color": colour}
        ax.text(len(words), y, label, **text, bbox=look)
        if words != root:
            line = [heights[words[:-1]], y]
            x = [len(words) - 1, len(words)]
            ax.plot(x, line, color=colour, linestyle="-", linewidth=1, zorder=0)
    ax.margins(0.08)
    ax.axis("off")
    return ax


def plot_layer(
    blocks: Mapping[str, Sequence[str]],
    inlets: Mapping[str, Sequence[str]] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Draw a layer as boxes and arrows, from x at the bottom to output at the top.

    Args:
        blocks: Name to steps, both from bottom to top. Each block has a dashed frame
            and a bypass, from below its first step to its step "+".
        inlets: Step to the names of what enters it from the left.
        ax: Where to draw; a new figure without it.

    Raises:
        ValueError: If a block has no "+", or an inlet leads to no step.
    """
    inlets = inlets or {}
    for name, steps in blocks.items():
        if "+" not in steps:
            raise ValueError(f'blocks must each have a "+", {name} has none')
    if lost := inlets.keys() - {step for steps in blocks.values() for step in steps}:
        raise ValueError(f"inlets must lead to a step, got {', '.join(sorted(lost))}")
    longest = max((len(text) for names in inlets.values() for text in names), default=0)
    left, right = -2.4 - 0.2 * longest, 2.8
    bottom, top = -0.4, sum(len(steps) + 0.5 for steps in blocks.values()) + 1.6
    drawing = Drawing(right - left, top - bottom, ax)
    ax = drawing.ax
    ax.set(xlim=(left, right), ylim=(bottom, top))

    passed = [drawing.text(0, 0, "x", code=True).get_position()]
    for name, steps in blocks.items():
        first = passed[-1][1] + 1.5
        for y, step in zip(count(first), steps, strict=False):
            _step(drawing, y, step, inlets.get(step, ()))
            passed.append((0, y))
        drawing.frame((-1.8, first - 0.75, 2.3, first + len(steps) - 0.55))
        words = drawing.text(2.6, first - 0.75, name, "small", code=True)
        words.set(rotation=90, va="bottom")
        plus = first + steps.index("+")
        past = [(0, first - 0.55), (1.9, first - 0.55), (1.9, plus), (0.3, plus)]
        drawing.path(past, "norm")
    passed.append((0, passed[-1][1] + 1.2))
    drawing.text(*passed[-1], "output", code=True)
    for (x, low), (_, high) in pairwise(passed):
        drawing.arrow((x, low + 0.3), (x, high - 0.3))
    return ax


def _step(drawing: Drawing, y: float, step: str, inlets: Sequence[str]) -> None:
    kind = {"self_attention": "attention", "+": "norm"}.get(step, step)
    kind = kind if kind in EDGES else "plain"
    width = 0.6 if step == "+" else 2.8
    drawing.box(0, y, step, kind, width, 0.6, code=True)
    for i, inlet in enumerate(inlets):
        side = y + 0.2 * (len(inlets) - 1) - 0.4 * i
        drawing.arrow((-2.2, side), (-1.4, side))
        drawing.text(-2.3, side, inlet, align="right", code=True)


def _grid(
    values: Tensor,
    rows: Sequence[str] | None,
    columns: Sequence[str] | None,
    ax: Axes | None,
    **colours,
) -> Axes:
    for name, labels, size in (
        ("rows", rows, values.size(0)),
        ("columns", columns, values.size(1)),
    ):
        if labels is not None and len(labels) != size:
            raise ValueError(
                f"the {name} must have a label each, got {len(labels)} and {size}"
            )
    ax = ax or plt.subplots(figsize=(4, 4))[1]
    ax.imshow(_array(values), **colours)
    ax.spines[:].set_visible(False)
    if rows is not None:
        ax.set_yticks(range(len(rows)), rows)
        ax.tick_params(axis="y", length=0)
    if columns is not None:
        ax.set_xticks(range(len(columns)), columns, rotation=90)
        ax.tick_params(axis="x", length=0)
    return ax


def _array(values: Tensor | Sequence[float]) -> np.ndarray:
    return torch.as_tensor(values).detach().float().numpy()


def _colour_bar(ax: Axes, label: str) -> None:
    ax.figure.colorbar(ax.images[0], ax=ax, label=label, shrink=0.8)
