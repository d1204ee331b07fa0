import math
from dataclasses import replace
from itertools import product
from unittest.mock import patch

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
EACH = pytest.mark.parametrize("decode", [greedy_decode, sample, beam_search])


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


@pytest.fixture
def shapes(model):
    """Rows and positions that the decoder computes, step by step."""
    shapes = []
    model.decoder.register_forward_pre_hook(
        lambda _, inputs: shapes.append(inputs[0].shape[:2])
    )
    return shapes


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


@pytest.mark.parametrize("max_len", [None, 8])
def test_greedy_decoding_of_a_batch_equals_the_loop_by_hand(model, src, max_len):
    single = [alone(src, row) for row in range(B)]
    expected = [by_hand(model, row, max_len or row.size(1) + 50) for row in single]
    assert greedy_decode(model, src, max_len=max_len) == expected
    assert max_len or len(set(map(len, expected))) > 3  # or it would prove little
    assert 8 in map(len, expected) if max_len else True  # one is cut off


def test_sentences_that_have_ended_cost_nothing(model, src, shapes):
    translations = greedy_decode(model, src)
    limits = length_limits(model, src, None)
    steps = [
        min(len(tokens) + 1, limit)  # one more for EOS, unless it was cut off
        for tokens, limit in zip(translations, limits, strict=True)
    ]
    expected = [sum(step > t for step in steps) for t in range(max(steps))]
    assert [rows for rows, _ in shapes] == expected


def test_the_limit_is_the_sentences_length_and_50_more_or_the_models(model, src):
    assert length_limits(model, src, None)[:4] == [57, 54, 51, 57]
    short = Transformer(replace(CONFIG, max_len=53))
    assert length_limits(short, src, None)[:4] == [53, 53, 51, 53]
    assert length_limits(model, src, 5) == [5] * B


@EACH
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


@EACH
def test_with_the_cache_the_decoder_reads_one_token_and_without_it_all(
    model, src, shapes, decode
):
    decode(model, src, max_len=4)
    decode(model, src, max_len=4, use_cache=False)
    assert [length for _, length in shapes] == [1, 1, 1, 1, 1, 2, 3, 4]


# -- Beam search ---------------------------------------------------------------------


@torch.no_grad()
def test_a_beam_as_wide_as_everything_finds_the_best_of_all_translations():
    torch.manual_seed(3)
    vocabulary, longest, alpha = 5, 3, 0.6
    model = Transformer(replace(CONFIG, tgt_vocab_size=vocabulary)).eval()
    src = torch.tensor([[3, 4, 5], [6, 7, PAD]])
    words = [token for token in range(vocabulary) if token not in (PAD, EOS)]
    everything = [
        [*tokens, EOS][:longest]
        for length in range(longest + 1)
        for tokens in product(words, repeat=length)
    ]
    beam_size = len(everything)
    found = beam_search(model, src, beam_size=beam_size, alpha=alpha, max_len=longest)
    for row in range(2):
        expected = []
        for tokens in everything:
            logits = model(alone(src, row), torch.tensor([[BOS, *tokens[:-1]]]))[0]
            logits[:, PAD] = -torch.inf  # it is impossible
            log_prob = logits.log_softmax(-1)[range(len(tokens)), tokens].sum().item()
            score = log_prob / ((5 + len(tokens)) / 6) ** alpha
            ended = tokens[-1] == EOS
            expected.append((ended, score, log_prob, tokens[:-1] if ended else tokens))
        expected.sort(reverse=True)
        assert len(found[row]) == len(expected) == 1 + 3 + 9 + 27
        for ours, (ended, *scores, tokens) in zip(found[row], expected, strict=True):
            assert (ours.tokens, ours.ended) == (tokens, ended)
            assert_close([ours.score, ours.log_prob], scores, rtol=1e-5, atol=0)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_a_padded_batch_finds_what_single_sentences_find(model, src, beam_size):
    def texts(rows):
        each = beam_search(model, rows, beam_size=beam_size)
        return [[h.tokens for h in found] for found in each]

    found = texts(src)
    assert found == [texts(alone(src, row))[0] for row in range(B)]
    if beam_size == 1:
        assert [best for [best] in found] == greedy_decode(model, src)
    else:
        assert beam_search(model, src) == beam_search(
            model, src, beam_size=4, alpha=0.6
        )


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


