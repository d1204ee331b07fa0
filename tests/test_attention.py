import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch_weights import copy_attention

from transformer_lib.model import (
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)

B, H, T, S, D_K, D_V = 2, 3, 5, 7, 11, 13
D_MODEL = H * D_K


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_many_heads_agree_with_torchs_module(bias, masked):
    attention = MultiHeadAttention(D_MODEL, H, bias=bias)
    for parameter in attention.parameters():
        nn.init.normal_(parameter)
    theirs = nn.MultiheadAttention(D_MODEL, H, bias=bias, batch_first=True)
    copy_attention(attention, theirs)
    inputs = [torch.randn(B, n, D_MODEL) for n in (T, S, S)]
    mask = torch.rand(B, H, T, S) < 0.5 if masked else None
    if masked:
        mask[..., 0] = True  # every query may attend to something
    hidden = ~mask.flatten(0, 1) if masked else None
    expected, _ = theirs(*inputs, attn_mask=hidden)
    assert_close(attention(*inputs, mask), expected)


@pytest.fixture
def heads():
    return [torch.randn(B, H, n, d) for n, d in ((T, D_K), (S, D_K), (S, D_V))]


def test_dropout_drops_the_same_weights_as_torch(heads):
    torch.manual_seed(1)
    attended, weights = scaled_dot_product_attention(*heads, dropout=0.5)
    torch.manual_seed(1)
    assert_close(attended, F.scaled_dot_product_attention(*heads, None, 0.5))
    torch.manual_seed(1)
    assert_close(attended, fused_attention(*heads, dropout=0.5))
    assert_close(weights.sum(-1), torch.ones(B, H, T))  # those before dropout


def test_two_keys_by_hand():
    query = torch.tensor([[2.0, 0.0]])
    key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    value = torch.tensor([[1.0], [-1.0]])
    attended, weights = scaled_dot_product_attention(query, key, value)
    first = math.exp(2 / math.sqrt(2)) / (math.exp(2 / math.sqrt(2)) + 1)
    assert_close(weights, torch.tensor([[first, 1 - first]]))
    assert_close(attended, torch.tensor([[2 * first - 1]]))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_finite_gradients(dtype):
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[1, :, 2] = False
    for attend in (lambda *x: scaled_dot_product_attention(*x)[0], fused_attention):
        heads = [
            torch.randn(B, H, n, D_K, dtype=dtype, requires_grad=True)
            for n in (T, S, S)
        ]
        attended = attend(*heads, mask)
        assert (attended[1, :, 2] == 0).all()
        attended.sum().backward()
        assert all(x.grad.isfinite().all() for x in heads)


def test_a_nan_in_the_input_is_not_hidden(heads):
    heads[0][0, 0, 0, 0] = math.nan
    mask = torch.ones(T, S, dtype=torch.bool)
    attended, _ = scaled_dot_product_attention(*heads, mask)
    assert attended[0, 0, 0].isnan().all()


@pytest.mark.parametrize(
    ("key", "value", "explicit", "fused"),
    [
        (1e300, 0.0, True, True),
        (0.0, 1e300, True, True),
        (math.inf, 0.0, True, False),
        (math.nan, 0.0, True, False),
        (0.0, math.inf, False, False),
        (0.0, math.nan, False, False),
    ],
)
def test_what_is_hidden_has_no_say_as_long_as_it_is_finite(
    heads, key, value, explicit, fused
):
    """And the explicit form needs no finite keys. What is not finite gives nan."""
    mask = torch.ones(T, S, dtype=torch.bool)
    mask[:, -1] = False
    silent = fused_attention(*heads, mask)
    heads[1][..., -1, :], heads[2][..., -1, :] = key, value
    expected = {True: silent, False: torch.full_like(silent, math.nan)}
    found, _ = scaled_dot_product_attention(*heads, mask)
    assert_close(found, expected[explicit], equal_nan=True)
    assert_close(fused_attention(*heads, mask), expected[fused], equal_nan=True)


def test_attention_dropout_is_for_training_only():
    attention = MultiHeadAttention(D_MODEL, H, dropout=0.5)
    x = torch.randn(B, T, D_MODEL)
    assert not attention(x, x, x).equal(attention(x, x, x))
    attention.eval()
    assert attention(x, x, x).equal(attention(x, x, x))
