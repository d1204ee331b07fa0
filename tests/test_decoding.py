import math
import re
from dataclasses import asdict, replace
from itertools import product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.decoding import (
    beam_search,
    extend,
    greedy_decode,
    length_limits,
    length_penalty,
    next_probabilities,
    sample,
)
from transformer_lib.model import (
    DecoderCache,
    Transformer,
    TransformerConfig,
    padding_mask,
)
from transformer_lib.variants import DecoderAlone, ModernConfig

B, S, PAD, BOS, EOS = 5, 7, 0, 1, 2
SRC, TGT, MAX_LEN = 19, 11, 61
CONFIG = TransformerConfig(
    src_vocab_size=SRC,
    tgt_vocab_size=TGT,
    d_model=12,
    num_heads=3,
    d_ff=17,
    num_layers=2,
    max_len=MAX_LEN,
    positions="learned",
)


@pytest.fixture
def model():
    """An untrained model; loud positions and a loud EOS make it end, or not."""
    model = Transformer(CONFIG)
    with torch.no_grad():
        model.tgt_positions.table.mul_(8)
        model.output.weight[EOS].mul_(2)
        for parameter in model.decoder.parameters():
            parameter.mul_(2)
    return model.eval()


@pytest.fixture
def src():
    src = torch.randint(1, SRC, (B, S))
    src[1, 4:] = PAD
    src[2, 1:] = PAD
    return src


def alone(src, row):
    """One sentence of the batch, without its padding."""
    return src[row : row + 1, : (src[row] != PAD).sum()]


def rows_decoded(model):
    """Count the rows that the decoder computes, step by step."""
    counts = []
    model.decoder.register_forward_pre_hook(
        lambda _, inputs: counts.append(inputs[0].size(0))
    )
    return counts


@torch.no_grad()
def by_hand(model, sentence, limit):
    memory, memory_mask = model.encode(sentence), padding_mask(sentence, PAD)
    tokens = [BOS]
    while len(tokens) <= limit:
        logits = model.decode(torch.tensor([tokens]), memory, memory_mask)[0, -1]
        logits[PAD] = -torch.inf
        tokens.append(logits.argmax().item())
        if tokens[-1] == EOS:
            return tokens[1:-1]
    return tokens[1:]


def test_greedy_decoding_equals_the_loop_by_hand(model, src):
    expected = [
        by_hand(model, alone(src, row), alone(src, row).size(1) + 50)
        for row in range(B)
    ]
    assert greedy_decode(model, src) == expected
    assert (
        len({len(tokens) for tokens in expected}) > 3
    )  # or the batch would prove little


def test_a_padded_batch_gives_what_single_sentences_give(model, src):
    single = [greedy_decode(model, alone(src, row))[0] for row in range(B)]
    assert greedy_decode(model, src) == single
    wider = nn.functional.pad(src, (0, 5), value=PAD)
    assert greedy_decode(model, wider) == single


@pytest.mark.parametrize("use_cache", [True, False])
def test_sentences_that_have_ended_cost_nothing(model, src, use_cache):
    counts = rows_decoded(model)
    translations = greedy_decode(model, src, use_cache=use_cache)
    limits = length_limits(model, src, None)
    steps = [
        min(len(tokens) + 1, limit)  # one more for EOS, unless it was cut off
        for tokens, limit in zip(translations, limits, strict=True)
    ]
    assert counts == [sum(step > t for step in steps) for t in range(max(steps))]


def test_the_limit_is_the_sentences_length_and_50_more_or_the_models(model, src):
    assert length_limits(model, src, None)[:4] == [57, 54, 51, 57]
    short = Transformer(replace(CONFIG, max_len=53))
    assert length_limits(short, src, None)[:4] == [53, 53, 51, 53]
    assert length_limits(model, src, 5) == [5] * B


def test_only_a_translation_that_was_cut_off_is_as_long_as_its_limit(model, src):
    whole = greedy_decode(model, src, max_len=MAX_LEN)
    for limit in (1, 8):
        translations = greedy_decode(model, src, max_len=limit)
        for short, long in zip(translations, whole, strict=True):
            assert short == long[:limit]
            assert (len(short) == limit) == (len(long) >= limit)


def test_the_model_can_be_used_up_to_its_last_position(src):
    model = Transformer(replace(CONFIG, max_len=S, eos_id=PAD))  # never written
    translations = greedy_decode(model, src)
    assert [len(tokens) for tokens in translations] == [S] * B


