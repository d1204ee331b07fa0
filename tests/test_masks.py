import pytest
import torch

from transformer_lib.model import causal_mask, padding_mask

PAD = 0


def test_the_padding_mask_of_two_sentences_by_hand():
    mask = padding_mask(torch.tensor([[5, 6, 7], [5, PAD, PAD]]), PAD)
    assert mask.tolist() == [[[[True, True, True]]], [[[True, False, False]]]]


def test_the_causal_mask_of_three_by_hand():
    assert causal_mask(3).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    assert causal_mask(0).shape == (1, 1, 0, 0)


def test_tokens_need_two_axes():
    with pytest.raises(
        ValueError, match=r"tokens must have shape \(B, S\), got \(7,\)"
    ):
        padding_mask(torch.ones(7, dtype=torch.long), PAD)


def test_a_negative_size_is_refused():
    with pytest.raises(ValueError, match="size must be at least 0, got -3"):
        causal_mask(-3)


def test_the_causal_mask_is_made_on_the_device_asked_for():
    meta = torch.device("meta")
    assert causal_mask(5, meta).device == meta
