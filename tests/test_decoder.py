import pytest
import torch
from layers import decoder_layer
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch_weights import copy_layer

from transformer_lib.model import Decoder, causal_mask

B, H, T, S, D_MODEL, D_FF, N = 2, 3, 5, 7, 15, 11, 3


@pytest.fixture(params=[False, True], ids=["post-norm", "pre-norm"])
def norm_first(request):
    return request.param


@pytest.fixture
def layer(norm_first):
    return decoder_layer(D_MODEL, H, D_FF, norm_first=norm_first).eval()


@pytest.fixture
def x():
    return torch.randn(B, T, D_MODEL)


@pytest.fixture
def memory():
    return torch.randn(B, S, D_MODEL)


@pytest.fixture
def memory_mask():
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 4:] = False
    return mask


def test_a_layer_agrees_with_torchs(layer, x, memory, memory_mask, norm_first):
    theirs = nn.TransformerDecoderLayer(
        D_MODEL, H, D_FF, batch_first=True, norm_first=norm_first
    ).eval()
    copy_layer(layer, theirs)
    expected = theirs(
        x,
        memory,
        tgt_mask=~causal_mask(T)[0, 0],
        memory_key_padding_mask=~memory_mask[:, 0, 0],
    )
    assert_close(layer(x, memory, causal_mask(T), memory_mask), expected)


def test_a_stack_gives_every_layer_the_same_memory(x, memory, memory_mask):
    layers = [decoder_layer(D_MODEL, H, D_FF).eval() for _ in range(N)]
    norm = nn.LayerNorm(D_MODEL)
    nn.init.normal_(norm.weight)
    expected = x
    for layer in layers:
        expected = layer(expected, memory, causal_mask(T), memory_mask)
    inputs = x, memory, causal_mask(T), memory_mask
    assert_close(Decoder(layers)(*inputs), expected)
    assert_close(Decoder(layers, norm)(*inputs), norm(expected))


def test_no_position_depends_on_a_later_one(layer, x, memory):
    x.requires_grad_()
    out = layer(x, memory, causal_mask(T))
    for t in range(T):
        (gradient,) = torch.autograd.grad(out[:, t, 0].sum(), x, retain_graph=True)
        assert (gradient[:, t + 1 :] == 0).all()
        assert (gradient[:, : t + 1] != 0).any(-1).all()


def test_padding_in_the_source_is_inert(layer, x, memory, memory_mask):
    before = layer(x, memory, causal_mask(T), memory_mask)
    memory[1, 4:] = 100.0
    assert_close(layer(x, memory, causal_mask(T), memory_mask), before)


def test_the_options_reach_the_pieces():
    layer = decoder_layer(
        D_MODEL,
        H,
        D_FF,
        dropout=0.25,
        attention_dropout=0.125,
        feed_forward_dropout=0.5,
        norm_first=True,
        norm_eps=1e-6,
        bias=False,
        activation="gelu",
    )
    residuals = (
        layer.self_attention_residual,
        layer.cross_attention_residual,
        layer.feed_forward_residual,
    )
    for residual in residuals:
        assert (residual.dropout.p, residual.norm_first) == (0.25, True)
        assert residual.norm.eps == 1e-6
    for attention in (layer.self_attention, layer.cross_attention):
        assert attention.dropout == 0.125
        assert attention.w_o.bias is None
    assert layer.feed_forward.dropout.p == 0.5
    assert layer.feed_forward.activation is F.gelu


def test_the_defaults_are_the_papers():
    layer = decoder_layer(D_MODEL, H, D_FF)
    for residual in (layer.self_attention_residual, layer.cross_attention_residual):
        assert (residual.dropout.p, residual.norm_first) == (0.1, False)
    for attention in (layer.self_attention, layer.cross_attention):
        assert attention.dropout == 0
        assert attention.w_q.bias is not None
    assert layer.feed_forward.dropout.p == 0