def test_padding_is_never_written(model, src):
    with torch.no_grad():
        model.output.weight[PAD] = 100 * model.output.weight.sum(0)
    logits = model(src[:, :S], torch.full((B, 1), BOS))
    assert (logits.argmax(-1) == PAD).any()
    assert all(PAD not in tokens for tokens in greedy_decode(model, src))


@pytest.mark.parametrize("decode", [greedy_decode, sample, beam_search])
def test_dropout_and_gradients_are_off_and_each_part_keeps_its_mode(model, src, decode):
    seen = set()
    model.train().encoder.eval()
    before = [module.training for module in model.modules()]
    model.decoder.register_forward_hook(
        lambda decoder, _, output: seen.add((decoder.training, output.requires_grad))
    )
    decode(model, src, max_len=3)
    assert seen == {(False, False)}
    with pytest.raises(ValueError, match="max_len"):
        decode(model, src, max_len=0)
    assert [module.training for module in model.modules()] == before
    model(src, src % TGT).sum().backward()  # the model is not spoilt by inference mode


def test_a_source_longer_than_the_position_table_is_refused(model):
    src = torch.ones(1, MAX_LEN + 1, dtype=torch.int64)
    with pytest.raises(ValueError, match="at most max_len long, got 62 and 61"):
        greedy_decode(model, src)


def test_impossible_limits_and_models_are_refused(model, src):
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        greedy_decode(model, src, max_len=0)
    with pytest.raises(ValueError, match="at most the model's, got 62 and 61"):
        greedy_decode(model, src, max_len=MAX_LEN + 1)
    alone = DecoderAlone(ModernConfig(**asdict(CONFIG) | {"src_vocab_size": None}))
    with pytest.raises(AttributeError, match=r"'DecoderAlone' .* no attribute 'encode"):
        greedy_decode(alone, src)


# -- Beam search ---------------------------------------------------------------------


@torch.no_grad()
def log_prob_of(model, sentence, tokens):
    """The log-probability of these tokens, given that PAD is impossible."""
    logits = model(sentence, torch.tensor([[BOS, *tokens[:-1]]]))[0]
    logits[:, PAD] = -torch.inf
    steps = logits.log_softmax(-1)[range(len(tokens)), tokens]
    return steps.sum().item()


def same(ours, theirs):
    """Whether two lists of hypotheses agree, up to rounding in the numbers."""
    return [h.tokens for h in ours] == [h.tokens for h in theirs] and all(
        a.ended == b.ended
        and math.isclose(a.log_prob, b.log_prob, rel_tol=1e-5)
        and math.isclose(a.score, b.score, rel_tol=1e-5)
        for a, b in zip(ours, theirs, strict=True)
    )


def test_a_coarse_model_has_its_log_probabilities_added_up_finely():
    log_probs = torch.tensor([[-64.0]], dtype=torch.float32)
    logits = torch.tensor([[-math.inf, 1.0, 0.875]], dtype=torch.bfloat16)
    (found,) = extend(log_probs, logits, 2)
    expected = logits[0, 1:].float().log_softmax(dim=0) - 64
    assert [e.log_prob for e in found] == pytest.approx(expected.tolist(), rel=1e-6)


def test_a_beam_as_wide_as_everything_finds_the_best_of_all_translations():
    torch.manual_seed(3)
    vocabulary, longest, alpha = 5, 4, 0.6
    model = Transformer(replace(CONFIG, tgt_vocab_size=vocabulary)).eval()
    src = torch.tensor([[3, 4, 5], [6, 7, PAD]])
    words = [token for token in range(vocabulary) if token not in (PAD, EOS)]
    everything = [
        [*tokens, EOS][:longest]
        for length in range(longest + 1)
        for tokens in product(words, repeat=length)
    ]
    found = beam_search(
        model, src, beam_size=len(everything), alpha=alpha, max_len=longest
    )
    for row in range(2):
        expected = []
        for tokens in everything:
            log_prob = log_prob_of(model, alone(src, row), tokens)
            score = log_prob / ((5 + len(tokens)) / 6) ** alpha
            expected.append((tokens[-1] == EOS, score, log_prob, tokens))
        expected.sort(reverse=True)
        assert len(found[row]) == len(expected) == 1 + 3 + 9 + 27 + 81
        for ours, (ended, score, log_prob, tokens) in zip(
            found[row], expected, strict=True
        ):
            assert ours.tokens == (tokens[:-1] if ended else tokens)
            assert ours.ended == ended
            assert ours.log_prob == pytest.approx(log_prob, rel=1e-5)
            assert ours.score == pytest.approx(score, rel=1e-5)


def test_a_padded_batch_finds_what_single_sentences_find(model, src):
    single = [beam_search(model, alone(src, row))[0] for row in range(B)]
    assert all(map(same, beam_search(model, src), single))
    assert len({len(h.tokens) for best in single for h in best}) > 2


