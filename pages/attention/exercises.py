"""The exercises of the chapter on attention."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import (
    Break,
    Build,
    Fault,
    Idea,
    Predict,
    numbers,
    same,
    table,
)

INFINITY = float("inf")


def rows(*values):
    return {"scores": table(values)}


# -- A hundred more --------------------------------------------------------------------

HUNDRED = Predict(
    name="attention-1",
    title="a hundred more",
    task="""You add 100 to every score of one row. What happens to the weights of
this row?""",
    right="they stay the same",
    replies={
        "they stay the same": "The factor e¹⁰⁰ is in every power and in the "
        "total, so it cancels. Softmax sees only differences.",
        "they become sharper": "Gaps between scores make softmax sharp. Has any gap "
        "changed?",
        "they become more equal": "Multiplying the scores by a small number would do "
        "this. Adding leaves every gap as it was.",
        "they no longer sum to 1": "Softmax divides by the total, whatever the scores"
        " are.",
    },
    hints=("What is `exp(s + 100)`, written as a product?",),
    answer="""Nothing. Every $e^s$ of the row is multiplied by the same $e^{100}$,
and the division takes it away again. Softmax sees only differences.""",
    computed=lambda: (
        "they stay the same"
        if torch.allclose((numbers(5) + 100).softmax(dim=0), numbers(5).softmax(dim=0))
        else "they change"
    ),
)

# -- Two equal keys --------------------------------------------------------------------

TWINS = Predict(
    name="attention-2",
    title="two equal keys",
    task="""A query meets three keys, and all three scores are 0. The first two keys
are equal, so you merge them into one key with the mean of their two values. What is
the weight of the merged key?""",
    right=0.5,
    replies={
        0.5: "The merged key is in the total once, so it shares equally with the "
        "third key. The pair had 2/3 before: the output changes.",
        2 / 3: "This is what the pair had together. How many times does the merged key "
        "count in the total?",
        1 / 3: "This is the weight of one key among three. How many are left?",
        1: "One more key has the same score.",
        0: "exp(0) is 1: a score of 0 is not a weight of 0.",
    },
    otherwise="Write down the total of the powers after the merge.",
    hints=("Count the powers in the total, before and after.",),
    answer="""The weight is 1/2. Before the merge, each of the twins had 1/3,
together 2/3. A merged key is in the total only once, so the pair loses weight to the
others, and the output changes. It stays the same only if there is no other key.""",
    computed=lambda: torch.zeros(2).softmax(dim=0)[0].item(),
)

# -- A softmax that survives -----------------------------------------------------------

SOFTMAX = Build(
    name="attention-3",
    title="a softmax that survives",
    task="""`exp` of 1,000 is infinite. Write `safe_softmax(scores)`, which turns
scores of any size into weights along the last axis. Use `exp`, without torch's own
softmax.""",
    call="safe_softmax(scores)",
    forbids=("softmax", "scaled_dot_product"),
    returns={"weights": "... T S"},
    example={"scores": numbers(2, 3, 5)},
    ideas=[
        Idea(
            "sum",
            "Each row sums to 1.",
            "Add up each row of your result. Along which axis do you divide?",
            [rows([0, 0]), rows([0, 1, 2], [2, 0, 1])],
            compare=lambda run, case: sums_to_one(run, case),
            more=(
                "Each row is divided by its own total.",
                "“Softmax, row by row” keeps the totals as a column with `keepdim`.",
            ),
        ),
        Idea(
            "ratio",
            "A score that is larger by 1 gets a weight that is e times as large.",
            "Compare two weights of a row: what is their ratio?",
            [rows([0, 1]), rows([2, -1, 0], [0.5, 0.25, 0])],
            more=(
                "A weight is a power of e over the total. Scores may be shifted, but "
                "not scaled.",
                "“Softmax, row by row” has both lines.",
            ),
        ),
        Idea(
            "large",
            "Scores of 1,000 and more give finite weights.",
            "Which power overflows first?",
            [rows([1000, 999]), rows([20_000, 0, 0, 0]), rows([3000, 2000, -3000])],
        ),
        Idea(
            "low",
            "Scores of -1,000 and below give finite weights.",
            "If every power of a row is 0, so is the total. What should the largest "
            "power be?",
            [rows([-1000, -1001]), rows([-5000, -9000, -5000])],
        ),
        Idea(
            "rows",
            "Rows may have scores of very different sizes.",
            "Each row is shared out on its own. Does one row affect another?",
            [rows([1000, 999], [-1000, -999])],
            more=(
                "The number that you add may differ from row to row.",
                "“Softmax, row by row” keeps an axis with `keepdim`. Where else do "
                "you need it?",
            ),
        ),
        Idea(
            "hidden",
            "A score of minus infinity gets the weight 0.",
            "What is exp of minus infinity? Is it still that after your changes?",
            [rows([0, -INFINITY]), rows([1, -INFINITY, 2])],
            more=("Which number do you add to the scores of this row? Is it finite?",),
        ),
        Idea(
            "rank",
            "Any number of axes will do, even one.",
            "Count the axes from the end.",
            [{"scores": numbers(3)}, {"scores": numbers(2, 1, 3, 4)}],
            more=("The scores of a row lie along the last axis, `dim=-1`.",),
        ),
    ],
    hints=(
        "Which power overflows first? The largest score of the row decides.",
        "Exercise 1 has the idea: you may add the same number to every score of a row.",
        "The line with `powers / powers.sum()` stays. Change the exponent.",
    ),
    answer="""First subtract the largest score of each row. The largest power is
