import itertools
import random

import pytest
import torch

from transformer_lib.data import Batch, make_batch, pad, token_batches

PAD, BOS, EOS, MAX_TOKENS = 0, 1, 2, 60
COUNT = 211
OTHER_IDS = {"pad_id": 50, "bos_id": 51, "eos_id": 52}


@pytest.fixture
def pairs():
    """Pairs whose lengths are spread like those of real sentences; all are distinct."""
    rng = random.Random(0)
    pairs = []
    for number in range(COUNT):
        length = min(30, max(1, round(rng.gauss(13, 4))))
        other = max(0, length + rng.randint(-3, 3))
        pairs.append(([3 + number] * length, [1000 + number] * other))
    return pairs


def sentences(batch):
    """The pairs that a batch was made of, special tokens and padding taken off."""
    src = [[i for i in row if i not in (PAD, EOS)] for row in batch.src.tolist()]
    tgt = [[i for i in row if i not in (PAD, BOS, EOS)] for row in batch.tgt.tolist()]
    return list(zip(src, tgt, strict=True))


# -- One batch -------------------------------------------------------------------------


def test_a_batch_by_hand():
    batch = make_batch([([5, 6, 7], [8]), ([9], [3, 4])])
    assert batch.src.tolist() == [[5, 6, 7, EOS], [9, EOS, PAD, PAD]]
    assert batch.tgt.tolist() == [[BOS, 8, EOS, PAD], [BOS, 3, 4, EOS]]
    batch = make_batch([([5], [6]), ([], [])], **OTHER_IDS)
    assert batch.src.tolist() == [[5, 52], [52, 50]]
    assert batch.tgt.tolist() == [[51, 6, 52], [51, 52, 50]]


def test_padding_fills_up_at_the_end_only_and_is_always_integers():
    assert pad([[4], [], [5, 6]], pad_id=9).tolist() == [[4, 9], [9, 9], [5, 6]]
    assert pad([[], []], pad_id=9).dtype == torch.int64


def test_to_moves_both_and_gives_a_batch():
    moved = make_batch([([5], [6])]).to(torch.device("meta"))
    assert isinstance(moved, Batch)
    assert moved.src.device.type == moved.tgt.device.type == "meta"


# -- Batches by number of tokens -------------------------------------------------------


@pytest.mark.parametrize("seed", [None, 0, "1 of run 7"])
@pytest.mark.parametrize("max_tokens", [34, 1000])
def test_every_pair_is_in_exactly_one_batch_whole_and_within_the_budget(
    pairs, seed, max_tokens
):
    before = [(list(src), list(tgt)) for src, tgt in pairs]
    batches = list(token_batches(pairs, max_tokens, seed=seed))
    assert pairs == before
    assert sorted(itertools.chain(*map(sentences, batches))) == sorted(pairs)
    for batch in batches:
        assert batch.src.numel() <= max_tokens
        assert batch.tgt[:, 1:].numel() <= max_tokens


def test_without_a_seed_they_come_in_order_of_length_and_use_the_budget(pairs):
    batches = list(token_batches(pairs, MAX_TOKENS))
    widths = [batch.tgt.size(1) for batch in batches]
    assert widths == sorted(widths)
    for one, other in itertools.pairwise(batches):  # could not have been one batch
        both = make_batch(sentences(one) + sentences(other))
        assert max(both.src.numel(), both.tgt[:, 1:].numel()) > MAX_TOKENS


def test_a_budget_that_is_met_exactly_is_used():
    equal = [([5] * 4, [6] * 4)] * 6
    for max_tokens, shape in {10: (2, 5), 5: (1, 5)}.items():
        batches = list(token_batches(equal, max_tokens))
        assert [batch.src.shape for batch in batches] == [shape] * (6 // shape[0])


def test_a_long_sentence_makes_only_its_own_batch_small():
    pairs = [([5] * 9, [6]), *[([5] * 4, [6] * 4)] * 3]
    batches = list(token_batches(pairs, max_tokens=15))
    assert [batch.src.size(0) for batch in batches] == [1, 3]


def test_little_of_a_batch_is_padding(pairs):
    def share(batches):
        both = [tokens for batch in batches for tokens in batch]
        return 1 - sum((x != PAD).sum() for x in both) / sum(x.numel() for x in both)

    grouped = share(token_batches(pairs, 200, seed=0))
    in_order = share(make_batch(pairs[i : i + 20]) for i in range(0, COUNT, 20))
    assert grouped < 0.12
    assert in_order > 0.25


def test_a_seed_shuffles_the_batches_and_what_is_in_them(pairs):
    def groups(seed):
        return [sentences(b) for b in token_batches(pairs, MAX_TOKENS, seed=seed)]

    one, other = groups(1), groups(2)
    assert one != other
    assert sorted(map(sorted, one)) != sorted(map(sorted, other))
    widths = [max(len(tgt) for _, tgt in group) for group in one]
    assert widths != sorted(widths)


@pytest.mark.parametrize("ids", [{}, OTHER_IDS])
def test_the_special_ids_of_all_batches_are_those_of_one(ids):
    pairs = [([5], [6]), ([7, 8], [9])]
    (batch,) = token_batches(pairs, 100, **ids)
    torch.testing.assert_close(batch, make_batch(pairs, **ids))


def test_no_pairs_make_no_batches():
    assert list(token_batches([], 10, seed=0)) == []
