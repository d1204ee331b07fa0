"""Batches of sentence pairs with similar numbers of tokens and little padding."""

import random
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from transformer_lib.checks import require_positive

Pair = tuple[Sequence[int], Sequence[int]]


class Batch(NamedTuple):
    """Token ids of several pairs, padded.

    Args:
        src: Source sentences, each ended by EOS, shape (B, S).
        tgt: Target sentences between BOS and EOS, shape (B, T + 1): the decoder reads
            all but the last position and must answer all but the first.
    """

    src: Tensor
    tgt: Tensor

    def to(self, device: torch.device) -> Self:
        """Move both tensors to a device."""
        return type(self)(self.src.to(device), self.tgt.to(device))


def pad(sentences: Sequence[Sequence[int]], pad_id: int) -> Tensor:
    """Pad short sentences at their end.

    Args:
        sentences: Token ids; at least one sentence.
        pad_id: The id to pad with.

    Returns:
        The ids as one tensor, shape (B, length of the longest sentence).
    """
    rows = [torch.tensor(sentence, dtype=torch.int64) for sentence in sentences]
    return pad_sequence(rows, batch_first=True, padding_value=pad_id)  # (B, T)


def make_batch(
    pairs: Sequence[Pair], *, pad_id: int = 0, bos_id: int = 1, eos_id: int = 2
) -> Batch:
    """Put pairs of sentences into one batch.

    Args:
        pairs: Source and target token ids, without special tokens; at least one pair.
        pad_id: Pads short sentences.
        bos_id: Begins a target.
        eos_id: Ends a source and a target.

    Returns:
        The batch, its rows in the order of the pairs.
    """
    src = [[*source, eos_id] for source, _ in pairs]
    tgt = [[bos_id, *target, eos_id] for _, target in pairs]
    return Batch(pad(src, pad_id), pad(tgt, pad_id))


def token_batches(
    pairs: Sequence[Pair],
    max_tokens: int,
    *,
    seed: int | str | None = None,
    pad_id: int = 0,
    bos_id: int = 1,
    eos_id: int = 2,
) -> Iterator[Batch]:
    """Group pairs of similar length, so that a batch holds little padding.

    Every pair is in exactly one batch, whole.

    Args:
        pairs: Source and target token ids, without special tokens.
        max_tokens: Neither ``src`` nor the decoder's share of ``tgt`` of a batch has
            more tokens than this, padding and special tokens counted.
        seed: Shuffles pairs of equal length and the order of the batches, the same way
            each time; None leaves both in order of length.
        pad_id: Pads short sentences.
        bos_id: Begins a target.
        eos_id: Ends a source and a target.

    Returns:
        The batches, one at a time.

    Raises:
        ValueError: If one sentence has more tokens than ``max_tokens``: none is
            cut.
    """
    require_positive(max_tokens=max_tokens)
    shuffle = random.Random(seed).shuffle if seed is not None else lambda items: None
    order = list(range(len(pairs)))
    shuffle(order)
    order.sort(key=lambda i: _lengths(pairs[i]))  # equal lengths stay shuffled
    groups: list[list[int]] = []
    longest = 0
    for i in order:
        length = max(_lengths(pairs[i]))
        if length > max_tokens:
            raise ValueError(
                "max_tokens must be at least the length of every sentence, "
                f"got {max_tokens} and {length} in pairs[{i}]"
            )
        longest = max(longest, length)
        if not groups or longest * (len(groups[-1]) + 1) > max_tokens:
            groups.append([])
            longest = length
        groups[-1].append(i)
    shuffle(groups)
    ids = {"pad_id": pad_id, "bos_id": bos_id, "eos_id": eos_id}
    return (make_batch([pairs[i] for i in group], **ids) for group in groups)


def _lengths(pair: Pair) -> tuple[int, int]:
    """Count the target and the source tokens of a pair, EOS included."""
    source, target = pair
    return len(target) + 1, len(source) + 1
