"""Attention of other kinds in a layer and in a whole model."""

import pickle
from copy import deepcopy
from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.decoding import greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    causal_mask,
    fused_attention,
    padding_mask,
    record_attention,
)
from transformer_lib.variants import (
    CausalMask,
    DecoderAlone,
    FullAttention,
    LinearAttention,
    ModernConfig,
    NystromAttention,
    PerformerAttention,
    Variant,
    WindowAttention,
    use_attention,
    window_mask,
)

B, H, T, S, D_K, PAD = 2, 3, 7, 11, 5, 0
SIZES = {"d_model": 12, "num_heads": H, "d_ff": 17, "num_layers": 2}
CONFIG = TransformerConfig(src_vocab_size=13, tgt_vocab_size=17, **SIZES)
BACK, ALL = WindowAttention(3, causal=True), WindowAttention(3, causal=False)
PAIRS = {  # for an encoder and for a decoder
    "linear": [LinearAttention(causal=causal) for causal in (False, True)],
    "nystrom": (NystromAttention(3), None),
    "performer": [PerformerAttention(8, 3, causal=causal) for causal in (False, True)],
    "window": (ALL, BACK),
}


class Mean(Variant):
    def compute(self, query, key, value, padding, dropout):
        return value.mean(dim=2, keepdim=True).expand(-1, -1, query.size(2), -1)


def uniform(query, key, value, mask, dropout):
    return Mean(causal=False)(query, key, value)


@pytest.fixture
def model():
    return Transformer(CONFIG).eval()


@pytest.fixture
def tokens():
    src, tgt = torch.randint(3, 13, (B, S)), torch.randint(3, 17, (B, T))
    src[1, 8:], tgt[0, 5:] = PAD, PAD
    return src, tgt


@pytest.fixture(params=sorted(PAIRS))
def placed(request, model):
    encoder, decoder = PAIRS[request.param]
    use_attention(model, encoder=encoder, decoder=decoder)
    return model


@pytest.fixture
def heads():
    return torch.randn(3, B, H, T, D_K)


# -- Masks -----------------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
def test_full_attention_is_fused_attention(heads, causal):
    padding = torch.rand(B, 1, 1, T) < 0.7
    attend = FullAttention(causal=causal)
    for t in (T, 4, 1):
        query, key, value = heads[0][:, :, -t:], *heads[1:]
        for rows in (None, padding, padding[:1]):
            mask = causal_mask(T)[:, :, -t:] if causal else None
            if rows is not None:
                mask = rows if mask is None else mask & rows
            expected = fused_attention(query, key, value, mask)
            assert_close(attend(query, key, value, rows), expected)


def test_full_attention_of_another_sequence_is_the_kernel(heads):
    query, key, value = heads[0], *heads[1:, :, :, :3]
    expected = F.scaled_dot_product_attention(query, key, value)
    assert_close(FullAttention(causal=False)(query, key, value), expected)


@pytest.mark.parametrize(
    ("mask", "kind", "message"),
    [
        (
            causal_mask(T),
            ValueError,
            r"of shape \(2, 1, 1, 7\) with Window.*\(1, 1, 7, 7\)",
        ),
        (torch.ones(3, 1, 1, T).bool(), ValueError, r"got \(3, 1, 1, 7\)"),
        (torch.ones(B, H, 1, T).bool(), ValueError, r"got \(2, 3, 1, 7\)"),
        (torch.ones(B, T).bool(), ValueError, r"got \(2, 7\)"),
        (torch.ones(B, 1, 1, T), TypeError, "boolean, got torch.float32"),
        (CausalMask(torch.ones(B, 1, 1, 5).bool()), ValueError, r"got \(2, 1, 1, 5\)"),
        ("causal", TypeError, "a tensor or a CausalMask, got a str"),
    ],
)
def test_any_other_mask_is_refused_with_its_shape(heads, mask, kind, message):
    for attend in (BACK, BACK.explicit):
        with pytest.raises(kind, match=message):
            attend(*heads, mask)


def test_shapes_are_refused_with_the_name_of_the_variant(heads):
    query, key, value = heads
    with pytest.raises(ValueError, match=r"shape \(B, H, T, d_k\), got \(3, 7, 5\)"):
        BACK(query[0], key[0], value[0])
    with pytest.raises(
        ValueError, match=r"WindowAttention\(causal=True, width=3\), got 7 and 6"
    ):
        BACK(query, key[:, :, :6], value[:, :, :6])
    with pytest.raises(ValueError, match="same width, got 5 and 4"):
        BACK(query, key[..., :4], value)


@pytest.mark.parametrize("dropout", [-0.5, 1.0, float("nan")])
def test_dropout_that_is_no_share_is_refused(heads, dropout):
    for attend in (BACK, BACK.explicit):
        with pytest.raises(
            ValueError, match=rf"dropout must be in \[0, 1\), got {dropout}"
        ):
            attend(*heads, None, dropout)


# -- In a layer ------------------------------------------------------------------------


