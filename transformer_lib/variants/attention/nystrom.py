"""Attention by way of a few landmarks, the means of neighbouring positions."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from transformer_lib.checks import require_positive, require_whole
from transformer_lib.model import fused_attention, scaled_dot_product_attention
from transformer_lib.variants.attention.variant import Mask, Variant


@dataclass(frozen=True)
class NystromAttention(Variant):
    """Attention that computes scores with landmarks alone, not with each key.

    Work and memory grow with T * ``num_landmarks``. With as many landmarks as visible
    positions, it is full attention. It cannot be causal, since a landmark is a mean
    that has the future in it. There must be as many queries as keys. Weights of its
    explicit form may be below 0. It cannot drop weights, since it makes none.

    Args:
        num_landmarks: How many, M. Each is the mean over as many neighbouring visible
            positions as the others, give or take one; padding is in none of them. Where
            fewer positions are visible, there are only as many.

    Raises:
        TypeError, ValueError: If ``num_landmarks`` is not a positive whole number.

    Source: Xiong et al. (2021), section 3, with an exact pseudoinverse.
    """

    num_landmarks: int
    causal: bool = field(default=False, init=False, repr=False)
    drops = False
    wide = True  # torch has no pseudoinverse of 16 bits

    def __post_init__(self) -> None:
        require_whole(num_landmarks=self.num_landmarks)
        require_positive(num_landmarks=self.num_landmarks)

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Let landmarks attend to the keys, and the queries to the landmarks.

        Arguments are those of ``Variant.compute``, with T = S.
        """
        q, k, there, inverse = landmarks(query, key, padding, self.num_landmarks)
        read = fused_attention(q, key, value, padding)  # (B, H, M, d_v)
        return fused_attention(query, k, inverse @ read, there)  # (B, H, S, d_v)

    def weigh(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> tuple[Tensor, Tensor]:
        """Do the same with its weights, shape (B, H, S, S)."""
        q, k, there, inverse = landmarks(query, key, padding, self.num_landmarks)
        _, to_keys = scaled_dot_product_attention(q, key, value, padding)
        _, to_landmarks = scaled_dot_product_attention(query, k, k, there)
        weights = to_landmarks @ inverse @ to_keys  # (B, H, S, S)
        return weights @ value, weights


def landmarks(
    query: Tensor, key: Tensor, padding: Tensor | None, num_landmarks: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Make the landmarks, and undo what they attend to among themselves.

    Args:
        query: Shape (B, H, S, d_k).
        key: Shape (B, H, S, d_k).
        padding: Boolean, shape (B, 1, 1, S), or None.
        num_landmarks: How many, M.

    Returns:
        Those of the queries and of the keys, shape (B, H, M, d_k); which of them there
        are, boolean, shape (B, 1, 1, M); and the pseudoinverse of their attention to
        each other, shape (B, H, M, M).

    Raises:
        ValueError: If there are not as many queries as keys.
    """
    if query.size(2) != key.size(2):
        raise ValueError(
            "query must be as long as key with landmarks, "
            f"got {query.size(2)} and {key.size(2)}"
        )
    members = cut(padding, key, num_landmarks)  # (B, 1, M, S)
    size = members.sum(dim=-1, keepdim=True)  # (B, 1, M, 1)
    means = members.to(key.dtype) / size.clamp(min=1)
    q, k, there = means @ query, means @ key, size > 0
    pairs = there & there.mT  # (B, 1, M, M)
    between = scaled_dot_product_attention(q, k, k, pairs)[1]  # (B, H, M, M)
    # Directions so weak that dividing by them would enlarge mere rounding are left out.
    weakest = torch.finfo(key.dtype).eps ** 0.5
    return q, k, there.mT, torch.linalg.pinv(between, rtol=weakest)


def cut(padding: Tensor | None, key: Tensor, num_landmarks: int) -> Tensor:
    """Cut the visible positions into as many runs as there are landmarks.

    Args:
        padding: Boolean, shape (B, 1, 1, S), or None.
        key: Shape (B, H, S, d_k).
        num_landmarks: How many, M.

    Returns:
        Which position belongs to which, boolean, shape (B, 1, M, S), B or 1 rows. Of
        fewer positions than M, each has one of its own, and the others have none.
    """
    if padding is None:
        padding = torch.ones(1, 1, 1, key.size(2), dtype=torch.bool, device=key.device)
    place = padding.cumsum(dim=-1) - 1  # among those that are visible
    visible = padding.sum(dim=-1, keepdim=True)
    run = place * num_landmarks // visible.clamp(min=1)  # (B, 1, 1, S)
    own = torch.arange(num_landmarks, device=key.device)[:, None]  # (M, 1)
    return (run == own) & padding