def test_a_beam_of_one_is_greedy_decoding(model, src):
    best = [found[0].tokens for found in beam_search(model, src, beam_size=1)]
    assert best == greedy_decode(model, src)


def test_the_length_penalty_by_hand():
    assert length_penalty(1, alpha=0.6) == 1
    assert length_penalty(7, alpha=1.0) == 2
    assert length_penalty(19, alpha=0.5) == 2
    assert length_penalty(100, alpha=0.0) == 1


def test_the_extensions_by_hand():
    log_probs = torch.tensor([[-1.0, -2.0]])
    shares = torch.tensor([[0.0, 0.1, 0.2, 0.7], [0.0, 0.05, 0.9, 0.05]])
    (found,) = extend(log_probs, shares.log() + 5, 3)
    assert [(row, token) for _, row, token in found] == [(0, 3), (1, 2), (0, 2)]
    expected = [math.log(0.7) - 1, math.log(0.9) - 2, math.log(0.2) - 1]
    assert_close([log_prob for log_prob, _, _ in found], expected)
    (found,) = extend(log_probs, shares.log(), 100)
    assert len(found) == 6  # PAD extends nothing


def test_searched_sentences_leave_the_batch(model, src):
    steps = []
    counts = rows_decoded(model)
    beam_search(model, src, on_step=steps.append)
    rows = [len(step) for step in steps]
    assert counts == [rows[0]] + [4 * number for number in rows[1:]]
    assert rows[0] == B > rows[-1]


def test_every_step_is_reported(model, src):
    steps = []
    found = beam_search(model, src, beam_size=3, on_step=steps.append)
    for sentence in range(B):
        own = [step[sentence] for step in steps if sentence in step]
        ended = [h for step in own for h in step if h.ended]
        cut_off = [h for h in own[-1] if not h.ended]
        expected = ended if len(ended) >= 3 else ended + cut_off
        expected.sort(key=lambda h: (h.ended, h.score), reverse=True)
        assert found[sentence] == expected[:3]
        for length, step in enumerate(own, start=1):
            going_on = [h for h in step if not h.ended]
            assert len(going_on) == 3
            assert all(len(h.tokens) == length for h in going_on)
            assert all(len(h.tokens) == length - 1 for h in step if h.ended)


def test_where_only_eos_can_be_written_the_search_ends_at_once(src):
    model = Transformer(replace(CONFIG, tgt_vocab_size=2, eos_id=1))
    for found in beam_search(model, src):
        assert found == [([], 0.0, 0.0, True)]


def test_an_impossible_beam_is_refused(model, src):
    with pytest.raises(ValueError, match="beam_size must be at least 1, got 0"):
        beam_search(model, src, beam_size=0)
    for alpha in (100.5, -100.5, math.inf, -math.inf, math.nan):
        with pytest.raises(ValueError, match=rf"in \[-100, 100\], got {alpha}"):
            beam_search(model, src, alpha=alpha)
    with pytest.raises(ValueError, match="at most the model's, got 62 and 61"):
        beam_search(model, src, max_len=MAX_LEN + 1)


# -- Sampling ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-9}]
)
def test_sampling_that_leaves_no_choice_is_greedy_decoding(model, src, options):
    assert sample(model, src, **options) == greedy_decode(model, src)


def test_the_same_generator_draws_the_same_also_without_the_cache(model, src):
    def draw(seed, **options):
        generator = torch.Generator().manual_seed(seed)
        return sample(model, src, generator=generator, **options)

    assert draw(1) == draw(1) == draw(1, use_cache=False)
    assert draw(1) != draw(2)


def test_tokens_are_drawn_as_often_as_they_are_likely(model):
    drawn = 20_000
    src = torch.tensor([[3, 4, 5]]).expand(drawn, -1)
    logits = model(src[:1], torch.tensor([[BOS]]))[:, 0].detach()
    logits[:, PAD] = -torch.inf
    options = {"temperature": 3.0, "top_k": 8}
    shares = next_probabilities(logits, **options)[0]
    first = sample(model, src, max_len=1, **options)
    counts = torch.bincount(torch.tensor([ids[0] if ids else EOS for ids in first]))
    counts = nn.functional.pad(counts, (0, TGT - len(counts)))
    deviation = (drawn * shares * (1 - shares)).sqrt()
    assert (counts - drawn * shares).abs().le(5 * deviation).all()
    assert ((shares > 0.01) & (shares < 0.99)).sum() > 3  # there was a choice


