"""Attention within a window: no position looks further than its width."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.checks import require_positive, require_whole
from transformer_lib.variants.attention.variant import Mask, MaskedVariant


@dataclass(frozen=True)
class WindowAttention(MaskedVariant):
    """Attention to positions that are fewer than ``width`` away.

        use_attention(model, decoder=WindowAttention(128, causal=True))

    Work and memory grow with T * width, not with T * S. A cache still keeps every key,
    of which the newest query reads the last ``width``. There is no cross-attention:
    queries of another sequence have no place in a window.

    Args:
        width: Keys that a query sees if it is causal, its own among them; else it sees
            up to 2 * width - 1, as many before as after itself.
        causal: Whether it looks back alone.

    Raises:
        TypeError, ValueError: If ``width`` is not a positive whole number.

    Source: Beltagy et al. (2020), section 3.1, the sliding window.
    """

    width: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(width=self.width)
        require_positive(width=self.width)

    def mask(self, query: Tensor, key: Tensor, padding: Mask) -> Tensor:
        """Hide what ``window_mask`` hides, and the padding."""
        sizes = query.size(2), key.size(2)
        mask = window_mask(*sizes, self.width, self.causal, key.device)
        return mask if padding is None else mask & padding

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Cut the queries into C chunks, and let each read only the keys near to it.

        A chunk of R queries reads its own R positions and width - 1 before them (and
        after them if it is not causal): M keys, the same number for every chunk, so
        that one call does them all. Arguments are those of ``Variant.compute``.
        """
        batch, t, s = query.size(0), query.size(2), key.size(2)
        reach, rows = min(self.width, s) - 1, min(self.width, t)
        chunks = -(-t // rows)  # rounded up
        near = rows + reach * (1 if self.causal else 2)  # M
        before = reach - (s - t)  # positions that are not there; below 0, not needed
        after = (chunks - 1) * rows + near - before - s

        if padding is None:
            padding = torch.ones(1, 1, 1, s, dtype=torch.bool, device=key.device)
        there = F.pad(padding, (before, after), value=False).unfold(3, near, rows)
        there = there.permute(0, 3, 1, 2, 4)  # (B, C, 1, 1, M)
        band = torch.ones(rows, near, dtype=torch.bool, device=key.device)  # (R, M)
        mask = band.triu().tril(near - rows) & there  # (B, C, 1, R, M)
        mask = mask.expand(batch, -1, -1, -1, -1).flatten(0, 1)  # (B * C, 1, R, M)
        q = F.pad(query, (0, 0, 0, chunks * rows - t))  # (B, H, C * R, d_k)
        q = q.unflatten(2, (chunks, rows)).transpose(1, 2)  # (B, C, H, R, d_k)
        k, v = (side_by_side(x, before, after, near, rows) for x in (key, value))
        out = F.scaled_dot_product_attention(q.flatten(0, 1), k, v, mask, dropout)
        out = out.unflatten(0, (batch, chunks)).transpose(1, 2)  # (B, H, C, R, d_v)
        return out.flatten(2, 3)[:, :, :t]  # (B, H, T, d_v)


def window_mask(
    queries: int,
    keys: int,
    width: int,
    causal: bool,
    device: torch.device | None = None,
) -> Tensor:
    """Hide what is ``width`` or more positions away, and the future if causal.

    Args:
        queries: How many there are, T: the last of the positions.
        keys: How many positions there are, S, at least T.
        width: Number of positions to one side that are seen, one's own counted.
        causal: Whether the positions after one's own are hidden.
        device: Where to make the mask.

    Returns:
        Boolean, shape (1, 1, T, S); True = may attend.

    Raises:
        ValueError: If ``width`` is not positive, or there are more queries than keys.
    """
    require_positive(width=width)
    if queries > keys:
        raise ValueError(f"queries must be at most keys, got {queries} and {keys}")
    own = keys - queries  # the first query's position
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device)  # (T, S)
    mask = mask.triu(own - width + 1).tril(own if causal else own + width - 1)
    return mask[None, None]  # (1, 1, T, S)


def side_by_side(x: Tensor, before: int, after: int, near: int, rows: int) -> Tensor:
    """Lay side by side what each of C chunks reads, M = ``near`` positions for each.

    Args:
        x: Keys or values, shape (B, H, S, d).
        before: Empty positions to put before them; below 0, positions to leave out.
        after: Empty positions to put after them.
        near: Positions that a chunk reads.
        rows: Positions from the start of a chunk's to the start of the next one's.

    Returns:
        Shape (B * C, H, M, d).
    """
    x = F.pad(x, (0, 0, before, after)).unfold(2, near, rows)  # (B, H, C, d, M)
    return x.permute(0, 2, 1, 4, 3).flatten(0, 1)  # (B * C, H, M, d)
