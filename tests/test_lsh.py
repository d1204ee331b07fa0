import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import causal_mask
from transformer_lib.variants.attention.lsh import LSHAttention, are_near, sorted_places

B, H, T, S, D_K, D_V = 2, 3, 5, 29, 7, 11


def buckets_of(key, num_buckets, num_rounds, seed):
    return LSHAttention(num_buckets, num_rounds, 1, seed, causal=True).buckets(key)


def hashed_mask(key, padding, *choice, causal):
    return LSHAttention(*choice, causal=causal).mask(key, key, padding)


# -- Buckets and places ----------------------------------------------------------------


def test_a_bucket_is_a_direction_and_the_opposite_one_is_another():
    key = torch.randn(1, 1, 50, D_K)
    buckets = buckets_of(key, 6, 3, seed=0)
    assert buckets.shape == (1, 1, 3, 50)
    assert buckets.unique().tolist() == list(range(6))
    assert buckets_of(7 * key, 6, 3, seed=0).equal(buckets)
    assert buckets_of(-key, 6, 3, seed=0).equal((buckets + 3) % 6)


def test_what_points_nearly_the_same_way_rarely_parts():
    key = torch.randn(1, 1, 1000, 16)
    noise = torch.randn(1, 1, 1000, 16)
    shares = [
        (buckets_of(key, 8, 1, 0) == buckets_of(key + much * noise, 8, 1, 0))
        .double()
        .mean()
        for much in (0.01, 0.3, 100)
    ]
    assert shares[0] > 0.95 > shares[1] > 0.5 > 0.2 > shares[2]


def test_rounds_and_seeds_turn_otherwise_and_precision_does_not():
    key = torch.randn(1, 1, 50, D_K)
    one = buckets_of(key, 6, 2, seed=0)
    assert not one[:, :, 0].equal(one[:, :, 1])
    assert not one.equal(buckets_of(key, 6, 2, seed=1))
    assert buckets_of(key.float(), 6, 2, seed=0).equal(one)


def test_places_are_sorted_by_bucket_with_a_gap_before_each():
    buckets = torch.tensor([1, 0, 1, 0, 1])[None, None, None]
    asks, found = sorted_places(buckets, None, 2, width=10)
    assert asks.flatten().tolist() == [22, 10, 23, 11, 24]
    assert found.equal(asks)


def test_a_hidden_position_is_in_no_bucket():
    buckets = torch.tensor([1, 0, 1, 0, 1])[None, None, None]
    padding = torch.tensor([1, 1, 0, 0, 1]).bool()[None, None, None]
    asks, found = sorted_places(buckets, padding, 2, width=10)
    assert asks.flatten().tolist() == [21, 10, 33, 34, 22]
    assert found.flatten().tolist() == [21, 10, 0, 0, 22]


def test_pairs_are_those_of_a_bucket_counted_by_hand():
    buckets = torch.tensor([1, 0, 1, 0, 1, 1])[None, None, None]
    asks, found = sorted_places(buckets, None, 2, width=2)
    expected = [
        [1, 0, 0, 0, 0, 0],
        [0, 1, 0, 0, 0, 0],
        [1, 0, 1, 0, 0, 0],
        [0, 1, 0, 1, 0, 0],
        [0, 0, 1, 0, 1, 0],
        [0, 0, 0, 0, 1, 1],
    ]
    causal = are_near(asks, found, 2, causal=True)[0, 0, 0]
    assert causal.int().tolist() == expected
    both = are_near(asks, found, 2, causal=False)[0, 0, 0]
    assert both.equal(causal | causal.T)


# -- The mask --------------------------------------------------------------------------


def test_a_pair_is_compared_if_a_round_puts_it_into_one_bucket(heads):
    buckets = buckets_of(heads[1], 4, 3, seed=5)
    common = (buckets[..., :, None] == buckets[..., None, :]).any(dim=2)
    mask = hashed_mask(heads[1], None, 4, 3, S, 5, causal=False)  # a window of all
    assert mask.equal(common)
    past = hashed_mask(heads[1], None, 4, 3, S, 5, causal=True)
    assert past.equal(common & causal_mask(S))


@pytest.mark.parametrize("causal", [True, False])
def test_a_round_sees_no_more_than_its_window_and_itself_in_any_case(heads, causal):
    for width in (1, 2, 3):
        mask = hashed_mask(heads[1], None, 2, 1, width, 0, causal=causal)
        assert mask.sum(dim=-1).max() == (width if causal else 2 * width - 1)
        assert mask.diagonal(dim1=-2, dim2=-1).all()


def test_what_is_hidden_changes_no_pair(heads, padding):
    changed = torch.where(padding.mT, heads[1], torch.randn_like(heads[1]))
    for causal in (True, False):
        mask = hashed_mask(heads[1], padding, 4, 2, 3, 0, causal=causal)
        assert mask.equal(hashed_mask(changed, padding, 4, 2, 3, 0, causal=causal))
        assert not (mask & ~padding).any()


def test_what_comes_later_changes_no_pair_of_the_past(heads):
    key = heads[1]
    whole = hashed_mask(key, None, 4, 3, 2, 0, causal=True)
    for length in range(1, S):
        start = hashed_mask(key[:, :, :length], None, 4, 3, 2, 0, causal=True)
        assert whole[:, :, :length, :length].equal(start)


# -- The computation -------------------------------------------------------------------


@pytest.mark.parametrize("width", [10**6, 10**9, 2**31, 2**62])
@pytest.mark.parametrize("causal", [True, False])
def test_a_window_wider_than_the_text_sees_all_of_a_bucket(heads, width, causal):
    expected = LSHAttention(4, 2, S, causal=causal)(*heads)
    attend = LSHAttention(4, 2, width, causal=causal)
    assert_close(attend(*heads), expected)
    assert_close(attend.explicit(*heads)[0], expected)


def test_many_buckets_times_a_wide_window_fit_into_a_place():
    buckets = torch.tensor([2**20, 0])[None, None, None]
    asks, _ = sorted_places(buckets, None, 2**20 + 1, width=2**14)
    assert asks.flatten().tolist() == [2**34 + 2**14 + 1, 2**14]


def test_in_two_buckets_all_rounds_together_find_nearly_everything(heads):
    attend = LSHAttention(2, 20, S, causal=False)
    assert_close(
        attend(*heads), F.scaled_dot_product_attention(*heads), atol=0.1, rtol=0
    )


def test_a_hidden_position_sees_nothing_and_gets_zeros(heads, padding):
    out = LSHAttention(4, 3, 2, causal=False)(*heads, padding)
    hidden = (~padding.mT).expand_as(out)
    assert out[hidden].eq(0).all()
    assert out[~hidden].ne(0).all()


# -- Refusals --------------------------------------------------------------------------
