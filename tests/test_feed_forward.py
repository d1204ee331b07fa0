import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.feed_forward import FeedForward

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
    ],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FeedForward(**arguments)
