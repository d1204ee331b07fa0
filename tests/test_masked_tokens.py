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


def shares(tokens, **changes):
    """Hide, and tell the shares: judged words, and of them masked, changed, kept."""
    ids, judged = mask_tokens(tokens, **{**IDS, **changes})
    chosen = ids[judged]
    masked, kept = chosen == MASK, chosen == tokens[judged]
    changed = ~(masked | kept)
    counts = [judged.sum() / (tokens > MASK).sum()]
    return [x.item() for x in [*counts, *(x.double().mean() for x in
            (masked, changed, kept))]]  # fmt: skip


# -- What is hidden --------------------------------------------------------------------


def test_the_shares_are_those_of_the_paper(many):
    judged, masked, changed, kept = shares(many)
    assert judged == pytest.approx(0.15, abs=0.02)
    assert masked == pytest.approx(0.8, abs=0.04)
    same = 0.1 / (V - 4)  # a word drawn by chance may be the right one
    assert changed == pytest.approx(0.1 - same, abs=0.03)
    assert kept == pytest.approx(0.1 + same, abs=0.03)


def test_other_shares_may_be_asked_for(many):
    judged, masked, changed, _ = shares(many, share=0.4, masked=0.2, random=0.7)
    assert judged == pytest.approx(0.4, abs=0.02)
    assert masked == pytest.approx(0.2, abs=0.02)
    assert changed == pytest.approx(0.7 * (1 - 1 / (V - 4)), abs=0.03)


def test_what_is_not_judged_stays_and_no_special_token_is_judged(many):
    ids, judged = mask_tokens(many, share=0.9, **IDS)
    assert torch.equal(ids[~judged], many[~judged])
    assert not judged[many < 4].any()
    assert torch.equal(ids[many < 4], many[many < 4])


def test_a_mask_that_is_in_the_text_already_is_not_judged():
    tokens = torch.full((B, S), MASK)
    ids, judged = mask_tokens(tokens, share=0.9, **IDS)
    assert torch.equal(ids, tokens)
    assert not judged.any()


def test_words_drawn_by_chance_are_all_words_and_nothing_else(many):
    ids, judged = mask_tokens(many, share=0.9, masked=0.0, random=1.0, **IDS)
    assert set(ids[judged].tolist()) == set(range(4, V))


def test_all_or_none_of_the_chosen_may_become_the_mask(many):
    assert shares(many, masked=1.0, random=0.0)[1:] == [1.0, 0.0, 0.0]
    assert shares(many, masked=0.0, random=0.0)[1:] == [0.0, 0.0, 1.0]
    ids, judged = mask_tokens(many, share=0.0, **IDS)
    assert torch.equal(ids, many)
    assert not judged.any()


def test_the_same_generator_hides_the_same_and_the_text_stays(many):
    before = many.clone()
    first, second, other = (
        mask_tokens(many, generator=torch.Generator().manual_seed(seed), **IDS)
        for seed in (5, 5, 7)
    )
    assert torch.equal(many, before)
    assert torch.equal(first.ids, second.ids)
    assert torch.equal(first.judged, second.judged)
    assert not torch.equal(first.judged, other.judged)


# -- What is judged --------------------------------------------------------------------


def test_the_loss_is_the_mean_over_the_judged_tokens():
    logits = torch.randn(B, S, V, dtype=torch.float64)
    tokens = torch.randint(4, V, (B, S))
    judged = torch.rand(B, S) < 0.4
    judged[0, 0] = True
    expected = F.cross_entropy(logits[judged], tokens[judged])
    assert_close(masked_token_loss(logits, tokens, judged, PAD), expected)


def test_other_tokens_give_no_gradient():
    logits = torch.randn(B, S, V, dtype=torch.float64, requires_grad=True)
    judged = torch.zeros(B, S, dtype=torch.bool)
    judged[1, 2] = True
    masked_token_loss(logits, torch.randint(4, V, (B, S)), judged, PAD).backward()
    assert torch.equal(logits.grad.any(dim=-1), judged)


def test_nothing_judged_costs_nothing():
    logits = torch.randn(B, S, V, dtype=torch.float64, requires_grad=True)
    judged = torch.zeros(B, S, dtype=torch.bool)
    loss = masked_token_loss(logits, torch.full((B, S), 4), judged, PAD)
    loss.backward()
    assert loss == 0
    assert not logits.grad.any()


# -- What is refused -------------------------------------------------------------------
