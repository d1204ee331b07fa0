"""Models of one half: an encoder that reads, a decoder that writes on."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.decoding import greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.model import Transformer, record_attention
from transformer_lib.training import load_model, save_model
from transformer_lib.variants import (
    FAMILIES,
    DecoderAlone,
    EncoderAlone,
    FullAttention,
    ModernConfig,
    ModernTransformer,
    WindowAttention,
    continue_tokens,
    use_attention,
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


@pytest.fixture
def writer():
    model = DecoderAlone(WRITER).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.5)
    return model


# -- An encoder alone ------------------------------------------------------------------


def test_it_is_the_encoder_of_a_whole_model(reader, src):
    whole = ModernTransformer(replace(READER, tgt_vocab_size=17)).eval()
    whole.load_state_dict(
        {n: p for n, p in reader.state_dict().items() if n != "output.weight"},
        strict=False,
    )
    assert_close(reader.encode(src), whole.encode(src))
    assert_close(reader(src), reader.encode(src) @ reader.output.weight.T)
    assert reader(src).shape == (B, S, 13)


def test_every_position_sees_all_tokens_and_no_padding(reader, src):
    table = reader.src_embedding.table.weight
    (gradient,) = torch.autograd.grad(reader.encode(src)[0, 0, 0], table)
    assert gradient[src[0]].any(dim=1).all()
    longer = F.pad(src, (0, 3), value=PAD)
    assert_close(reader(longer)[:, :S], reader(src))


def test_every_weight_learns_and_a_tied_output_is_the_table(src):
    for tie in (False, True):
        model = EncoderAlone(replace(READER, tie_output=tie, norm_first=True, **LLAMA))
        model(src).square().sum().backward()
        assert all(p.grad.any() for p in model.parameters())
        assert (model.output.weight is model.src_embedding.table.weight) == tie


@pytest.mark.parametrize("changes", [{}, LLAMA, {"positions": "alibi"}])
def test_a_file_brings_it_back(src, changes, tmp_path):
    model = EncoderAlone(replace(READER, **changes)).eval()
    save_model(tmp_path / "model.safetensors", model)
    loaded = load_model(tmp_path / "model.safetensors", FAMILIES)
    assert type(loaded) is EncoderAlone
    assert_close(loaded(src), model(src))


def test_it_may_have_a_window_and_is_recorded(reader, src):
    window = WindowAttention(2, causal=False)
    with use_attention(reader, encoder=window), record_attention(reader) as maps:
        reader(src)
    assert maps.keys() == {f"encoder.layers.{i}.self_attention" for i in (0, 1)}
    assert (maps["encoder.layers.0.self_attention"][..., 0, 2:] == 0).all()
    for part in ("decoder", "cross"):
        variant = FullAttention(causal=part == "decoder")
        with pytest.raises(ValueError, match=f"{part} must be None for a model"):
            use_attention(reader, **{part: variant})


def test_an_encoder_alone_may_pad_with_any_id(src):
    reader = EncoderAlone(replace(READER, pad_id=1)).eval()  # as RoBERTa does
    wider = F.pad(src, (0, 2), value=1)
    assert_close(reader(wider)[:, :S], reader(src))
    with pytest.raises(ValueError, match="bos_id must differ from pad_id, got 1 and 1"):
        replace(WRITER, pad_id=1)


# -- A decoder alone -------------------------------------------------------------------


def by_hand(model, prompt, limit):
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
@pytest.mark.parametrize("use_cache", [True, False])
def test_prompts_of_any_lengths_get_what_each_would_get_alone(changes, use_cache):
    model = DecoderAlone(replace(WRITER, **changes)).eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.7)
    found = continue_tokens(model, PROMPTS, top_k=1, use_cache=use_cache)
    assert found == [by_hand(model, prompt, 11) for prompt in PROMPTS]
    assert found[-1] == []
    assert any(found)


def test_a_text_that_ends_leaves_the_others_as_they_are(writer):
    ends = by_hand(writer, [4], 11)[1]  # taken for EOS, the first text ends early
    prompts = [[4], [5, 6], [7]]
    whole = [by_hand(writer, prompt, 11) for prompt in prompts]
    expected = [text[: text.index(ends)] if ends in text else text for text in whole]
    writer.config = replace(writer.config, eos_id=ends)
    assert continue_tokens(writer, prompts, top_k=1) == expected
    assert len(expected[0]) <= 1


def test_the_fast_decoder_writes_the_same(writer):
    expected = continue_tokens(writer, PROMPTS, top_k=1)
    fast = FastDecoder(writer)
    assert continue_tokens(fast, PROMPTS, top_k=1) == expected


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
    expected = logits.softmax(dim=-1)
    assert_close(counts / many, expected, rtol=0, atol=0.04)
    assert counts[PAD] == 0


def test_no_prompt_gets_no_text(writer):
    assert continue_tokens(writer, []) == []
