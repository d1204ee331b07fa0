import pytest
import torch

from transformer_lib.model import causal_mask
from transformer_lib.variants import BlockAttention

B, H, T, S, D_K, D_V = 2, 3, 5, 29, 7, 11


def block_pattern(blocks, *choice, causal):
    return BlockAttention(1, *choice, causal=causal).pattern(blocks)


def block_mask(queries, keys, *choice, causal):
    """The mask of a variant for so many of the last positions, (queries, keys)."""
    query, key = torch.zeros(1, 1, queries, 1), torch.zeros(1, 1, keys, 1)
    return BlockAttention(*choice, causal=causal).mask(query, key, None)[0, 0]


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
    without = block_pattern(17, 1, 2, 0, 5, causal=causal)
    drawn = block_pattern(17, 1, 2, 3, 5, causal=causal)
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
    mask = block_mask(11, 11, 3, 0, 1, 1, 0, causal=False)
    for query in range(11):
        for key in range(11):
            assert mask[query, key] == pattern[query // 3, key // 3]
    future = block_mask(11, 11, 3, 0, 1, 1, 0, causal=True).triu(1)
    assert not future.any()


@pytest.mark.parametrize("causal", [True, False])
def test_the_queries_are_the_last_positions(causal):
    whole = block_mask(S, S, 3, 1, 1, 2, 0, causal=causal)
    assert block_mask(T, S, 3, 1, 1, 2, 0, causal=causal).equal(whole[-T:])


def test_enough_near_blocks_hide_nothing_but_the_future():
    assert block_mask(S, S, 3, 9, 0, 0, 0, causal=True).equal(causal_mask(S)[0, 0])
    assert block_mask(S, S, 3, 9, 0, 0, 0, causal=False).all()
    assert not block_mask(S, S, 3, 8, 0, 0, 0, causal=False).all()


def test_padding_is_hidden_from_all(heads, padding):
    attend = BlockAttention(3, causal=False)
    without = attend.mask(*heads[:2], None)
    assert attend.mask(*heads[:2], padding).equal(without & padding)


# -- The computation -------------------------------------------------------------------


def test_one_query_asks_for_no_more_than_what_its_own_block_reads(monkeypatch):
    asked, reads = [], BlockAttention.reads

    def watched(self, block, blocks):
        asked.append(block)
        return reads(self, block, blocks)

    monkeypatch.setattr(BlockAttention, "reads", watched)
    query, key, value = torch.randn(3, 1, 1, 30, 2)
    BlockAttention(3, causal=True)(query[:, :, -1:], key, value)
    assert asked == [9]