then $e^0 = 1$: nothing overflows, and the total is at least 1.""",
)


def sums_to_one(run, case):
    (weights,) = run(case)
    wrong = ~torch.isclose(
        weights.double().sum(dim=-1), torch.ones((), dtype=torch.float64)
    )
    if wrong.any():
        raise Fault("", case, weights)


@SOFTMAX.right
def safe_softmax(scores):
    powers = (scores - scores.amax(dim=-1, keepdim=True)).exp()
    return powers / powers.sum(dim=-1, keepdim=True)


@SOFTMAX.right
def softmax_by_logarithm(scores):
    return torch.exp(scores - torch.logsumexp(scores, -1, keepdim=True))


@SOFTMAX.right
def softmax_by_loops(scores):
    made = []
    for row in scores.reshape(-1, scores.shape[-1]):
        powers = [torch.exp(score - max(row)) for score in row]
        made.append(torch.stack([power / sum(powers) for power in powers]))
    return torch.stack(made).reshape(scores.shape)


@SOFTMAX.right
class Softmax(nn.Module):
    def forward(self, scores):
        top = scores.max(dim=-1, keepdim=True).values.detach()
        return F.normalize((scores - top).exp(), p=1, dim=-1)


# -- Attention -------------------------------------------------------------------------


def three_words(mask=None, value=None, t=1, s=3, d_k=2, seed=0):
    """Make a small case; without values, the result shows the weights."""
    return {
        "query": numbers(1, t, d_k, seed=seed),
        "key": numbers(1, s, d_k, seed=seed + 1),
        "value": torch.eye(s, dtype=torch.float64)[None] if value is None else value,
        "mask": mask,
    }


ATTEND = Build(
    name="attention-4",
    title="attention, all of it",
    task="""Write `attend(query, key, value, mask=None)`, which returns the blends,
