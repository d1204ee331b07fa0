import pytest
import torch
from torch.testing import assert_close
from watching import largest_tensor

from transformer_lib.attention import scaled_dot_product_attention
from transformer_lib.masks import CausalMask, causal_mask
from transformer_lib.variants import blocks
from transformer_lib.variants.blocks import (
    block_attention,
    block_mask,
    block_pattern,
    blocks_read,
)

B, H, T, S, D_K, D_V = 2, 3, 5, 29, 7, 11
CHOICES = [(3, 1, 1, 2), (1, 0, 0, 0), (4, 0, 2, 1), (7, 1, 0, 3), (100, 0, 0, 0)]


@pytest.fixture
def heads():
    return (
        torch.randn(B, H, S, D_K),
        torch.randn(B, H, S, D_K),
        torch.randn(B, H, S, D_V),
    )


@pytest.fixture
def padding():
    padding = torch.ones(B, 1, 1, S, dtype=torch.bool)
    padding[0, ..., :8] = padding[1, ..., 19:] = False
    return padding


# -- The pattern -----------------------------------------------------------------------


def test_near_and_global_blocks_are_where_they_belong():
    expected = [
        [1, 1, 1, 1, 1],
        [1, 1, 1, 0, 0],
        [1, 1, 1, 1, 0],
        [1, 0, 1, 1, 1],
        [1, 0, 0, 1, 1],
    ]
    assert block_pattern(5, 1, 1, 0, 0, causal=False).int().tolist() == expected
    past = torch.tensor(expected).tril().tolist()
    assert block_pattern(5, 1, 1, 0, 0, causal=True).int().tolist() == past


@pytest.mark.parametrize("causal", [True, False])
def test_so_many_more_are_drawn_as_are_asked_for(causal):
    without = block_pattern(17, 1, 2, 0, 5, causal)
    drawn = block_pattern(17, 1, 2, 3, 5, causal)
    assert (without & ~drawn).sum() == 0
    more = (drawn.sum(dim=1) - without.sum(dim=1)).tolist()
    free = [row + 1 if causal else 17 for row in range(17)]
    left = (torch.tensor(free) - without.sum(dim=1)).clamp(max=3).tolist()
    assert more == left


def test_another_seed_draws_others_and_the_same_seed_the_same():
    one, same, other = (block_pattern(17, 1, 1, 2, s, causal=False) for s in (3, 3, 4))
    assert one.equal(same)
    assert not one.equal(other)


def test_what_comes_later_does_not_change_what_a_causal_block_draws():
    long, short = (block_pattern(n, 1, 1, 2, 3, causal=True) for n in (17, 11))
    assert long[:11, :11].equal(short)


def test_a_mask_is_the_pattern_position_by_position():
    pattern = block_pattern(4, 0, 1, 1, 0, causal=False)
    mask = block_mask(11, 11, 3, 0, 1, 1, 0, causal=False)[0, 0]
    for query in range(11):
        for key in range(11):
            assert mask[query, key] == pattern[query // 3, key // 3]
    future = block_mask(11, 11, 3, 0, 1, 1, 0, causal=True)[0, 0].triu(1)
    assert not future.any()


@pytest.mark.parametrize("causal", [True, False])
def test_the_queries_are_the_last_positions(causal):
    whole = block_mask(S, S, 3, 1, 1, 2, 0, causal)
    assert block_mask(T, S, 3, 1, 1, 2, 0, causal).equal(whole[..., -T:, :])


def test_enough_near_blocks_hide_nothing_but_the_future():
    assert block_mask(S, S, 3, 9, 0, 0, 0, causal=True).equal(causal_mask(S))
    assert block_mask(S, S, 3, 9, 0, 0, 0, causal=False).all()
    assert not block_mask(S, S, 3, 8, 0, 0, 0, causal=False).all()


# -- The computation -------------------------------------------------------------------


@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("t", [1, T, S])
@pytest.mark.parametrize("padded", [True, False])
def test_blocks_give_what_the_mask_gives(heads, padding, choice, causal, t, padded):
    query, key, value = heads
    query, padding = query[:, :, -t:], padding if padded else None
    mask = block_mask(t, S, *choice, seed=2, causal=causal)
    mask = mask & padding if padded else mask
    expected, weights = scaled_dot_product_attention(query, key, value, mask)
    attend = block_attention(*choice, seed=2, causal=causal)
    assert_close(attend(query, key, value, padding), expected)
    ours, our_weights = attend.explicit(query, key, value, padding)
    assert_close(ours, expected)
    assert_close(our_weights, weights)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_are_those_of_the_mask(heads, padding, causal):
    attend, found = block_attention(3, causal=causal), []
    for function in (attend, lambda *x: attend.explicit(*x)[0]):
        inputs = [x.clone().requires_grad_() for x in heads]
        out = function(*inputs, CausalMask(padding) if causal else padding)
        found.append(torch.autograd.grad(out.square().sum(), inputs))
    for ours, theirs in zip(*found, strict=True):
        assert ours.isfinite().all()
        assert_close(ours, theirs)


def test_no_tensor_has_all_the_pairs():
    heads = torch.randn(3, 1, 1, 512, 2)
    largest = largest_tensor(block_attention(8, causal=True), *heads)
    assert largest == 512 * 8 * 5  # own, near, global and two drawn: M is 5 blocks


@pytest.mark.parametrize("causal", [True, False])
def test_no_tensor_has_all_the_pairs_of_blocks(causal):
    heads = torch.randn(3, 1, 1, 512, 2)
    attend = block_attention(1, num_global=0, num_random=1, causal=causal)
    read = 3 if causal else 4  # own, near and one drawn
    assert largest_tensor(attend, *heads) == 512 * read * 2


def test_one_query_asks_for_no_more_than_what_its_own_block_reads(monkeypatch):
    asked = []

    def watched(block, *choice):
        asked.append(block)
        return blocks_read(block, *choice)

    monkeypatch.setattr(blocks, "blocks_read", watched)
    query, key, value = torch.randn(3, 1, 1, 30, 2)
    block_attention(3, causal=True)(query[:, :, -1:], key, value)
    assert asked == [9]


def test_it_drops_weights():
    query = key = torch.zeros(1, 1, 4000, 2)
    value = torch.ones(1, 1, 4000, 1)
    attend = block_attention(4, near=0, num_global=0, num_random=0, causal=False)
    out = attend(query, key, value, None, 0.5)
    assert out.unique().tolist() == pytest.approx([0, 0.5, 1, 1.5, 2])
    assert out.mean().item() == pytest.approx(1, abs=0.05)


# -- Refusals --------------------------------------------------------------------------


def test_bad_input_is_refused_with_its_values(heads):
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        block_attention(0, causal=True)
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        block_mask(3, 3, 0, 1, 1, 1, 0, causal=True)
    for name in ("near", "num_global", "num_random"):
        with pytest.raises(ValueError, match=f"{name} must be at least 0, got -1"):
            block_attention(2, **{name: -1}, causal=True)
    with pytest.raises(ValueError, match="queries must be at most keys, got 5 and 3"):
        block_mask(5, 3, 2, 1, 1, 1, 0, causal=True)
    query, key, value = heads
    with pytest.raises(
        ValueError, match=r"as long as key with block_attention\(3, .*got 29 and 5"
    ):
        block_attention(3, causal=False)(query, key[:, :, :5], value[:, :, :5])
