"""Attention of other kinds in a layer and in a whole model."""

import pickle
from copy import deepcopy

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    fused_attention,
    record_attention,
)
from transformer_lib.variants import (
    FullAttention,
    Variant,
    WindowAttention,
    use_attention,
    window_mask,
)

B, H, T, S, PAD = 2, 3, 7, 11, 0
SIZES = {"d_model": 12, "num_heads": H, "d_ff": 17, "num_layers": 2}
CONFIG = TransformerConfig(src_vocab_size=13, tgt_vocab_size=17, **SIZES)
BACK, ALL = WindowAttention(3, causal=True), WindowAttention(3, causal=False)


class Mean(Variant):
    def compute(self, query, key, value, padding, dropout):
        return value.mean(dim=2, keepdim=True).expand(-1, -1, query.size(2), -1)


@pytest.fixture
def model():
    return Transformer(CONFIG).eval()


@pytest.fixture
def tokens():
    src, tgt = torch.randint(3, 13, (B, S)), torch.randint(3, 17, (B, T))
    src[1, 8:], tgt[0, 5:] = PAD, PAD
    return src, tgt


def masked(causal):
    """What a window computes, under the model's own mask and that of the window."""

    def attend(query, key, value, mask, dropout):
        window = window_mask(query.size(2), key.size(2), 3, causal)
        return fused_attention(query, key, value, mask & window, dropout)

    return attend


def test_a_model_with_windows_is_the_model_under_their_masks(model, tokens):
    other, before = deepcopy(model), model(*tokens)
    for layer in other.encoder.layers:
        layer.self_attention.attend = masked(causal=False)
    for layer in other.decoder.layers:
        layer.self_attention.attend = masked(causal=True)
    with use_attention(model, encoder=ALL, decoder=BACK):
        assert_close(model(*tokens), other(*tokens))
        assert not torch.allclose(model(*tokens), before)
        with record_attention(model) as maps:
            model(*tokens)
    weights = maps["decoder.layers.1.self_attention"]
    assert not weights.masked_select(~window_mask(T, T, 3, causal=True)).any()
    assert_close(model(*tokens), before)
    assert "target_mask" not in vars(model)


def test_one_layer_alone_may_have_a_window(model, tokens):
    other = deepcopy(model)
    use_attention(model, encoder=[None, ALL], decoder=[BACK, None])
    assert model.encoder.layers[0].self_attention.attend is fused_attention
    full = FullAttention(causal=True)  # told of the future in words, as its neighbour
    assert model.decoder.layers[1].self_attention.attend == full
    other.encoder.layers[1].self_attention.attend = masked(causal=False)
    other.decoder.layers[0].self_attention.attend = masked(causal=True)
    assert_close(model(*tokens), other(*tokens))


@pytest.mark.parametrize("copied", [deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_attends_as_the_model_does(model, tokens, copied):
    use_attention(model, encoder=ALL, decoder=BACK)
    assert_close(copied(model)(*tokens), model(*tokens))


def test_without_an_explicit_form_recording_is_refused_and_nothing_is_changed(model):
    use_attention(model, encoder=[None, Mean(causal=False)])
    expected = r"already, got Mean\(causal=False\) at encoder.layers.1.self_"
    with pytest.raises(ValueError, match=expected), record_attention(model):
        pass
    assert model.encoder.layers[0].self_attention.attend is fused_attention


@pytest.mark.parametrize(
    ("error", "message", "choice"),
    [
        (ValueError, r"encoder must be not causal, got W.*True", {"encoder": BACK}),
        (ValueError, r"decoder must be causal, got Window.*False", {"decoder": ALL}),
        (ValueError, r"to cross-attend, got WindowAttention\(c", {"cross": ALL}),
        (ValueError, "for each layer, got 3 and 2", {"decoder": [BACK] * 3}),
        (TypeError, "must be a Variant, got a builtin", {"encoder": [ALL, max]}),
    ],
)
def test_what_is_refused_changes_no_layer(model, error, message, choice):
    with pytest.raises(error, match=message):
        use_attention(model, **choice)
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert all(layer.attend is fused_attention for layer in layers)
    assert "target_mask" not in vars(model)
