"""Refuse bad arguments, and name them as the caller does.

Each function takes them as keyword arguments: ``require_positive(d_model=d_model)``.
"""

import operator
from collections.abc import Iterable, Mapping
from dataclasses import fields
from types import UnionType
from typing import Any

import torch
from torch import Tensor

MOST_SHOWN = 20  # numbers of lines in an error


def require_no_faults(faults: Mapping[int, str], what: str) -> None:
    """Raise ``ValueError`` with the first fault, and say how many there are and where.

    Args:
        faults: What is wrong with each line of a file, by its number, in order.
        what: What is counted, such as "lines".
    """
    if not faults:
        return
    message, *others = faults.values()
    if others:
        first = ", ".join(map(str, list(faults)[:MOST_SHOWN]))
        more = ", ..." if len(faults) > MOST_SHOWN else ""
        message += f" ({len(faults)} bad {what}: {first}{more})"
    raise ValueError(message)


def require_positive(**sizes: int) -> None:
    """Raise ``ValueError`` unless every size is at least 1."""
    for name, size in sizes.items():
        if size is None or size < 1:
            raise ValueError(f"{name} must be at least 1, got {size}")


def require_whole(**numbers: int) -> None:
    """Raise ``TypeError`` unless every number is an integer, as 2.0 is not."""
    for name, number in numbers.items():
        try:
            operator.index(number)
        except TypeError as error:
            raise TypeError(f"{name} must be a whole number, got {number}") from error


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


def require_between(least: float, most: float, /, **numbers: float) -> None:
    """Raise ``ValueError`` unless every number is in [least, most]."""
    for name, number in numbers.items():
        if not least <= number <= most:  # as nan is not
            raise ValueError(f"{name} must be in [{least}, {most}], got {number}")


def require_finite(**numbers: float | Tensor) -> None:
    """Raise ``ValueError`` if a number, or one of a tensor's, is infinite or nan."""
    for name, number in numbers.items():
        # Also where models are built without memory, on torch's meta device.
        is_tensor = isinstance(number, Tensor)
        tensor = number if is_tensor else torch.tensor(number, device="cpu")
        found = tensor[~tensor.isfinite()]
        if found.numel():
            raise ValueError(f"{name} must be finite, got {found[0].item()}")


def require_one_of(known: Iterable[str], **choices: str) -> None:
    """Raise ``ValueError`` unless every choice is one of the known ones."""
    for name, choice in choices.items():
        if choice not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {choice}")


def require_type(kind: type | UnionType, /, **values: object) -> None:
    """Raise ``ValueError`` unless every value is of a type.

    Args:
        kind: A class, or a union such as ``int | None``. A float may be given as an
            int; a bool is not a number.
        **values: By the names for the error.
    """
    allowed = float | int if kind is float else kind
    said = kind.__name__ if isinstance(kind, type) else kind
    for name, value in values.items():
        if not isinstance(value, allowed) or isinstance(value, bool) != (kind is bool):
            raise ValueError(f"{name} must be {said}, got {value!r}")


def require_field_types(config: Any) -> None:
    """Raise ``ValueError`` unless every field of a dataclass has the declared type."""
    for field in fields(config):
        require_type(field.type, **{field.name: getattr(config, field.name)})


def require_boolean(**masks: Tensor) -> None:
    """Raise ``TypeError`` unless every mask is boolean: other meanings are a guess."""
    for name, mask in masks.items():
        if mask.dtype != torch.bool:
            raise TypeError(f"{name} must be boolean, got {mask.dtype}")


def require_width(width: int, **vectors: Tensor) -> None:
    """Raise ``ValueError`` unless the last axis of every tensor has this size."""
    for name, x in vectors.items():
        if x.size(-1) != width:
            raise ValueError(f"{name} must be {width} wide, got {x.size(-1)}")


def require_tokens(**batches: Tensor) -> None:
    """Refuse anything but batches of token ids, shape (B, T), T at least 1, the same B.

    Raises:
        TypeError: If the ids are not integers in a tensor.
        ValueError: If there are not two axes, the sentences are empty, or the batches
            differ in size.
    """
    for name, tokens in batches.items():
        if not isinstance(tokens, Tensor):
            kind = type(tokens).__name__
            raise TypeError(f"{name} must be a tensor of token ids, got a {kind}")
        if tokens.dtype not in (torch.int64, torch.int32):
            raise TypeError(f"{name} must hold integer token ids, got {tokens.dtype}")
        if tokens.dim() != 2 or tokens.size(1) == 0:
            raise ValueError(
                f"{name} must have shape (batch, length) with a length of at least 1, "
                f"got {tuple(tokens.shape)}"
            )
    sizes = [len(tokens) for tokens in batches.values()]
    if len(set(sizes)) > 1:
        raise ValueError(
            f"{' and '.join(batches)} must have the same number of sentences, "
            f"got {' and '.join(map(str, sizes))}"
        )


def check_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None
) -> None:
    """Refuse what the fused kernel would silently get wrong.

    On a CPU it drops keys when there are fewer values, and takes float masks as bias.

    Raises:
        TypeError: If ``mask`` is not boolean.
        ValueError: If the axes before the last two differ, the widths of ``query`` and
            ``key`` differ, the lengths of ``key`` and ``value`` differ, there is no
            key, or ``mask`` has fewer than two axes or does not broadcast.
    """
    if not query.shape[:-2] == key.shape[:-2] == value.shape[:-2]:
        leading = [tuple(x.shape[:-2]) for x in (query, key, value)]
        raise ValueError(
            "query, key and value must have the same axes before the last two, "
            f"got {leading[0]}, {leading[1]} and {leading[2]}"
        )
    if query.size(-1) != key.size(-1):
        raise ValueError(
            "query and key must have the same width, "
            f"got {query.size(-1)} and {key.size(-1)}"
        )
    if key.size(-2) != value.size(-2):
        raise ValueError(
            "key and value must have the same length, "
            f"got {key.size(-2)} and {value.size(-2)}"
        )
    if key.size(-2) == 0:
        raise ValueError("key must hold at least one position, got 0")
    if mask is None:
        return
    require_boolean(mask=mask)
    scores_shape = (*query.shape[:-1], key.size(-2))  # what query @ key^T will have
    try:
        mask.expand(scores_shape)
        fits = mask.dim() >= 2
    except RuntimeError:
        fits = False
    if not fits:
        raise ValueError(
            f"mask must broadcast to the scores, got {tuple(mask.shape)} "
            f"and {scores_shape}"
        )
