"""What a kind of attention says about itself, and what it takes from a layer."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_lib.attention import check_attention
from transformer_lib.checks import require_boolean, require_probability
from transformer_lib.masks import CausalMask

Mask = Tensor | CausalMask | None


@dataclass(frozen=True, kw_only=True)
class Variant:
    """Attention of another kind, in the place of ``fused_attention`` in a layer.

    It is called as that is: ``variant(query, key, value, mask, dropout)``. The queries
    are the last T of the S positions, as with a cache, where T is 1. Functions inside
    get the mask as padding alone: None, or boolean of shape (B, 1, 1, S), B or 1 rows.
    The rest is for them to know.

    Args:
        name: How it was made, for errors: ``"window_attention(3, causal=True)"``.
        causal: Whether position t attends to the positions 0 to t alone.
        compute: From query, key, value, padding and dropout to the attended values,
            shape (B, H, T, d_v). A partial of a function of a module can be pickled.
        weigh: The same with the weights beside it, shape (B, H, T, S), for those who
            want to look at them; None if there are none.
        cross: Whether the queries may be of another sequence than the keys.
        drops: Whether it can drop weights while training. Which are dropped differs
            from those that ``explicit`` drops with the same seed.
        places: Whether it tells the positions, so that a model that has it must not
            lose it for another that does not.
        wide: Whether it computes in float32 where the inputs have 16 bits, under
            autocast or not, because 16 bits are too few for its sums or not known to
            its functions. The results have the dtype of the values.

    Raises:
        TypeError: If ``causal`` is neither True nor False.
    """

    name: str
    causal: bool
    compute: Callable[..., Tensor]
    weigh: Callable[..., tuple[Tensor, Tensor]] | None = None
    cross: bool = False
    drops: bool = True
    places: bool = False
    wide: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.causal, bool):
            raise TypeError(f"causal must be True or False, got {self.causal!r}")

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask = None,
        dropout: float = 0.0,
    ) -> Tensor:
        """Attend.

        Args:
            query: What the last T positions look for, shape (B, H, T, d_k).
            key: What each position offers, shape (B, H, S, d_k).
            value: What each position hands over, shape (B, H, S, d_v).
            mask: None, a padding mask of shape (B, 1, 1, S), or a ``CausalMask`` if the
                variant is causal, which it is without one, too.
            dropout: Share of the weights dropped, in [0, 1).

        Returns:
            The attended values, shape (B, H, T, d_v); zeros for a query that may attend
            to nothing.

        Raises:
            TypeError: If ``mask`` is neither a tensor nor a ``CausalMask``, or is not
                boolean.
            ValueError: If shapes do not fit, there are more queries than keys, unless
                they may be of another sequence, the mask is of another kind, or
                ``dropout`` is outside [0, 1), or above 0 and the variant cannot drop.
        """
        padding = self._padding(query, key, value, mask, dropout)
        if not self.wide:
            return self.compute(query, key, value, padding, dropout)
        with torch.autocast(query.device.type, enabled=False):
            inputs = (widened(x) for x in (query, key, value))
            return self.compute(*inputs, padding, dropout).to(value.dtype)

    @property
    def explicit(self) -> Callable[..., tuple[Tensor, Tensor]] | None:
        """The same attention with its weights, slow and plain; None if it has none.

        It takes what the variant takes, and returns the attended values, shape (B, H,
        T, d_v), and the weights before dropout, shape (B, H, T, S).
        """
        return None if self.weigh is None else self._explicit

    def _explicit(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask = None,
        dropout: float = 0.0,
    ) -> tuple[Tensor, Tensor]:
        padding = self._padding(query, key, value, mask, dropout)
        if not self.wide:
            return self.weigh(query, key, value, padding, dropout)
        with torch.autocast(query.device.type, enabled=False):
            inputs = (widened(x) for x in (query, key, value))
            heads, weights = self.weigh(*inputs, padding, dropout)
        return heads.to(value.dtype), weights.to(value.dtype)

    def _padding(
        self, query: Tensor, key: Tensor, value: Tensor, mask: Mask, dropout: float
    ) -> Tensor | None:
        """Refuse what the variant cannot do; what is left of the mask is padding."""
        check_attention(query, key, value, None)
        if query.dim() != 4:
            shape = tuple(query.shape)
            raise ValueError(f"query must have shape (B, H, T, d_k), got {shape}")
        if query.size(2) > key.size(2) and not self.cross:
            raise ValueError(
                f"query must be at most as long as key with {self.name}, "
                f"got {query.size(2)} and {key.size(2)}"
            )
        require_probability(dropout=dropout)
        if dropout > 0 and not self.drops:
            raise ValueError(f"dropout must be 0 with {self.name}, got {dropout}")
        if isinstance(mask, CausalMask):
            if not self.causal:
                raise ValueError(
                    f"mask must not be causal with {self.name}, got a CausalMask"
                )
            mask = mask.padding
        if mask is None:
            return None
        if not isinstance(mask, Tensor):
            kind = type(mask).__name__
            raise TypeError(f"mask must be a tensor or a CausalMask, got a {kind}")
        require_boolean(mask=mask)
        rows, keys = query.size(0), key.size(2)
        if mask.shape not in ((rows, 1, 1, keys), (1, 1, 1, keys)):
            raise ValueError(
                f"mask must be None, a CausalMask or of shape {(rows, 1, 1, keys)} "
                f"with {self.name}, got {tuple(mask.shape)}"
            )
        return mask


def widened(x: Tensor) -> Tensor:
    """Give numbers of 16 bits 32; others stay as they are."""
    return x.to(torch.promote_types(x.dtype, torch.float32))
