import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import causal_mask
from transformer_lib.variants.attention.lsh import LSHAttention, are_near, sorted_places

B, H, T, S, D_K, D_V = 2, 3, 5, 29, 7, 11


def buckets_of(key, num_buckets, num_rounds, seed):
    return LSHAttention(num_buckets, num_rounds, 1, seed, causal=True).buckets(key)


# -- Buckets and places ----------------------------------------------------------------


def test_a_bucket_is_a_direction_and_the_opposite_one_is_another():
    key = torch.randn(1, 1, 50, D_K)
    buckets = buckets_of(key, 6, 3, seed=0)
    assert buckets.shape == (1, 1, 3, 50)
    assert buckets.unique().tolist() == list(range(6))
    assert buckets_of(7 * key, 6, 3, seed=0).equal(buckets)
    assert buckets_of(-key, 6, 3, seed=0).equal((buckets + 3) % 6)


def test_rounds_and_seeds_turn_otherwise_and_precision_does_not():
    key = torch.randn(1, 1, 50, D_K)
    one = buckets_of(key, 6, 2, seed=0)
    assert not one[:, :, 0].equal(one[:, :, 1])
    assert not one.equal(buckets_of(key, 6, 2, seed=1))
    assert buckets_of(key.float(), 6, 2, seed=0).equal(one)


def test_places_are_sorted_by_bucket_and_a_hidden_position_is_in_none():
    buckets = torch.tensor([1, 0, 1, 0, 1])[None, None, None]
    asks, found = sorted_places(buckets, None, 2, width=10)  # a gap before each bucket
    assert asks.flatten().tolist() == found.flatten().tolist() == [22, 10, 23, 11, 24]
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
    attend = LSHAttention(4, 3, S, 5, causal=False)  # a window of all
    assert attend.mask(*heads[:2], None).equal(common)
    attend = LSHAttention(4, 3, 2**62, 5, causal=True)  # wider than the text
    assert attend.mask(*heads[:2], None).equal(common & causal_mask(S))
    assert_close(attend(*heads), attend.explicit(*heads)[0])


@pytest.mark.parametrize("causal", [True, False])
def test_a_round_sees_no_more_than_its_window_and_itself_in_any_case(heads, causal):
    for width in (1, 2, 3):
        attend = LSHAttention(2, 1, width, causal=causal)
        mask = attend.mask(*heads[:2], None)
        assert mask.sum(dim=-1).max() == (width if causal else 2 * width - 1)
        assert mask.diagonal(dim1=-2, dim2=-1).all()