def test_a_coarse_model_has_its_log_probabilities_added_up_finely():
    log_probs = torch.tensor([[-64.0]], dtype=torch.float32)
    logits = torch.tensor([[-math.inf, 1.0, 0.875]], dtype=torch.bfloat16)
    (found,) = extend(log_probs, logits, 2)
    expected = logits[0, 1:].float().log_softmax(dim=0) - 64
    assert [e.log_prob for e in found] == pytest.approx(expected.tolist(), rel=1e-6)


def test_every_step_is_reported_and_what_has_been_searched_leaves_the_batch(
    model, src, shapes
):
    steps = []
    found = beam_search(model, src, beam_size=3, on_step=steps.append)
    counts = [len(step) for step in steps]
    assert [rows for rows, _ in shapes] == [B] + [3 * count for count in counts[1:]]
    assert counts[0] == B > counts[-1]
    for sentence in range(B):
        own = [step[sentence] for step in steps if sentence in step]
        ended = [h for step in own for h in step if h.ended]
        assert len([h for step in own[:-1] for h in step if h.ended]) < 3
        cut_off = [h for h in own[-1] if not h.ended]
        expected = ended if len(ended) >= 3 else ended + cut_off
        expected.sort(key=lambda h: (h.ended, h.score), reverse=True)
        assert found[sentence] == expected[:3]
        for length, step in enumerate(own, start=1):
            going_on = [h for h in step if not h.ended]
            assert len(going_on) == 3
            least = min(h.log_prob for h in going_on)  # EOS was among the likeliest 3
            assert all(h.log_prob > least for h in step if h.ended)
            assert all(len(h.tokens) == length for h in going_on)
            assert all(len(h.tokens) == length - 1 for h in step if h.ended)


def test_while_no_sentence_leaves_what_is_kept_of_the_memory_stays(model, src):
    real = DecoderCache.select
    with patch.object(
        DecoderCache, "select", autospec=True, side_effect=real
    ) as select:
        beam_search(model, src, max_len=3)
    stays = [call.kwargs["same_memory"] for call in select.call_args_list]
    assert stays == [False, True]  # one row for each sentence becomes four


# -- Sampling ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"top_p": 1e-6}, {"temperature": 1e-9}]
)
def test_sampling_that_leaves_no_choice_is_greedy_decoding(model, src, options):
    assert sample(model, src, **options) == greedy_decode(model, src)


def test_the_generator_decides_and_the_temperature_is_one_unless_told_otherwise(
    model, src
):
    def draw(seed, **options):
        generator = torch.Generator().manual_seed(seed)
        return sample(model, src, generator=generator, **options)

    assert draw(1) == draw(1, temperature=1.0)
    assert draw(1) != draw(2)


def test_tokens_are_drawn_as_often_as_they_are_likely(model):
    drawn = 5_000
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
    equal = torch.tensor([[0.4, 0.25, 0.25, 0.1]])
    expected = torch.tensor([[4 / 9, 2.5 / 9, 2.5 / 9, 0]])
    assert_close(next_probabilities(equal.log(), top_k=2), expected)


def test_the_coldest_and_the_hottest_and_the_narrowest_draw_give_no_nan():
    dtype = torch.float16  # the narrowest
    logits = torch.tensor([[8.0, -math.inf, 3.0, 1.0]], dtype=dtype)
    first = torch.tensor([[1.0, 0, 0, 0]], dtype=dtype)
    assert_close(next_probabilities(logits, temperature=1e-9), first)
    assert_close(next_probabilities(logits, top_p=1e-6), first)
    third = torch.tensor([[1 / 3, 0, 1 / 3, 1 / 3]], dtype=dtype)
    assert_close(next_probabilities(logits, temperature=1e9), third)
