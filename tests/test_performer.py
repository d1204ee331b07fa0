import math

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import causal_mask, scaled_dot_product_attention
from transformer_lib.variants import PerformerAttention
from transformer_lib.variants.attention.performer import directions, softmax_features

B, H, S, D_K, D_V = 2, 3, 13, 7, 11


@pytest.fixture
def heads():
    shapes = (B, H, S, D_K), (B, H, S, D_K), (B, H, S, D_V)
    return [torch.randn(shape) / 2 for shape in shapes]


# -- The directions --------------------------------------------------------------------


def test_directions_are_orthogonal_within_groups():
    w = directions(2 * D_K + 3, D_K, seed=1)
    assert w.shape == (2 * D_K + 3, D_K)
    for group in w.split(D_K):
        products = group @ group.T
        assert_close(products, products.diagonal().diag(), rtol=0, atol=1e-12)
    assert (w[:D_K] @ w[D_K : 2 * D_K].T).abs().max() > 0.1


def test_each_direction_is_as_if_drawn_from_the_normal_distribution():
    drawn = torch.stack([directions(5, 5, seed) for seed in range(4000)])
    bound = 5 / math.sqrt(4000)  # five standard deviations
    assert drawn.mean(dim=0).abs().max() < bound
    assert (drawn.square().mean(dim=0) - 1).abs().max() < bound * math.sqrt(2)
    assert (drawn.square().sum(dim=-1).mean(dim=0) - 5).abs().max() < bound * 4


def test_the_same_seed_draws_the_same_and_others_do_not():
    first = directions(9, 4, 1).clone()
    directions.cache_clear()
    before = torch.get_rng_state()
    assert directions(9, 4, 1).equal(first)
    assert not directions(9, 4, 2).equal(first)
    assert torch.get_rng_state().equal(before)  # the data's numbers stay their own


def test_what_was_drawn_without_gradients_serves_with_them(heads):
    directions.cache_clear()
    attend = PerformerAttention(20, 3, causal=True)
    with torch.inference_mode():
        attend(*heads)
    query = heads[0].clone().requires_grad_()
    attend(query, *heads[1:]).sum().backward()
    assert query.grad.isfinite().all()


# -- The features ----------------------------------------------------------------------


def test_their_products_are_the_exponential_in_the_mean(heads):
    query, key = heads[0][:1, :1, :2], heads[1][:1, :1, :3]
    w, root = directions(40_000, D_K, 5), D_K**0.25
    q, k = softmax_features(query, key, 40_000, 5)
    largest = (query @ w.T / root).amax(dim=-1, keepdim=True)  # taken out of the query
    taken = largest - query.square().sum(dim=-1, keepdim=True) / (2 * root**2)
    products = taken.exp() * (q @ k.mT) / 40_000
    expected = (query @ key.mT / root**2).exp()
    assert_close(products, expected, rtol=0.05, atol=0)
    assert_close(q.amax(dim=-1), torch.ones(1, 1, 2))


# -- The computation -------------------------------------------------------------------


@pytest.mark.parametrize("causal", [True, False])
def test_with_many_features_it_is_nearly_the_softmax(heads, causal):
    mask = causal_mask(S) if causal else None
    expected = scaled_dot_product_attention(*heads, mask)[0]
    errors = []
    for count in (30, 3_000):
        found = [PerformerAttention(count, s, causal=causal)(*heads) for s in range(5)]
        errors.append(max((each - expected).norm() for each in found))
    assert errors[1] < errors[0] / 4  # the root of a hundred is ten
    assert errors[1] < 0.05 * expected.norm()


def test_keys_too_long_for_any_feature_share_what_weight_there_is(heads):
    query, key, value = heads
    attend = PerformerAttention(20, 3, causal=False)
    mean = value.mean(dim=2, keepdim=True)
    assert_close(attend(query, key + 1e4, value), mean.expand_as(value))
    key[:, :, 3:] += 1e4
    shorter = attend(query, key[:, :, :3], value[:, :, :3])
    assert_close(attend(query, key, value), shorter)
