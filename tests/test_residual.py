import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.model import Residual

B, T, D_MODEL = 2, 5, 7


@pytest.fixture
def x():
    return torch.randn(B, T, D_MODEL)


@pytest.fixture
def sublayer():
    return nn.Linear(D_MODEL, D_MODEL)


def test_post_norm_normalises_the_sum(x, sublayer):
    residual = Residual(nn.LayerNorm(D_MODEL), dropout=0.0)
    norm = nn.LayerNorm(D_MODEL)
    assert_close(residual(x, sublayer), norm(x + sublayer(x)))


def test_pre_norm_normalises_the_input_and_leaves_the_sum_alone(x, sublayer):
    residual = Residual(nn.LayerNorm(D_MODEL), dropout=0.0, norm_first=True)
    norm = nn.LayerNorm(D_MODEL)
    assert_close(residual(x, sublayer), x + sublayer(norm(x)))


@pytest.mark.parametrize("eps", [1e-6, 0.5])
def test_it_normalises_with_the_norm_that_it_is_given(x, eps):
    residual = Residual(nn.LayerNorm(D_MODEL, eps=eps), dropout=0.0)
    centred = x - x.mean(-1, keepdim=True)
    variance = centred.square().mean(-1, keepdim=True)
    expected = centred / (variance + eps).sqrt()
    assert_close(residual(x, torch.zeros_like), expected)


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_falls_on_what_the_sublayer_adds_and_on_nothing_else(norm_first):
    residual = Residual(nn.LayerNorm(D_MODEL), dropout=0.5, norm_first=norm_first)
    residual.norm = nn.Identity()
    x = torch.full((100, T, D_MODEL), 3.0)
    added = residual(x, torch.ones_like) - x
    assert set(added.unique().tolist()) == {0.0, 2.0}  # dropped, or 1 / (1 - 0.5)
    residual.eval()
    assert (residual(x, torch.ones_like) - x == 1).all()


def test_an_impossible_dropout_is_refused():
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got -0\.5"):
        Residual(nn.LayerNorm(D_MODEL), dropout=-0.5)
