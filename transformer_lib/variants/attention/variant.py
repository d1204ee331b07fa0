"""The interface between a kind of attention and the layer that uses it."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor

from transformer_lib.checks import (
    check_attention,
    require_boolean,
    require_probability,
)
from transformer_lib.model import scaled_dot_product_attention

Mask = Tensor | None  # boolean; True = may attend


@dataclass(frozen=True, eq=False)
class CausalMask:
    """A decoder's self-attention mask, described instead of stored as (T, T) numbers.

    Args:
        padding: Of ``padding_mask``, shape (B, 1, 1, T); True = may attend.
    """

    padding: Tensor


@dataclass(frozen=True)
class Variant(ABC):
    """Attention of another kind, in the place of ``fused_attention`` in a layer.

    It is called like that function: ``variant(query, key, value, mask, dropout)``. The
    queries are the last T of the S positions; with a cache, T is 1.

    A subclass computes the attended values in ``compute``. It may have a ``weigh``,
    which takes the same arguments and returns the values and the weights, shape (B, H,
    T, S). If it has choices, it is a frozen dataclass of them.

    Args:
        causal: Whether position t attends to the positions 0 to t alone.

    Attributes:
        cross: Whether, unless it is causal, the queries may be of another sequence than
            the keys.
        drops: Whether it can drop weights while training. Which are dropped differs
            from those that ``explicit`` drops with the same seed.
        places: Whether it makes the order of positions matter, so that a model that has
            it must not lose it to a variant that does not.
        wide: Whether it computes in float32 where the inputs have 16 bits, under
            autocast or not, because 16 bits are too few for its sums or unknown to its
            functions. The results have the dtype of the values.

    Raises:
        TypeError: If ``causal`` is neither True nor False.
    """

    causal: bool = field(kw_only=True)
    cross: ClassVar[bool] = False
    drops: ClassVar[bool] = True
    places: ClassVar[bool] = False
    wide: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if not isinstance(self.causal, bool):
            raise TypeError(f"causal must be True or False, got {self.causal!r}")

    @abstractmethod
    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Attend, once the inputs have been checked.

        Args:
            query: Shape (B, H, T, d_k).
            key: Shape (B, H, S, d_k).
            value: Shape (B, H, S, d_v).
            padding: What is left of the mask: None, or boolean, shape (B, 1, 1, S) or
                (1, 1, 1, S).
            dropout: Share of the weights dropped, in [0, 1).

        Returns:
            The attended values, shape (B, H, T, d_v).
        """

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | CausalMask = None,
        dropout: float = 0.0,
    ) -> Tensor:
        """Attend.

        Args:
            query: What the last T positions look for, shape (B, H, T, d_k).
            key: What each position offers, shape (B, H, S, d_k).
            value: What each position hands over, shape (B, H, S, d_v).
            mask: None, a padding mask of shape (B, 1, 1, S), or a ``CausalMask`` if the
                variant is causal. A causal variant hides the future under any mask.
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
        return self._checked(self.compute, query, key, value, mask, dropout)

    @property
    def explicit(self) -> Callable[..., tuple[Tensor, Tensor]] | None:
        """The same attention with its weights, slow and plain; None if it has none.

        It takes what the variant takes, and returns the attended values, shape (B, H,
        T, d_v), and the weights before dropout, shape (B, H, T, S).
        """
        weigh = getattr(self, "weigh", None)
        return None if weigh is None else partial(self._checked, weigh)

    def _checked(
        self,
        form: Callable[..., Any],
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Mask | CausalMask = None,
        dropout: float = 0.0,
    ) -> Any:
        """Call ``compute`` or ``weigh`` with inputs that fit, widened if need be."""
        check_attention(query, key, value, None)
        self._require_fit(query, key, dropout)
        padding = self._padding(query, key, mask)
        if not self.wide:
            return form(query, key, value, padding, dropout)
        with torch.autocast(query.device.type, enabled=False):
            inputs = (
                x.to(torch.promote_types(x.dtype, torch.float32))
                for x in (query, key, value)
            )
            found = form(*inputs, padding, dropout)
        if isinstance(found, Tensor):
            return found.to(value.dtype)
        return tuple(x.to(value.dtype) for x in found)

    def _require_fit(self, query: Tensor, key: Tensor, dropout: float) -> None:
        """Refuse inputs that the variant cannot attend with."""
        if query.dim() != 4:
            shape = tuple(query.shape)
            raise ValueError(f"query must have shape (B, H, T, d_k), got {shape}")
        if query.size(2) > key.size(2) and (self.causal or not self.cross):
            raise ValueError(
                f"query must be at most as long as key with {self}, "
                f"got {query.size(2)} and {key.size(2)}"
            )
        require_probability(dropout=dropout)
        if dropout > 0 and not self.drops:
            raise ValueError(f"dropout must be 0 with {self}, got {dropout}")

    def _padding(self, query: Tensor, key: Tensor, mask: Mask | CausalMask) -> Mask:
        """Refuse masks of other kinds; what is left of the mask is padding."""
        if isinstance(mask, CausalMask):
            if not self.causal:
                raise ValueError(
                    f"mask must not be causal with {self}, got a CausalMask"
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
                f"with {self}, got {tuple(mask.shape)}"
            )
        return mask


class MaskedVariant(Variant):
    """The paper's attention under a mask of its own, computed with less work."""

    @abstractmethod
    def mask(self, query: Tensor, key: Tensor, padding: Mask) -> Mask:
        """Say which pairs it computes.

        Args:
            query: Shape (B, H, T, d_k).
            key: Shape (B, H, S, d_k).
            padding: Boolean, shape (B, 1, 1, S) or (1, 1, 1, S), or None.

        Returns:
            Boolean, broadcastable to (B, H, T, S), or None if no pair is hidden.
        """

    def weigh(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> tuple[Tensor, Tensor]:
        """Compute all pairs and hide those that the mask hides: nothing is saved."""
        mask = self.mask(query, key, padding)
        return scaled_dot_product_attention(query, key, value, mask, dropout)
