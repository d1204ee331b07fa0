"""The book's figures: tensors and labels in, Axes out."""

import warnings
from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch
from torch import Tensor

LINES = {"#0072B2": "-", "#D55E00": "--", "#009E73": "-.", "#CC79A7": ":"}
MAY_ATTEND, HIDDEN = "#0072B2", "#E6E6E6"


def use_book_style() -> None:
    """Set the looks of every figure, and turn warnings into errors.

    A page that warns is a page with a fault: a chapter stops at the first warning.
    """
    warnings.simplefilter("error")
    # What the kernel itself warns of as it shuts down is no fault of the page.
    warnings.filterwarnings("ignore", module="ipykernel")
    colours = plt.cycler(color=list(LINES), linestyle=list(LINES.values()))
    plt.rcParams.update(
        {
            "axes.grid": False,
            "axes.prop_cycle": colours,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "figure.constrained_layout.use": True,
            "figure.dpi": 100,
            "figure.facecolor": "white",
            "figure.figsize": (6, 3.5),
            "font.size": 10,
            "savefig.dpi": 100,
            "savefig.facecolor": "white",
        }
    )


def plot_attention(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str], ax: Axes | None = None
) -> Axes:
    """Draw attention weights, rows ask and columns are asked, on a scale from 0 to 1.

    Args:
        weights: Shape (T, S), values in [0, 1].
        queries: T tokens.
        keys: S tokens.
        ax: Where to draw; a new square figure without it.

    Raises:
        ValueError: If the labels do not fit ``weights``.
    """
    ax = _grid(weights, queries, keys, ax, cmap="Blues", vmin=0, vmax=1)
    _colour_bar(ax, "weight")
    return ax


def plot_heads(
    weights: Tensor, queries: Sequence[str], keys: Sequence[str]
) -> list[Axes]:
    """Draw the attention weights of several heads in one row.

    Args:
        weights: Shape (H, T, S), values in [0, 1].
        queries: T tokens.
        keys: S tokens.

    Raises:
        ValueError: If the labels do not fit ``weights``.
    """
    _, row = plt.subplots(1, len(weights), figsize=(8, 2.6), sharey=True, squeeze=False)
    for head, ax in enumerate(row[0]):
        _grid(weights[head], queries, keys, ax, cmap="Blues", vmin=0, vmax=1)
        ax.set_xlabel(f"head {head}")
        if head > 0:
            ax.tick_params(labelleft=False)
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
            side(edge - 0.5, color="white", linewidth=1, linestyle="-")
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
    ax.imshow(_array(values), interpolation="nearest", **colours)
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
