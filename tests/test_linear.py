import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.variants import LinearAttention
from transformer_lib.variants.attention.linear import elu_features, sum_by_chunks

B, H, T, S, D_K, D_V = 2, 3, 5, 13, 7, 11
BACK, ALL = LinearAttention(causal=True), LinearAttention(causal=False)


# -- The features ----------------------------------------------------------------------


def test_the_features_and_their_gradients_are_those_of_torch_plus_one():
    x = torch.tensor([-3.0, -0.5, 0.0, 0.5, 3.0], requires_grad=True)
    expected = F.elu(x) + 1
    for features in elu_features(x, x):
        assert_close(features, expected)
        ours, theirs = (torch.autograd.grad(y.sum(), x) for y in (features, F.elu(x)))
        assert_close(ours, theirs)


def test_small_features_are_not_rounded_to_zero():
    x = torch.tensor([-20.0, -40.0], dtype=torch.float32)
    assert (F.elu(x) + 1 == 0).all()
    assert_close(elu_features(x, x)[1], x.exp(), rtol=1e-6, atol=0)


def test_a_query_below_zero_is_raised_until_its_largest_number_is_zero():
    x = torch.tensor([[-20.0, -40.0], [-200.0, -199.0], [3.0, -2.0]])
    raised = torch.tensor([[0.0, -20.0], [-1.0, 0.0], [3.0, -2.0]])
    assert_close(elu_features(x, x)[0], F.elu(raised) + 1)


# -- The computation -------------------------------------------------------------------


def test_three_tokens_by_hand():
    # Features 1, 2 and 3 of the keys; the query's cancels, since it is one number.
    key = torch.tensor([0.0, 1.0, 2.0])[None, None, :, None]
    value = torch.tensor([6.0, 0.0, 3.0])[None, None, :, None]
    query = torch.tensor([5.0, -1.0, 0.3])[None, None, :, None]
    expected = torch.full((3,), (1 * 6 + 3 * 3) / 6)
    assert_close(ALL(query, key, value).flatten(), expected)
    expected = torch.tensor([6, 6 / 3, 15 / 6])
    assert_close(BACK(query, key, value).flatten(), expected)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 12, 13, 100])
@pytest.mark.parametrize("t", [1, T, S])
def test_chunks_of_any_size_give_the_same_sums(heads, size, t):
    q, k = elu_features(*heads[:2])
    expected = (q @ k.mT).tril() @ heads[2]
    found = sum_by_chunks(q[:, :, -t:], k, heads[2], size)
    assert_close(found, expected[:, :, -t:])


def test_a_large_key_after_small_ones_does_not_drown_them():
    # Had the past been made as a difference of sums, it would be 0 here.
    key = torch.full((1, 1, 128, 1), -60.0)
    key[:, :, 65] = 1e6
    value = torch.arange(128.0)[None, None, :, None]
    out = BACK(torch.zeros_like(key), key, value).flatten()
    assert_close(out[:65], torch.arange(65.0) / 2)
