"""Rotary positions: queries and keys are rotated, further at each position."""

import torch
from torch import Tensor

from transformer_lib.checks import require_positive
from transformer_lib.model import LONGEST_TIMESCALE, SelfAttentionCache
from transformer_lib.variants.modern.grouped import GroupedAttention


def rotation_table(max_len: int, d_k: int) -> Tensor:
    r"""List cosine and sine of the angle of each pair of features at each position.

    Pair i turns by 10000^(-2i / d_k) radians with each position, as in the sinusoidal
    table.

    Args:
        max_len: Number of positions.
        d_k: Width of a head, an even number.

    Returns:
        Cosines, then sines, shape (2, max_len, d_k / 2), in torch's default dtype.

    Raises:
        ValueError: If a size is not positive, or ``d_k`` is odd.

    Source: Su et al. (2021), section 3.2.2, equation 15.
    """
    require_positive(max_len=max_len, d_k=d_k)
    if d_k % 2 != 0:
        raise ValueError(f"d_k must be even to be turned in pairs, got {d_k}")
    exponents = torch.arange(0, d_k, 2, dtype=torch.float64) / d_k  # (d_k / 2)
    positions = torch.arange(max_len, dtype=torch.float64)  # (max_len)
    angles = positions[:, None] / LONGEST_TIMESCALE**exponents  # (max_len, d_k / 2)
    table = torch.stack([angles.cos(), angles.sin()])  # (2, max_len, d_k / 2)
    return table.to(torch.get_default_dtype())


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn pairs of features: i and i + d_k / 2 are the two coordinates of a point.

    The paper pairs neighbours, 2i and 2i + 1. That is the same model with the features
    of every head in another order; files of Llama and its kin have them in this one.

    Args:
        x: Shape (..., T, d_k).
        table: Cosines and sines for these positions, shape (2, T, d_k / 2).

    Returns:
        Vectors as long as before, shape (..., T, d_k).

    Source: Su et al. (2021), section 3.4.2, equation 34.
    """
    cos, sin = table.to(x.dtype)  # (T, d_k / 2), (T, d_k / 2)
    first, second = x.chunk(2, dim=-1)  # (..., T, d_k / 2)
    turned = first * cos - second * sin, second * cos + first * sin
    return torch.cat(turned, dim=-1)  # (..., T, d_k)


class RotaryAttention(GroupedAttention):
    """Self-attention that turns its queries and keys by their positions.

    The score of two positions then depends on their vectors and their distance. A cache
    holds keys that are turned already. Values are not turned.

    The other arguments, and what it raises, are those of ``GroupedAttention``.

    Args:
        max_len: The longest sequence there are angles for.

    Source: Su et al. (2021), section 3.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_key_heads: int,
        *,
        max_len: int,
        bias: bool = True,
        dropout: float = 0.0,
        d_k: int | None = None,
    ) -> None:
        shared = {"bias": bias, "dropout": dropout, "d_k": d_k}
        super().__init__(d_model, num_heads, num_key_heads, **shared)
        table = rotation_table(max_len, self.w_q.out_features // num_heads)
        self.register_buffer("table", table, persistent=False)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        cache: SelfAttentionCache | None = None,
    ) -> Tensor:
        """Project, turn, attend, and mix the heads.

        Args and Raises are those of ``MultiHeadAttention.forward``; also ValueError if
        the sequence is longer than ``max_len``.

        Returns:
            Shape (B, T, d_model).
        """
        start = 0 if cache is None else cache.length
        table = self._rows(start, query.size(1))  # (2, T, d_k / 2)
        q = rotate(self._split_heads(self.w_q(query)), table)  # (B, H, T, d_k)
        k, v = self._project_turned(key, value, start)  # (B, G, S, d_k), (B, G, S, d_k)
        if cache is not None:
            k, v = cache.append(k, v)
        dropout = self.dropout if self.training else 0.0
        heads = self.attend(q, self._spread(k), self._spread(v), mask, dropout)
        return self.w_o(self._merge_heads(heads))  # (B, T, d_model)

    def _project_turned(
        self, key: Tensor, value: Tensor, start: int
    ) -> tuple[Tensor, Tensor]:
        """Make keys that are turned, and values, shape (B, G, S, d_k) each."""
        k, v = self._project(key, value)
        return rotate(k, self._rows(start, key.size(1))), v

    def _rows(self, start: int, length: int) -> Tensor:
        """Look up the angles of some positions, shape (2, length, d_k / 2)."""
        end, max_len = start + length, self.table.size(1)
        if end > max_len:
            raise ValueError(
                f"sequence must be at most max_len long, got {end} and {max_len}"
            )
        return self.table[:, start:end]  # (2, length, d_k / 2)
