import pytest
import torch

from transformer_lib.model import causal_mask
from transformer_lib.variants import WindowAttention, window_mask

B, H, T, S, D_K, D_V = 2, 3, 5, 13, 7, 11
# -- The mask --------------------------------------------------------------------------


def test_a_causal_window_of_two_sees_itself_and_the_one_before():
    expected = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert window_mask(4, 4, 2, causal=True)[0, 0].int().tolist() == expected


def test_a_window_of_two_sees_one_neighbour_to_each_side():
    expected = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert window_mask(4, 4, 2, causal=False)[0, 0].int().tolist() == expected


@pytest.mark.parametrize("causal", [True, False])
def test_the_queries_are_the_last_positions(causal):
    whole = window_mask(S, S, 4, causal)
    assert window_mask(T, S, 4, causal).equal(whole[..., -T:, :])


def test_a_window_as_wide_as_the_sentence_hides_nothing_but_the_future():
    assert window_mask(S, S, S, causal=True).equal(causal_mask(S))
    assert window_mask(S, S, S, causal=False).all()
    assert not window_mask(S, S, S - 1, causal=False).all()


@pytest.mark.parametrize("causal", [True, False])
def test_the_mask_of_the_variant_is_the_window_and_the_padding(heads, padding, causal):
    attend = WindowAttention(4, causal=causal)
    query, key = heads[0][:, :, -T:], heads[1]
    window = window_mask(T, S, 4, causal)
    assert attend.mask(query, key, None).equal(window)
    assert attend.mask(query, key, padding).equal(window & padding)


# -- The computation -------------------------------------------------------------------


def test_no_gradient_comes_from_outside_of_the_window(heads):
    query, key, value = (x.clone().requires_grad_() for x in heads)
    for causal, seen in ((True, [5, 6, 7]), (False, [5, 6, 7, 8, 9])):
        out = WindowAttention(3, causal=causal)(query, key, value)
        for gradient in torch.autograd.grad(out[:, :, 7].sum(), (key, value)):
            moved = gradient.abs().sum(dim=(0, 1, 3)).nonzero().flatten()
            assert moved.tolist() == seen


# -- Refusals --------------------------------------------------------------------------
