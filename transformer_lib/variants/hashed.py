"""Attention to keys that look alike: sort by buckets, then look at what is near."""

import math
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.attention import scaled_dot_product_attention
from transformer_lib.checks import require_positive, require_whole
from transformer_lib.variants.variant import Variant


def hashed_attention(
    num_buckets: int, num_rounds: int, width: int, seed: int = 0, *, causal: bool
) -> Variant:
    """Make attention that compares what fell into the same bucket, in any round.

    In each round, every position falls into a bucket by the direction of its key, and
    the positions are sorted by bucket, those of one bucket in their order in the text.
    In that row, a position looks at its own bucket within a window: at itself and, if
    causal, at the ``width`` - 1 before it; else at as many to both sides. A pair that
    several rounds find counts once. A hidden position is in no bucket.

    A query finds what is like its own key, and is blind where the two point elsewhere.
    Layers whose query is their key, by ``layer.w_q = layer.w_k``, have no such trouble.

    Work and memory grow with T * width * num_rounds, and T * log(T) for sorting. A
    cache saves nothing: each step sorts all keys anew and computes for all positions.

    Args:
        num_buckets: Of a round, even: directions of axes, forwards and backwards.
        num_rounds: How often the keys are sorted by other axes.
        width: Keys of its bucket that a query sees in a round if it is causal, its own
            among them; else it sees up to 2 * width - 1.
        seed: What the axes are drawn with, the same for all heads; give every layer
            another one.
        causal: Whether a position looks back alone.

    Returns:
        The variant. Its explicit form is attention under ``hashed_mask``.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is not positive, or ``num_buckets`` is odd.

    Source: Kitaev et al. (2020), section 2. There a query is its key, and it sees
    itself only if there is nothing else. Here both come from the layer as they are, a
    query looks into the bucket of its own key, and sees itself. There the sorted row is
    cut into chunks, whose borders move when something is added at the end of the text;
    here each position has a window of its own, which no later key changes.
    """
    require_whole(num_buckets=num_buckets, num_rounds=num_rounds, width=width)
    require_positive(num_buckets=num_buckets, num_rounds=num_rounds, width=width)
    if num_buckets % 2:
        raise ValueError(f"num_buckets must be even, got {num_buckets}")
    choice = {
        "num_buckets": num_buckets,
        "num_rounds": num_rounds,
        "width": width,
        "seed": seed,
        "causal": causal,
    }
    return Variant(
        name=f"hashed_attention({num_buckets}, {num_rounds}, {width}, causal={causal})",
        causal=causal,
        compute=partial(attend_in_buckets, **choice),
        weigh=partial(weigh_in_buckets, **choice),
    )


def buckets_of(key: Tensor, num_buckets: int, num_rounds: int, seed: int) -> Tensor:
    """Say into which bucket each key falls, in each of N rounds.

    Args:
        key: Shape (B, H, S, d_k). How long a key is does not matter.
        num_buckets: Of a round, even.
        num_rounds: How many there are, N.
        seed: What the axes are drawn with.

    Returns:
        Whole numbers below ``num_buckets``, shape (B, H, N, S).
    """
    shape = num_rounds, key.size(-1), num_buckets // 2
    chance = torch.Generator().manual_seed(seed)
    axes = torch.randn(shape, generator=chance, dtype=torch.float64)
    turned = key.detach()[:, :, None] @ axes.to(key)  # (B, H, N, S, half the buckets)
    return torch.cat([turned, -turned], dim=-1).argmax(dim=-1)  # (B, H, N, S)


def sorted_places(
    buckets: Tensor, padding: Tensor | None, num_buckets: int, width: int
) -> tuple[Tensor, Tensor]:
    """Sort the positions by bucket, with a gap of ``width`` before each bucket.

    So two positions are less than ``width`` places apart only if they are in the same
    bucket. Place 0 stays empty: it is near to nobody's.

    Args:
        buckets: Of each position in each round, shape (B, H, N, S).
        padding: Boolean, shape (B, 1, 1, S), or None.
        num_buckets: How many there may be.
        width: Places between two that are not near any more.

    Returns:
        The places from which the positions ask, and those at which they are found, both
        of shape (B, H, N, S). The latter is 0 for a hidden position.
    """
    hidden = torch.zeros_like(buckets, dtype=torch.bool)
    if padding is not None:
        hidden = hidden | ~padding  # (B, H, N, S)
    buckets = buckets.masked_fill(hidden, num_buckets)  # behind all others
    rank = buckets.argsort(stable=True).argsort()
    asks = rank + width * (buckets + 1)
    return asks, asks.masked_fill(hidden, 0)


def are_near(asks: Tensor, found: Tensor, width: int, causal: bool) -> Tensor:
    """Compare all the places that ask with all those that are found.

    Args:
        asks: Shape (..., T).
        found: Shape (..., S).
        width: Places between two that are not near any more.
        causal: Whether only what stands before is near.

    Returns:
        Boolean, shape (..., T, S).
    """
    back = asks[..., :, None] - found[..., None, :]
    return (back < width) & (back >= 0 if causal else back > -width)


