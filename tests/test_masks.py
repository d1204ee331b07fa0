import torch

from transformer_lib.model import causal_mask, padding_mask

PAD = 0


def test_the_padding_mask_of_two_sentences_by_hand():
    mask = padding_mask(torch.tensor([[5, 6, 7], [5, PAD, PAD]]), PAD)
    assert mask.tolist() == [[[[True, True, True]]], [[[True, False, False]]]]


def test_the_causal_mask_of_three_by_hand_on_the_device_asked_for():
    assert causal_mask(3).int().tolist() == [[[[1, 0, 0], [1, 1, 0], [1, 1, 1]]]]
    meta = torch.device("meta")
    assert causal_mask(5, meta).device == meta
