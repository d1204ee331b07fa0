import math
from functools import partial

import pytest
import torch
from torch.testing import assert_close
from watching import largest_tensor

from transformer_lib.faster.flash_attention import attend_rows, flash_attention
from transformer_lib.model import (
    causal_mask,
    fused_attention,
    scaled_dot_product_attention,
)

B, H, T, S, D_K, D_V = 2, 3, 5, 7, 11, 13


@pytest.fixture
def heads():
    return (
        torch.randn(B, H, T, D_K),
        torch.randn(B, H, S, D_K),
        torch.randn(B, H, S, D_V),
    )


@pytest.mark.parametrize("block", [1, 3, 7, 32])
def test_every_size_of_block_gives_the_attention_of_torch(heads, block):
    assert_close(flash_attention(*heads, block=block), fused_attention(*heads))


@pytest.mark.parametrize("block", [1, 3, 32])
def test_causal_attention_is_that_of_the_mask(block):
    query, key, value = torch.randn(3, B, H, T, D_K)
    expected, _ = scaled_dot_product_attention(query, key, value, causal_mask(T))
    assert_close(flash_attention(query, key, value, causal=True, block=block), expected)


def test_the_future_is_not_even_computed():
    query, key, value = torch.randn(3, T, D_K)
    key[3:], value[3:] = math.nan, math.nan
    early = flash_attention(query, key, value, causal=True, block=3)[:3]
    assert early.isfinite().all()


def test_an_earlier_block_counts_less_once_a_larger_score_comes():
    # Scores 0, then ln 3: the second key has three quarters of the weight.
    q, key = torch.ones(1, 1), torch.tensor([[0.0], [math.log(3)]])
    value = torch.tensor([[0.0], [4.0]])
    assert_close(attend_rows(q, key, value, block=1), torch.tensor([[3.0]]))


def test_large_scores_do_not_overflow(heads):
    query, key, value = heads
    attended = flash_attention(1e4 * query, key, value, block=2)
    assert attended.isfinite().all()
    assert_close(attended, fused_attention(1e4 * query, key, value))


def test_no_tensor_has_all_the_scores():
    attend = partial(flash_attention, block=8)
    assert largest_tensor(attend, *torch.randn(3, 64, 2)) == 64 * 2


def test_gradients_are_those_of_attention(heads):
    ours = [x.clone().requires_grad_() for x in heads]
    theirs = [x.clone().requires_grad_() for x in heads]
    flash_attention(*ours, block=3).square().sum().backward()
    fused_attention(*theirs).square().sum().backward()
    for our, their in zip(ours, theirs, strict=True):
        assert_close(our.grad, their.grad)
