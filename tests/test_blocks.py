import pytest
import torch

from transformer_lib.variants import BlockAttention


def block_pattern(blocks, *choice, causal):
    return BlockAttention(1, *choice, causal=causal).pattern(blocks)


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
    x = torch.zeros(1, 1, 11, 1)
    mask = BlockAttention(3, 0, 1, 1, 0, causal=False).mask(x, x, None)[0, 0]
    expected = pattern.repeat_interleave(3, dim=0).repeat_interleave(3, dim=1)
    assert mask.equal(expected[:11, :11])