def hashed_mask(
    key: Tensor,
    padding: Tensor | None,
    num_buckets: int,
    num_rounds: int,
    width: int,
    seed: int,
    causal: bool,
) -> Tensor:
    """Hide what no round brings near.

    Args:
        key: Shape (B, H, S, d_k).
        padding: Boolean, shape (B, 1, 1, S), or None.
        num_buckets: As in ``hashed_attention``.
        num_rounds: As in ``hashed_attention``.
        width: As in ``hashed_attention``.
        seed: As in ``hashed_attention``.
        causal: As in ``hashed_attention``.

    Returns:
        Boolean, shape (B, H, S, S); True = may attend.
    """
    width = min(width, key.size(2))  # no two positions are further apart
    buckets = buckets_of(key, num_buckets, num_rounds, seed)
    asks, found = sorted_places(buckets, padding, num_buckets, width)
    return are_near(asks, found, width, causal).any(dim=2)


def weigh_in_buckets(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None = None,
    dropout: float = 0.0,
    **choice: int,
) -> tuple[Tensor, Tensor]:
    """Attend under ``hashed_mask``, which saves nothing, as in ``Variant.weigh``."""
    mask = hashed_mask(key, padding, **choice)[:, :, -query.size(2) :]  # (B, H, T, S)
    return scaled_dot_product_attention(query, key, value, mask, dropout)


def attend_in_buckets(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None = None,
    dropout: float = 0.0,
    *,
    num_buckets: int,
    num_rounds: int,
    width: int,
    seed: int,
    causal: bool,
) -> Tensor:
    """Sort by bucket, attend by chunks of the sorted row, and bring rounds together.

    Args:
        query: The last T positions, shape (B, H, T, d_k).
        key: Shape (B, H, S, d_k).
        value: Shape (B, H, S, d_v).
        padding: Boolean, shape (B, 1, 1, S), or None.
        dropout: Share of the weights dropped, in [0, 1).
        num_buckets: As in ``hashed_attention``.
        num_rounds: As in ``hashed_attention``.
        width: As in ``hashed_attention``.
        seed: As in ``hashed_attention``.
        causal: As in ``hashed_attention``.

    Returns:
        The attended values, shape (B, H, T, d_v).
    """
    t, s = query.size(2), key.size(2)
    width = min(width, s)  # no two positions are further apart
    query = F.pad(query, (0, 0, s - t, 0))  # (B, H, S, d_k): those before ask nothing
    buckets = buckets_of(key, num_buckets, num_rounds, seed)
    asks, found = sorted_places(buckets, padding, num_buckets, width)
    outs, sums = [], []
    for number in range(num_rounds):
        order = asks[:, :, number].argsort()  # (B, H, S)
        q, own = (in_chunks(x, order, width) for x in (query, asks.mT))
        k, v, others = (
            in_chunks(x, order, width, causal) for x in (key, value, found.mT)
        )
        near = [
            are_near(own[..., i], others[..., i], width, causal)  # (B, H, C, R, M)
            for i in range(number + 1)
        ]
        mask = near.pop()
        for earlier in near:
            mask = mask & ~earlier
        scores = (q @ k.mT / math.sqrt(q.size(-1))).masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1).masked_fill(~mask, 0.0)
        out = (F.dropout(weights, dropout) @ v).flatten(2, 3)  # (B, H, C * R, d_v)
        total = scores.logsumexp(dim=-1).flatten(2, 3)  # (B, H, C * R)
        back = order.argsort()
        outs.append(reordered(out, back))  # (B, H, S, d_v)
        sums.append(reordered(total[..., None], back))  # (B, H, S, 1)
    sums = torch.stack(sums)  # (N, B, H, S, 1)
    share = sums.softmax(dim=0).masked_fill(sums == -math.inf, 0.0)
    return (share * torch.stack(outs)).sum(dim=0)[:, :, s - t :]  # (B, H, T, d_v)


def in_chunks(
    x: Tensor, order: Tensor, width: int, causal: bool | None = None
) -> Tensor:
    """Sort positions, and cut the row into C chunks of at most ``width``.

    Args:
        x: Shape (B, H, S, d).
        order: Which position comes when, shape (B, H, S).
        width: Rows of a chunk, R, or S if that is less.
        causal: None for the rows alone; else a chunk has all M that its rows may see,
            before them or to both sides.

    Returns:
        Shape (B, H, C, R or M, d); zeros where the row has no position.
    """
    s = x.size(2)
    rows = min(width, s)
    before = 0 if causal is None else rows - 1
    after = 0 if causal else before
    x = F.pad(reordered(x, order), (0, 0, before, after + -s % rows))
    return x.unfold(2, before + rows + after, rows).mT


def reordered(x: Tensor, order: Tensor) -> Tensor:
    """Take the positions in another order for each head.

    Args:
        x: Shape (B, H, S, d), or with more positions, which are left out.
        order: Which position comes when, shape (B, H, S).

    Returns:
        Shape (B, H, S, d).
    """
    batch, heads = (torch.arange(size, device=x.device) for size in x.shape[:2])
    return x[batch[:, None, None], heads[:, None], order]
