"""Any configuration: shapes and dtypes, no look ahead, no leak of padding."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from layers import decoder_layer, encoder_layer
from strategies import (
    DTYPES,
    SEEDS,
    configs,
    examples,
    logits_of,
    models,
    models_and_sentences,
    sentences,
    sizes,
)
from torch import nn
from torch.testing import assert_close

from transformer_lib.model import (
    Decoder,
    Encoder,
    FeedForward,
    PositionalEncoding,
    Residual,
    TokenEmbedding,
    causal_mask,
)

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]
same = {"rtol": 0, "atol": 1e-9}  # in float64, beside values of order 1


# -- Shapes and dtypes -----------------------------------------------------------------


@examples(15, 2_000)
@given(configs(), st.sampled_from(DTYPES), st.tuples(*[sizes(5)] * 3), st.data())
def test_every_layer_keeps_shape_and_dtype(config, dtype, bts, data):
    b, t, s = bts
    torch.manual_seed(data.draw(SEEDS))
    choices = {
        name: getattr(config, name)
        for name in ("norm_first", "norm_eps", "bias", "activation")
    }
    width, heads, d_ff = config.d_model, config.num_heads, config.d_ff
    x, memory = torch.randn(b, t, width).to(dtype), torch.randn(b, s, width).to(dtype)
    mask, memory_mask = causal_mask(t), torch.ones(b, 1, 1, s, dtype=torch.bool)
    encode = encoder_layer(width, heads, d_ff, **choices)
    decode = decoder_layer(width, heads, d_ff, **choices)
    norm = nn.LayerNorm(width)
    layers = [
        (PositionalEncoding(width, config.max_len, config.positions), (x,)),
        (FeedForward(width, d_ff, activation=config.activation), (x,)),
        (Residual(norm, norm_first=config.norm_first), (x, lambda x: 2 * x)),
        (encode, (x, mask)),
        (decode, (x, memory, mask, memory_mask)),
        (Encoder([encode, encode], norm), (x, mask)),
        (Decoder([decode, decode], norm), (x, memory, mask, memory_mask)),
    ]
    for layer, inputs in layers:
        out = layer.to(dtype)(*inputs)
        assert (out.shape, out.dtype) == (x.shape, dtype), layer
        assert out.isfinite().all(), layer
    tokens = data.draw(sentences(config.tgt_vocab_size, config.pad_id, b))
    embedding = TokenEmbedding(config.tgt_vocab_size, width, config.pad_id).to(dtype)
    for ids in (tokens, tokens.int()):
        vectors = embedding(ids)
        assert (vectors.shape, vectors.dtype) == ((*tokens.shape, width), dtype)
        assert vectors[tokens == config.pad_id].eq(0).all()


@examples(15, 2_000)
@given(models_and_sentences(), st.sampled_from(DTYPES))
def test_a_model_of_any_dtype_gives_finite_logits_of_that_dtype(given, dtype):
    model, src, tgt = given
    for parameter in model.parameters():  # half precision ends at 65,504
        parameter.data.mul_(0.5)
    logits = logits_of(model.to(dtype), src, tgt)
    assert logits.shape == (*tgt.shape, model.config.tgt_vocab_size)
    assert logits.dtype == dtype
    assert logits.isfinite().all()
    assert torch.equal(
        logits_of(model, src if src is None else src.int(), tgt.int()), logits
    )


@examples(15, 1_000)
@given(configs(), sizes(20))
def test_a_vector_of_another_width_is_refused_with_both_widths(config, width):
    assume(width != config.d_model)
    right = torch.randn(2, 3, config.d_model)
    wrong, mask = torch.randn(2, 3, width), causal_mask(3)
    heads, d_ff = config.num_heads, config.d_ff
    encode = encoder_layer(config.d_model, heads, d_ff, norm_first=config.norm_first)
    decode = decoder_layer(config.d_model, heads, d_ff, norm_first=config.norm_first)
    positions = PositionalEncoding(config.d_model, 5, config.positions)
    for run in (
        lambda: positions(wrong),
        lambda: FeedForward(config.d_model, d_ff)(wrong),
        lambda: Residual(nn.LayerNorm(config.d_model))(wrong, lambda x: x),
        lambda: encode(wrong, mask),
        lambda: encode.self_attention(right, wrong, wrong, mask),
        lambda: encode.self_attention(wrong, right, right, mask),
        lambda: decode(wrong, right, mask),
        lambda: decode(right, wrong, mask),
    ):
        with pytest.raises((ValueError, RuntimeError)) as caught:
            run()
        assert str(width) in str(caught.value)
        assert str(config.d_model) in str(caught.value)


# -- Who sees what ---------------------------------------------------------------------


@examples(30, 2_000)
@given(models_and_sentences(), st.data())
def test_what_comes_later_changes_nothing(given, data):
    model, src, tgt = given
    t = data.draw(st.integers(0, tgt.size(1) - 1), "the last one kept")
    ids = st.integers(0, model.config.tgt_vocab_size - 1)  # PAD, too
    later = st.lists(ids, max_size=11 - t)
    rows = [data.draw(st.just([]) | later) for _ in tgt]
    longest = max(map(len, rows))
    new = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    other = torch.cat([tgt[:, : t + 1], new.long()], dim=1)
    before, after = logits_of(model, src, tgt), logits_of(model, src, other)
    assert_close(after[:, : t + 1], before[:, : t + 1], **same)
    assert before.isfinite().all()
    assert after.isfinite().all()


@examples(30, 2_000)
@given(models_and_sentences(), st.integers(0, 3), st.integers(0, 3))
def test_more_padding_changes_nothing(given, more_src, more_tgt):
    model, src, tgt = given
    pad_id, real = model.config.pad_id, tgt != model.config.pad_id
    before = logits_of(model, src, tgt)
    src = None if src is None else nn.functional.pad(src, (0, more_src), value=pad_id)
    tgt = nn.functional.pad(tgt, (0, more_tgt), value=pad_id)
    after = logits_of(model, src, tgt)[:, : real.size(1)]
    assert_close(after[real], before[real], **same)


@examples(30, 2_000)
@given(models_and_sentences())
def test_the_others_in_the_batch_change_nothing(given):
    model, src, tgt = given
    together, pad_id = logits_of(model, src, tgt), model.config.pad_id
    for row, logits in enumerate(together):
        length = int((tgt[row] != pad_id).sum())
        alone = None
        if src is not None:
            alone = src[row : row + 1, : max(1, int((src[row] != pad_id).sum()))]
        found = logits_of(model, alone, tgt[row : row + 1, :length])
        assert_close(found[0], logits[:length], **same)


@examples(30, 2_000)
@given(models_and_sentences(), SEEDS, st.floats(0, 1))
def test_what_lies_under_padding_anywhere_changes_nothing(given, seed, share):
    model, src, tgt = given
    pad_id, generator = model.config.pad_id, torch.Generator().manual_seed(seed)
    batches = {"src_positions": src, "tgt_positions": tgt}
    for name, tokens in list(batches.items()):
        if tokens is None:
            del batches[name]
        else:  # on the left and in between, too
            tokens[torch.rand(tokens.shape, generator=generator) < share] = pad_id
    before = logits_of(model, src, tgt)
    for name, tokens in batches.items():
        noise = 100 * torch.randn(*tokens.shape, 1, generator=generator)
        padding = (tokens == pad_id)[..., None]
        model.get_submodule(name).register_forward_hook(
            lambda _, inputs, x, p=padding, n=noise: torch.where(p, x + n, x)
        )
    after, real = logits_of(model, src, tgt), tgt != pad_id
    assert_close(after[real], before[real], **same)
    assert before.isfinite().all()
    assert after.isfinite().all()


@examples(20, 1_000)
@given(models(configs(least_width=4)), st.data())
def test_what_is_seen_does_matter(model, data):
    """Or a model that reads nothing would pass all of the above."""
    config = model.config
    assume(config.norm_eps < 0.1)
    src = None
    if config.src_vocab_size is not None:
        src = data.draw(sentences(config.src_vocab_size, config.pad_id, 1))
    tgt = data.draw(sentences(config.tgt_vocab_size, config.pad_id, 1, shortest=2))
    before = logits_of(model, src, tgt)
    real = [i for i in range(config.tgt_vocab_size) if i != config.pad_id]
    first = data.draw(st.sampled_from(real))
    assume(first != tgt[0, 0])
    other = torch.cat([torch.tensor([[first]]), tgt[:, 1:]], dim=1)
    assert (logits_of(model, src, other)[:, -1] - before[:, -1]).abs().max() > 1e-12
    if src is not None and config.src_vocab_size > 2:
        place = data.draw(st.integers(0, src.size(1) - 1))
        for word in range(config.src_vocab_size):
            if word not in (config.pad_id, int(src[0, place])):
                src[0, place] = word
                break
        assert (logits_of(model, src, tgt) - before).abs().max() > 1e-12
