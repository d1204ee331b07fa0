import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import ACTIVATIONS, FeedForward
from transformer_lib.variants import GatedFeedForward

B, T, WIDTH, D_FF = 2, 3, 5, 7


def test_it_is_the_formula_of_swiglu():
    layer, x = GatedFeedForward(WIDTH, D_FF), torch.randn(B, T, WIDTH)
    w, v, w_2 = layer.w_1.weight, layer.w_3.weight, layer.w_2.weight
    gate = x @ w.T
    expected = (gate * torch.sigmoid(gate) * (x @ v.T)) @ w_2.T
    assert_close(layer(x), expected)


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_with_a_gate_that_is_open_it_is_a_feed_forward_network(activation):
    layer = GatedFeedForward(WIDTH, D_FF, activation=activation)
    plain = FeedForward(WIDTH, D_FF, activation=activation)
    for ours, theirs in ((plain.w_1, layer.w_1), (plain.w_2, layer.w_2)):
        ours.weight = theirs.weight
        torch.nn.init.zeros_(ours.bias)
    x = torch.randn(B, T, WIDTH)
    layer.w_3.forward = lambda x: torch.ones(*x.shape[:-1], D_FF)
    assert_close(layer(x), plain(x))


def test_two_thirds_of_the_inner_width_cost_as_much_as_without_a_gate():
    gated, plain = GatedFeedForward(12, 32), FeedForward(12, 48)
    matrices = [p.numel() for p in plain.parameters() if p.dim() == 2]
    assert sum(p.numel() for p in gated.parameters()) == sum(matrices)


def test_dropout_is_for_training():
    layer, x = GatedFeedForward(WIDTH, D_FF, dropout=0.5), torch.randn(B, T, WIDTH)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))
