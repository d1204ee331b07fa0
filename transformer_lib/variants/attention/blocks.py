"""Attention by blocks: neighbours, a few that all read, and some drawn at random."""

from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor
from torch.nn import functional as F
from torch.nn.utils.rnn import pad_sequence

from transformer_lib.checks import (
    require_not_negative,
    require_positive,
    require_whole,
)
from transformer_lib.variants.attention.variant import Mask, MaskedVariant


@dataclass(frozen=True)
class BlockAttention(MaskedVariant):
    """Attention to whole blocks of positions, a few for each.

    Work and memory grow with T times the positions that a block reads, not with T * S;
    the queries of the global blocks alone read everything. A cache still keeps every
    key.

    Args:
        size: Positions in a block; the last block may have fewer.
        near: Blocks to one side that a block reads, besides its own.
        num_global: Blocks at the beginning that all blocks read, and that read all.
        num_random: Further blocks that a block reads, drawn by chance.
        seed: What the drawing begins with. The same blocks are drawn for all heads;
            give every layer another seed.
        causal: Whether a position looks back alone. A global block then reads only what
            is before it.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If ``size`` is not positive, or another number is negative.

    Source: Zaheer et al. (2020), section 2 and appendix D, with the global tokens among
    those that are there (BigBird-ITC).
    """

    size: int
    near: int = 1
    num_global: int = 1
    num_random: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(**vars(self))
        require_positive(size=self.size)
        require_not_negative(
            near=self.near, num_global=self.num_global, num_random=self.num_random
        )

    def reads(self, block: int, blocks: int) -> list[int]:
        """List what one block reads, without looking at all the others.

        Args:
            block: Which one.
            blocks: How many there are. If causal, what a block draws does not depend on
                how many come after it.

        Returns:
            The numbers of the blocks, in order.
        """
        end = block + 1 if self.causal else blocks
        if block < self.num_global:
            return list(range(end))
        start = max(self.num_global, block - self.near)
        near_by = range(start, min(block + self.near + 1, end))
        left = end - self.num_global - len(near_by)  # neither global nor near
        chance = Random(f"{self.seed}, {block}")
        drawn = chance.sample(range(left), min(self.num_random, left))
        places = (self.num_global + place for place in drawn)
        far = [place if place < start else place + len(near_by) for place in places]
        return sorted([*range(self.num_global), *near_by, *far])

    def pattern(self, blocks: int) -> Tensor:
        """Show which block reads which: boolean, row i is what block i reads."""
        pattern = torch.zeros(blocks, blocks, dtype=torch.bool)
        for block in range(blocks):
            pattern[block, self.reads(block, blocks)] = True
        return pattern

    def mask(self, query: Tensor, key: Tensor, padding: Mask) -> Tensor:
        """Hide what is in a block that the query's block does not read."""
        t, s = query.size(2), key.size(2)
        reads = self.pattern(-(-s // self.size)).to(key.device)  # rounded up
        block = torch.arange(s, device=key.device) // self.size  # of each position
        mask = reads[block[s - t :, None], block]  # (T, S)
        mask = mask.tril(s - t) if self.causal else mask
        return mask[None, None] if padding is None else mask & padding

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Let the global blocks read everything, and each other block what it chose.

        Arguments are those of ``Variant.compute``.
        """
        t, s = query.size(2), key.size(2)
        blocks, first = -(-s // self.size), s - t  # rounded up; the first query
        if padding is None:
            padding = torch.ones(1, 1, 1, s, dtype=torch.bool, device=key.device)
        # If causal, a global block reads no more than the few blocks before it.
        edge = 0 if self.causal else min(t, max(0, self.num_global * self.size - first))
        out = []
        if edge > 0:
            everything = query[:, :, :edge], key, value, padding, dropout
            out.append(F.scaled_dot_product_attention(*everything))
        if edge < t:
            rest = range((first + edge) // self.size, blocks)  # the others' blocks
            reads = [self.reads(block, blocks) for block in rest]
            chosen = query[:, :, edge:], key, value, padding, dropout
            out.append(attend_to_chosen(*chosen, reads, self.size, self.causal))
        return torch.cat(out, dim=2)  # (B, H, T, d_v)


def attend_to_chosen(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor,
    dropout: float,
    reads: list[list[int]],
    size: int,
    causal: bool,
) -> Tensor:
    """Bring together the keys that each block of R queries reads, M for each block.

    Args:
        query: The last T positions, shape (B, H, T, d_k).
        key: Shape (B, H, S, d_k).
        value: Shape (B, H, S, d_v).
        padding: Boolean, shape (B or 1, 1, 1, S).
        dropout: Share of the weights dropped, in [0, 1).
        reads: What each block of the queries reads, C lists.
        size: Positions in a block, R.
        causal: Whether the positions after one's own are hidden.

    Returns:
        The attended values, shape (B, H, T, d_v).
    """
    batch, t, s = query.size(0), query.size(2), key.size(2)
    chunks, first = len(reads), (s - t) // size  # the first query's block
    lists = [torch.tensor(read, device=key.device) for read in reads]
    which = pad_sequence(lists, batch_first=True, padding_value=-1)  # (C, N)
    there, which = which >= 0, which.clamp(min=0)
    after = -s % size  # positions that are not there

    seen = F.pad(padding, (0, after), value=False)[:, 0, 0].unflatten(1, (-1, size))
    mask = (seen[:, which] & there[..., None]).flatten(2)  # (B, C, M)
    mask = mask[:, :, None, None].expand(batch, -1, -1, size, -1)  # (B, C, 1, R, M)
    if causal:
        within = torch.arange(size, device=key.device)
        key_at = (which[..., None] * size + within).flatten(1)  # (C, M)
        own = torch.arange(first, first + chunks, device=key.device)
        query_at = own[:, None] * size + within  # (C, R)
        mask = mask & (key_at[:, None] <= query_at[..., None])[:, None]
    before = (s - t) - first * size  # of the first block, not asked for
    q = F.pad(query, (0, 0, before, after)).unflatten(2, (chunks, size))
    q = q.transpose(1, 2).flatten(0, 1)  # (B * C, H, R, d)
    mask = mask.flatten(0, 1)  # (B * C, 1, R, M)
    k, v = (brought_together(x, which, size) for x in (key, value))
    out = F.scaled_dot_product_attention(q, k, v, mask, dropout)
    out = out.unflatten(0, (batch, chunks)).transpose(1, 2)  # (B, H, C, R, d_v)
    return out.flatten(2, 3)[:, :, before : before + t]  # (B, H, T, d_v)


def brought_together(x: Tensor, which: Tensor, size: int) -> Tensor:
    """Lay side by side the N blocks that each of C chunks reads, M positions together.

    Args:
        x: Keys or values, shape (B, H, S, d).
        which: The numbers of the blocks, shape (C, N).
        size: Positions in a block, R.

    Returns:
        Shape (B * C, H, M, d); zeros where the last block has no position.
    """
    x = F.pad(x, (0, 0, 0, -x.size(2) % size))
    x = x.unflatten(2, (-1, size)).index_select(2, which.flatten())
    x = x.unflatten(2, which.shape)  # (B, H, C, N, R, d)
    return x.flatten(3, 4).transpose(1, 2).flatten(0, 1)  # (B * C, H, M, d)
