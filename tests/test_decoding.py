from dataclasses import replace

import pytest
import torch
from torch import nn

from transformer_lib.decoding import greedy_decode, length_limits
from transformer_lib.model import Transformer, TransformerConfig

B, S, PAD, BOS, EOS = 13, 7, 0, 1, 2
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
IDS = {"bos_id": BOS, "eos_id": EOS}


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


def by_hand(model, sentence, limit):
    tokens = [BOS]
    while len(tokens) <= limit:
        logits = model(sentence, torch.tensor([tokens]))[0, -1]
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
    assert greedy_decode(model, src, **IDS) == expected
    assert (
        len({len(tokens) for tokens in expected}) > 3
    )  # or the batch would prove little


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("positions", ["interleaved", "concatenated", "learned"])
def test_greedy_decoding_is_the_same_without_the_cache(src, norm_first, positions):
    model = Transformer(replace(CONFIG, norm_first=norm_first, positions=positions))
    cached = greedy_decode(model, src, **IDS)
    assert cached == greedy_decode(model, src, **IDS, use_cache=False)


def test_a_padded_batch_gives_what_single_sentences_give(model, src):
    single = [greedy_decode(model, alone(src, row), **IDS)[0] for row in range(B)]
    assert greedy_decode(model, src, **IDS) == single
    wider = nn.functional.pad(src, (0, 5), value=PAD)
    assert greedy_decode(model, wider, **IDS) == single


@pytest.mark.parametrize("use_cache", [True, False])
def test_sentences_that_have_ended_cost_nothing(model, src, use_cache):
    counts = rows_decoded(model)
    translations = greedy_decode(model, src, **IDS, use_cache=use_cache)
    limits = length_limits(model, src, None).tolist()
    steps = [
        min(len(tokens) + 1, limit)  # one more for EOS, unless it was cut off
        for tokens, limit in zip(translations, limits, strict=True)
    ]
    assert counts == [sum(step > t for step in steps) for t in range(max(steps))]


def test_the_limit_is_the_sentences_length_and_50_more_or_the_models(model, src):
    lengths = torch.tensor([S, 4, 1] + [S] * (B - 3))
    assert length_limits(model, src, None).equal(lengths + 50)
    short = Transformer(replace(CONFIG, max_len=53))
    assert length_limits(short, src, None)[:3].tolist() == [53, 53, 51]
    assert length_limits(model, src, 5).tolist() == [5] * B


def test_only_a_translation_that_was_cut_off_is_as_long_as_its_limit(model, src):
    whole = greedy_decode(model, src, **IDS, max_len=MAX_LEN)
    for limit in (1, 8):
        translations = greedy_decode(model, src, **IDS, max_len=limit)
        for short, long in zip(translations, whole, strict=True):
            assert short == long[:limit]
            assert (len(short) == limit) == (len(long) >= limit)


def test_the_model_can_be_used_up_to_its_last_position(src):
    model = Transformer(replace(CONFIG, max_len=S))
    translations = greedy_decode(model, src, bos_id=BOS, eos_id=PAD)  # never written
    assert [len(tokens) for tokens in translations] == [S] * B


def test_padding_is_never_written(model, src):
    with torch.no_grad():
        model.output.weight[PAD] = 100 * model.output.weight.sum(0)
    logits = model(src[:, :S], torch.full((B, 1), BOS))
    assert (logits.argmax(-1) == PAD).any()
    assert all(PAD not in tokens for tokens in greedy_decode(model, src, **IDS))


def test_the_model_decodes_without_dropout_and_keeps_its_mode(model, src):
    expected = greedy_decode(model, src, **IDS)
    model.train()
    model.encoder.eval()
    before = [module.training for module in model.modules()]
    assert greedy_decode(model, src, **IDS) == expected
    assert [module.training for module in model.modules()] == before
    with pytest.raises(ValueError, match="max_len"):
        greedy_decode(model, src, **IDS, max_len=0)
    assert [module.training for module in model.modules()] == before


def test_decoding_leaves_no_gradients(model, src):
    greedy_decode(model, src, **IDS)
    assert all(parameter.grad is None for parameter in model.parameters())
    model(src, src % TGT).sum().backward()  # the model is not spoilt by inference mode


def test_a_source_longer_than_the_position_table_is_refused(model):
    src = torch.ones(1, MAX_LEN + 1, dtype=torch.int64)
    with pytest.raises(ValueError, match="at most max_len long, got 62 and 61"):
        greedy_decode(model, src, **IDS)


def test_impossible_limits_and_models_are_refused(model, src):
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        greedy_decode(model, src, **IDS, max_len=0)
    with pytest.raises(ValueError, match="at most the model's, got 62 and 61"):
        greedy_decode(model, src, **IDS, max_len=MAX_LEN + 1)
    with pytest.raises(ValueError, match=r"src must be None, got .*: decoder-only"):
        greedy_decode(Transformer(replace(CONFIG, src_vocab_size=None)), src, **IDS)
