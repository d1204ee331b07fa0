import pytest

from transformer_lib.data.corpora.toy import TASKS, toy_pairs


@pytest.mark.parametrize(
    ("task", "answer"),
    [("copy", [7, 3, 5]), ("reverse", [5, 3, 7]), ("sort", [3, 5, 7])],
)
def test_the_answer_of_each_task_by_hand(task, answer):
    assert TASKS[task]([7, 3, 5]) == answer
    for src, tgt in toy_pairs(task, 200, seed=1):
        assert tgt == TASKS[task](src)
        assert src is not tgt
        assert len(set(src)) == len(src)  # one source position for each answer


@pytest.mark.parametrize("held_out", [False, True])
def test_ids_lengths_and_the_number_of_pairs_are_those_asked_for(held_out):
    pairs = toy_pairs("copy", 500, 1, held_out, vocab_size=11, shortest=2, longest=5)
    assert len(pairs) == 500
    assert {len(src) for src, _ in pairs} == {2, 3, 4, 5}
    assert {symbol for src, _ in pairs for symbol in src} == set(range(3, 11))


def test_three_to_ten_symbols_of_seventeen_are_drawn_unless_told_otherwise():
    pairs = toy_pairs("copy", 500, seed=1)
    assert {len(src) for src, _ in pairs} == set(range(3, 11))
    assert {symbol for src, _ in pairs for symbol in src} == set(range(3, 20))


def test_training_never_sees_what_is_held_out_whatever_the_seeds():
    sizes = {"vocab_size": 9, "shortest": 2, "longest": 4}  # few, so all come up
    draws = [toy_pairs("copy", 2000, seed, **sizes) for seed in range(5)]
    trained = {tuple(src) for draw in draws for src, _ in draw}
    tested = {tuple(src) for src, _ in toy_pairs("copy", 2000, 0, True, **sizes)}
    every = 6 * 5 + 6 * 5 * 4 + 6 * 5 * 4 * 3
    assert draws[0] != draws[1]
    assert trained.isdisjoint(tested)
    assert len(trained) + len(tested) == every
    assert len(tested) == pytest.approx(every / 10, rel=0.35)
