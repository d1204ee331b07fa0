import torch
from torch.testing import assert_close

from transformer_lib.model import ACTIVATIONS, FeedForward
from transformer_lib.variants import GatedFeedForward

B, T, WIDTH, D_FF = 2, 3, 5, 7


def test_the_gate_may_have_any_activation():
    x = torch.randn(B, T, WIDTH)
    for name, activation in ACTIVATIONS.items():
        layer = GatedFeedForward(WIDTH, D_FF, activation=name)
        expected = layer.w_2(activation(layer.w_1(x)) * layer.w_3(x))
        assert_close(layer(x), expected)


def test_two_thirds_of_the_inner_width_cost_as_much_as_without_a_gate():
    gated, plain = GatedFeedForward(12, 32), FeedForward(12, 48)
    matrices = [p.numel() for p in plain.parameters() if p.dim() == 2]
    assert sum(p.numel() for p in gated.parameters()) == sum(matrices)


def test_dropout_is_for_training():
    layer, x = GatedFeedForward(WIDTH, D_FF, dropout=0.5), torch.randn(B, T, WIDTH)
    assert not torch.equal(layer(x), layer(x))
    assert torch.equal(layer.eval()(x), layer(x))