shape (..., T, d_v), without the weights. `mask` is None or boolean, True = may
attend, and broadcasts to the scores. In this exercise every query may attend to some
key. Write the steps yourself, without a function of torch or of the library that
computes attention.""",
    call="attend(query, key, value, mask=None)",
    forbids=("scaled_dot_product", "multi_head_attention"),
    returns={"blends": "... T d_v"},
    example={
        "query": numbers(2, 3, 7),
        "key": numbers(2, 5, 7, seed=1),
        "value": numbers(2, 5, 11, seed=2),
        "mask": None,
    },
    ideas=[
        Idea(
            "share",
            "If all values are equal, the blend is that value.",
            "The weights of a query should sum to 1. Along which axis does softmax "
            "run? Are all keys open if `mask` is None?",
            [
                three_words(value=torch.ones(1, 3, 1, dtype=torch.float64)),
                three_words(value=torch.ones(1, 3, 4, dtype=torch.float64), t=2),
            ],
            more=(
                "A row of the scores belongs to one query, and softmax shares it out.",
                "“Softmax, row by row” compares both axes.",
            ),
        ),
        Idea(
            "match",
            "With keys of width 1, each score is the product of query and key.",
            "Each value here is one-hot, so your result shows the weights. The larger"
            " the score, the larger the weight.",
            [three_words(d_k=1), three_words(d_k=1, t=2, s=4, seed=3)],
            compare=lambda run, case: scores_match(run, case),
            more=(
                "A score is the sum of the products of the numbers of a query and a "
                "key.",
                "“All words at once” replaces two loops by one product.",
            ),
        ),
        Idea(
            "root",
            "Wider keys do not make the weights sharper.",
            "Each value here is one-hot, so your result shows the weights. What keeps"
            " the variance of the scores at 1 when the keys become wider?",
            [three_words(d_k=4), three_words(d_k=9, t=2, s=4)],
            more=(
                "A sum of d_k products has a variance of d_k. By what must you divide?",
                "“Why divide by the root?” measures the variance before and after.",
            ),
        ),
        Idea(
            "large",
            "Scores of some thousands give finite blends.",
            "Which step can overflow? See exercise 3.",
            [
                {
                    "query": table([[[100.0]]]),
                    "key": table([[[90.0], [89.99]]]),
                    "value": torch.eye(2, dtype=torch.float64)[None],
                    "mask": None,
                }
            ],
            more=(
                "The power of such a score is too large for a float. The weights need"
                " not be.",
                "Exercise 3 is about this step.",
            ),
        ),
        Idea(
            "mask",
            "True = may attend: a hidden key has no part in the blend.",
            "Each value here is one-hot, so your result shows the weights. Which keys"
            " are open, and do their weights sum to 1?",
            [
                three_words(torch.tensor([[[True, False, True]]]), d_k=1),
                three_words(torch.ones(2, 4).tril().bool()[None], t=2, s=4, d_k=1),
            ],
            more=(
                "Hide the score, not the weight: the open keys then share the whole 1.",
                "“A batch, and a first mask” hides before the softmax.",
            ),
        ),
        Idea(
            "influence",
            "A hidden key has no influence, however large or small the scores are.",
            "The last key is hidden. Does it still count in the total?",
            [
                {
                    "query": torch.ones(1, 1, 1, dtype=torch.float64),
                    "key": table([[[open_one], [hidden]]]),
                    "value": table([[[1.0], [5.0]]]),
                    "mask": torch.tensor([[[True, False]]]),
                }
                for open_one, hidden in ((0.0, 2e9), (-3e9, 0.0))
            ],
            more=(
                "Which score has the power 0, whatever the other scores are?",
                "“A batch, and a first mask” says why a score of 0 will not do.",
            ),
        ),
        Idea(
            "open",
            "A mask that hides nothing changes nothing.",
            "Compare two calls: without a mask, and with one that is True everywhere.",
            [three_words(torch.ones(1, 1, 3, dtype=torch.bool), d_k=1)],
            more=("Where the mask is True, the score stays as it is.",),
        ),
        Idea(
            "heads",
            "With more axes in front, the mask broadcasts.",
            "Count the axes from the end: T and S are the last two of the scores.",
            [
                {
                    "query": numbers(2, 3, 1, 1),
                    "key": numbers(2, 3, 3, 1, seed=1),
                    "value": numbers(2, 3, 3, 5, seed=2),
                    "mask": torch.tensor([[1, 1, 1], [1, 1, 0]]).bool()[:, None, None],
                }
            ],
            more=(
                "`.T`, and axes counted from the front, fit one number of axes only.",
                "“A batch, and a first mask” has four axes.",
            ),
        ),
        Idea(
            "one",
            "A batch of one sentence with one word works.",
            "Do you remove axes of size 1?",
            [
                {
                    "query": numbers(1, 1, 2),
                    "key": numbers(1, 1, 2, seed=1),
                    "value": numbers(1, 1, 3, seed=2),
                    "mask": None,
                }
            ],
            more=(
                "`squeeze` also removes the axis of a batch of one, or of a sentence "
                "of one word.",
            ),
        ),
    ],
    hints=(
        "Write down the shapes of the scores, of the weights and of the blends.",
        "Compare every query with every key, divide by the root, hide, share out each"
        " row, and blend.",
        "“The finished function, line by line” has these five steps.",
    ),
    answer="""Five steps: scores, root, mask, softmax along the keys, blend. The mask
