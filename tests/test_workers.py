"""Workers: processes that run what they are sent."""

import pytest
import torch
from torch import distributed as dist

from pages.processes.workers import Workers


def total(rank, number):
    own = torch.tensor([number, rank])
    dist.all_reduce(own)
    print("line", rank)
    assert (dist.get_rank(), torch.get_num_threads()) == (rank, 1)
    return own.tolist()


def raises_in_one(rank):
    if rank == 1:
        raise ValueError("rank 1 does not want to")


def skips(rank):
    if rank == 0:
        dist.all_reduce(torch.ones(1))


def dies(rank):
    import os

    if rank == 1:
        os._exit(3)


@pytest.fixture(scope="module")
def both():
    with Workers(2) as workers:
        yield workers


@pytest.mark.slow
def test_a_function_runs_in_each_process_and_they_talk_to_each_other(both, capsys):
    assert both(total, 5) == [[10, 1], [10, 1]]
    assert capsys.readouterr().out == "rank 0: line 0\nrank 1: line 1\n"


@pytest.mark.slow
def test_a_function_comes_with_copies_of_what_it_uses(both):
    seen, helper = [7], lambda: 7

    def uses(rank):
        seen.append(rank)
        return helper(), seen

    assert both(uses) == [(7, [7, 0]), (7, [7, 1])]
    assert seen == [7]


@pytest.mark.slow
def test_an_error_says_whose_it_is_and_the_workers_live_on(both):
    with pytest.raises(RuntimeError, match=r"^rank 1: ValueError: rank 1 does not"):
        both(raises_in_one)
    assert both(total, 1) == [[2, 1], [2, 1]]


@pytest.mark.slow
def test_who_gives_no_answer_is_named_and_all_are_ended():
    with Workers(2) as workers:
        workers(total, 5)  # the first call takes longer
        with pytest.raises(TimeoutError, match="rank 0 gave no answer in 2 s"):
            workers(skips, timeout=2)
        with pytest.raises(RuntimeError, match="ended: make new ones"):
            workers(total, 5)


@pytest.mark.slow
def test_a_worker_that_dies_is_named():
    with Workers(2) as workers, pytest.raises(RuntimeError, match="rank 1 has died"):
        workers(dies)


def test_no_workers_are_refused():
    with pytest.raises(ValueError, match="size must be at least 1, got 0"):
        Workers(0)
