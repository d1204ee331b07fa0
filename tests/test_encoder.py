import pytest
import torch
from layers import encoder_layer
from torch import nn
from torch.testing import assert_close
from torch_weights import copy_layer

from transformer_lib.model import Encoder

B, H, S, D_MODEL, D_FF, N = 2, 3, 7, 15, 11, 5


@pytest.fixture
def inputs():
    """Source vectors and a mask."""
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 4:] = False
    return torch.randn(B, S, D_MODEL), mask


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_agrees_with_torchs(inputs, norm_first):
    layer = encoder_layer(D_MODEL, H, D_FF, norm_first=norm_first).eval()
    theirs = nn.TransformerEncoderLayer(
        D_MODEL, H, D_FF, dropout=0.0, batch_first=True, norm_first=norm_first
    )  # not in eval mode, whose fast path sets padded positions to zero
    copy_layer(layer, theirs)
    x, mask = inputs
    assert_close(layer(x, mask), theirs(x, src_key_padding_mask=~mask[:, 0, 0]))


def test_a_stack_runs_its_layers_in_order_and_its_norm_last(inputs):
    layers = [encoder_layer(D_MODEL, H, D_FF).eval() for _ in range(N)]
    norm = nn.LayerNorm(D_MODEL)
    nn.init.normal_(norm.weight)
    expected, mask = inputs
    for layer in layers:
        expected = layer(expected, mask)
    assert_close(Encoder(layers)(*inputs), expected)
    assert_close(Encoder(layers, norm)(*inputs), norm(expected))