acts on the scores, before the softmax, because a hidden key must not be in the
total.""",
)


def scores_match(run, case):
    """Compare; if the scores differ by one factor alone, ask about the root."""
    try:
        same(run, case)
    except Fault as fault:
        if fault.at is None:
            raise
        own, right = (
            logs - logs.mean(dim=-1, keepdim=True)
            for logs in (fault.result.log(), run.solution(case)[0].log())
        )
        factor = (own * right).sum() / right.square().sum()
        if factor > 0.01 and torch.allclose(own, factor * right):
            fault.says = (
                "Your scores differ from query times key by one and the same factor. "
                "Of which size do you take the root?"
            )
        raise


@ATTEND.right
def attend(query, key, value, mask=None):
    scores = query @ key.transpose(-2, -1) / math.sqrt(query.size(-1))  # (..., T, S)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    return scores.softmax(dim=-1) @ value  # (..., T, d_v)


@ATTEND.right
def attend_by_einsum(q, k, v, keep=None):
    scores = torch.einsum("...td,...sd->...ts", q, k) * q.shape[-1] ** -0.5
    if keep is not None:
        scores = torch.where(keep, scores, -INFINITY)
    return torch.einsum("...ts,...sv->...tv", F.softmax(scores, -1), v)


@ATTEND.right
def attend_by_loops(query, key, value, mask=None):
    shape = query.shape[:-1]
    if mask is None:
        mask = torch.ones((), dtype=torch.bool)
    mask = mask.expand(*shape, key.shape[-2]).reshape(-1, shape[-1], key.shape[-2])
    blends = []
    for b, (q, k, v) in enumerate(
        zip(query.flatten(0, -3), key.flatten(0, -3), value.flatten(0, -3), strict=True)
    ):
        for t in range(len(q)):
            open_keys = [s for s in range(len(k)) if mask[b, t, s]]
            scores = torch.stack([(q[t] * k[s]).sum() for s in open_keys])
            weights = torch.softmax(scores / len(q[t]) ** 0.5, dim=0)
            parts = [w * v[s] for w, s in zip(weights, open_keys, strict=True)]
            blends.append(sum(parts))
    return torch.stack(blends).reshape(*shape, value.shape[-1])


@ATTEND.right
class Attend(nn.Module):
    def forward(self, query, key, value, mask=None):
        scores = torch.matmul(query / query.shape[-1] ** 0.5, key.mT)
        if mask is not None:
            scores = scores + torch.zeros_like(scores).masked_fill(~mask, -INFINITY)
        return torch.matmul(torch.softmax(scores, dim=-1), value)


# -- The mask after the softmax --------------------------------------------------------


def late(scores, mask):
    return scores.softmax(dim=-1).masked_fill(~mask, 0.0)


def in_time(scores, mask):
    return scores.masked_fill(~mask, -INFINITY).softmax(dim=-1)


SCORES, OPEN = table([[0, 1, 2]]), torch.tensor([[True, True, False]])
VALUES, OTHER = table([[1], [2], [3]]), table([[1], [2], [9]])

LATE = Break(
    name="attention-5",
    title="the mask after the softmax",
    task="""Someone applies the mask after the softmax:
`scores.softmax(dim=-1).masked_fill(~mask, 0.0)`. Which of these checks fail? In
every row some keys are open and some hidden.""",
    broken=late,
    intact=in_time,
    checks={
        "a": (
            "The weights of a row sum to 1.",
            lambda weigh: abs(weigh(SCORES, OPEN).sum().item() - 1) < 1e-6,
            "Check a fails: the hidden keys are still in the total, so the other "
            "weights no longer sum to 1.",
        ),
        "b": (
            "A hidden key has the weight 0.",
            lambda weigh: weigh(SCORES, OPEN)[0, 2].item() == 0,
            "Check b holds: the last step sets the weights of the hidden keys to 0.",
        ),
        "c": (
            "Changing the value of a hidden key changes nothing.",
            lambda weigh: torch.equal(
                weigh(SCORES, OPEN) @ VALUES, weigh(SCORES, OPEN) @ OTHER
            ),
            "Check c holds: the hidden value is multiplied by a weight of 0.",
        ),
        "d": (
            "Changing the score of a hidden key changes nothing.",
            lambda weigh: torch.equal(
                weigh(SCORES, OPEN), weigh(SCORES + table([0, 0, 3]), OPEN)
            ),
            "Check d fails: the larger the hidden score, the larger the total, and "
            "the less is left for the others.",
        ),
        "e": (
            "Of two open keys, the better match has the larger weight.",
            lambda weigh: bool(weigh(SCORES, OPEN)[0, 1] > weigh(SCORES, OPEN)[0, 0]),
            "Check e holds: all open weights are divided by the same total.",
        ),
    },
    hints=("Which keys add to the total by which each row is divided?",),
    answer="""Checks a and d fail. The hidden keys stay in the total by which the row
is divided. The other weights no longer sum to 1, so the blend is too short, and the
larger a hidden score, the less is left for the others.""",
)

EXERCISES = [HUNDRED, TWINS, SOFTMAX, ATTEND, LATE]
