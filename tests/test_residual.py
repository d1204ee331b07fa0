import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.model import Residual

B, T, D_MODEL = 2, 5, 7


def test_post_norm_normalises_the_sum_and_pre_norm_the_input():
    x, sublayer = torch.randn(B, T, D_MODEL), nn.Linear(D_MODEL, D_MODEL)
    norm = nn.LayerNorm(D_MODEL, eps=0.5)
    nn.init.normal_(norm.weight)
    post = Residual(norm, dropout=0.0)
    pre = Residual(norm, dropout=0.0, norm_first=True)
    assert_close(post(x, sublayer), norm(x + sublayer(x)))
    assert_close(pre(x, sublayer), x + sublayer(norm(x)))


@pytest.mark.parametrize("norm_first", [False, True])
def test_dropout_falls_on_what_the_sublayer_adds_and_on_nothing_else(norm_first):
    residual = Residual(nn.Identity(), dropout=0.5, norm_first=norm_first)
    x = torch.full((100, T, D_MODEL), 3.0)
    added = residual(x, torch.ones_like) - x
    assert set(added.unique().tolist()) == {0.0, 2.0}  # dropped, or 1 / (1 - 0.5)
    residual.eval()
    assert (residual(x, torch.ones_like) - x == 1).all()
