"""Beam search: several prefixes at a time, and the best translations found."""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from transformer_lib.checks import require_between, require_positive
from transformer_lib.decoding.prefixes import Prefixes, length_limits
from transformer_lib.model import Transformer, inference


class Hypothesis(NamedTuple):
    """A translation that beam search has finished, or is still writing.

    Attributes:
        tokens: Its ids, without BOS and EOS.
        log_prob: The sum of the log-probabilities of its tokens, EOS included. PAD,
            which is never written, has no share: the others sum to 1 without it.
        score: ``log_prob`` divided by the length penalty, which makes different lengths
            comparable.
        ended: Whether EOS ends it. If not, it continues, or was cut off at the limit.
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
    beam_size: int = 4,
    alpha: float = 0.6,
    max_len: int | None = None,
    use_cache: bool = True,
    on_step: OnStep | None = None,
) -> list[list[Hypothesis]]:
    """Extend several prefixes at a time, and keep the best translations found.

    Every step extends the hypotheses of a sentence by every token. Extensions by EOS
    are found if they are among the ``beam_size`` likeliest; the ``beam_size`` likeliest
    others go on. The search ends when that many have been found, or at the limit, where
    those that go on are cut off and count as found.

    Args:
        model: A model with an encoder.
        src: Source token ids, shape (B, S), padded with the model's ``pad_id``.
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
    require_between(-100, 100, alpha=alpha)  # beyond, no float holds the penalty
    with inference(model):
        limits = length_limits(model, src, max_len)
        prefixes = Prefixes(model, src, use_cache)
        return _search(prefixes, limits, beam_size, alpha, on_step)


def length_penalty(length: int, alpha: float) -> float:
    """Compute what a log-probability is divided by; it grows with the length.

    Source: Wu et al. (2016), section 7, equation 14.
    """
    return ((5 + length) / 6) ** alpha


class Extension(NamedTuple):
    """One more token for the hypothesis in a row, and the new log-probability."""

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
    limits: list[int],
    beam_size: int,
    alpha: float,
    on_step: OnStep | None,
) -> list[list[Hypothesis]]:
    """Extend, set aside what has ended, and continue with the best of the rest."""
    eos_id = prefixes.model.config.eos_id

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