# -- In a model ------------------------------------------------------------------------


def by_masks(model, tokens):
    """The same model under masks: the encoder sees 3 to each side, the decoder 3."""

    def masked(query, key, value, mask, dropout, causal):
        window = window_mask(query.size(2), key.size(2), 3, causal)
        return fused_attention(query, key, value, mask & window, dropout)

    other = deepcopy(model)
    for layer in other.encoder.layers:
        layer.self_attention.attend = partial(masked, causal=False)
    for layer in other.decoder.layers:
        layer.self_attention.attend = partial(masked, causal=True)
    return other(*tokens)


def test_a_model_with_windows_is_the_model_under_their_masks(model, tokens):
    expected, before = by_masks(model, tokens), model(*tokens)
    with use_attention(model, encoder=ALL, decoder=BACK):
        found = model(*tokens)
    assert_close(found, expected)
    assert not torch.allclose(found, before)
    assert_close(model(*tokens), before)


def test_full_attention_changes_nothing(model, tokens):
    before = model(*tokens)
    full = FullAttention(causal=False)
    use_attention(model, encoder=full, decoder=FullAttention(causal=True), cross=full)
    assert_close(model(*tokens), before)


def test_one_layer_alone_may_have_a_window(model, tokens):
    layers = model.decoder.layers
    placed = use_attention(model, encoder=[None, ALL], decoder=[BACK, None])
    assert model.encoder.layers[0].self_attention.attend is fused_attention
    assert model.encoder.layers[1].self_attention.attend is ALL
    assert layers[1].self_attention.attend == FullAttention(causal=True)
    found = model(*tokens)
    placed.close()
    masked = deepcopy(model)
    masked.encoder.layers[1].self_attention.attend = lambda q, k, v, mask, dropout: (
        fused_attention(q, k, v, mask & window_mask(S, S, 3, causal=False))
    )
    masked.decoder.layers[0].self_attention.attend = lambda q, k, v, mask, dropout: (
        fused_attention(q, k, v, mask & window_mask(T, T, 3, causal=True))
    )
    assert_close(masked(*tokens), found)


def test_after_it_everything_is_as_it_was_also_after_an_error(model):
    with pytest.raises(RuntimeError), use_attention(model, encoder=ALL, decoder=BACK):
        raise RuntimeError("on purpose")
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert all(layer.attend is fused_attention for layer in layers)
    assert "target_mask" not in vars(model)


def test_one_use_in_another_comes_back_to_the_first(model, tokens):
    first = use_attention(model, decoder=BACK)
    expected = model(*tokens)
    wide = WindowAttention(5, causal=True)
    with use_attention(model, decoder=[wide, None], encoder=ALL):
        assert not torch.allclose(model(*tokens), expected)
    assert_close(model(*tokens), expected)
    first.close()
    assert "target_mask" not in vars(model)


def test_no_prediction_depends_on_a_later_token(model, tokens):
    use_attention(model, decoder=BACK)
    src, tgt = tokens
    changed = tgt.clone()
    changed[:, 4:] = 3
    assert_close(model(src, changed)[:, :4], model(src, tgt)[:, :4], rtol=0, atol=1e-12)


def test_a_model_with_it_learns(placed, tokens):
    placed.train()
    optimizer, losses = torch.optim.Adam(placed.parameters(), lr=1e-2), []
    for _ in range(8):
        logits = placed(*tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[1].flatten())
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.isfinite().all() for p in placed.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_padding_changes_nothing(placed, tokens):
    src, tgt = tokens
    assert_close(placed(src[1:, :8], tgt[1:]), placed(src, tgt)[1:])


@pytest.mark.parametrize("crossing", [None, "full", "linear"])
def test_with_and_without_a_cache_the_same_tokens_are_written(placed, tokens, crossing):
    kinds = {"full": FullAttention, "linear": LinearAttention}
    if crossing is not None:
        use_attention(placed, cross=kinds[crossing](causal=False))
    src, tgt = tokens
    tgt = tgt.clamp(min=3)
    memory, mask, cache = placed.encode(src), padding_mask(src, PAD), placed.new_cache()
    steps = [placed.decode(tgt[:, [t]], memory, mask, cache) for t in range(T)]
    assert_close(torch.cat(steps, dim=1), placed.decode(tgt, memory, mask))
    written = greedy_decode(placed, src, max_len=9)
    assert written == greedy_decode(placed, src, max_len=9, use_cache=False)


