"""Attention within a window: no position looks further than it is wide."""

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.checks import require_positive, require_whole
from transformer_lib.variants.full import weigh_under
from transformer_lib.variants.variant import Variant


def window_attention(width: int, *, causal: bool) -> Variant:
    """Make attention that looks at what is fewer than ``width`` positions away.

    Work and memory grow with T * width, not with T * S. A cache still keeps every key,
    of which the newest query reads the last ``width``.

    Args:
        width: Keys that a query sees if it is causal, its own among them; else it sees
            up to 2 * width - 1, as many before as after itself.
        causal: Whether it looks back alone.

    Returns:
        The variant. Its explicit form is attention under ``window_mask``. Queries of
        another sequence have no place in a window: there is no cross-attention.

    Raises:
        TypeError: If ``width`` is not a whole number.
        ValueError: If ``width`` is not positive.

    Source: Beltagy et al. (2020), section 3.1, the sliding window.
    """
    require_whole(width=width)
    require_positive(width=width)
    choice = {"width": width, "causal": causal}
    return Variant(
        name=f"window_attention({width}, causal={causal})",
        causal=causal,
        compute=partial(attend_in_chunks, **choice),
        weigh=partial(weigh_under, make_mask=partial(window_mask, **choice)),
    )


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


def attend_in_chunks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None = None,
    dropout: float = 0.0,
    *,
    width: int,
    causal: bool,
) -> Tensor:
    """Cut the queries into C chunks, and let each read only the keys near to it.

    A chunk of R queries reads its own R positions and width - 1 before them (and after
    them if it is not causal): M keys, the same number for every chunk, so that one call
    does them all.

    Args:
        query: The last T positions, shape (B, H, T, d_k).
        key: Shape (B, H, S, d_k).
        value: Shape (B, H, S, d_v).
        padding: Boolean, shape (B, 1, 1, S), or None.
        dropout: Share of the weights dropped, in [0, 1).
        width: Number of positions to one side that are seen, one's own counted.
        causal: Whether the positions after one's own are hidden.

    Returns:
        The attended values, shape (B, H, T, d_v).
    """
    batch, t, s = query.size(0), query.size(2), key.size(2)
    reach, rows = min(width, s) - 1, min(width, t)
    chunks = -(-t // rows)  # rounded up
    near = rows + reach * (1 if causal else 2)  # M
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
    q = q.unflatten(2, (chunks, rows)).transpose(1, 2).flatten(0, 1)  # (B * C, H, R, d)
    k, v = (side_by_side(x, before, after, near, rows) for x in (key, value))
    out = F.scaled_dot_product_attention(q, k, v, mask, dropout)
    out = out.unflatten(0, (batch, chunks)).transpose(1, 2)  # (B, H, C, R, d_v)
    return out.flatten(2, 3)[:, :, :t]  # (B, H, T, d_v)


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
