"""Attention to everything, or to all of the past: what the others are compared with."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.attention import scaled_dot_product_attention
from transformer_lib.variants.variant import Variant


def full_attention(*, causal: bool) -> Variant:
    """Make the attention of the paper as a variant.

    It computes what ``fused_attention`` does. If it is causal and nothing is padded,
    torch's kernel is told so, and leaves half of the scores out.

    Args:
        causal: Whether position t attends to the positions 0 to t alone.

    Returns:
        The variant. Without ``causal`` it does cross-attention, too.

    Raises:
        TypeError: If ``causal`` is neither True nor False.

    Source: Vaswani et al. (2017), section 3.2.
    """
    return Variant(
        name=f"full_attention(causal={causal})",
        causal=causal,
        compute=partial(attend_fully, causal=causal),
        weigh=partial(weigh_fully, causal=causal),
        cross=not causal,
    )


def attend_fully(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None = None,
    dropout: float = 0.0,
    *,
    causal: bool,
) -> Tensor:
    """Average the values with torch's kernel, as in ``Variant.compute``."""
    square = query.size(2) == key.size(2)
    if causal and square and padding is None:
        return F.scaled_dot_product_attention(
            query, key, value, dropout_p=dropout, is_causal=True
        )
    mask = past(query, key, padding) if causal else padding
    return F.scaled_dot_product_attention(query, key, value, mask, dropout)


def weigh_fully(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None = None,
    dropout: float = 0.0,
    *,
    causal: bool,
) -> tuple[Tensor, Tensor]:
    """Average the values, and return the weights, as in ``Variant.weigh``."""
    mask = past(query, key, padding) if causal else padding
    return scaled_dot_product_attention(query, key, value, mask, dropout)


def weigh_under(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    padding: Tensor | None = None,
    dropout: float = 0.0,
    *,
    make_mask: Callable[..., Tensor],
) -> tuple[Tensor, Tensor]:
    """Attend under a mask, which saves nothing, as in ``Variant.weigh``.

    Args:
        query: Shape (B, H, T, d_k): the last T of the S positions.
        key: Shape (B, H, S, d_k).
        value: Shape (B, H, S, d_v).
        padding: Boolean, shape (B, 1, 1, S), or None.
        dropout: Share of the weights dropped, in [0, 1).
        make_mask: Makes it from T, S, and ``device``, boolean, shape (1, 1, T, S).
    """
    mask = make_mask(query.size(2), key.size(2), device=key.device)
    mask = mask if padding is None else mask & padding
    return scaled_dot_product_attention(query, key, value, mask, dropout)


def past(query: Tensor, key: Tensor, padding: Tensor | None) -> Tensor:
    """Hide what comes after each query, and the padding.

    Args:
        query: Shape (B, H, T, d_k): the last T of the S positions.
        key: Shape (B, H, S, d_k).
        padding: Boolean, shape (B, 1, 1, S), or None.

    Returns:
        Boolean, shape (1, 1, T, S) or (B, 1, T, S); True = may attend.
    """
    t, s = query.size(2), key.size(2)
    mask = torch.ones(t, s, dtype=torch.bool, device=key.device).tril(s - t)
    return mask[None, None] if padding is None else mask & padding
