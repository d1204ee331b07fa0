"""What every way of decoding shares: the prefixes, and the loop that extends them."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transformer_lib.checks import require_positive, require_whole
from transformer_lib.model import Transformer, padding_mask


class Prefixes:
    """The tokens written so far, and what the model needs to continue.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S).
        use_cache: Whether to keep keys and values from step to step.
    """

    def __init__(self, model: Transformer, src: Tensor, use_cache: bool) -> None:
        self.model = model
        self.memory = model.encode(src)  # (B, S, d_model)
        self.memory_mask = padding_mask(src, model.config.pad_id)  # (B, 1, 1, S)
        self.tokens = src.new_full((len(src), 1), model.config.bos_id)  # (B, 1)
        self.cache = model.new_cache() if use_cache else None

    def next_logits(self) -> Tensor:
        """Score every token as the next one of every prefix, shape (rows, vocab)."""
        # The cache holds the rest of the prefix.
        tokens = self.tokens if self.cache is None else self.tokens[:, -1:]
        logits = self.model.decode(tokens, self.memory, self.memory_mask, self.cache)
        logits = logits[:, -1]  # (rows, tgt_vocab_size)
        # As a target, PAD would be hidden from every later token.
        logits[:, self.model.config.pad_id] = float("-inf")
        return logits

    def append(self, tokens: Tensor) -> None:
        """Write one more token to every prefix, shape (rows)."""
        self.tokens = torch.cat([self.tokens, tokens[:, None]], dim=1)

    def select(self, rows: Tensor, *, same_memory: bool = False) -> None:
        """Keep only these rows, in this order; a row may come twice.

        Args:
            rows: Row numbers, shape (rows).
            same_memory: True if every row is replaced by one of the same sentence.
        """
        self.tokens = self.tokens[rows]
        if not same_memory:
            self.memory_mask = self.memory_mask[rows]
        if self.cache is not None:  # which holds all that is ever read of the memory
            self.cache.select(rows, same_memory=same_memory)
        elif not same_memory:
            self.memory = self.memory[rows]


def write_until_ended(
    prefixes: Prefixes,
    choose: Callable[[Tensor], Tensor],
    limits: Sequence[int],
) -> list[list[int]]:
    """Write token by token until every sentence has ended.

    A sentence that has ended leaves the batch.

    Args:
        prefixes: A row for each sentence, with nothing written but BOS.
        choose: The rule: takes the scores of every row's next token, shape (rows,
            tgt_vocab_size), and returns a token for each row, shape (rows).
        limits: The most tokens to write for each sentence, EOS included.

    Returns:
        For each sentence the ids that were written, without BOS and EOS.
    """
    written: list[list[int]] = [[] for _ in limits]
    sentences = list(range(len(limits)))  # which sentence each row of the batch is
    while sentences:
        tokens = choose(prefixes.next_logits())  # (rows)
        prefixes.append(tokens)
        going_on = []
        for row, token in enumerate(tokens.tolist()):
            sentence = sentences[row]
            if token != prefixes.model.config.eos_id:
                written[sentence].append(token)
                if len(written[sentence]) < limits[sentence]:
                    going_on.append(row)
        if 0 < len(going_on) < len(sentences):
            prefixes.select(torch.tensor(going_on, device=tokens.device))
        sentences = [sentences[row] for row in going_on]
    return written


def length_limits(model: Transformer, src: Tensor, max_len: int | None) -> list[int]:
    """Find how many tokens may be written for each sentence, EOS included.

    Args:
        model: The model; its ``max_len`` is never exceeded.
        src: Source token ids, shape (B, S).
        max_len: The same limit for all; None for the sentence's own length plus 50.

    Returns:
        A limit for each sentence.

    Raises:
        ValueError: If ``max_len`` is below 1 or above the model's.

    Source: Vaswani et al. (2017), section 6.1.
    """
    config = model.config
    if max_len is None:
        lengths = (src != config.pad_id).sum(dim=1).tolist()
        return [min(length + 50, config.max_len) for length in lengths]
    require_whole(max_len=max_len)
    require_positive(max_len=max_len)
    if max_len > config.max_len:
        raise ValueError(
            f"max_len must be at most the model's, got {max_len} and {config.max_len}"
        )
    return [max_len] * len(src)
