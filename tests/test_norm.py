import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.variants import RMSNorm

B, T, WIDTH = 2, 3, 5


def test_it_is_that_of_torch():
    norm, theirs = RMSNorm(WIDTH, eps=0.01), nn.RMSNorm(WIDTH, eps=0.01)
    nn.init.normal_(norm.weight)
    theirs.weight = norm.weight
    x = torch.randn(B, T, WIDTH)
    assert_close(norm(x), theirs(x))


def test_three_and_four_have_a_root_mean_square_of_the_root_of_12_and_a_half():
    found = RMSNorm(2, eps=0.0)(torch.tensor([3.0, 4.0]))
    assert_close(found, torch.tensor([3.0, 4.0]) / 12.5**0.5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_numbers_are_squared_in_long_ones(dtype):
    x = torch.full((1, WIDTH), 300.0, dtype=dtype)  # the square overflows float16
    assert_close(RMSNorm(WIDTH).to(dtype)(x), torch.ones(1, WIDTH, dtype=dtype))
