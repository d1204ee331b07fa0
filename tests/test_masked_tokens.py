"""Hidden tokens: which are chosen, what becomes of them, and what is judged."""

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.variants import mask_tokens, masked_token_loss

B, S, V, PAD, BOS, EOS, MASK = 3, 7, 13, 0, 1, 2, 3
IDS = {"mask_id": MASK, "special_ids": [PAD, BOS, EOS], "vocab_size": V}


@pytest.fixture
def many():
    """Enough words that shares can be told, with special tokens among them."""
    tokens = torch.randint(4, V, (211, 101))
    tokens[:, 0], tokens[:, 90], tokens[:, 91:] = BOS, EOS, PAD
    return tokens


# -- What is hidden --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "share", "masked", "random"),
    [
        ({}, 0.15, 0.8, 0.1),  # the paper's
        ({"share": 0.4, "masked": 0.2, "random": 0.7}, 0.4, 0.2, 0.7),
        ({"masked": 1.0, "random": 0.0}, 0.15, 1.0, 0.0),
        ({"masked": 0.0, "random": 0.0}, 0.15, 0.0, 0.0),
        ({"share": 0.0}, 0.0, 0.0, 0.0),
    ],
)
def test_the_shares_are_those_that_are_asked_for(many, changes, share, masked, random):
    ids, judged = mask_tokens(many, **IDS, **changes)
    assert judged.sum() / (many > MASK).sum() == pytest.approx(share, abs=0.02)
    assert ids[~judged].equal(many[~judged])
    if share:
        chosen = ids[judged]
        assert (chosen == MASK).double().mean() == pytest.approx(masked, abs=0.04)
        changed = (chosen != MASK) & (chosen != many[judged])
        random *= 1 - 1 / (V - 4)  # a word drawn by chance may be the right one
        assert changed.double().mean() == pytest.approx(random, abs=0.03)


def test_no_special_token_is_judged_not_even_a_mask_that_is_in_the_text(many):
    many[:, 5] = MASK
    ids, judged = mask_tokens(many, share=0.9, **IDS)
    assert not judged[many < 4].any()
    assert torch.equal(ids[many < 4], many[many < 4])


def test_words_drawn_by_chance_are_all_words_and_nothing_else(many):
    ids, judged = mask_tokens(many, share=0.9, masked=0.0, random=1.0, **IDS)
    assert set(ids[judged].tolist()) == set(range(4, V))


def test_the_same_generator_hides_the_same_and_the_text_stays(many):
    before = many.clone()
    first, second, other = (
        mask_tokens(many, generator=torch.Generator().manual_seed(seed), **IDS)
        for seed in (5, 5, 7)
    )
    assert torch.equal(many, before)
    assert torch.equal(first.ids, second.ids)
    assert not torch.equal(first.judged, other.judged)


# -- What is judged --------------------------------------------------------------------


def test_the_loss_is_the_mean_over_the_judged_tokens_and_no_others_learn():
    logits = torch.randn(B, S, V, requires_grad=True)
    tokens, judged = torch.randint(4, V, (B, S)), torch.rand(B, S) < 0.4
    judged[0, 0] = True
    loss = masked_token_loss(logits, tokens, judged, PAD)
    assert_close(loss, F.cross_entropy(logits[judged], tokens[judged]))
    loss.backward()
    assert torch.equal(logits.grad.any(dim=-1), judged)


def test_nothing_judged_costs_nothing():
    logits, judged = torch.randn(B, S, V, requires_grad=True), torch.zeros(B, S).bool()
    loss = masked_token_loss(logits, torch.full((B, S), 4), judged, PAD)
    loss.backward()
    assert loss == 0
    assert not logits.grad.any()
