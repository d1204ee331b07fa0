import itertools
import os
import random
import subprocess
import sys

import pytest
import torch

from transformer_lib.data import Batch, make_batch, pad, token_batches

PAD, BOS, EOS, MAX_TOKENS = 0, 1, 2, 60
COUNT = 211


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


def everything(batches):
    return [pair for batch in batches for pair in sentences(batch)]


# -- One batch -------------------------------------------------------------------------


def test_a_batch_by_hand():
    batch = make_batch([([5, 6, 7], [8]), ([9], [3, 4])])
    assert batch.src.tolist() == [[5, 6, 7, EOS], [9, EOS, PAD, PAD]]
    assert batch.tgt.tolist() == [[BOS, 8, EOS, PAD], [BOS, 3, 4, EOS]]
    assert batch.src.dtype == batch.tgt.dtype == torch.int64


def test_the_special_ids_can_be_others():
    batch = make_batch([([5], [6]), ([], [])], pad_id=50, bos_id=51, eos_id=52)
    assert batch.src.tolist() == [[5, 52], [52, 50]]
    assert batch.tgt.tolist() == [[51, 6, 52], [51, 52, 50]]


def test_padding_fills_up_at_the_end_only():
    assert pad([[4], [], [5, 6]], pad_id=9).tolist() == [[4, 9], [9, 9], [5, 6]]


def test_to_moves_both_and_gives_a_batch():
    moved = make_batch([([5], [6])]).to(torch.device("meta"))
    assert isinstance(moved, Batch)
    assert moved.src.device.type == moved.tgt.device.type == "meta"


# -- Batches by number of tokens -------------------------------------------------------


@pytest.mark.parametrize("seed", [None, 0, "1 of run 7"])
def test_every_pair_is_in_exactly_one_batch_whole(pairs, seed):
    found = everything(token_batches(pairs, MAX_TOKENS, seed=seed))
    assert sorted(found) == sorted(pairs)


@pytest.mark.parametrize("max_tokens", [34, 60, 1000])
def test_neither_side_of_a_batch_exceeds_the_budget(pairs, max_tokens):
    for batch in token_batches(pairs, max_tokens, seed=0):
        assert batch.src.numel() <= max_tokens
        assert batch.tgt[:, 1:].numel() <= max_tokens


def test_the_budget_is_used(pairs):
    """No two neighbours could have been one batch."""
    batches = list(token_batches(pairs, MAX_TOKENS))
    for one, other in itertools.pairwise(batches):
        both = make_batch(sentences(one) + sentences(other))
        assert max(both.src.numel(), both.tgt[:, 1:].numel()) > MAX_TOKENS


def test_a_sentence_of_exactly_the_budget_fits():
    (batch,) = token_batches([([5] * 6, [6] * 4)], max_tokens=7)
    assert batch.src.shape == (1, 7)


def test_little_of_a_batch_is_padding(pairs):
    def share(batches):
        both = [tokens for batch in batches for tokens in batch]
        return 1 - sum((x != PAD).sum() for x in both) / sum(x.numel() for x in both)

    grouped = share(token_batches(pairs, 200, seed=0))
    in_order = share(make_batch(pairs[i : i + 20]) for i in range(0, COUNT, 20))
    assert grouped < 0.12
    assert in_order > 0.25


def test_without_a_seed_the_batches_come_in_order_of_length(pairs):
    widths = [batch.tgt.size(1) for batch in token_batches(pairs, MAX_TOKENS)]
    assert widths == sorted(widths)


def test_a_seed_shuffles_the_batches_and_what_is_in_them(pairs):
    def groups(seed):
        return [sentences(b) for b in token_batches(pairs, MAX_TOKENS, seed=seed)]

    one, other = groups(1), groups(2)
    assert one != other
    assert sorted(map(sorted, one)) != sorted(map(sorted, other))
    widths = [max(len(tgt) for _, tgt in group) for group in one]
    assert widths != sorted(widths)


def test_the_pairs_given_are_left_as_they_were(pairs):
    before = [(list(src), list(tgt)) for src, tgt in pairs]
    list(token_batches(pairs, MAX_TOKENS, seed=0))
    assert pairs == before


def test_the_same_seed_gives_the_same_batches_in_every_process(pairs):
    program = f"""if True:
        from transformer_lib.data import (token_batches)
        for seed in (3, "3 4"):
            for batch in token_batches({pairs[:50]}, {MAX_TOKENS}, seed=seed):
                print(batch.src.tolist(), batch.tgt.tolist())
    """
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "1"},
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout
    assert printed.splitlines() == [
        f"{batch.src.tolist()} {batch.tgt.tolist()}"
        for seed in (3, "3 4")
        for batch in token_batches(pairs[:50], MAX_TOKENS, seed=seed)
    ]


def test_no_pairs_make_no_batches():
    assert list(token_batches([], 10, seed=0)) == []


# -- Refusals --------------------------------------------------------------------------


@pytest.mark.parametrize("side", [0, 1], ids=["source", "target"])
def test_a_pair_that_is_too_long_is_refused_before_the_first_batch(side):
    pairs = [([5], [6]), ([5], [6])]
    pairs[1][side].extend([7] * 8)
    expected = r"max_tokens must be at least the length .* got 9 and 10 in pairs\[1\]"
    with pytest.raises(ValueError, match=expected):
        token_batches(pairs, max_tokens=9)


def test_a_budget_of_nothing_is_refused():
    with pytest.raises(ValueError, match="max_tokens must be at least 1, got 0"):
        token_batches([], max_tokens=0)


def test_the_special_ids_of_all_batches_can_be_others():
    ids = {"pad_id": 50, "bos_id": 51, "eos_id": 52}
    pairs = [([5], [6]), ([7, 8], [9])]
    (batch,) = token_batches(pairs, 100, **ids)
    expected = make_batch(pairs, **ids)
    assert batch.src.equal(expected.src)
    assert batch.tgt.equal(expected.tgt)


def test_a_budget_that_is_met_exactly_is_used():
    batches = list(token_batches([([5] * 4, [6] * 4)] * 6, max_tokens=10))
    assert [batch.src.shape for batch in batches] == [(2, 5)] * 3


def test_a_long_sentence_makes_only_its_own_batch_small():
    pairs = [([5] * 9, [6]), *[([5] * 4, [6] * 4)] * 3]
    batches = list(token_batches(pairs, max_tokens=15))
    assert [batch.src.size(0) for batch in batches] == [1, 3]


def test_an_empty_sentence_is_padded_with_integers():
    assert pad([[], []], pad_id=9).dtype == torch.int64
    assert pad([[], [5]], pad_id=9).dtype == torch.int64


def test_the_special_ids_are_those_of_one_batch_unless_told_otherwise():
    pairs = [([5], [6]), ([7, 8], [9])]
    (batch,) = token_batches(pairs, 100)
    assert batch.src.equal(make_batch(pairs).src)
    assert batch.tgt.equal(make_batch(pairs).tgt)
