import pytest
import torch
from torch.testing import assert_close
from watching import largest_tensor

from transformer_lib.attention import fused_attention, scaled_dot_product_attention
from transformer_lib.masks import CausalMask, causal_mask
from transformer_lib.variants.window import window_attention, window_mask

B, H, T, S, D_K, D_V = 2, 3, 5, 13, 7, 11
WIDTHS = [1, 2, 3, 4, 5, 12, 13, 14, 100]


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
    padding[0, ..., :5] = padding[1, ..., 9:] = False
    return padding


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
def test_every_width_is_another_mask(causal):
    masks = [window_mask(S, S, width, causal) for width in range(1, S + 1)]
    counts = [mask.sum().item() for mask in masks]
    assert counts == sorted(set(counts))


# -- The computation -------------------------------------------------------------------


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("t", [1, T, S])
@pytest.mark.parametrize("padded", [True, False])
def test_chunks_give_what_the_mask_gives(heads, padding, width, causal, t, padded):
    query, key, value = heads
    query, padding = query[:, :, -t:], padding if padded else None
    mask = window_mask(t, S, width, causal)
    mask = mask & padding if padded else mask
    expected, weights = scaled_dot_product_attention(query, key, value, mask)
    attend = window_attention(width, causal=causal)
    assert_close(attend(query, key, value, padding), expected)
    ours, our_weights = attend.explicit(query, key, value, padding)
    assert_close(ours, expected)
    assert_close(our_weights, weights)


def test_the_mask_of_the_model_is_taken_in_words(heads, padding):
    attend = window_attention(3, causal=True)
    expected = attend(*heads, padding)
    assert_close(attend(*heads, CausalMask(padding)), expected)
    mask = CausalMask(padding).dense() & window_mask(S, S, 3, causal=True)
    assert_close(fused_attention(*heads, mask), expected)


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_are_those_of_the_mask(heads, padding, causal):
    attend, found = window_attention(4, causal=causal), []
    for function in (attend, lambda *x: attend.explicit(*x)[0]):
        inputs = [x.clone().requires_grad_() for x in heads]
        out = function(*inputs, padding)
        found.append(torch.autograd.grad(out.square().sum(), inputs))
    for ours, theirs in zip(*found, strict=True):
        assert ours.isfinite().all()
        assert_close(ours, theirs)


def test_no_gradient_comes_from_outside_of_the_window(heads):
    query, key, value = (x.clone().requires_grad_() for x in heads)
    for causal, seen in ((True, [5, 6, 7]), (False, [5, 6, 7, 8, 9])):
        out = window_attention(3, causal=causal)(query, key, value)
        for gradient in torch.autograd.grad(out[:, :, 7].sum(), (key, value)):
            moved = gradient.abs().sum(dim=(0, 1, 3)).nonzero().flatten()
            assert moved.tolist() == seen


def test_no_tensor_has_all_the_pairs():
    heads = torch.randn(3, 1, 1, 256, 2)
    for causal, near in ((True, 15), (False, 22)):  # M; the mask of a chunk: R times M
        attend = window_attention(8, causal=causal)
        assert largest_tensor(attend, *heads) == 256 // 8 * 8 * near


def test_dropout_drops_that_share_of_the_weights_and_keeps_the_mean():
    query = key = torch.zeros(1, 1, 4000, 2)
    value = torch.ones(1, 1, 4000, 1)
    out = window_attention(8, causal=True)(query, key, value, None, 0.5)
    assert (out == 0).float().mean() < 0.02  # of eight weights, rarely all
    assert out.mean().item() == pytest.approx(1, abs=0.05)
    kept = window_attention(1, causal=True)(query, key, value, None, 0.25)
    assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
    assert (kept == 0).double().mean().item() == pytest.approx(0.25, abs=0.03)


# -- Refusals --------------------------------------------------------------------------


def test_bad_input_is_refused_with_its_values(heads):
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        window_attention(0, causal=True)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        window_mask(3, 3, 0, causal=True)
    with pytest.raises(ValueError, match="queries must be at most keys, got 5 and 3"):
        window_mask(5, 3, 2, causal=True)
    query, key, value = heads
    with pytest.raises(
        ValueError, match=r"as long as key with window_attention\(3, .*got 13 and 5"
    ):
        window_attention(3, causal=False)(query, key[:, :, :5], value[:, :, :5])
