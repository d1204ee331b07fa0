"""Attention without the softmax: products of features, so the brackets can move."""

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.variants.attention.variant import Mask, Variant

CHUNK = 64  # positions whose pairs are made; what is before them is one state


class LinearAttention(Variant):
    """Attention whose weights are products of features, all above 0.

    The weight of a key is f(query) . f(key), divided by the sum over the keys that are
    seen, where f is elu + 1. That is another function than the softmax of the scores.
    Work and memory grow with T and S, not with T * S. A cache still keeps every key.
    Numbers of 16 bits are added up in float32. It cannot drop weights, since it makes
    none.

    Args:
        causal: Whether position t attends to the positions 0 to t alone. If not, it
            also does cross-attention.

    Source: Katharopoulos et al. (2020), sections 3.2 and 3.3.
    """

    cross = True
    drops = False
    wide = True

    def features(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Make F features of each query and key, none below 0.

        Args:
            query: Shape (B, H, T, d_k).
            key: Shape (B, H, S, d_k).

        Returns:
            Shapes (B, H, T, F) and (B, H, S, F).
        """
        return elu_features(query, key)

    def compute(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> Tensor:
        """Sum up keys and values first, and ask afterwards: no (T, S) weights are made.

        Arguments are those of ``Variant.compute``, with a dropout of 0.
        """
        if query.size(2) == 1:  # with a cache: one row of weights is less than a state
            return self.weigh(query, key, value, padding, dropout)[0]
        q, k = self.features(query, key)
        k = without_hidden(k, padding)
        v = F.pad(value, (0, 1), value=1.0)  # the ones will be the sum of the weights
        out = sum_by_chunks(q, k, v) if self.causal else q @ (k.mT @ v)
        return out[..., :-1] / not_zero(out[..., -1:])

    def weigh(
        self, query: Tensor, key: Tensor, value: Tensor, padding: Mask, dropout: float
    ) -> tuple[Tensor, Tensor]:
        """Do the same with its weights, which takes T * S of them."""
        q, k = self.features(query, key)
        weights = q @ without_hidden(k, padding).mT  # (B, H, T, S)
        weights = weights.tril(key.size(2) - query.size(2)) if self.causal else weights
        weights = weights / not_zero(weights.sum(dim=-1, keepdim=True))
        return weights @ value, weights


def elu_features(query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
    """Make each number positive: exp(x) below 0, x + 1 above.

    Returns:
        Their features, in the same shapes. That is elu(x) + 1, where adding 1 does not
        round small numbers to 0. A query with no number above 0 is raised until its
        largest is 0: a factor of all its weights cancels out.

    Source: Katharopoulos et al. (2020), equation 7.
    """
    query = query - query.detach().amax(dim=-1, keepdim=True).clamp(max=0)
    q, k = (x.relu() + x.clamp(max=0).exp() for x in (query, key))
    return q, k


def sum_by_chunks(q: Tensor, k: Tensor, v: Tensor, size: int = CHUNK) -> Tensor:
    """Blend the values of all positions up to each query's own, chunk by chunk.

    What came before a chunk is one state of F times d numbers, a sum over the past.
    Within a chunk the pairs are made.

    Args:
        q: Features of the last T positions, shape (B, H, T, F).
        k: Features of all positions, shape (B, H, S, F).
        v: Shape (B, H, S, d).
        size: Positions in a chunk.

    Returns:
        The sum of q_t . k_s times v_s over s up to the position of t, shape
        (B, H, T, d).
    """
    t = q.size(2)
    first, size = k.size(2) - t, min(size, t)
    start = k[:, :, :first].transpose(-2, -1) @ v[:, :, :first]  # (B, H, F, d)
    q, k, v = (
        F.pad(x, (0, 0, 0, -t % size)).unflatten(2, (-1, size))  # (B, H, C, R, ...)
        for x in (q, k[:, :, first:], v[:, :, first:])
    )
    added = k.transpose(-2, -1) @ v  # (B, H, C, F, d): what each chunk adds
    past = torch.cat([start[:, :, None], added[:, :, :-1]], dim=2).cumsum(dim=2)
    out = q @ past + (q @ k.transpose(-2, -1)).tril() @ v  # (B, H, C, R, d)
    return out.flatten(2, 3)[:, :, :t]  # (B, H, T, d)


def without_hidden(k: Tensor, padding: Tensor | None) -> Tensor:
    """Set the features of hidden keys to 0, and with them their weights.

    The features of all other keys stay far enough above 0 that sums of weights, and
    gradients, can be divided by: a sum is 0 only if a query sees no key.

    Args:
        k: Features of the keys, shape (B, H, S, F).
        padding: Boolean, shape (B, 1, 1, S), or None.

    Returns:
        Shape (B, H, S, F).
    """
    k = k.clamp(min=torch.finfo(k.dtype).tiny ** 0.75)  # 4e-29 in float32
    return k if padding is None else k.masked_fill(~padding.transpose(-2, -1), 0.0)


def not_zero(total: Tensor) -> Tensor:
    """Replace sums of weights that are 0 by 1: a query that sees nothing gets 0 / 1."""
    return total.masked_fill(total == 0, 1.0)
