import math

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.model import FeedForward

B, T, D_MODEL, D_FF = 2, 5, 7, 11


def test_it_is_two_linear_layers_with_a_relu_between_them():
    feed_forward = FeedForward(D_MODEL, D_FF)
    theirs = nn.Sequential(feed_forward.w_1, nn.ReLU(), feed_forward.w_2)
    x = torch.randn(B, T, D_MODEL)
    assert_close(feed_forward(x), theirs(x))


def test_one_inner_feature_by_hand():
    feed_forward = FeedForward(1, 1)
    for parameter, value in zip(feed_forward.parameters(), (2, -1, 3, 5), strict=True):
        nn.init.constant_(parameter, value)
    x = torch.tensor([[[4.0], [0.0]]])
    assert feed_forward(x).flatten().tolist() == [3 * 7 + 5, 5]


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
    one = FeedForward(1, 1, activation=activation)
    for parameter, value in zip(one.parameters(), (1, 0, 1, 0), strict=True):
        nn.init.constant_(parameter, value)
    assert one(torch.ones(1, 1, 1)).item() == pytest.approx(at_one, rel=1e-12)


def test_each_position_is_treated_alike_and_apart():
    feed_forward = FeedForward(D_MODEL, D_FF)
    x = torch.randn(B, T, D_MODEL)
    alone = torch.stack([feed_forward(x[:, t]) for t in range(T)], dim=1)
    assert_close(feed_forward(x), alone)


def test_dropout_drops_inner_features_while_training():
    feed_forward = FeedForward(D_MODEL, D_FF, dropout=0.5)
    x = torch.randn(B, T, D_MODEL)
    assert not feed_forward(x).equal(feed_forward(x))
    feed_forward.eval()
    assert feed_forward(x).equal(feed_forward(x))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d_model": 0, "d_ff": 3}, "d_model must be at least 1, got 0"),
        ({"d_model": 3, "d_ff": -2}, "d_ff must be at least 1, got -2"),
        (
            {"d_model": 3, "d_ff": 5, "dropout": 1},
            r"dropout must be in \[0, 1\), got 1",
        ),
        (
            {"d_model": 3, "d_ff": 5, "activation": "swish"},
            "activation must be one of relu, gelu, gelu_tanh, silu, got swish",
        ),
    ],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**arguments)
