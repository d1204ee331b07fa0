"""The softmax's weights, estimated by random features: the Performer."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from transformer_lib.checks import require_positive, require_whole
from transformer_lib.variants.attention.linear import LinearAttention


@dataclass(frozen=True)
class PerformerAttention(LinearAttention):
    """Linear attention whose weights are the softmax's, in the mean over seeds.

    More precisely, numerator and denominator are, each by itself. The error falls with
    the root of ``num_features``, and rises fast with the length of queries and keys: at
    scores of some size, uniform weights are nearer to the softmax's. Keys so long that
    their features would round to 0 get the same tiny weight each. A query that sees
    only such keys gets the mean of their values.

    Args:
        num_features: How many, F. Work and memory grow with it.
        seed: What the drawing of the features begins with; give every layer another,
            and never one that the data were drawn with.
        causal: Whether position t attends to the positions 0 to t alone. If not, it
            also does cross-attention.

    Raises:
        TypeError: If a number is not whole.
        ValueError: If ``num_features`` is not positive.

    Source: Choromanski et al. (2021), sections 2.3 and 2.4, without redrawing.
    """

    num_features: int
    seed: int

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(num_features=self.num_features, seed=self.seed)
        require_positive(num_features=self.num_features)

    def features(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Make random features, as ``softmax_features`` describes."""
        return softmax_features(query, key, self.num_features, self.seed)


def softmax_features(
    query: Tensor, key: Tensor, num_features: int, seed: int
) -> tuple[Tensor, Tensor]:
    """Make features whose products estimate exp(score), up to a factor of each query.

    With w from the normal distribution, exp(q . k) is the mean over w of
    exp(w . q - q . q / 2) times exp(w . k - k . k / 2).

    Args:
        query: Shape (B, H, T, d_k).
        key: Shape (B, H, S, d_k).
        num_features: Directions w to draw, F.
        seed: What their drawing begins with.

    Returns:
        Features, shapes (B, H, T, F) and (B, H, S, F), none below 0. The largest of
        each query is 1: a factor of all its weights cancels out. None of the keys' does
        so, since its size would depend on other keys.

    Source: Choromanski et al. (2021), lemma 1.
    """
    d_k = query.size(-1)
    w = directions(num_features, d_k, seed).to(query) / d_k**0.25  # the root of scores'
    k = key @ w.T - key.square().sum(dim=-1, keepdim=True) / (2 * d_k**0.5)
    q = query @ w.T  # (B, H, T, F)
    return (q - q.detach().amax(dim=-1, keepdim=True)).exp(), k.exp()


@lru_cache(maxsize=64)
def directions(num_features: int, width: int, seed: int) -> Tensor:
    """Draw directions, as if each were normal, but orthogonal within groups of width.

    Args:
        num_features: How many, F.
        width: Their width, d.
        seed: What the drawing begins with.

    Returns:
        Shape (F, d), float64, on the CPU.

    Source: Choromanski et al. (2021), section 2.4.
    """
    draw = {"generator": torch.Generator().manual_seed(seed), "dtype": torch.float64}
    groups = -(-num_features // width)  # rounded up
    turns, r = torch.linalg.qr(torch.randn(groups, width, width, **draw, device="cpu"))
    # The signs of the decomposition are no chance: the first number is never above 0.
    turns = turns * r.diagonal(dim1=-2, dim2=-1).sign()[:, None]
    lengths = torch.randn(num_features, width, **draw, device="cpu").norm(dim=-1)
    return turns.mT.flatten(0, 1)[:num_features] * lengths[:, None]
