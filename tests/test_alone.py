"""Models of one half: an encoder that reads, a decoder that writes on."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.faster import FastDecoder
from transformer_lib.training import load_model, save_model
from transformer_lib.variants import (
    FAMILIES,
    DecoderAlone,
    EncoderAlone,
    ModernConfig,
    continue_tokens,
)

B, S, PAD, BOS, EOS = 2, 7, 0, 1, 2
READER = ModernConfig(
    src_vocab_size=13,
    tgt_vocab_size=None,
    d_model=12,
    num_heads=3,
    d_ff=17,
    num_layers=2,
    max_len=11,
)
WRITER = replace(READER, src_vocab_size=None, tgt_vocab_size=13)
LLAMA = {"positions": "rotary", "norm": "rms", "gated": True, "num_key_heads": 1}


@pytest.fixture
def reader():
    return EncoderAlone(READER).eval()


@pytest.fixture
def src():
    src = torch.randint(3, 13, (B, S))
    src[1, 5:] = PAD
    return src


def writer_of(**changes):
    model = DecoderAlone(replace(WRITER, **changes)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    return model


@pytest.fixture
def writer():
    return writer_of()


# -- An encoder alone ------------------------------------------------------------------


def test_every_position_sees_all_tokens_and_no_padding(reader, src):
    table = reader.src_embedding.table.weight
    (gradient,) = torch.autograd.grad(reader.encode(src)[0, 0, 0], table)
    assert gradient[src[0]].any(dim=1).all()
    for pad_id in (PAD, 1):  # RoBERTa's is 1
        reader.config = replace(READER, pad_id=pad_id)
        longer = F.pad(src, (0, 3), value=pad_id)
        assert_close(reader(longer)[:, :S], reader(src))


@pytest.mark.parametrize("tie", [True, False])
def test_every_weight_learns_and_a_file_brings_it_back(src, tie, tmp_path):
    model = EncoderAlone(replace(READER, tie_output=tie, norm_first=True, **LLAMA))
    model.eval()(src).square().sum().backward()
    assert all(p.grad.any() for p in model.parameters())
    assert (model.output.weight is model.src_embedding.table.weight) == tie
    save_model(tmp_path / "model.safetensors", model)
    loaded = load_model(tmp_path / "model.safetensors", FAMILIES)
    assert type(loaded) is EncoderAlone
    assert_close(loaded(src), model(src))


# -- A decoder alone -------------------------------------------------------------------


def by_hand(model, prompt, limit=11):
    """Write on from one prompt, the likeliest token each time, all anew each time."""
    tokens = list(prompt)
    while len(tokens) < limit:
        logits = model(torch.tensor([tokens]))[0, -1]
        logits[PAD] = float("-inf")
        token = logits.argmax().item()
        if token == EOS:
            break
        tokens.append(token)
    return tokens[len(prompt) :]


PROMPTS = [[1], [1, 5, 6, 7, 3], [4, 4], [1, 9, 8], [3] * 11]


@pytest.mark.parametrize(
    "changes", [{}, LLAMA | {"num_heads": 2}, {"positions": "alibi"}]
)
def test_prompts_of_any_lengths_get_what_each_would_get_alone(changes):
    model = writer_of(**changes)
    expected = [by_hand(model, prompt) for prompt in PROMPTS]
    assert expected[-1] == []
    assert any(expected)
    for use_cache in (True, False):
        found = continue_tokens(model, PROMPTS, top_k=1, use_cache=use_cache)
        assert found == expected
    if not changes:
        assert continue_tokens(FastDecoder(model), PROMPTS, top_k=1) == expected
    assert continue_tokens(model, []) == []


def test_a_text_that_ends_leaves_the_others_as_they_are(writer):
    ends = by_hand(writer, [4])[1]  # taken for EOS, the first text ends early
    prompts = [[4], [5, 6], [7]]
    whole = [by_hand(writer, prompt) for prompt in prompts]
    expected = [text[: text.index(ends)] if ends in text else text for text in whole]
    writer.config = replace(writer.config, eos_id=ends)
    assert continue_tokens(writer, prompts, top_k=1) == expected
    assert len(expected[0]) <= 1


def test_the_same_seed_draws_the_same_with_and_without_a_cache(writer):
    drawn = [
        continue_tokens(
            writer,
            PROMPTS,
            temperature=2.0,
            generator=torch.Generator().manual_seed(seed),
            use_cache=use_cache,
        )
        for seed, use_cache in ((1, True), (1, False), (2, True))
    ]
    assert drawn[0] == drawn[1] != drawn[2]


def test_tokens_are_drawn_with_their_probabilities(writer):
    prompt, many = [1, 5], 4000
    texts = continue_tokens(writer, [prompt] * many, max_len=3)
    counts = torch.zeros(13)
    for text in texts:
        counts[text[0] if text else EOS] += 1
    logits = writer(torch.tensor([prompt]))[0, -1]
    logits[PAD] = float("-inf")
    assert_close(counts / many, logits.softmax(dim=-1), rtol=0, atol=0.04)
    assert counts[PAD] == 0
