"""Decoding: write a translation token by token, each one fed back to the model."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_lib.checks import require_positive
from transformer_lib.model import Transformer, inference, padding_mask


class Prefixes:
    """What has been written so far, and what the model needs to go on.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S).
        bos_id: The id that every translation begins with.
        use_cache: Whether to keep keys and values from step to step.

    Raises:
        ValueError: If ``bos_id`` is the model's ``pad_id``: as padding, it would be
            hidden from the tokens after it.
    """

    def __init__(
        self, model: Transformer, src: Tensor, bos_id: int, use_cache: bool
    ) -> None:
        if bos_id == model.config.pad_id:
            raise ValueError(
                "bos_id must differ from the model's pad_id, "
                f"got {bos_id} and {model.config.pad_id}"
            )
        self.model = model
        self.memory = model.encode(src)  # (B, S, d_model)
        self.memory_mask = padding_mask(src, model.config.pad_id)  # (B, 1, 1, S)
        self.tokens = src.new_full((src.size(0), 1), bos_id)  # (B, 1)
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
            same_memory: True says that every row gets one of the same sentence.
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
    eos_id: int,
    limits: Sequence[int],
) -> list[list[int]]:
    """Write token by token until every sentence has ended.

    A sentence that has ended leaves the batch.

    Args:
        prefixes: A row for each sentence, with nothing written but BOS.
        choose: The rule: takes the scores of every row's next token, shape (rows,
            tgt_vocab_size), and returns a token for each row, shape (rows).
        eos_id: The id that ends a sentence.
        limits: For each sentence the most tokens to write, EOS included.

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
            if token != eos_id:
                written[sentence].append(token)
                if len(written[sentence]) < limits[sentence]:
                    going_on.append(row)
        if 0 < len(going_on) < len(sentences):
            prefixes.select(torch.tensor(going_on, device=tokens.device))
        sentences = [sentences[row] for row in going_on]
    return written


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
        model: A model with an encoder, or a ``FastDecoder`` of one.
        src: Source token ids, shape (B, S), padded with the model's ``pad_id``.
        bos_id: The id that every translation begins with, another than PAD's.
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
        ValueError: If ``max_len`` is below 1 or above the model's, ``bos_id`` is the
            model's ``pad_id``.

    Source: Vaswani et al. (2017), section 6.1, for the length.
    """

    def likeliest(logits: Tensor) -> Tensor:
        return logits.argmax(dim=-1)  # (rows)

    with inference(model):
        limits = length_limits(model, src, max_len)
        prefixes = Prefixes(model, src, bos_id, use_cache)
        return write_until_ended(prefixes, likeliest, eos_id, limits)


def sample(
    model: Transformer,
    src: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    generator: torch.Generator | None = None,
    max_len: int | None = None,
    use_cache: bool = True,
) -> list[list[int]]:
    """Draw every token at random, the likelier the more often.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S), padded with the model's ``pad_id``.
        bos_id: The id that every translation begins with.
        eos_id: The id that ends one.
        temperature: As for ``next_probabilities``.
        top_k: As for ``next_probabilities``.
        top_p: As for ``next_probabilities``.
        generator: Where the random numbers come from, on the device of ``src``; torch's
            own without it.
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
        prefixes = Prefixes(model, src, bos_id, use_cache)
        return write_until_ended(prefixes, draw, eos_id, limits)


