import pytest
import torch
from refusals import assert_refused, over
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
    config = TransformerConfig(
        src_vocab_size=11,
        tgt_vocab_size=13,
        d_model=12,
        num_heads=H,
        d_ff=17,
        num_layers=2,
        attention_dropout=0.5,
    )
    return Transformer(config).eval()


@pytest.fixture
def tokens():
    src, tgt = torch.randint(1, 11, (B, S)), torch.randint(1, 13, (B, T))
    src[1, 4:] = PAD
    return src, tgt


def test_every_layer_and_head_is_recorded_on_the_real_pass_with_its_masks(
    model, tokens
):
    expected = model(*tokens)
    with record_attention(model) as maps:
        logits = model(*tokens)
    assert_close(logits, expected)
    logits.sum().backward()
    assert all(p.grad is not None for p in model.parameters())
    for name, (t, s) in {
        "encoder.layers.1.self_attention": (S, S),
        "decoder.layers.0.self_attention": (T, T),
        "decoder.layers.1.cross_attention": (T, S),
    }.items():
        assert maps[name].shape == (B, H, t, s)
        assert not maps[name].requires_grad
        assert_close(maps[name].sum(-1), torch.ones(B, H, t))
        hidden = maps[name].triu(1) if t == s == T else maps[name][1, ..., 4:]
        assert (hidden == 0).all()
    assert len(maps) == 6


def test_training_with_dropout_gives_the_same_numbers_while_recorded(model, tokens):
    model.train()
    torch.manual_seed(1)
    expected = model(*tokens)
    torch.manual_seed(1)
    with record_attention(model):
        assert_close(model(*tokens), expected)


def test_a_second_recording_is_refused_and_after_an_error_all_is_as_it_was(
    model, tokens
):
    expected = "not be recorded already, got recording at self_attention"
    with record_attention(model), pytest.raises(ValueError, match=expected):
        record(model.decoder.layers[1])
    with pytest.raises(RuntimeError, match="on purpose"), record_attention(model):
        raise RuntimeError("on purpose")
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert all(layer.attend is fused_attention for layer in layers)


def test_a_single_attention_layer_can_be_recorded_and_the_latest_pass_counts():
    layer = MultiHeadAttention(12, H)
    with record_attention(layer) as maps:
        for n in (3, T):
            layer(*[torch.randn(B, n, 12)] * 3)
    assert maps[""].shape == (B, H, T, T)


def test_a_layer_that_does_not_call_attend_has_no_map(model, tokens):
    class Plain(MultiHeadAttention):
        def forward(self, query, key, value, mask=None, cache=None):
            return self.w_o(self.w_v(query))

    model.encoder.layers[1].self_attention = Plain(12, H)
    with record_attention(model) as maps:
        model(*tokens)
    assert len(maps) == 5
    assert "encoder.layers.1.self_attention" not in maps


def record(model):
    with record_attention(model):
        pass


@over(
    [
        (TypeError, "model must be a Module, got a NoneType", lambda: record(None)),
        (
            ValueError,
            "must hold a MultiHeadAttention, got Linear",
            lambda: record(nn.Linear(3, 5)),
        ),
    ]
)
def test_what_holds_no_attention_is_refused_by_its_type(error, text, call):
    assert_refused(error, text, call)
