"""The exercises of the chapter on luck."""

import math
from itertools import combinations

import torch
from torch import nn

from bookkit.exercises import Break, Build, Fault, Idea, Predict, numbers, table

# -- Four against four -----------------------------------------------------------------

FOUR = Predict(
    name="recipes-1",
    title="four against four",
    task="""Four runs of each recipe: how many ways are there to pick four of the
eight scores? If all new runs are higher than all old ones, only one pick does as well.
So `by_luck` can say at best one in how many?""",
    right=70,
    replies={
        70: "Eight runs, four of them new: 8 · 7 · 6 · 5 / (4 · 3 · 2 · 1).",
        8: "That is the number of ways to pick one run. How many pick four?",
        16: "Four times four pairs one old run with one new one. Here four are picked "
        "of all eight.",
        24: "That is 4!, the orders of four runs. The order of a pick does not count.",
        28: "That is two of eight. Equal halves allow more picks.",
        1680: "8 · 7 · 6 · 5 counts each pick once for every order of its runs.",
    },
    otherwise="Count the picks for two of four first: there are six.",
    hints=("How many picks of two of five did the chapter count, and why?",),
    answer="""One in 70. Two of eight give 28 picks, one of eight only 8. Equal halves
allow the most picks, so divide eight runs into four and four.""",
    computed=lambda: math.comb(8, 4),
)

# -- A paired bootstrap ----------------------------------------------------------------


def draw(older, newer, samples):
    samples = torch.tensor(samples)
    return {"older": table(older), "newer": table(newer), "samples": samples}


PAIRED = Build(
    name="recipes-2",
    title="a paired bootstrap",
    task="""Two systems have a score for each of C captions: `older` and `newer`, both
of shape (C,). `samples`, of shape (N, M), has N samples of M captions each, as indices
that may repeat. Write `paired_gains(older, newer, samples)`: by how much the mean score
of the newer system is ahead, on each sample, shape (N,).""",
    call="paired_gains(older, newer, samples)",
    returns={"gains": "N"},
    example={
        "older": numbers(5),
        "newer": numbers(5, seed=1),
        "samples": torch.tensor([[0, 1, 2, 2], [4, 4, 3, 0], [1, 1, 1, 3]]),
    },
    ideas=[
        Idea(
            "direction",
            "The gain is positive where the newer system is ahead.",
            "Which of the two is subtracted?",
            [draw([1, 1], [2, 2], [[0, 1]]), draw([3, 3], [1, 1], [[0, 1]])],
            compare=lambda run, case: signs_agree(run, case),
        ),
        Idea(
            "mean",
            "The gain is a difference of means.",
            "Twice as many captions with the same gain do not double it.",
            [draw([1], [3], [[0]]), draw([1, 2], [2, 5], [[0, 1]])],
        ),
        Idea(
            "repeats",
            "A caption that is drawn twice counts twice.",
            "Indexing with a repeated index repeats the value.",
            [draw([0, 0, 0], [1, 4, 0], [[0, 0, 1]])],
        ),
        Idea(
            "paired",
            "Both systems are scored on the same sample.",
            "A sample of difficult captions lowers both means. Which captions does "
            "each mean use?",
            [
                draw([0, 10], [1, 12], [[1, 1]]),
                draw([0, 10], [1, 12], [[0, 0], [1, 1]]),
            ],
        ),
        Idea(
            "each",
            "Each sample has a gain of its own.",
            "Which axis of the samples is the mean taken over?",
            [draw([0, 0], [1, 3], [[0, 0], [1, 1]])],
        ),
    ],
    hints=(
        "Indexing a tensor of shape (C,) with indices of shape (N, M) gives shape "
        "(N, M).",
        "The difference of two means over the same captions is the mean of the "
        "differences.",
        "Subtract first, then index with `samples`, then take the mean over the last "
        "axis.",
    ),
    answer="""Subtract caption by caption, take the samples, take the mean of each.
For BLEU, whose corpus score is no mean of sentences, the chapter adds up counts instead
of scores. The pairing is the same: one sample for both systems.""",
)


def signs_agree(run, case):
    (gains,) = run(case)
    (expected,) = run.solution(case)
    if not torch.equal(gains.sign(), expected.sign()):
        raise Fault("", case, gains, (0,))


@PAIRED.right
def paired_gains(older, newer, samples):
    return (newer - older)[samples].mean(dim=1)


@PAIRED.right
def gains_of_means(older, newer, samples):
    return newer[samples].mean(dim=1) - older[samples].mean(dim=1)


@PAIRED.right
def gains_by_counts(older, newer, samples):
    times = torch.stack([row.bincount(minlength=len(older)) for row in samples])
    return times.to(older) @ (newer - older) / samples.size(1)


@PAIRED.right
def gains_by_loop(older, newer, samples):
    return torch.stack([newer[row].mean() - older[row].mean() for row in samples])


@PAIRED.right
class Gains(nn.Module):
    def forward(self, older, newer, samples):
        picked = torch.stack([older, newer])[:, samples]  # (2, N, M)
        return picked.diff(dim=0).squeeze(0).sum(-1) / samples.size(-1)


# -- The best run instead of the mean --------------------------------------------------


def by_luck(older, newer):
    picks = list(combinations([*older, *newer], len(newer)))
    return sum(math.fsum(pick) >= math.fsum(newer) for pick in picks), len(picks)


def by_best(older, newer):
    picks = list(combinations([*older, *newer], len(newer)))
    return sum(max(pick) >= max(newer) for pick in picks), len(picks)


BEST = Break(
    name="recipes-3",
    title="the best run instead of the mean",
    task="""In `by_luck`, someone compares the *best* run of each pick: `max` in place
of `fsum`, both times. Which of these checks fail?""",
    broken=by_best,
    intact=by_luck,
    checks={
        "a": (
            "Two runs that are higher than three others count as one in ten.",
            lambda count: count([40.0, 40.5, 41.0], [42.0, 43.0]) == (1, 10),
            "Check a fails: of the ten picks of two, four contain the best run.",
        ),
        "b": (
            "One run that is higher than another one counts as one in two.",
            lambda count: count([40.0], [45.0]) == (1, 2),
            "Check b holds: the best of one run is this run.",
        ),
        "c": (
            "If the new runs are the lowest ones, every pick does as well.",
            lambda count: count([42.0, 42.5, 43.0], [40.0, 41.0]) == (10, 10),
            "Check c holds: no pick has a best run below that of the two lowest.",
        ),
        "d": (
            "One lucky run and one very bad run do not count as a gain: more than half "
            "of the picks do as well.",
            lambda count: count([41.0, 41.0, 41.0], [45.0, 30.0])[0] > 5,
            "Check d fails: the best run hides the bad one, and only the four picks "
            "that contain it do as well.",
        ),
        "e": (
            "The order of the scores makes no difference.",
            lambda count: (
                count([41.0, 40.0, 40.5], [43.0, 42.0])
                == count([40.0, 40.5, 41.0], [42.0, 43.0])
            ),
            "Check e holds: all picks are counted, whatever their order.",
        ),
    },
    hints=("In how many picks of two of five is the single best score?",),
    answer="""Checks a and d fail. Four of the ten picks of two contain the best of
five scores, so the count cannot fall below four in ten, even if both new runs scored
100. And a bad run next to it goes unnoticed. The best run is the statistic that luck
moves most.""",
)

EXERCISES = [FOUR, PAIRED, BEST]