def next_probabilities(
    logits: Tensor,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
) -> Tensor:
    """Turn scores into the probabilities that a token is drawn with.

    Args:
        logits: Shape (rows, tgt_vocab_size).
        temperature: In [1e-9, 1e9]. Below 1 favours the likely, above 1 the unlikely
            tokens.
        top_k: Keep only this many of the likeliest tokens, and their equals.
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


class Hypothesis(NamedTuple):
    """A translation that beam search has found, or is still writing.

    Attributes:
        tokens: Its ids, without BOS and EOS.
        log_prob: The sum of the log-probabilities of its tokens, EOS included. PAD,
            which is never written, has no share: the others sum to 1 without it.
        score: ``log_prob`` divided by the length penalty, which makes different lengths
            comparable.
        ended: Whether EOS ends it. If not, it goes on, or was cut off at the limit.
    """

    tokens: list[int]
    log_prob: float
    score: float
    ended: bool


OnStep = Callable[[dict[int, list[Hypothesis]]], None]


def beam_search(
    model: Transformer,
    src: Tensor,
    *,
    bos_id: int,
    eos_id: int,
    beam_size: int = 4,
    alpha: float = 0.6,
    max_len: int | None = None,
    use_cache: bool = True,
    on_step: OnStep | None = None,
) -> list[list[Hypothesis]]:
    """Follow several beginnings at a time, and keep the best translations found.

    Every step extends the hypotheses of a sentence by every token. Extensions by EOS
    are found if they are among the ``beam_size`` likeliest; the ``beam_size`` likeliest
    others go on. The search ends when that many have been found, or at the limit, where
    those that go on are cut off and count as found.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S), padded with the model's ``pad_id``.
        bos_id: The id that every translation begins with.
        eos_id: The id that ends one.
        beam_size: The number of hypotheses that go on.
        alpha: Strength of the length penalty, in [-100, 100]. 0 ranks by ``log_prob``,
            which favours short translations.
        max_len: As for ``greedy_decode``.
        use_cache: As for ``greedy_decode``.
        on_step: Called after every step with the hypotheses of that step, by the number
            of the sentence: first those just found, then those that go on, the
            likeliest first.

    Returns:
        For each sentence up to ``beam_size`` hypotheses: those that ended before those
        that were cut off, then by score, the highest first.

    Raises:
        ValueError: If ``beam_size`` is below 1 or ``alpha`` is out of its range; the
            rest as ``greedy_decode``.

    Source: Vaswani et al. (2017), section 6.1; Wu et al. (2016), section 7.
    """
    require_positive(beam_size=beam_size)
    if not -100 <= alpha <= 100:  # beyond, no float holds the penalty
        raise ValueError(f"alpha must be in [-100, 100], got {alpha}")
    with inference(model):
        limits = length_limits(model, src, max_len)
        prefixes = Prefixes(model, src, bos_id, use_cache)
        return _search(prefixes, eos_id, limits, beam_size, alpha, on_step)


def length_penalty(length: int, alpha: float) -> float:
    """Compute what a log-probability is divided by: more for more tokens.

    Source: Wu et al. (2016), section 7, equation 14.
    """
    return ((5 + length) / 6) ** alpha


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
    require_positive(max_len=max_len)
    if max_len > config.max_len:
        raise ValueError(
            f"max_len must be at most the model's, got {max_len} and {config.max_len}"
        )
    return [max_len] * len(src)


class Extension(NamedTuple):
    """A token more for the hypothesis in a row, and its log-probability with it."""

    log_prob: float
    row: int
    token: int


def extend(log_probs: Tensor, logits: Tensor, number: int) -> list[list[Extension]]:
    """Find the likeliest ways to write one more token, sentence by sentence.

    Args:
        log_probs: Of the hypotheses so far, shape (sentences, width).
        logits: Of their next token, shape (sentences * width, tgt_vocab_size); that of
            PAD is minus infinity.
        number: How many to find for each sentence.

    Returns:
        For each sentence its extensions, the likeliest first; fewer than ``number`` if
        there are no more.
    """
    width, vocab_size = log_probs.size(1), logits.size(1)
    number = min(number, width * (vocab_size - 1))  # PAD extends nothing
    # bfloat16 is too coarse for a sum.
    sums = logits.log_softmax(dim=1, dtype=log_probs.dtype)  # (rows, tgt_vocab_size)
    sums += log_probs.view(-1, 1)  # in place: the vocabulary is large
    sums = sums.view(-1, width * vocab_size)  # (sentences, width * tgt_vocab_size)
    sums, places = sums.topk(number)  # (sentences, number)
    firsts = torch.arange(0, len(logits), width, device=logits.device)[:, None]
    rows = firsts + places // vocab_size  # (sentences, number)
    tokens = places % vocab_size  # (sentences, number)
    return [
        list(map(Extension, *columns))
        for columns in zip(sums.tolist(), rows.tolist(), tokens.tolist(), strict=True)
    ]


def _search(
    prefixes: Prefixes,
    eos_id: int,
    limits: list[int],
    beam_size: int,
    alpha: float,
    on_step: OnStep | None,
) -> list[list[Hypothesis]]:
    """Extend, set aside what has ended, go on with the best of the rest."""

    def hypothesis(extension: Extension) -> Hypothesis:
        log_prob, row, token = extension
        tokens = prefixes.tokens[row, 1:].tolist()
        score = log_prob / length_penalty(len(tokens) + 1, alpha)
        if token == eos_id:
            return Hypothesis(tokens, log_prob, score, ended=True)
        return Hypothesis([*tokens, token], log_prob, score, ended=False)

    tensor = partial(torch.tensor, device=prefixes.tokens.device)
    found: list[list[Hypothesis]] = [[] for _ in limits]
    sentences = list(range(len(limits)))  # those still searched
    log_probs = tensor([[0.0]] * len(limits))  # (sentences, width)
    while sentences:
        extensions = extend(log_probs, prefixes.next_logits(), 2 * beam_size)
        length = prefixes.tokens.size(1)  # with the new token, without BOS
        step, searched, survivors = {}, [], []
        for sentence, candidates in zip(sentences, extensions, strict=True):
            ended = [c for c in candidates[:beam_size] if c.token == eos_id]
            going_on = [c for c in candidates if c.token != eos_id][:beam_size]
            found[sentence] += map(hypothesis, ended)
            if on_step is not None:
                step[sentence] = list(map(hypothesis, ended + going_on))
            if length == limits[sentence]:
                found[sentence] += map(hypothesis, going_on)
            elif going_on and len(found[sentence]) < beam_size:
                searched.append(sentence)
                survivors += going_on
        if on_step is not None:
            on_step(step)
        if searched:
            sums, rows, tokens = zip(*survivors, strict=True)
            same_memory = searched == sentences and len(rows) == len(prefixes.tokens)
            prefixes.select(tensor(rows), same_memory=same_memory)
            prefixes.append(tensor(tokens))
            log_probs = tensor(sums).view(len(searched), -1)
        sentences = searched
    return [
        sorted(hypotheses, key=lambda h: (h.ended, h.score), reverse=True)[:beam_size]
        for hypotheses in found
    ]
