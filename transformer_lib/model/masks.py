"""Masks: who may attend to whom. True = may attend, as in ``torch.nn.functional``."""

import torch
from torch import Tensor

from transformer_lib.checks import require_not_negative


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
