import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.variants import RMSNorm

B, T, WIDTH = 2, 3, 5


@pytest.fixture
def norm():
    norm = RMSNorm(WIDTH, eps=0.01)
    nn.init.normal_(norm.weight)
    return norm


def test_it_is_that_of_torch(norm):
    theirs = nn.RMSNorm(WIDTH, eps=0.01)
    theirs.weight = norm.weight
    x = torch.randn(B, T, WIDTH)
    assert_close(norm(x), theirs(x))


def test_three_and_four_have_a_root_mean_square_of_the_root_of_12_and_a_half():
    found = RMSNorm(2, eps=0.0)(torch.tensor([3.0, 4.0]))
    assert_close(found, torch.tensor([3.0, 4.0]) / 12.5**0.5)


def test_on_vectors_whose_mean_is_zero_it_is_layer_norm():
    x = torch.randn(B, T, WIDTH)
    x = x - x.mean(dim=-1, keepdim=True)
    expected = nn.functional.layer_norm(x, (WIDTH,), eps=0.01)
    assert_close(RMSNorm(WIDTH, eps=0.01)(x), expected)


def test_a_scale_does_not_change_it_but_a_shift_does():
    norm, x = RMSNorm(WIDTH, eps=0.0), torch.randn(B, T, WIDTH)
    assert_close(norm(7 * x), norm(x))
    assert not torch.allclose(norm(x + 7), norm(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_short_numbers_are_squared_in_long_ones(dtype):
    x = torch.full((1, WIDTH), 300.0, dtype=dtype)  # the square overflows float16
    assert_close(RMSNorm(WIDTH).to(dtype)(x), torch.ones(1, WIDTH, dtype=dtype))


def test_bad_input_is_refused_with_its_values(norm):
    with pytest.raises(ValueError, match="d_model must be at least 1, got 0"):
        RMSNorm(0)
    with pytest.raises(ValueError, match="eps must be at least 0, got -1"):
        RMSNorm(WIDTH, eps=-1)
    with pytest.raises(ValueError, match="x must be 5 wide, got 1"):
        norm(torch.ones(B, T, 1))
