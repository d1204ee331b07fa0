"""Draw a small tensor as a heat map: a code for the colour of each number."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

MOST_ROWS, MOST_COLUMNS = 12, 24
MOST_NUMBERS = 400  # of a tensor kept whole; of a larger one, the last sentence
DIGITS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
STEPS = 2000  # from zero to the largest number


@dataclass
class Picture:
    """A heat map: the last two axes of a tensor, at the last index of all axes before.

    Attributes:
        cells: A code for each number, row by row: ``n4`` to ``n1``, ``zero``, ``p1`` to
            ``p4`` for signed numbers; ``s0`` to ``s5`` for shares; ``true``, ``false``;
            ``hidden`` for minus infinity; ``nan``.
        is_slice: Whether there are axes before the last two.
        numbers: The last numbers of the tensor, two digits of base 64 each: 2047 plus
            the number in steps of ``largest / 2000``, or 0, 1, 2 for nan, minus
            infinity, infinity.
        largest: The largest of them, without its sign.
    """

    cells: list[list[str]]
    is_slice: bool
    numbers: str = ""
    largest: float = 1.0


def draw(tensor: Tensor) -> Picture | None:
    """Draw floats or booleans, if there are few of them; a vector is one row."""
    is_mask = tensor.dtype == torch.bool
    if tensor.numel() < 2 or not (is_mask or tensor.is_floating_point()):
        return None
    is_slice = tensor.dim() > 2
    kept = tensor.double()
    while kept.dim() > 2 and kept.numel() > MOST_NUMBERS:
        kept = kept[-1]
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

    cells = [[colour(x) for x in row] for row in table.tolist()]
    return Picture(cells, is_slice, *_pack(kept.flatten()))


def _pack(numbers: Tensor) -> tuple[str, float]:
    finite = numbers[numbers.isfinite()].abs().tolist()
    largest = max(finite, default=0.0) or 1.0
    codes = (numbers / largest * STEPS).round() + 2047
    codes = codes.nan_to_num(0, neginf=1, posinf=2).int().tolist()
    return "".join(DIGITS[code // 64] + DIGITS[code % 64] for code in codes), largest
