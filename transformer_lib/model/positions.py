"""Positions: they distinguish the first word from the last; attention alone cannot."""

import torch
from torch import Tensor, nn

from transformer_lib.checks import (
    require_not_negative,
    require_one_of,
    require_positive,
    require_width,
)

LONGEST_TIMESCALE = 10_000.0
SINUSOIDAL = ("interleaved", "concatenated")
LAYOUTS = (*SINUSOIDAL, "learned")


def sinusoidal_table(max_len: int, d_model: int, layout: str = "interleaved") -> Tensor:
    r"""Give each position a row of sines and cosines, from fast to slow.

    Feature pair i turns by 1 / timescale_i radians with each position.

    Args:
        max_len: Number of positions, the rows of the table.
        d_model: Width of a row.
        layout: ``"interleaved"``, the paper's: sine and cosine alternate, and
            timescale_i = 10000^(2i / d_model). ``"concatenated"``, tensor2tensor's: all
            sines, then all cosines, the n timescales spread from 1 to 10000 inclusive,
            timescale_i = 10000^(i / (n - 1)); an odd last feature is zero.

    Returns:
        Shape (max_len, d_model), float32, values in [-1, 1].

    Raises:
        ValueError: If a size is not positive, ``layout`` is unknown, or ``d_model`` is
            odd in the interleaved layout.

    Source: Vaswani et al. (2017), section 3.5; tensor2tensor, ``get_timing_signal_1d``.
    """
    require_positive(max_len=max_len, d_model=d_model)
    require_one_of(SINUSOIDAL, layout=layout)
    pairs = torch.arange(d_model // 2, dtype=torch.float64)  # (d_model // 2)
    if layout == "interleaved":
        if d_model % 2 != 0:
            raise ValueError(f"d_model must be even to interleave, got {d_model}")
        exponents = 2 * pairs / d_model
    else:
        exponents = pairs / max(len(pairs) - 1, 1)
    positions = torch.arange(max_len, dtype=torch.float64)  # (max_len)
    angles = (
        positions[:, None] / LONGEST_TIMESCALE**exponents
    )  # (max_len, d_model // 2)
    if layout == "interleaved":
        table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)
    else:
        table = torch.cat([angles.sin(), angles.cos()], dim=-1)
        table = nn.functional.pad(table, (0, d_model % 2))
    return table.float()  # (max_len, d_model)


class PositionalEncoding(nn.Module):
    """Add to each vector the row of a table that belongs to its position.

    Args:
        d_model: Width of the vectors.
        max_len: The longest sequence; the table has as many rows.
        layout: A fixed table, ``"interleaved"`` or ``"concatenated"`` (see
            ``sinusoidal_table``), or ``"learned"``: parameters like any other.

    Raises:
        ValueError: As ``sinusoidal_table``.

    Source: Vaswani et al. (2017), section 3.5; learned: Gehring et al. (2017).
    """

    def __init__(self, d_model: int, max_len: int, layout: str = "interleaved") -> None:
        super().__init__()
        require_one_of(LAYOUTS, layout=layout)
        if layout == "learned":
            require_positive(max_len=max_len, d_model=d_model)
            self.table = nn.Parameter(torch.randn(max_len, d_model) * d_model**-0.5)
        else:
            table = sinusoidal_table(max_len, d_model, layout)
            self.register_buffer("table", table, persistent=False)

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Add position t's row to every vector at position t.

        Args:
            x: Shape (B, T, d_model).
            start: The position of the first vector; above 0 if earlier ones are not
                passed again. ``start`` + T is at most ``max_len``.

        Returns:
            Shape (B, T, d_model).

        Raises:
            ValueError: If the vectors have another width, the sequence is longer than
                the table, or ``start`` is negative.
        """
        require_not_negative(start=start)
        require_width(self.table.size(1), x=x)  # a width of 1 would broadcast
        end = start + x.size(1)
        if end > len(self.table):
            raise ValueError(
                "sequence must be at most max_len long, "
                f"got {end} and {len(self.table)}"
            )
        return x + self.table[start:end]  # (B, T, d_model)
