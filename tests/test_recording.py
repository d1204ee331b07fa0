import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    fused_attention,
    record_attention,
)

B, H, T, S, PAD = 2, 3, 5, 7, 0


@pytest.fixture
def model():
    return Transformer(
        TransformerConfig(
            src_vocab_size=11,
            tgt_vocab_size=13,
            d_model=12,
            num_heads=H,
            d_ff=17,
            num_layers=2,
            attention_dropout=0.5,
        )
    ).eval()


@pytest.fixture
def tokens():
    src, tgt = torch.randint(1, 11, (B, S)), torch.randint(1, 13, (B, T))
    src[1, 4:] = PAD
    return src, tgt


def test_every_layer_and_head_is_recorded_on_the_real_pass(model, tokens):
    expected = model(*tokens)
    with record_attention(model) as maps:
        logits = model(*tokens)
    assert_close(logits, expected)
    for name, (t, s) in {
        "encoder.layers.1.self_attention": (S, S),
        "decoder.layers.0.self_attention": (T, T),
        "decoder.layers.1.cross_attention": (T, S),
    }.items():
        assert maps[name].shape == (B, H, t, s)
        assert_close(maps[name].sum(-1), torch.ones(B, H, t))
    assert len(maps) == 6


def test_the_masks_are_those_of_the_pass(model, tokens):
    with record_attention(model) as maps:
        model(*tokens)
    assert (maps["encoder.layers.1.self_attention"][1, ..., 4:] == 0).all()
    assert (maps["decoder.layers.1.cross_attention"][1, ..., 4:] == 0).all()
    assert (maps["decoder.layers.1.self_attention"].triu(1) == 0).all()


def test_training_with_dropout_gives_the_same_numbers_while_recorded(model, tokens):
    model.train()
    torch.manual_seed(1)
    expected = model(*tokens)
    torch.manual_seed(1)
    with record_attention(model):
        assert_close(model(*tokens), expected)


def test_gradients_flow_through_and_the_maps_are_detached(model, tokens):
    with record_attention(model) as maps:
        model(*tokens).sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    assert not any(weights.requires_grad for weights in maps.values())


def test_everything_is_as_it_was_afterwards_also_after_an_error(model):
    with pytest.raises(RuntimeError, match="on purpose"), record_attention(model):
        raise RuntimeError("on purpose")
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert all(layer.attend is fused_attention for layer in layers)


def test_a_second_recording_is_refused_and_the_first_goes_on(model, tokens):
    layer = model.decoder.layers[1]
    expected = "not be recorded already, got recording at self_attention"
    with record_attention(model) as maps:
        with pytest.raises(ValueError, match=expected), record_attention(layer):
            pass
        model(*tokens)
    assert len(maps) == 6
    assert layer.self_attention.attend is fused_attention


def test_a_single_attention_layer_can_be_recorded():
    layer = MultiHeadAttention(12, H)
    x = torch.randn(B, T, 12)
    with record_attention(layer) as maps:
        layer(x, x, x)
    assert maps[""].shape == (B, H, T, T)


def test_the_latest_pass_counts(model, tokens):
    with record_attention(model) as maps:
        model(*tokens)
        model(tokens[0][:, :3], tokens[1])
    assert maps["decoder.layers.0.cross_attention"].shape == (B, H, T, 3)


@pytest.mark.parametrize(
    ("model", "kind"), [("model", "str"), (None, "NoneType"), ([], "list")]
)
def test_anything_but_a_module_is_refused_by_its_type(model, kind):
    with (
        pytest.raises(TypeError, match=f"model must be a Module, got a {kind}$"),
        record_attention(model),
    ):
        pass


def test_a_layer_that_does_not_call_attend_has_no_map(model, tokens):
    class Plain(MultiHeadAttention):
        def forward(self, query, key, value, mask=None, cache=None):
            return self.w_o(self.w_v(query))

    model.encoder.layers[1].self_attention = Plain(12, H)
    with record_attention(model) as maps:
        model(*tokens)
    assert len(maps) == 5
    assert "encoder.layers.1.self_attention" not in maps


def test_a_model_without_attention_is_refused():
    with (
        pytest.raises(ValueError, match="must hold a MultiHeadAttention, got Linear"),
        record_attention(nn.Linear(3, 5)),
    ):
        pass
