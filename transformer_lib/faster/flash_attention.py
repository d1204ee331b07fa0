"""Attention by blocks: the (T, S) scores never exist all at once."""

import math

import torch
from torch import Tensor

from transformer_lib.checks import check_attention, require_positive


def flash_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    block: int = 32,
) -> Tensor:
    r"""Average the values as attention does, and hold one block of scores at a time.

    Every line of every block is a call of PyTorch, so small blocks are slow. Where
    gradients are wanted it saves no memory, since autograd keeps every block.

    Args:
        query: What each position looks for, shape (..., T, d_k).
        key: What each position offers, shape (..., S, d_k).
        value: What each position hands over, shape (..., S, d_v).
        causal: Whether position t may attend to the keys 0 to t alone. Blocks that lie
            wholly in the future are not computed.
        block: How many queries and how many keys are worked on at a time.

    Returns:
        The attended values, shape (..., T, d_v).

    Raises:
        ValueError: If the shapes do not fit, as in ``scaled_dot_product_attention``;
            ``block`` is below 1; or ``causal`` is set and T differs from S.

    Source: Dao et al. (2022), algorithm 1, with the loops in the order of Dao (2023).
    """
    check_attention(query, key, value, None)
    require_positive(block=block)
    require_square(causal, query.size(-2), key.size(-2))
    rows = []
    for first in range(0, query.size(-2), block):
        q = query[..., first : first + block, :]  # (..., block, d_k)
        seen = first + block if causal else key.size(-2)
        k, v = key[..., :seen, :], value[..., :seen, :]
        rows.append(attend_rows(q, k, v, block, first if causal else None))
    return torch.cat(rows, dim=-2)  # (..., T, d_v)


def attend_rows(
    q: Tensor, key: Tensor, value: Tensor, block: int, first: int | None = None
) -> Tensor:
    """Let one block of queries read all its keys, a block after the other.

    Args:
        q: Shape (..., R, d_k): R queries.
        key: Shape (..., S, d_k), at least one.
        value: Shape (..., S, d_v).
        block: How many keys at a time.
        first: The position of the first query, whose future is hidden; None hides
            nothing.

    Returns:
        Shape (..., R, d_v).
    """
    largest = q.new_full((*q.shape[:-1], 1), -math.inf)  # (..., R, 1)
    total = torch.zeros_like(largest)  # (..., R, 1)
    output = value.new_zeros((*q.shape[:-1], value.size(-1)))  # (..., R, d_v)
    for start in range(0, key.size(-2), block):
        k = key[..., start : start + block, :]  # (..., block, d_k)
        v = value[..., start : start + block, :]  # (..., block, d_v)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))  # (..., R, block)
        if first is not None:
            future = torch.ones_like(scores, dtype=torch.bool).triu(first - start + 1)
            scores = scores.masked_fill(future, -math.inf)
        grown = torch.maximum(largest, scores.amax(dim=-1, keepdim=True))
        correction = (largest - grown).exp()  # (..., R, 1)
        weights = (scores - grown).exp()  # (..., R, block)
        total = total * correction + weights.sum(dim=-1, keepdim=True)
        output = output * correction + weights @ v  # (..., R, d_v)
        largest = grown
    return output / total  # (..., R, d_v)


def require_square(causal: bool, queries: int, keys: int) -> None:
    """Raise ValueError if attention is causal and there is not a key for each query."""
    if causal and queries != keys:
        raise ValueError(
            f"causal attention needs as many keys as queries, got {keys} and {queries}"
        )
