import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import (
    causal_mask,
    from_additive,
    from_key_padding_mask,
    from_ones,
    padding_mask,
    to_additive,
    to_four_axes,
    to_key_padding_mask,
)

B, H, T, S, D_K = 2, 3, 5, 7, 11
PAD = 0


@pytest.fixture
def tokens():
    tokens = torch.randint(1, 13, (B, S))
    tokens[1, 4:] = PAD
    return tokens


@pytest.fixture
def heads():
    return (
        torch.randn(B, H, T, D_K),
        torch.randn(B, H, S, D_K),
        torch.randn(B, H, S, D_K),
    )


def test_key_padding_masks_give_the_same_attention_in_torch_and_here(tokens):
    theirs = nn.MultiheadAttention(D_K, 1, batch_first=True).eval()
    query, source = torch.randn(B, T, D_K), torch.randn(B, S, D_K)
    mask = padding_mask(tokens, PAD)
    hidden = to_key_padding_mask(mask)
    inverted, _ = theirs(query, source, source, key_padding_mask=hidden)
    four_axes = ~mask.expand(B, 1, T, S)[:, 0]  # nn's attn_mask: (B * heads, T, S)
    direct, _ = theirs(query, source, source, attn_mask=four_axes)
    assert_close(inverted, direct)


@pytest.mark.parametrize("hide", [float("-inf"), -1e9, torch.finfo(torch.float16).min])
def test_additive_masks_give_the_same_attention(tokens, heads, hide):
    mask = padding_mask(tokens, PAD)
    additive = torch.zeros(mask.shape).masked_fill(~mask, hide)
    expected = F.scaled_dot_product_attention(*heads, additive)
    ours = F.scaled_dot_product_attention(*heads, from_additive(additive))
    assert_close(ours, expected)


def test_the_padding_mask_of_two_sentences_by_hand():
    mask = padding_mask(torch.tensor([[5, 6, 7], [5, PAD, PAD]]), PAD)
    assert mask.tolist() == [[[[True, True, True]]], [[[True, False, False]]]]


def test_the_causal_mask_of_three_by_hand():
    assert causal_mask(3).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert causal_mask(0).shape == (1, 1, 0, 0)


def test_a_key_padding_mask_goes_over_and_back(tokens):
    hidden = tokens == PAD
    mask = from_key_padding_mask(hidden)
    assert mask.equal(padding_mask(tokens, PAD))
    assert to_key_padding_mask(mask).equal(hidden)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_an_additive_mask_goes_over_and_back(dtype):
    mask = causal_mask(T)
    additive = to_additive(mask, dtype)
    assert additive.dtype == dtype
    assert set(additive.unique().tolist()) == {0.0, float("-inf")}
    assert from_additive(additive).equal(mask)


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.bool])
def test_ones_may_attend_and_zeros_are_hidden(dtype):
    mask = causal_mask(T)
    assert from_ones(mask.to(dtype)).equal(mask)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((T, S), (1, 1, T, S)),
        ((B, 1, S), (B, 1, 1, S)),
        ((B, T, S), (B, 1, T, S)),
        ((B, H, T, S), (B, H, T, S)),
    ],
)
def test_a_mask_of_any_rank_gets_four_axes(shape, expected):
    mask = torch.rand(shape) < 0.5
    four = to_four_axes(mask)
    assert four.shape == expected
    assert four.flatten().equal(mask.flatten())


def test_tokens_need_two_axes():
    with pytest.raises(
        ValueError, match=r"tokens must have shape \(B, S\), got \(7,\)"
    ):
        padding_mask(torch.ones(7, dtype=torch.long), PAD)


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match="size must be at least 0, got -3"):
        causal_mask(-3)


def test_masks_that_are_not_boolean_are_refused():
    for convert in (to_four_axes, to_additive, to_key_padding_mask):
        with pytest.raises(TypeError, match=r"mask must be boolean, got torch\.int64"):
            convert(torch.ones(1, 1, 2, 3, dtype=torch.int64))
    with pytest.raises(
        TypeError, match=r"key_padding_mask must be boolean, got .*int64"
    ):
        from_key_padding_mask(torch.ones(2, 3, dtype=torch.int64))


def test_masks_of_other_ranks_are_refused():
    with pytest.raises(ValueError, match=r"2, 3 or 4 axes, got shape \(7,\)"):
        to_four_axes(torch.ones(7, dtype=torch.bool))
    with pytest.raises(
        ValueError, match=r"key_padding_mask .* \(B, S\), got \(2, 1, 7\)"
    ):
        from_key_padding_mask(torch.ones(2, 1, 7, dtype=torch.bool))


def test_a_mask_that_differs_between_queries_is_no_key_padding_mask():
    with pytest.raises(ValueError, match=r"\(B, 1, 1, S\), got \(1, 1, 5, 5\)"):
        to_key_padding_mask(causal_mask(T))


def test_ones_and_zeros_must_be_ones_and_zeros():
    with pytest.raises(ValueError, match="only 0 and 1, got values from 0 to 2"):
        from_ones(torch.tensor([0, 1, 2]))
    with pytest.raises(ValueError, match="only 0 and 1"):
        from_ones(torch.tensor([0.0, float("-inf")]))


def test_a_bias_is_not_taken_for_a_mask():
    with pytest.raises(ValueError, match=r"0 or values up to -1e4, got -0\.5"):
        from_additive(torch.tensor([0.0, -0.5, -1e9]))
    with pytest.raises(ValueError, match="got nan"):
        from_additive(torch.tensor([0.0, float("nan")]))


def test_a_mask_of_ones_becomes_boolean():
    assert from_ones(torch.tensor([[1, 0]])).dtype == torch.bool
    assert from_ones(torch.tensor([[1.0, 0.0]])).dtype == torch.bool


def test_an_additive_mask_hides_from_minus_ten_thousand_on():
    assert from_additive(torch.tensor([0.0, -1e4])).tolist() == [True, False]
    with pytest.raises(ValueError, match=r"0 or values up to -1e4, got -9999\.0"):
        from_additive(torch.tensor([0.0, -9999.0]))


@pytest.mark.parametrize("shape", [(B, 1, 1), (B, 1, 1, S, 1), (B, S)])
def test_only_a_mask_of_four_axes_is_turned_into_a_key_padding_mask(shape):
    with pytest.raises(ValueError, match=r"mask must have shape \(B, 1, 1, S\), got"):
        to_key_padding_mask(torch.ones(shape, dtype=torch.bool))


def test_masks_are_made_on_the_device_asked_for_and_stay_on_theirs():
    meta = torch.device("meta")
    mask = causal_mask(T, meta)
    assert mask.device == meta
    assert to_additive(mask).device == meta
