"""ALiBi: no positions, but a penalty on every score that grows with the distance."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.checks import require_positive, require_whole
from transformer_lib.variants.attention.full import past
from transformer_lib.variants.attention.variant import Mask, Variant


@dataclass(frozen=True)
class AlibiAttention(Variant):
    """Attention that subtracts from every score in proportion to the distance.

    Nothing is learned, and no sequence is too long. The penalties are a tensor of (H,
    T, S) numbers, which every call makes anew. Positions of two sequences have no
    distance: there is no cross-attention.

    Args:
        num_heads: Number of heads H; each has a slope of its own.
        causal: Whether position t attends to the positions 0 to t alone. If not, the
            penalty grows to both sides alike, and a sentence that is read backwards
            gives the same vectors, backwards.

    Raises:
        TypeError, ValueError: If ``num_heads`` is not a positive whole number.

    Source: Press et al. (2022), section 3. To both sides: their code.
    """

    num_heads: int
    places = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(num_heads=self.num_heads)
        require_positive(num_heads=self.num_heads)

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Let torch's kernel add the penalties to the scores."""
        penalty, mask = self.penalties(query, key, padding)
        if mask is not None:
            penalty = penalty.masked_fill(~mask, -math.inf)  # (B, H, T, S)
        return F.scaled_dot_product_attention(query, key, value, penalty, dropout)

    def weigh(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> tuple[Tensor, Tensor]:
        """Attend step by step, and also return the weights, shape (B, H, T, S)."""
        penalty, mask = self.penalties(query, key, padding)
        scores = query @ key.mT / math.sqrt(query.size(-1)) + penalty  # (B, H, T, S)
        if mask is not None:
            scores = scores.masked_fill(~mask, -math.inf)
        weights = scores.softmax(dim=-1)
        if mask is not None:
            weights = weights.masked_fill(~mask, 0.0)  # or a row without a key is nan
        return F.dropout(weights, dropout) @ value, weights

    def penalties(
        self, query: Tensor, key: Tensor, padding: Mask
    ) -> tuple[Tensor, Mask]:
        """Make what is added to the scores, and the mask of what is hidden.

        Arguments are those of ``Variant.compute``.

        Returns:
            The penalties, shape (1, H, T, S), 0 or less; and the mask, None where
            nothing is hidden.

        Raises:
            ValueError: If there is another number of heads.
        """
        heads, t, s = query.size(1), query.size(2), key.size(2)
        if heads != self.num_heads:
            raise ValueError(f"query must have {self.num_heads} heads, got {heads}")
        positions = torch.arange(s, device=key.device)
        distances = (positions[s - t :, None] - positions).abs()  # (T, S)
        slopes = alibi_slopes(heads).to(query)  # (H)
        penalty = -slopes[:, None, None] * distances  # (H, T, S)
        return penalty[None], past(query, key, padding) if self.causal else padding


def alibi_slopes(num_heads: int) -> Tensor:
    """List by how much each head lowers a score for every position in between.

    Of a power of 2, a geometric series that ends in 1/256: 1/2, 1/4 ... for 8 heads.
    For another number, those of the largest power of 2 below, and every other one of
    those of the next.

    Args:
        num_heads: Number of heads H.

    Returns:
        Shape (H), float64.

    Raises:
        ValueError: If ``num_heads`` is not positive.

    Source: Press et al. (2022), section 3; other numbers: their code.
    """
    require_positive(num_heads=num_heads)
    power = 2 ** int(math.log2(num_heads))
    steps = torch.arange(1, power + 1, dtype=torch.float64)  # (power)
    slopes = 2 ** (-8 * steps / power)
    between = 2 ** (-8 * (steps - 0.5) / power)  # of 2 * power heads, every other one
    return torch.cat([slopes, between])[:num_heads]  # (H)
