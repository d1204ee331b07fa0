"""Masks: who may attend to whom, and what other codebases call it.

Here and in ``torch.nn.functional``, True = may attend. Where True = hide, ``~``
converts.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from transformer_lib.checks import require_boolean, require_not_negative


def padding_mask(tokens: Tensor, pad_id: int) -> Tensor:
    """Hide the padding: every position may attend to real tokens only.

    Args:
        tokens: Token ids, shape (B, S).
        pad_id: The id that pads short sentences.

    Returns:
        Boolean, shape (B, 1, 1, S); True = may attend. One row serves every head and
        every query, by broadcasting.

    Raises:
        ValueError: If ``tokens`` is not of shape (B, S).
    """
    if tokens.dim() != 2:
        raise ValueError(f"tokens must have shape (B, S), got {tuple(tokens.shape)}")
    return (tokens != pad_id)[:, None, None, :]  # (B, 1, 1, S)


def causal_mask(size: int, device: torch.device | None = None) -> Tensor:
    """Hide the future: position t may attend to positions 0 to t.

    Args:
        size: The number of positions T.
        device: Where to make the mask.

    Returns:
        Boolean, shape (1, 1, T, T), True on and below the diagonal.

    Raises:
        ValueError: If ``size`` is negative.

    Source: Vaswani et al. (2017), section 3.2.3.
    """
    require_not_negative(size=size)
    allowed = torch.ones(size, size, dtype=torch.bool, device=device)  # (T, T)
    return allowed.tril()[None, None]  # (1, 1, T, T)


@dataclass(frozen=True, eq=False)
class CausalMask:
    """A decoder's self-attention mask, described instead of stored as (T, T) numbers.

    Attention that is always causal needs only this; other attention calls ``dense``.

    Args:
        padding: Of ``padding_mask``, shape (B, 1, 1, T); True = may attend.
    """

    padding: Tensor

    def dense(self) -> Tensor:
        """Hide the future and the padding, shape (B, 1, T, T)."""
        causal = causal_mask(self.padding.size(-1), self.padding.device)
        return causal & self.padding  # (B, 1, T, T)


def to_four_axes(mask: Tensor) -> Tensor:
    """Give a mask of any rank the four axes of the scores, (B, H, T, S).

    Args:
        mask: Boolean, shape (T, S), (B, T, S), or already (B, H, T, S); an axis may be
            of size 1. (B, S) means something else: see ``from_key_padding_mask``.

    Returns:
        The same mask, shape (1, 1, T, S), (B, 1, T, S) or (B, H, T, S).

    Raises:
        TypeError: If ``mask`` is not boolean.
        ValueError: If ``mask`` has another number of axes.
    """
    require_boolean(mask=mask)
    if mask.dim() == 2:
        return mask[None, None]  # (1, 1, T, S)
    if mask.dim() == 3:
        return mask[:, None]  # (B, 1, T, S)
    if mask.dim() == 4:
        return mask
    raise ValueError(f"mask must have 2, 3 or 4 axes, got shape {tuple(mask.shape)}")


def from_key_padding_mask(key_padding_mask: Tensor) -> Tensor:
    """Turn torch's ``key_padding_mask``, (B, S) with True = padding, into ours.

    Args:
        key_padding_mask: Boolean, shape (B, S); True = must not be attended to.

    Returns:
        Boolean, shape (B, 1, 1, S); True = may attend.

    Raises:
        TypeError: If ``key_padding_mask`` is not boolean.
        ValueError: If it is not of shape (B, S).
    """
    require_boolean(key_padding_mask=key_padding_mask)
    if key_padding_mask.dim() != 2:
        shape = tuple(key_padding_mask.shape)
        raise ValueError(f"key_padding_mask must have shape (B, S), got {shape}")
    return ~key_padding_mask[:, None, None, :]  # (B, 1, 1, S)


def to_key_padding_mask(mask: Tensor) -> Tensor:
    """Turn our padding mask into torch's ``key_padding_mask``.

    Args:
        mask: Boolean, shape (B, 1, 1, S); True = may attend.

    Returns:
        Boolean, shape (B, S); True = padding.

    Raises:
        TypeError: If ``mask`` is not boolean.
        ValueError: If ``mask`` differs between heads or queries, which (B, S) cannot
            say.
    """
    require_boolean(mask=mask)
    if mask.dim() != 4 or mask.shape[1:3] != (1, 1):
        raise ValueError(f"mask must have shape (B, 1, 1, S), got {tuple(mask.shape)}")
    return ~mask[:, 0, 0, :]  # (B, S)


def from_ones(ones: Tensor) -> Tensor:
    """Turn a mask of ones (may attend) and zeros (hidden) into ours.

    Args:
        ones: Integer or float, any shape, only 0 and 1.

    Returns:
        Boolean, the same shape; True = may attend.

    Raises:
        ValueError: If any value is neither 0 nor 1.
    """
    if not ((ones == 0) | (ones == 1)).all():
        raise ValueError(
            "ones must hold only 0 and 1, got values from "
            f"{ones.min().item()} to {ones.max().item()}"
        )
    return ones.bool()


def from_additive(additive: Tensor) -> Tensor:
    """Turn a mask that is added to the scores (0 = keep, -inf = hide) into ours.

    Args:
        additive: Float, any shape. Codebases hide with minus infinity, -1e9, or the
            smallest number of the dtype; anything up to -1e4 counts as hidden here.

    Returns:
        Boolean, the same shape; True = may attend.

    Raises:
        ValueError: If a value is neither 0 nor at most -1e4: that is a bias, not a
            mask.
    """
    hidden = additive <= -1e4
    if not ((additive == 0) | hidden).all():
        bias = additive[(additive != 0) & ~hidden][0]
        raise ValueError(f"additive must hold 0 or values up to -1e4, got {bias}")
    return ~hidden


def to_additive(mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Turn our mask into one that is added to the scores: 0 = keep, -inf = hide.

    Args:
        mask: Boolean, any shape; True = may attend.
        dtype: The dtype of the scores.

    Returns:
        0 where ``mask`` is True, minus infinity elsewhere; the same shape.

    Raises:
        TypeError: If ``mask`` is not boolean.
    """
    require_boolean(mask=mask)
    additive = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
    return additive.masked_fill(~mask, float("-inf"))
