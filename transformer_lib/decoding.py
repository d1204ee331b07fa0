"""Decoding: write a translation token by token, each one fed back to the model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from transformer_lib.cache import DecoderCache
from transformer_lib.checks import require_positive
from transformer_lib.masks import padding_mask
from transformer_lib.model import Transformer


def greedy_decode(
    model: Transformer,
    src: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    max_len: int | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """Take the likeliest token at every step.

    Decoding runs without dropout and gradients, and leaves the model in the mode it was
    in. PAD is never written.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S), padded with the model's ``pad_id``.
        bos_id: The id that every translation begins with.
        eos_id: The id that ends one.
        max_len: The most tokens to write for a sentence, EOS included. Without it, as
            many as the sentence has and 50 more, or the model's ``max_len`` if that is
            less. A translation that is cut off there has exactly that many tokens; any
            other has fewer, since EOS is left out.
        use_cache: False computes the whole prefix anew for every token: the same
            translations, slowly.

    Returns:
        For each sentence the ids of its translation, without BOS and EOS.

    Raises:
        ValueError: If ``max_len`` is below 1 or above the model's, or the model is
            decoder-only.

    Source: Vaswani et al. (2017), section 6.1, for the length.
    """

    def likeliest(logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1)

    with inference(model):
        limits = length_limits(model, src, max_len)
        prefixes = Prefixes(model, src, bos_id, limits.max().item(), use_cache)
        return _write(prefixes, likeliest, eos_id, limits)


def length_limits(model: Transformer, src: Tensor, max_len: int | None) -> Tensor:
    """Find how many tokens may be written for each sentence, EOS included.

    Args:
        model: The model; its ``max_len`` is never exceeded.
        src: Source token ids, shape (B, S).
        max_len: The same limit for all; None for the sentence's own length plus 50.

    Returns:
        Shape (B), integers.

    Raises:
        ValueError: If ``max_len`` is below 1 or above the model's.

    Source: Vaswani et al. (2017), section 6.1.
    """
    config = model.config
    if max_len is None:
        lengths = (src != config.pad_id).sum(dim=1)  # (B)
        return (lengths + 50).clamp(max=config.max_len)
    require_positive(max_len=max_len)
    if max_len > config.max_len:
        raise ValueError(
            f"max_len must be at most the model's, got {max_len} and {config.max_len}"
        )
    return torch.full(src.shape[:1], max_len, device=src.device)  # (B)


@contextmanager
def inference(model: Transformer) -> Iterator[None]:
    """Switch dropout and gradients off for a while."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        with torch.inference_mode():
            yield
    finally:
        for module, training in modes:
            module.training = training


class Prefixes:
    """What has been written so far, and what the model needs to go on.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S).
        bos_id: The id that every translation begins with.
        max_len: The most tokens that will be written.
        use_cache: Whether to keep keys and values from step to step.
    """

    def __init__(
        self,
        model: Transformer,
        src: Tensor,
        bos_id: int,
        max_len: int,
        use_cache: bool,
    ) -> None:
        self.model = model
        self.memory = model.encode(src)  # (B, S, d_model)
        self.memory_mask = padding_mask(src, model.config.pad_id)  # (B, 1, 1, S)
        self.tokens = src.new_full((src.size(0), 1), bos_id)  # (B, 1)
        self.cache = None
        if use_cache:
            self.cache = DecoderCache(model.config.num_layers, max_len)

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

    def select(self, rows: Tensor) -> None:
        """Keep only these rows, in this order; a row may come twice."""
        self.tokens = self.tokens[rows]
        self.memory_mask = self.memory_mask[rows]
        if self.cache is None:
            self.memory = self.memory[rows]
        else:  # which holds all that is ever read of the memory
            self.cache.select(rows)


def _write(
    prefixes: Prefixes,
    choose: Callable[[Tensor], Tensor],
    eos_id: int,
    limits: Tensor,
) -> list[list[int]]:
    """Write all translations; a sentence that has ended leaves the batch."""
    written: list[list[int]] = [[] for _ in limits]
    sentences = torch.arange(len(limits), device=limits.device)
    while len(sentences) > 0:
        tokens = choose(prefixes.next_logits())  # (rows)
        prefixes.append(tokens)
        length = prefixes.tokens.size(1) - 1  # without BOS
        ended = (tokens == eos_id) | (limits[sentences] == length)  # (rows)
        if ended.any():
            endings = prefixes.tokens[ended, 1:].tolist()
            for sentence, ids in zip(sentences[ended].tolist(), endings, strict=True):
                written[sentence] = ids[:-1] if ids[-1] == eos_id else ids
            going_on = (~ended).nonzero().flatten()
            sentences = sentences[going_on]
            prefixes.select(going_on)
    return written
