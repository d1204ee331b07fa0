"""Hidden tokens: what an encoder alone learns from, as BERT does."""

from collections.abc import Collection
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_lib.checks import require_boolean, require_probability
from transformer_lib.training import label_smoothed_loss


class MaskedTokens(NamedTuple):
    """A text with holes.

    Args:
        ids: What the model reads, shape (B, S).
        judged: Boolean, shape (B, S); True = the model must say what stood here.
    """

    ids: Tensor
    judged: Tensor


def mask_tokens(
    tokens: Tensor,
    *,
    mask_id: int,
    special_ids: Collection[int],
    vocab_size: int,
    share: float = 0.15,
    masked: float = 0.8,
    random: float = 0.1,
    generator: torch.Generator | None = None,
) -> MaskedTokens:
    """Choose some of the words by chance, and hide most of those.

    Of the chosen words, the share ``masked`` becomes ``mask_id``, ``random`` becomes
    any word of the vocabulary, the right one perhaps, and the rest stays as it is. All
    of them are judged.

    Args:
        tokens: Token ids, shape (B, S).
        mask_id: The id that says: here was a word.
        special_ids: Ids that are never chosen and never drawn, such as PAD and EOS.
            ``mask_id`` is one of them in any case.
        vocab_size: Number of ids.
        share: Of the words, how many are chosen, in [0, 1).
        masked: Of the chosen, how many become ``mask_id``.
        random: Of the chosen, how many become a word drawn by chance.
        generator: Where the random numbers come from, on the device of ``tokens``;
            torch's own without it.

    Raises:
        ValueError: If ``share`` is outside [0, 1), ``masked`` or ``random`` is negative
            or both are more than 1 together, or no id of the vocabulary is a word.

    Source: Devlin et al. (2019), section 3.1, task 1.
    """
    require_probability(share=share)
    if min(masked, random) < 0 or masked + random > 1:
        raise ValueError(
            "masked and random must be shares of at most 1 together, "
            f"got {masked} and {random}"
        )
    special = sorted({*special_ids, mask_id})
    words = [i for i in range(vocab_size) if i not in special]
    if not words:
        raise ValueError(
            "vocab_size must leave a word beside the special ids, "
            f"got {vocab_size} and {special}"
        )
    options = {"device": tokens.device, "generator": generator}
    is_word = ~torch.isin(tokens, tokens.new_tensor(special))  # (B, S)
    judged = is_word & (torch.rand(tokens.shape, **options) < share)  # (B, S)
    fate = torch.rand(tokens.shape, **options)  # (B, S)
    ids = tokens.masked_fill(judged & (fate < masked), mask_id)  # (B, S)
    drawn = torch.randint(len(words), tokens.shape, **options)  # (B, S)
    changed = judged & (fate >= masked) & (fate < masked + random)  # (B, S)
    ids = torch.where(changed, tokens.new_tensor(words)[drawn], ids)  # (B, S)
    return MaskedTokens(ids, judged)


def masked_token_loss(
    logits: Tensor, tokens: Tensor, judged: Tensor, pad_id: int
) -> Tensor:
    """Average the cross-entropy over the judged tokens, and over no other.

    Args:
        logits: A score for every token of the vocabulary, shape (B, S, V).
        tokens: The text without holes, shape (B, S).
        judged: Boolean, shape (B, S).
        pad_id: An id that is never judged.

    Returns:
        The mean in nats, a scalar; 0 if nothing is judged.

    Raises:
        TypeError: If ``judged`` is not boolean.
        ValueError: If the shapes do not fit.
    """
    require_boolean(judged=judged)
    if judged.shape != tokens.shape:
        raise ValueError(
            "judged must have the shape of tokens, "
            f"got {tuple(judged.shape)} and {tuple(tokens.shape)}"
        )
    targets = tokens.masked_fill(~judged, pad_id)  # (B, S)
    total = label_smoothed_loss(logits, targets, pad_id, smoothing=0.0)
    return total / (targets != pad_id).sum().clamp(min=1)
