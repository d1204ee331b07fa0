import subprocess
import sys
from collections import Counter

import pytest

from transformer_lib.data.corpora.toy import TASKS, toy_pairs


@pytest.mark.parametrize(
    ("task", "answer"),
    [("copy", [7, 3, 5]), ("reverse", [5, 3, 7]), ("sort", [3, 5, 7])],
)
def test_the_answer_of_each_task_by_hand(task, answer):
    assert TASKS[task]([7, 3, 5]) == answer


@pytest.mark.parametrize("task", TASKS)
def test_each_pair_is_a_source_and_its_answer(task):
    for src, tgt in toy_pairs(task, 200, seed=1):
        assert tgt == TASKS[task](src)
        assert isinstance(src, list)
        assert isinstance(tgt, list)
        assert src is not tgt


@pytest.mark.parametrize("held_out", [False, True])
def test_ids_lengths_and_the_number_of_pairs_are_those_asked_for(held_out):
    pairs = toy_pairs("copy", 500, 1, held_out, vocab_size=11, shortest=2, longest=5)
    assert len(pairs) == 500
    assert {len(src) for src, _ in pairs} == {2, 3, 4, 5}
    assert {symbol for src, _ in pairs for symbol in src} == set(range(3, 11))


def test_no_symbol_comes_twice_so_each_answer_has_one_source_position():
    for src, tgt in toy_pairs("reverse", 500, seed=1):
        assert max(Counter(src).values()) == 1
        length = len(src)
        assert [src.index(symbol) for symbol in tgt] == [*range(length)][::-1]


def test_the_same_seed_gives_the_same_pairs_in_another_process():
    code = (
        "from transformer_lib.data.corpora.toy import toy_pairs;"
        "print(toy_pairs('sort', 99, 5))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, check=True, text=True
    ).stdout
    assert printed.strip() == str(toy_pairs("sort", 99, 5))


def test_a_new_seed_draws_new_pairs():
    assert toy_pairs("copy", 99, seed=1) != toy_pairs("copy", 99, seed=2)


def test_training_never_sees_what_is_held_out_whatever_the_seeds():
    sizes = {"vocab_size": 9, "shortest": 2, "longest": 4}  # few, so all come up
    trained = {
        tuple(src)
        for seed in range(5)
        for src, _ in toy_pairs("copy", 2000, seed, **sizes)
    }
    tested = {tuple(src) for src, _ in toy_pairs("copy", 2000, 0, True, **sizes)}
    every = 6 * 5 + 6 * 5 * 4 + 6 * 5 * 4 * 3
    assert trained.isdisjoint(tested)
    assert len(trained) + len(tested) == every
    assert len(tested) == pytest.approx(every / 10, rel=0.35)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"task": "double"}, "task must be one of copy, reverse, sort, got double"),
        ({"count": -1}, "count must be at least 0, got -1"),
        ({"shortest": 0}, "shortest must be at least 1, got 0"),
        (
            {"shortest": 5, "longest": 4},
            "longest must be at least shortest, got 4 and 5",
        ),
        (
            {"vocab_size": 12, "longest": 10},
            r"vocab_size must be at least longest \+ 3, got 12 and 10",
        ),
        (
            {"vocab_size": 4, "shortest": 1, "longest": 1, "held_out": True},
            "too few sequences for held_out=True, got 4 and 1",
        ),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        toy_pairs(**{"task": "copy", "count": 3, "seed": 1, **arguments})


def test_three_to_ten_symbols_of_seventeen_are_drawn_unless_told_otherwise():
    pairs = toy_pairs("copy", 500, seed=1)
    assert {len(src) for src, _ in pairs} == set(range(3, 11))
    assert {symbol for src, _ in pairs for symbol in src} == set(range(3, 20))
