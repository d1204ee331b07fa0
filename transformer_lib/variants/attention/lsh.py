"""Attention to keys that look alike: sort by buckets, then look at what is near."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.checks import require_positive, require_whole
from transformer_lib.variants.attention.variant import Mask, MaskedVariant


@dataclass(frozen=True)
class LSHAttention(MaskedVariant):
    """Attention to what fell into the same bucket, in any round.

    In each round, every position falls into a bucket by the direction of its key, and
    the positions are sorted by bucket, those of one bucket in their order in the text.
    In that row, a position looks at its own bucket within a window: at itself and, if
    causal, at the ``width`` - 1 before it; else at as many to both sides. A pair that
    several rounds find counts once. A hidden position is in no bucket.

    A query finds what is like its own key, and misses what the query itself points to
    if that is elsewhere. Layers whose query is their key, by ``layer.w_q = layer.w_k``,
    do not have this problem.

    Work and memory grow with T * width * num_rounds, and T * log(T) for sorting. A
    cache saves nothing: each step sorts all keys anew and computes for all positions.

    Args:
        num_buckets: Of a round, even: directions of axes, forwards and backwards.
        num_rounds: How often the keys are sorted by other axes, N.
        width: Keys of its bucket that a query sees in a round if it is causal, its own
            among them; else it sees up to 2 * width - 1.
        seed: What the axes are drawn with, the same for all heads; give every layer
            another one.
        causal: Whether a position looks back alone.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If a number is not positive, or ``num_buckets`` is odd.

    Source: Kitaev et al. (2020), section 2. There a query is its key, and it sees
    itself only if there is nothing else. Here both come from the layer as they are, a
    query looks into the bucket of its own key, and sees itself. There the sorted row is
    cut into chunks, whose borders move when something is added at the end of the text;
    here each position has a window of its own, which no later key changes.
    """

    num_buckets: int
    num_rounds: int
    width: int
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(**vars(self))
        require_positive(
            num_buckets=self.num_buckets, num_rounds=self.num_rounds, width=self.width
        )
        if self.num_buckets % 2:
            raise ValueError(f"num_buckets must be even, got {self.num_buckets}")

    def buckets(self, key: Tensor) -> Tensor:
        """Choose the bucket of each key, in each round.

        Args:
            key: Shape (B, H, S, d_k). How long a key is does not matter.

        Returns:
            Whole numbers below ``num_buckets``, shape (B, H, N, S).
        """
        shape = self.num_rounds, key.size(-1), self.num_buckets // 2
        chance = torch.Generator().manual_seed(self.seed)
        axes = torch.randn(shape, generator=chance, dtype=torch.float64)
        turned = key.detach()[:, :, None] @ axes.to(key)  # (B, H, N, S, buckets / 2)
        both = torch.cat([turned, -turned], dim=-1)  # (B, H, N, S, buckets)
        return both.argmax(dim=-1)  # (B, H, N, S)

    def mask(self, query: Tensor, key: Tensor, padding: Mask) -> Tensor:
        """Hide what no round brings near: a mask of shape (B, H, T, S)."""
        width = min(self.width, key.size(2))  # no two positions are further apart
        places = sorted_places(self.buckets(key), padding, self.num_buckets, width)
        near = are_near(*places, width, self.causal)  # (B, H, N, S, S)
        return near.any(dim=2)[:, :, -query.size(2) :]

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Sort by bucket, attend by chunks of the sorted row, and join the rounds.

        Arguments are those of ``Variant.compute``.
        """
        t, s = query.size(2), key.size(2)
        width = min(self.width, s)  # no two positions are further apart
        # Positions before the queries ask nothing.
        query = F.pad(query, (0, 0, s - t, 0))  # (B, H, S, d_k)
        places = sorted_places(self.buckets(key), padding, self.num_buckets, width)
        asks, found = places  # (B, H, N, S), (B, H, N, S)
        outs, sums = [], []
        for number in range(self.num_rounds):
            order = asks[:, :, number].argsort()  # (B, H, S)
            q, own = (in_chunks(x, order, width) for x in (query, asks.mT))
            k, v, others = (
                in_chunks(x, order, width, self.causal) for x in (key, value, found.mT)
            )
            near = [
                are_near(own[..., i], others[..., i], width, self.causal)
                for i in range(number + 1)
            ]  # (B, H, C, R, M) each
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
