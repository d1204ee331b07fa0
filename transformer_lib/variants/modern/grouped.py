"""Grouped attention: several heads of queries share one head of keys and values."""

from torch import Tensor, nn

from transformer_lib.checks import require_positive
from transformer_lib.model import (
    CrossAttentionCache,
    MultiHeadAttention,
    SelfAttentionCache,
)


class GroupedAttention(MultiHeadAttention):
    """Attention of H heads of queries, and G heads of keys and values.

    Heads 0 to H / G - 1 read the first head of keys, and so on. G = 1 is multi-query
    attention, G = H the paper's. A cache holds G heads: it is smaller by H / G.

    Args:
        d_model: Width of the inputs and of the output.
        num_heads: Number of heads of queries, H.
        num_key_heads: Number of heads of keys and values, G.
        bias: Whether the four projections add a bias.
        dropout: Share of the weights dropped while training, in [0, 1).
        d_k: Width of a head; None takes d_model / H.

    Raises:
        ValueError: As ``MultiHeadAttention``, or if ``num_key_heads`` or ``d_k`` is
            not positive, or ``num_key_heads`` does not divide ``num_heads``.

    Source: Ainslie et al. (2023), section 2.2; G = 1: Shazeer (2019).
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        num_key_heads: int,
        *,
        bias: bool = True,
        dropout: float = 0.0,
        d_k: int | None = None,
    ) -> None:
        sizes = {"d_model": d_model, "num_heads": num_heads}
        require_positive(**sizes, num_key_heads=num_key_heads)
        if d_k is not None:
            require_positive(d_k=d_k)
        if num_heads % num_key_heads != 0:
            raise ValueError(
                "num_heads must be divisible by num_key_heads, "
                f"got {num_heads} and {num_key_heads}"
            )
        width = d_model if d_k is None else num_heads * d_k
        super().__init__(width, num_heads, bias=bias, dropout=dropout)
        self.num_key_heads = num_key_heads
        key_width = width // num_heads * num_key_heads  # d_k * G
        self.w_q = nn.Linear(d_model, width, bias=bias)
        self.w_k = nn.Linear(d_model, key_width, bias=bias)
        self.w_v = nn.Linear(d_model, key_width, bias=bias)
        self.w_o = nn.Linear(width, d_model, bias=bias)

    def _keys_values(
        self,
        key: Tensor,
        value: Tensor,
        cache: SelfAttentionCache | CrossAttentionCache | None,
    ) -> tuple[Tensor, Tensor]:
        """Give every head its group's keys and values; a cache holds G heads."""
        k, v = super()._keys_values(key, value, cache)  # (B, G, S, d_k), (B, G, S, d_k)
        return self._spread(k), self._spread(v)  # (B, H, S, d_k), (B, H, S, d_k)

    def _project(self, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Make the keys and values of every group, shape (B, G, S, d_k) each."""
        groups = (self.num_key_heads, -1)
        k = self.w_k(key).unflatten(-1, groups).transpose(1, 2)  # (B, G, S, d_k)
        v = self.w_v(value).unflatten(-1, groups).transpose(1, 2)  # (B, G, S, d_k)
        return k, v

    def _spread(self, x: Tensor) -> Tensor:
        """Give each head what its group has: (B, G, S, d_k) to (B, H, S, d_k)."""
        return x.repeat_interleave(self.num_heads // self.num_key_heads, dim=1)