@pytest.mark.parametrize("copied", [deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_attends_as_the_model_does(placed, tokens, copied):
    other = copied(placed)
    assert_close(other(*tokens), placed(*tokens))


def test_a_recording_shows_its_weights_and_changes_nothing(placed, tokens):
    expected = placed(*tokens)
    with record_attention(placed) as maps:
        assert_close(placed(*tokens), expected)
    for name in ("encoder", "decoder"):
        weights = maps[f"{name}.layers.1.self_attention"]
        sums = weights.sum(dim=-1)[..., :8]  # of what is not padding
        assert_close(sums, torch.ones_like(sums))
    assert (maps["encoder.layers.1.self_attention"][1, ..., 8:].abs() < 1e-12).all()


def test_a_recording_shows_the_weights_of_the_window(model, tokens):
    use_attention(model, encoder=ALL, decoder=BACK)
    expected = model(*tokens)
    with record_attention(model) as maps:
        assert_close(model(*tokens), expected)
    weights = maps["decoder.layers.1.self_attention"]
    assert weights.shape == (B, H, T, T)
    assert (weights.masked_select(~window_mask(T, T, 3, causal=True)) == 0).all()
    assert_close(weights.sum(dim=-1), torch.ones(B, H, T))
    assert model.decoder.layers[1].self_attention.attend is BACK


def test_without_an_explicit_form_recording_is_refused_and_nothing_is_changed(model):
    use_attention(model, encoder=[None, Mean(causal=False)])
    expected = r"already, got Mean\(causal=False\) at encoder.layers.1.self_"
    with pytest.raises(ValueError, match=expected), record_attention(model):
        pass
    assert model.encoder.layers[0].self_attention.attend is fused_attention
    with record_attention(model.decoder):
        pass
    layer = MultiHeadAttention(12, H)
    layer.attend = uniform
    with (
        pytest.raises(ValueError, match="got uniform at the layer itself"),
        record_attention(layer),
    ):
        pass


def test_the_fast_decoder_refuses_it_by_its_place(model, tokens):
    use_attention(model, decoder=[None, BACK])
    with pytest.raises(
        ValueError, match=r"another attention at decoder.layers.0.self_attention$"
    ):
        greedy_decode(FastDecoder(model), tokens[0])


def test_a_decoder_alone_may_have_a_window(tokens):
    alone = DecoderAlone(ModernConfig(src_vocab_size=None, tgt_vocab_size=17, **SIZES))
    alone.eval()
    use_attention(alone, decoder=BACK)
    tgt = tokens[1].clamp(min=3)
    cache = alone.new_cache()
    steps = [alone.decode(tgt[:, [t]], cache=cache) for t in range(T)]
    assert_close(torch.cat(steps, dim=1), alone(tgt))
    for part in ({"encoder": ALL}, {"cross": FullAttention(causal=False)}):
        with pytest.raises(ValueError, match=f"{next(iter(part))} must be None for a"):
            use_attention(alone, **part)


@pytest.mark.parametrize(
    ("choice", "kind", "message"),
    [
        ({"encoder": BACK}, ValueError, r"encoder must be not causal, got W.*True"),
        ({"decoder": ALL}, ValueError, r"decoder must be causal, got Window.*False"),
        ({"cross": ALL}, ValueError, r"able to cross-attend, got WindowAttention\(c"),
        ({"decoder": [BACK] * 3}, ValueError, "for each layer, got 3 and 2"),
        ({"encoder": [ALL, uniform]}, TypeError, "be a Variant, got a function"),
        ({"encoder": uniform}, TypeError, "encoder must be a Variant, got a function"),
    ],
)
def test_a_variant_in_the_wrong_place_is_refused(model, choice, kind, message):
    with pytest.raises(kind, match=message):
        use_attention(model, **choice)
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert all(layer.attend is fused_attention for layer in layers)


def test_a_layer_of_another_kind_is_refused_by_its_place(model):
    model.decoder.layers[1].cross_attention = nn.Identity()
    named = r"decoder.layers.1.cross_attention must be a MultiHeadA.*, got a Identity$"
    with pytest.raises(TypeError, match=named):
        use_attention(model, encoder=ALL, cross=FullAttention(causal=False))
    assert model.encoder.layers[0].self_attention.attend is fused_attention
    theirs = nn.Transformer(12, 2, 1, 1, 17, batch_first=True)
    for part, variant in (("encoder", ALL), ("decoder", BACK)):
        with pytest.raises(
            ValueError, match=f"{part} must be None for a model without"
        ):
            use_attention(theirs, **{part: variant})


def test_a_layer_that_does_not_call_attend_goes_on_as_before(model, tokens):
    class Plain(MultiHeadAttention):
        def forward(self, query, key, value, mask=None, cache=None):
            return self.w_o(self.w_v(query))

    for layer in model.encoder.layers:
        layer.self_attention = Plain(12, H)
    before = model(*tokens)
    with use_attention(model, encoder=ALL):
        assert_close(model(*tokens), before)


def test_what_attends_otherwise_already_or_is_recorded_is_left_alone(model):
    with (
        record_attention(model),
        pytest.raises(ValueError, match=r"other attention, got recording$"),
    ):
        use_attention(model, encoder=ALL)
    model.decoder.layers[1].self_attention.attend = lambda *x: x[0]
    with pytest.raises(ValueError, match="hold no other attention, got <lambda>"):
        use_attention(model, decoder=[BACK, None])
    assert model.decoder.layers[0].self_attention.attend is fused_attention
    assert "target_mask" not in vars(model)
