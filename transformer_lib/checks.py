"""Refuse bad arguments, by the name the caller knows them by.

Each function takes keyword arguments only: ``require_positive(d_model=d_model)``.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


def require_positive(**sizes: int) -> None:
    """Raise ``ValueError`` unless every size is at least 1."""
    for name, size in sizes.items():
        if size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def require_not_negative(**sizes: float) -> None:
    """Raise ``ValueError`` unless every size is at least 0."""
    for name, size in sizes.items():
        if not size >= 0:  # as nan is not
            raise ValueError(f"{name} must be at least 0, got {size}")


def require_probability(**shares: float) -> None:
    """Raise ``ValueError`` unless every share is in [0, 1)."""
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise ValueError(f"{name} must be in [0, 1), got {share}")


def require_one_of(known: Iterable[str], **choices: str) -> None:
    """Raise ``ValueError`` unless every choice is one of the known ones."""
    for name, choice in choices.items():
        if choice not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {choice}")


def require_boolean(**masks: Tensor) -> None:
    """Raise ``TypeError`` unless every mask is boolean: other meanings are a guess."""
    for name, mask in masks.items():
        if mask.dtype != torch.bool:
            raise TypeError(f"{name} must be boolean, got {mask.dtype}")


def require_tokens(**batches: Tensor) -> None:
    """Refuse anything but a batch of token ids, shape (B, T), T at least 1.

    Raises:
        TypeError: If the ids are not integers.
        ValueError: If there are not two axes, or the sentences are empty.
    """
    for name, tokens in batches.items():
        if tokens.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"{name} must hold integer token ids, got {tokens.dtype}")
        if tokens.dim() != 2 or tokens.size(1) == 0:
            raise ValueError(
                f"{name} must have shape (batch, length) with a length of at least 1, "
                f"got {tuple(tokens.shape)}"
            )
