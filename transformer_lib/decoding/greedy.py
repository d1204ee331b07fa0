"""Greedy decoding: the likeliest token at every step."""

from torch import Tensor

from transformer_lib.decoding.prefixes import (
    Prefixes,
    length_limits,
    write_until_ended,
)
from transformer_lib.model import Transformer, inference


def greedy_decode(
    model: Transformer,
    src: Tensor,
    *,
    max_len: int | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """Take the likeliest token at every step.

    Decoding runs without dropout and gradients, and leaves the model in the mode it was
    in. PAD is never written.

    Args:
        model: A model with an encoder, or a ``FastDecoder`` of one.
        src: Source token ids, shape (B, S), padded with the model's ``pad_id``.
        max_len: The most tokens to write for a sentence, EOS included. None allows 50
            more than the sentence has, but never more than the model's ``max_len``. A
            translation that is cut off has exactly that many tokens; any other has
            fewer, since EOS is left out.
        use_cache: False computes the whole prefix again for every token: the same
            translations, more slowly.

    Returns:
        For each sentence the ids of its translation, without BOS and EOS.

    Raises:
        ValueError: If ``max_len`` is below 1 or above the model's.

    Source: Vaswani et al. (2017), section 6.1, for the length.
    """

    def likeliest(logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1)  # (rows)

    with inference(model):
        limits = length_limits(model, src, max_len)
        prefixes = Prefixes(model, src, use_cache)
        return write_until_ended(prefixes, likeliest, limits)