def test_probabilities_by_hand():
    logits = torch.tensor([[0.5, 0.1, 0.25, 0.15], [0.1, 0.2, 0.3, 0.4]]).log()
    assert_close(next_probabilities(logits), logits.exp())
    squares = logits.exp() ** 2
    expected = squares / squares.sum(-1, keepdim=True)
    assert_close(next_probabilities(logits, temperature=0.5), expected)
    expected = torch.tensor([[2 / 3, 0, 1 / 3, 0], [0, 0, 3 / 7, 4 / 7]])
    assert_close(next_probabilities(logits, top_k=2), expected)
    assert_close(next_probabilities(logits, top_k=9), logits.exp())
    expected = torch.tensor([[5 / 9, 0, 2.5 / 9, 1.5 / 9], [0, 2 / 9, 3 / 9, 4 / 9]])
    assert_close(next_probabilities(logits, top_p=0.8), expected)
    assert_close(next_probabilities(logits, top_p=1.0), logits.exp())
    expected = torch.tensor([[1.0, 0, 0, 0], [0, 0, 3 / 7, 4 / 7]])
    assert_close(next_probabilities(logits, top_k=2, top_p=0.6), expected)


def test_equally_likely_tokens_are_kept_together():
    logits = torch.tensor([[2.0, 1.0, 1.0, 0.0]])
    assert (next_probabilities(logits, top_k=2) > 0).tolist() == [
        [True, True, True, False]
    ]


def test_sampling_options_out_of_range_are_refused(model, src):
    for temperature in (0.0, -1.0, 1e-10, 1.1e9, math.nan, math.inf):
        expected = re.escape(f"in [1e-9, 1e9], got {temperature}")
        with pytest.raises(ValueError, match=expected):
            sample(model, src, temperature=temperature)
    with pytest.raises(ValueError, match="top_k must be at least 1, got 0"):
        sample(model, src, top_k=0)
    for top_p in (0.0, 9e-7, 1.5, math.nan):
        with pytest.raises(ValueError, match=rf"in \[1e-6, 1\], got {top_p}"):
            sample(model, src, top_p=top_p)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_coldest_and_the_hottest_and_the_narrowest_draw_give_no_nan(dtype):
    logits = torch.tensor([[8.0, -math.inf, 3.0, 1.0]], dtype=dtype)
    first = torch.tensor([[1.0, 0, 0, 0]], dtype=dtype)
    assert_close(next_probabilities(logits, temperature=1e-9), first)
    assert_close(next_probabilities(logits, top_p=1e-6), first)
    third = torch.tensor([[1 / 3, 0, 1 / 3, 1 / 3]], dtype=dtype)
    assert_close(next_probabilities(logits, temperature=1e9), third)


@pytest.mark.parametrize("decode", [greedy_decode, sample, beam_search])
def test_with_the_cache_the_decoder_reads_one_token_and_without_it_all(
    model, src, decode
):
    lengths = []
    model.decoder.register_forward_pre_hook(
        lambda _, inputs: lengths.append(inputs[0].size(1))
    )
    decode(model, src, max_len=4)
    assert lengths == [1, 1, 1, 1]
    lengths.clear()
    decode(model, src, max_len=4, use_cache=False)
    assert lengths == [1, 2, 3, 4]


def test_the_search_ends_when_as_many_have_been_found_as_the_beam_holds(model, src):
    steps = []
    beam_search(model, src, beam_size=2, max_len=30, on_step=steps.append)
    early = 0
    for sentence in range(B):
        own = [step[sentence] for step in steps if sentence in step]
        *before, last = [sum(h.ended for h in step) for step in own]
        assert sum(before) < 2
        assert len(own) == 30 or sum(before) + last >= 2
        early += len(own) < 30
    assert early


def test_a_beam_holds_four_and_its_penalty_is_0_6_unless_told_otherwise(model, src):
    assert beam_search(model, src) == beam_search(model, src, beam_size=4, alpha=0.6)


def test_while_no_sentence_leaves_what_is_kept_of_the_memory_stays(
    model, src, monkeypatch
):
    stays = []
    select = DecoderCache.select
    monkeypatch.setattr(
        DecoderCache,
        "select",
        lambda *args, **how: stays.append(how["same_memory"]) or select(*args, **how),
    )
    beam_search(model, src, max_len=3)
    assert stays == [False, True]  # one row for each sentence becomes four


def test_the_temperature_is_one_unless_told_otherwise(model, src):
    def draw(**options):
        generator = torch.Generator().manual_seed(1)
        return sample(model, src, generator=generator, **options)

    assert draw() == draw(temperature=1.0)
