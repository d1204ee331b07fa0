"""Figures for attention heads: blocks of a product, and numbered cells of memory.

A colour is a head here, the same one in every figure.
"""

from collections.abc import Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from torch import Tensor

HEAD_COLOURS = ("#CFE3F2", "#FBDDC9", "#CBE8DD")
WIDTH = 12  # of every block, in features


class Block(NamedTuple):
    """A matrix with 12 columns, cut into one part per head, or grey if it is whole.

    Attributes:
        name: What stands above it.
        rows: Number of rows.
        parts: What stands in each part.
        by_rows: Whether the cuts separate rows, not columns.
    """

    name: str
    rows: int
    parts: Sequence[str] = ("",)
    by_rows: bool = False


def draw_product(left: Block, right: Block, result: Block) -> Axes:
    """Draw left times right equals result, in the proportions of the matrices."""
    _, ax = plt.subplots(figsize=(6, 2.4))
    ax.set(xlim=(-0.2, 41), ylim=(6.4, -9.4), aspect="equal")
    ax.axis("off")
    words = {"ha": "center", "va": "center"}
    for start, block in zip((0, 14, 28), (left, right, result), strict=True):
        top, share = -block.rows / 2, len(block.parts)
        across, down = (1, share) if block.by_rows else (share, 1)
        width, height = WIDTH / across, block.rows / down
        for i, part in enumerate(block.parts):
            x = start + width * i * (across > 1)
            y = top + height * i * (down > 1)
            face = "#EEEEEE" if share == 1 else HEAD_COLOURS[i]
            look = {"facecolor": face, "edgecolor": "black"}
            ax.add_patch(Rectangle((x, y), width, height, **look))
            ax.text(x + width / 2, y + height / 2, part, size=12, **words)
        above = f"{block.name}\n{block.rows} × {WIDTH}"
        ax.text(start + WIDTH / 2, top - 0.6, above, size=12, ha="center", va="bottom")
    ax.text(13, 0, "·", size=16, **words)
    ax.text(27, 0, "=", size=16, **words)
    return ax


def memory_axes(width: float, height: float) -> Axes:
    """Make empty axes for ``draw_memory``, measured in cells, y downwards."""
    _, ax = plt.subplots(figsize=(6, 6 * height / width))
    ax.set(xlim=(-1.2, width - 1.2), ylim=(height - 1.2, -1.2), aspect="equal")
    ax.axis("off")
    return ax


def draw_memory(
    ax: Axes,
    cells: Tensor,
    left: float,
    top: float,
    title: str = "",
    *,
    words: Sequence[str],
    labels: bool = False,
) -> None:
    """Draw rows of cells that know their index in memory: two heads of two features.

    Args:
        ax: Where to draw, from ``memory_axes``.
        cells: The indices, shape (rows, columns).
        left: Of the first cell.
        top: Of the first cell.
        title: What stands above.
        words: The owner of each four cells, written into them.
        labels: Whether the words also stand beside the rows.
    """
    style = {"ha": "center", "va": "center"}
    for r, row in enumerate(cells.tolist()):
        for c, index in enumerate(row):
            x, y = left + c, top + r
            look = {"facecolor": HEAD_COLOURS[index % 4 // 2], "edgecolor": "black"}
            ax.add_patch(Rectangle((x, y), 1, 1, **look))
            ax.text(x + 0.5, y + 0.36, index, size=12, **style)
            ax.text(x + 0.5, y + 0.77, words[index // 4], size=9, **style)
        if labels:
            ax.text(left - 0.2, top + r + 0.5, words[r], ha="right", va="center")
    ax.text(left, top - 0.2, title, ha="left", va="bottom")
