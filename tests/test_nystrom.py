import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import scaled_dot_product_attention
from transformer_lib.variants import NystromAttention
from transformer_lib.variants.attention.nystrom import cut

B, H, S, D_K, D_V = 2, 3, 13, 7, 11


# -- The landmarks ---------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 3, 8, 9, 40])
def test_each_visible_position_is_in_one_run_and_runs_are_equally_long(padding, count):
    runs = cut(padding, torch.zeros(B, H, S, D_K), count)
    assert runs.sum(dim=2, keepdim=True).equal(padding.long())
    for sizes, visible in zip(runs.sum(dim=-1), (8, 9), strict=True):
        there = sizes[sizes > 0]
        assert len(there) == min(count, visible)
        assert there.max() - there.min() <= 1


# -- The computation -------------------------------------------------------------------


def test_three_tables_give_the_formula(heads):
    query, key, value = heads
    runs = [slice(0, 5), slice(5, 9), slice(9, 13)]
    q = torch.stack([query[:, :, run].mean(dim=2) for run in runs], dim=2)
    k = torch.stack([key[:, :, run].mean(dim=2) for run in runs], dim=2)

    def weigh(a, b):
        return (a @ b.transpose(-2, -1) / D_K**0.5).softmax(dim=-1)

    weights = weigh(query, k) @ weigh(q, k).inverse() @ weigh(q, key)
    assert_close(NystromAttention(3)(*heads), weights @ value)


@pytest.mark.parametrize("count", [13, 40])
def test_with_a_landmark_for_each_position_it_is_full_attention(heads, padding, count):
    for mask in (None, padding):
        expected, _ = scaled_dot_product_attention(*heads, mask)
        found = NystromAttention(count)(*heads, mask)
        # Padding's own queries are another.
        shown = slice(None) if mask is None else mask[:, 0, 0]
        found, expected = found.transpose(1, 2)[shown], expected.transpose(1, 2)[shown]
        assert_close(found, expected, rtol=1e-6, atol=1e-6)


def test_hidden_queries_change_nothing_for_the_others(heads, padding):
    attend, changed = NystromAttention(3), [x.clone() for x in heads]
    for x in changed:
        x[0, :, :5] += 100
        x[1, :, 9:] -= 100
    before, after = attend(*heads, padding), attend(*changed, padding)
    assert after[0, :, 5:].equal(before[0, :, 5:])
    assert after[1, :, :9].equal(before[1, :, :9])
