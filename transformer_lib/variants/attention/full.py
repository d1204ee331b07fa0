"""Attention to everything, or to all of the past: what the others are compared with."""

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.variants.attention.variant import Mask, MaskedVariant


class FullAttention(MaskedVariant):
    """The attention of the paper as a variant: ``FullAttention(causal=True)``.

    It computes what ``fused_attention`` does. If it is causal and nothing is padded,
    torch's kernel is told so, and leaves half of the scores out.

    Args:
        causal: Whether position t attends to the positions 0 to t alone. If not, it
            also does cross-attention.

    Source: Vaswani et al. (2017), section 3.2.
    """

    cross = True

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Average the values with torch's kernel."""
        square = query.size(2) == key.size(2)
        if self.causal and square and padding is None:
            return F.scaled_dot_product_attention(
                query, key, value, dropout_p=dropout, is_causal=True
            )
        mask = self.mask(query, key, padding)
        return F.scaled_dot_product_attention(query, key, value, mask, dropout)

    def mask(self, query: Tensor, key: Tensor, padding: Mask) -> Mask:
        """Hide the padding and, if causal, what comes after each query."""
        return past(query, key, padding) if self.causal else padding


def past(query: Tensor, key: Tensor, padding: Mask) -> Tensor:
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
