import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.model import FeedForward

B, T, D_MODEL, D_FF = 2, 5, 7, 11


def filled(*values, **choices):
    """A network with one inner feature and these parameters."""
    feed_forward = FeedForward(1, 1, **choices)
    for parameter, value in zip(feed_forward.parameters(), values, strict=True):
        nn.init.constant_(parameter, value)
    return feed_forward


def test_one_inner_feature_by_hand():
    x = torch.tensor([[[4.0], [0.0]]])
    assert filled(2, -1, 3, 5)(x).flatten().tolist() == [3 * 7 + 5, 5]


@pytest.mark.parametrize(
    ("activation", "theirs", "at_one"),
    [
        ("relu", nn.ReLU(), 1.0),
        ("gelu", nn.GELU(), (1 + math.erf(math.sqrt(0.5))) / 2),
        (
            "gelu_tanh",
            nn.GELU("tanh"),
            (1 + math.tanh(math.sqrt(2 / math.pi) * 1.044715)) / 2,
        ),
        ("silu", nn.SiLU(), 1 / (1 + math.exp(-1))),
    ],
)
def test_each_activation_is_that_of_torch_and_of_its_formula(
    activation, theirs, at_one
):
    feed_forward = FeedForward(D_MODEL, D_FF, activation=activation)
    x = 3 * torch.randn(B, T, D_MODEL)
    expected = nn.Sequential(feed_forward.w_1, theirs, feed_forward.w_2)(x)
    assert_close(feed_forward(x), expected, rtol=1e-12, atol=1e-12)
    one = filled(1, 0, 1, 0, activation=activation)(torch.ones(1, 1, 1))
    assert one.item() == pytest.approx(at_one, rel=1e-12)


def test_dropout_drops_inner_features_while_training():
    feed_forward, ones = filled(1, 0, 1, 5, dropout=0.5), torch.ones(100, T, 1)
    assert set(feed_forward(ones).unique().tolist()) == {5.0, 7.0}  # dropped, or 2
    assert (feed_forward.eval()(ones) == 6).all()
