"""Draw a small tensor as a heat map: a code for the colour of each number."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_ROWS, MOST_COLUMNS = 12, 24


@dataclass
class Picture:
    """A heat map: the last two axes of a tensor, at the last index of all axes before.

    Attributes:
        cells: A code for each number, row by row: ``n4`` to ``n1``, ``zero``, ``p1`` to
            ``p4`` for signed numbers; ``s0`` to ``s5`` for shares; ``true``, ``false``;
            ``hidden`` for minus infinity; ``nan``.
        is_slice: Whether there are axes before the last two.
    """

    cells: list[list[str]]
    is_slice: bool


def draw(tensor: Tensor) -> Picture | None:
    """Draw floats or booleans, if there are few of them; a vector is one row."""
    is_mask = tensor.dtype == torch.bool
    if tensor.numel() < 2 or not (is_mask or tensor.is_floating_point()):
        return None
    is_slice = tensor.dim() > 2
    while tensor.dim() > 2:
        tensor = tensor[-1]
    table = tensor.reshape(-1, tensor.size(-1)).double()
    if table.size(0) > MOST_ROWS or table.size(1) > MOST_COLUMNS:
        return None
    finite = table[table.isfinite()].tolist() or [0.0]
    largest = max(map(abs, finite)) or 1.0
    are_shares = min(finite) >= 0 and max(finite) <= 1

    def colour(x: float) -> str:
        if is_mask:
            return "true" if x else "false"
        if math.isnan(x):
            return "nan"
        if x == -math.inf:
            return "hidden"
        if are_shares:
            return f"s{round(5 * min(x, 1.0))}"
        level = round(4 * min(x / largest, 1.0))
        return f"p{level}" if level > 0 else f"n{-level}" if level < 0 else "zero"

    return Picture([[colour(x) for x in row] for row in table.tolist()], is_slice)
