import pytest
import torch
from layers import decoder_layer
from torch import nn
from torch.testing import assert_close
from torch_weights import copy_layer

from transformer_lib.model import Decoder, causal_mask

B, H, T, S, D_MODEL, D_FF, N = 2, 3, 5, 7, 15, 11, 3


@pytest.fixture
def inputs():
    """Target vectors, the memory, and the masks of both."""
    memory_mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    memory_mask[1, ..., 4:] = False
    x, memory = torch.randn(B, T, D_MODEL), torch.randn(B, S, D_MODEL)
    return x, memory, causal_mask(T), memory_mask


@pytest.mark.parametrize("norm_first", [False, True])
def test_a_layer_agrees_with_torchs(inputs, norm_first):
    layer = decoder_layer(D_MODEL, H, D_FF, norm_first=norm_first).eval()
    theirs = nn.TransformerDecoderLayer(
        D_MODEL, H, D_FF, batch_first=True, norm_first=norm_first
    ).eval()
    copy_layer(layer, theirs)
    x, memory, mask, memory_mask = inputs
    expected = theirs(
        x,
        memory,
        tgt_mask=~mask[0, 0],
        memory_key_padding_mask=~memory_mask[:, 0, 0],
    )
    assert_close(layer(*inputs), expected)


def test_a_stack_gives_every_layer_the_same_memory_and_ends_in_its_norm(inputs):
    layers = [decoder_layer(D_MODEL, H, D_FF).eval() for _ in range(N)]
    norm = nn.LayerNorm(D_MODEL)
    nn.init.normal_(norm.weight)
    expected, *others = inputs
    for layer in layers:
        expected = layer(expected, *others)
    assert_close(Decoder(layers)(*inputs), expected)
    assert_close(Decoder(layers, norm)(*inputs), norm(expected))
