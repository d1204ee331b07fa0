"""Attention: each position blends the values of the positions that match it."""

import math

from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.checks import (
    check_attention,
    require_positive,
    require_probability,
)
from transformer_lib.model.cache import CrossAttentionCache, SelfAttentionCache


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> tuple[Tensor, Tensor]:
    r"""Average the values, weighted by how well each key matches the query.

    Args:
        query: What each position looks for, shape (..., T, d_k).
        key: What each position offers, shape (..., S, d_k).
        value: What each position contributes, shape (..., S, d_v).
        mask: Boolean, broadcastable to (..., T, S); True = may attend. A query that may
            attend to nothing gets zeros. Hidden values must be finite: 0 * inf is nan.
        dropout: Share of the weights dropped on their way to the values, in [0, 1).
            Applied whenever it is above 0: pass 0 outside training.

    Returns:
        The attended values, shape (..., T, d_v), and the weights before dropout, shape
        (..., T, S): each row sums to 1, or to 0 where nothing may be attended to.

    Raises:
        TypeError, ValueError: As ``check_attention``.

    Source: Vaswani et al. (2017), section 3.2.1, equation 1.
    """
    check_attention(query, key, value, mask)
    scores = query @ key.transpose(-2, -1)  # (..., T, S)
    scores = scores / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    if mask is not None:
        # A row that is hidden everywhere is 0/0 = nan after softmax.
        weights = weights.masked_fill(~mask, 0.0)
    return F.dropout(weights, dropout) @ value, weights  # (..., T, d_v), (..., T, S)


def fused_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None = None,
    dropout: float = 0.0,
) -> Tensor:
    """Attend in one fused kernel, which never stores the (T, S) weights.

    Args and Raises are those of ``scaled_dot_product_attention``. The scores of hidden
    keys must also be finite, because the kernel adds minus infinity to them.

    Returns:
        The attended values, shape (..., T, d_v).
    """
    check_attention(query, key, value, mask)
    return F.scaled_dot_product_attention(query, key, value, mask, dropout)


class MultiHeadAttention(nn.Module):
    """Several attentions side by side, each in its own slice of the features.

    Self-attention is ``attention(x, x, x)``; cross-attention is
    ``attention(x, memory, memory)``.

    Args:
        d_model: Width of the inputs and of the output.
        num_heads: Number of heads H; each works on d_k = d_model / H features.
        bias: Whether the four projections add a bias.
        dropout: Share of the weights dropped while training, in [0, 1). Not in the
            paper; on a CPU it rules out the fused kernel.

    Attributes:
        attend: What every head computes with, ``fused_attention`` at first. It returns
            the attended values alone, without the weights.

    Raises:
        ValueError: If a size is not positive, ``num_heads`` does not divide
            ``d_model``, or ``dropout`` is outside [0, 1).

    Source: Vaswani et al. (2017), section 3.2.2.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_positive(d_model=d_model, num_heads=num_heads)
        require_probability(dropout=dropout)
        if d_model % num_heads != 0:
            raise ValueError(
                f"d_model must be divisible by num_heads, got {d_model} and {num_heads}"
            )
        self.num_heads = num_heads
        self.dropout = dropout
        self.w_q = nn.Linear(d_model, d_model, bias=bias)
        self.w_k = nn.Linear(d_model, d_model, bias=bias)
        self.w_v = nn.Linear(d_model, d_model, bias=bias)
        self.w_o = nn.Linear(d_model, d_model, bias=bias)
        self.attend = fused_attention

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None = None,
        cache: SelfAttentionCache | CrossAttentionCache | None = None,
    ) -> Tensor:
        """Project, attend in every head, and mix the heads.

        Args:
            query: Positions that ask, shape (B, T, d_model).
            key: Positions that are asked, shape (B, S, d_model).
            value: What they contribute, shape (B, S, d_model).
            mask: Boolean, broadcastable to (B, H, T, S); True = may attend.
            cache: The keys and values of earlier decoding steps, which the query also
                attends to; S includes them.

        Returns:
            Shape (B, T, d_model).

        Raises:
            TypeError, ValueError: As ``check_attention``; also if ``key`` does not
                belong in ``cache``.
        """
        q = self._split_heads(self.w_q(query))  # (B, H, T, d_k)
        k, v = self._keys_values(key, value, cache)  # (B, H, S, d_k), (B, H, S, d_k)
        dropout = self.dropout if self.training else 0.0
        heads = self.attend(q, k, v, mask, dropout)  # (B, H, T, d_k)
        return self.w_o(self._merge_heads(heads))  # (B, T, d_model)

    def _keys_values(
        self,
        key: Tensor,
        value: Tensor,
        cache: SelfAttentionCache | CrossAttentionCache | None,
    ) -> tuple[Tensor, Tensor]:
        """Project what no cache holds yet, and return all that the queries may read."""
        if cache is None:
            return self._project(key, value)
        if isinstance(cache, SelfAttentionCache):
            return cache.append(*self._project(key, value))
        if not cache.holds(key):
            cache.fill(key, *self._project(key, value))
        return cache.k, cache.v

    def _project(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Make the keys and values of every head, shape (B, H, S, d_k) each."""
        k = self._split_heads(self.w_k(key))  # (B, H, S, d_k)
        v = self._split_heads(self.w_v(value))  # (B, H, S, d_k)
        return k, v

    def _split_heads(self, x: Tensor) -> Tensor:
        """Cut the features into heads: (B, T, d_model) to (B, H, T, d_k)."""
        return x.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # (B, H, T, d_k)

    def _merge_heads(self, heads: Tensor) -> Tensor:
        """Lay the heads side by side again: (B, H, T, d_k) to (B, T, d_model)."""
        return heads.transpose(1, 2).flatten(-2)  # (B, T, d_model)
