"""Attention by blocks: near ones, a few that all read, and some drawn by chance."""

from functools import partial
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
from transformer_lib.variants.full import weigh_under
from transformer_lib.variants.variant import Variant


def block_attention(
    size: int,
    near: int = 1,
    num_global: int = 1,
    num_random: int = 2,
    seed: int = 0,
    *,
    causal: bool,
) -> Variant:
    """Make attention that reads whole blocks of positions, a few for each.

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

    Returns:
        The variant. Its explicit form is attention under ``block_mask``.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If ``size`` is not positive, or another number is negative.

    Source: Zaheer et al. (2020), section 2 and appendix D, with the global tokens among
    those that are there (BigBird-ITC).
    """
    numbers = {"near": near, "num_global": num_global, "num_random": num_random}
    require_whole(size=size, **numbers)
    require_positive(size=size)
    require_not_negative(**numbers)
    choice = {
        "size": size,
        "near": near,
        "num_global": num_global,
        "num_random": num_random,
        "seed": seed,
        "causal": causal,
    }
    return Variant(
        name=f"block_attention({size}, causal={causal})",
        causal=causal,
        compute=partial(attend_by_blocks, **choice),
        weigh=partial(weigh_under, make_mask=partial(block_mask, **choice)),
    )


def blocks_read(
    block: int,
    blocks: int,
    near: int,
    num_global: int,
    num_random: int,
    seed: int,
    causal: bool,
) -> list[int]:
    """List what one block reads, without looking at all the others.

    Args:
        block: Which one.
        blocks: How many there are.
        near: Blocks to one side that a block reads, besides its own.
        num_global: Blocks at the beginning that all read, and that read all.
        num_random: Further blocks, drawn by chance from those that are left.
        seed: What the drawing begins with. If causal, what a block draws does not
            depend on how many come after it.
        causal: Whether a block reads itself and earlier ones alone.

    Returns:
        The numbers of the blocks, in order.
    """
    end = block + 1 if causal else blocks
    if block < num_global:
        return list(range(end))
    start = max(num_global, block - near)
    stop = min(block + near + 1, end)
    near_by = range(start, stop)
    left = end - num_global - len(near_by)  # neither global nor near
    drawn = Random(f"{seed}, {block}").sample(range(left), min(num_random, left))
    places = (num_global + place for place in drawn)
    far = [place if place < start else place + len(near_by) for place in places]
    return sorted([*range(num_global), *near_by, *far])


def block_pattern(
    blocks: int, near: int, num_global: int, num_random: int, seed: int, causal: bool
) -> Tensor:
    """Say which block reads which.

    Args:
        blocks: How many there are.
        near: As in ``blocks_read``.
        num_global: As in ``blocks_read``.
        num_random: As in ``blocks_read``.
        seed: As in ``blocks_read``.
        causal: As in ``blocks_read``.

    Returns:
        Boolean, shape (blocks, blocks), on the CPU; row i is what block i reads.
    """
    pattern = torch.zeros(blocks, blocks, dtype=torch.bool)
    choice = near, num_global, num_random, seed, causal
    for block in range(blocks):
        pattern[block, blocks_read(block, blocks, *choice)] = True
    return pattern


def block_mask(
    queries: int,
    keys: int,
    size: int,
    near: int,
    num_global: int,
    num_random: int,
    seed: int,
    causal: bool,
    device: torch.device | None = None,
) -> Tensor:
    """Hide what is in a block that the query's block does not read.

    Args:
        queries: How many there are, T: the last of the positions.
        keys: How many positions there are, S, at least T.
        size: Positions in a block.
        near: As in ``blocks_read``.
        num_global: As in ``blocks_read``.
        num_random: As in ``blocks_read``.
        seed: As in ``blocks_read``.
        causal: Whether the positions after one's own are hidden.
        device: Where to make the mask.

    Returns:
        Boolean, shape (1, 1, T, S); True = may attend.

    Raises:
        ValueError: If ``size`` is not positive, or there are more queries than keys.
    """
    require_positive(size=size)
    if queries > keys:
        raise ValueError(f"queries must be at most keys, got {queries} and {keys}")
    blocks = -(-keys // size)  # rounded up
    reads = block_pattern(blocks, near, num_global, num_random, seed, causal).to(device)
    block = torch.arange(keys, device=device) // size  # of each position
    mask = reads[block[keys - queries :, None], block]  # (T, S)
    mask = mask.tril(keys - queries) if causal else mask
    return mask[None, None]  # (1, 1, T, S)


def attend_by_blocks(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None = None,
    dropout: float = 0.0,
    *,
    size: int,
    near: int,
    num_global: int,
    num_random: int,
    seed: int,
    causal: bool,
) -> Tensor:
    """Let the global blocks read everything, and each other block what it chose.

    Args:
        query: The last T positions, shape (B, H, T, d_k).
        key: Shape (B, H, S, d_k).
        value: Shape (B, H, S, d_v).
        padding: Boolean, shape (B, 1, 1, S), or None.
        dropout: Share of the weights dropped, in [0, 1).
        size: Positions in a block.
        near: As in ``blocks_read``.
        num_global: As in ``blocks_read``.
        num_random: As in ``blocks_read``.
        seed: As in ``blocks_read``.
        causal: Whether the positions after one's own are hidden.

    Returns:
        The attended values, shape (B, H, T, d_v).
    """
    t, s = query.size(2), key.size(2)
    blocks = -(-s // size)  # rounded up
    if padding is None:
        padding = torch.ones(1, 1, 1, s, dtype=torch.bool, device=key.device)
    # If causal, a global block reads no more than the few blocks before it.
    edge = 0 if causal else min(t, max(0, num_global * size - (s - t)))
    out = []
    if edge > 0:
        everything = query[:, :, :edge], key, value, padding, dropout
        out.append(F.scaled_dot_product_attention(*everything))
    if edge < t:
        choice = blocks, near, num_global, num_random, seed, causal
        rest = range((s - t + edge) // size, blocks)  # the other queries' blocks
        reads = [blocks_read(block, *choice) for block in rest]
        chosen = query[:, :, edge:], key, value, padding, dropout
        out.append(attend_to_chosen(*chosen, reads, size, causal))
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
