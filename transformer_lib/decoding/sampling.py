"""Sampling: every token is drawn at random, according to its probability."""

import torch
from torch import Tensor

from transformer_lib.checks import require_positive
from transformer_lib.decoding.prefixes import (
    Prefixes,
    length_limits,
    write_until_ended,
)
from transformer_lib.model import Transformer, inference


def sample(
    model: Transformer,
    src: Tensor,
    *,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    max_len: int | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """Draw every token at random, according to its probability.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S), padded with the model's ``pad_id``.
        temperature: As for ``next_probabilities``.
        top_k: As for ``next_probabilities``.
        top_p: As for ``next_probabilities``.
        generator: Draws the random numbers, on the device of ``src``; None uses torch's
            own.
        max_len: As for ``greedy_decode``.
        use_cache: As for ``greedy_decode``.

    Returns:
        For each sentence the ids of its translation, without BOS and EOS.

    Raises:
        ValueError: As ``next_probabilities`` and ``greedy_decode`` do.
    """

    def draw(logits: Tensor) -> Tensor:
        probabilities = next_probabilities(logits, temperature, top_k, top_p)
        return probabilities.multinomial(1, generator=generator)[:, 0]  # (rows)

    with inference(model):
        limits = length_limits(model, src, max_len)
        prefixes = Prefixes(model, src, use_cache)
        return write_until_ended(prefixes, draw, limits)


def next_probabilities(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Turn scores into the probabilities with which tokens are drawn.

    Args:
        logits: Shape (rows, tgt_vocab_size).
        temperature: In [1e-9, 1e9]. Below 1 favours likely tokens, above 1 unlikely
            ones.
        top_k: Keep only this many of the likeliest tokens, and ties.
        top_p: Keep only the likeliest tokens that are needed to reach this share of the
            probability, in [1e-6, 1]; after ``top_k``.

    Returns:
        Shape (rows, tgt_vocab_size); each row sums to 1.

    Raises:
        ValueError: If an option is out of its range.

    Source: top-k: Fan et al. (2018), section 5.4; top-p: Holtzman et al. (2020),
    section 3.1.
    """
    if not 1e-9 <= temperature <= 1e9:  # beyond, no float holds the quotients
        raise ValueError(f"temperature must be in [1e-9, 1e9], got {temperature}")
    # Of numbers up to 0 no quotient overflows, in float16 either.
    logits = (logits - logits.amax(dim=-1, keepdim=True)) / temperature
    if top_k is not None:
        require_positive(top_k=top_k)
        least = logits.topk(min(top_k, logits.size(1))).values[:, -1:]  # (rows, 1)
        logits = logits.masked_fill(logits < least, float("-inf"))
    probabilities = logits.softmax(dim=-1)
    if top_p is None:
        return probabilities
    if not 1e-6 <= top_p <= 1:  # float16 would take less for 0
        raise ValueError(f"top_p must be in [1e-6, 1], got {top_p}")
    ordered, order = probabilities.sort(descending=True)
    before = ordered.cumsum(dim=-1) - ordered  # the share of the likelier tokens
    ordered = ordered.masked_fill(before >= top_p, 0.0)
    kept = torch.zeros_like(ordered).scatter(1, order, ordered)
    return kept / kept.sum(dim=-1, keepdim=True)
