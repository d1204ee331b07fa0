import pytest
import torch
from layers import encoder_layer
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch_weights import THEIRS, copy_layer

from transformer_lib.model import Encoder

B, H, S, D_MODEL, D_FF, N = 2, 3, 7, 15, 11, 5


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm"])
def norm_first(request):
    return request.param


@pytest.fixture
def layer(norm_first):
    return encoder_layer(D_MODEL, H, D_FF, norm_first=norm_first).eval()


@pytest.fixture
def mask():
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 4:] = False
    return mask


def test_a_layer_agrees_with_torchs(layer, mask, norm_first):
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, H, D_FF, batch_first=True, norm_first=norm_first
    )
    copy_layer(layer, theirs)
    theirs.train()  # in eval mode torch's fast path sets padded positions to zero
    for dropout in theirs.modules():
        if isinstance(dropout, nn.Dropout):
            dropout.p = 0.0
    theirs.self_attn.dropout = 0.0
    x = torch.randn(B, S, D_MODEL)
    expected = theirs(x, src_key_padding_mask=~mask[:, 0, 0])
    assert_close(layer(x, mask), expected)


@pytest.mark.parametrize("activation", ["gelu", "gelu_tanh", "silu"])
def test_a_layer_with_another_activation_agrees_with_torchs(activation):
    layer = encoder_layer(D_MODEL, H, D_FF, activation=activation).eval()
    twin = nn.TransformerEncoderLayer(
        D_MODEL, H, D_FF, dropout=0.0, activation=THEIRS[activation], batch_first=True
    )
    copy_layer(layer, twin)
    x = torch.randn(B, S, D_MODEL)
    assert_close(layer(x), twin(x), rtol=1e-10, atol=1e-10)


def test_a_stack_runs_its_layers_in_order_and_its_norm_last(mask):
    layers = [encoder_layer(D_MODEL, H, D_FF).eval() for _ in range(N)]
    norm = nn.LayerNorm(D_MODEL)
    nn.init.normal_(norm.weight)
    x = torch.randn(B, S, D_MODEL)
    expected = x
    for layer in layers:
        expected = layer(expected, mask)
    assert_close(Encoder(layers)(x, mask), expected)
    assert_close(Encoder(layers, norm)(x, mask), norm(expected))


def test_what_stands_in_padded_positions_changes_nothing(layer, mask):
    x = torch.randn(B, S, D_MODEL)
    before = layer(x, mask)
    x[1, 4:] = 100.0
    after = layer(x, mask)
    assert_close(after[0], before[0])
    assert_close(after[1, :4], before[1, :4])


def test_every_position_sees_every_other(layer):
    x = torch.randn(B, S, D_MODEL, requires_grad=True)
    for s in range(S):
        (gradient,) = torch.autograd.grad(layer(x)[:, s, 0].sum(), x)
        assert (gradient != 0).any(-1).all()


def test_the_options_reach_the_pieces():
    layer = encoder_layer(
        D_MODEL,
        H,
        D_FF,
        dropout=0.25,
        attention_dropout=0.125,
        feed_forward_dropout=0.5,
        norm_first=True,
        norm_eps=1e-6,
        bias=False,
        activation="silu",
    )
    residuals = layer.self_attention_residual, layer.feed_forward_residual
    assert [r.dropout.p for r in residuals] == [0.25, 0.25]
    assert [r.norm_first for r in residuals] == [True, True]
    assert [r.norm.eps for r in residuals] == [1e-6, 1e-6]
    assert layer.self_attention.dropout == 0.125
    assert layer.feed_forward.dropout.p == 0.5
    assert layer.feed_forward.activation is F.silu
    assert layer.self_attention.w_o.bias is None


def test_the_defaults_are_the_papers():
    layer = encoder_layer(D_MODEL, H, D_FF)
    for residual in (layer.self_attention_residual, layer.feed_forward_residual):
        assert (residual.dropout.p, residual.norm_first) == (0.1, False)
    assert layer.self_attention.dropout == layer.feed_forward.dropout.p == 0
    assert layer.self_attention.w_q.bias is not None
    assert layer.feed_forward.activation is F.relu
