"""The exercises of the chapter on several processes."""

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import Build, Idea, Predict, numbers

# -- Parts for a small bubble ----------------------------------------------------------


def idle(stages, parts):
    """Count the idle cells of a timetable, as a share of all."""
    columns = 2 * (stages + parts - 1)
    return 1 - 2 * parts / columns


PARTS = Predict(
    name="processes-1",
    title="how many parts?",
    task="""A pipeline has eight stages, and its bubble should take less than a
twentieth of the time. Into how many parts must you cut the batch, at least?""",
    right=134,
    replies={
        134: "The share is 7/141, just below a twentieth.",
        133: "The share is 7/140, exactly a twentieth. It should be less.",
        141: "That compares the idle cells with the busy ones. The share is of all "
        "cells.",
        140: "Idle and busy columns together are 140 then, which leaves 133 parts.",
        152: "There are eight stages, and one less than that is idle.",
        160: "A part does not wait for all eight stages: seven columns are idle.",
    },
    otherwise="Seven of m + 7 columns are idle. Which m makes that less than 1/20?",
    hints=("The share is (p - 1)/(m + p - 1).",),
    answer="""134: $7/(m+7) < 1/20$ holds for $m > 133$. Why not take a thousand? Each
part runs the same products with fewer tokens, and below some size they no longer use
the processor well. And a part cannot be smaller than a sentence.""",
    computed=lambda: next(m for m in range(1, 999) if idle(8, m) < 1 / 20 - 1e-12),
)

# -- A share of the heads --------------------------------------------------------------


def case(num_heads, rank, ranks, d_k=2, tokens=3):
    width = num_heads * d_k
    names = ("w_q", "w_k", "w_v", "w_o")
    weights = {
        name: numbers(width, width, seed=seed) for seed, name in enumerate(names, 1)
    }
    given = {"x": numbers(2, tokens, width), **weights}
    return {**given, "num_heads": num_heads, "rank": rank, "ranks": ranks}


HEADS = Build(
    name="processes-2",
    title="a share of the heads",
    task="""In tensor parallelism, each worker has some heads of an attention layer.
Write `share_of_attention(x, w_q, w_k, w_v, w_o, num_heads, rank, ranks)`: what worker
`rank` of `ranks` computes before the all-reduce. x is (B, T, d). The weights, (d, d),
are laid out as in `nn.Linear`, without biases. Worker 0 has the first heads, worker 1
the next, each the same number. There is no mask. Return (B, T, d), so that the results
of all workers add up to the output of the layer.""",
    call="share_of_attention(x, w_q, w_k, w_v, w_o, num_heads, rank, ranks)",
    returns={"part": "B T d"},
    example=case(6, 1, 3, tokens=5),
    ideas=[
        Idea(
            "whole",
            "A single worker with one head computes attention as usual.",
            "softmax(q k^T / sqrt(d_k)) v, and then the output projection.",
            [case(1, 0, 1)],
        ),
        Idea(
            "heads",
            "Each head has a softmax of its own.",
            "Split the features into heads before you compute scores.",
            [case(2, 0, 1)],
        ),
        Idea(
            "first",
            "The first worker has the first heads only.",
            "Which rows make its queries, and which columns of `w_o` read its result?",
            [case(2, 0, 2), case(4, 0, 2)],
        ),
        Idea(
            "last",
            "The last worker has the last heads only.",
            "Where do the rows and columns of this worker begin?",
            [case(2, 1, 2), case(4, 1, 2)],
        ),
        Idea(
            "width",
            "A head is as wide as in the whole layer.",
            "d_k is the width divided by the number of all heads.",
            [case(4, 1, 2, d_k=3)],
        ),
    ],
    hints=(
        "It is the cut of the feed-forward network once more: three matrices whose "
        "outputs are divided, and one whose inputs are.",
        "A worker with its slice of features needs these rows of `w_q`, `w_k` and "
        "`w_v`, and these columns of `w_o`.",
        "`chunk(ranks)` along the right axis gives the slices; then go on as with a "
        "layer that has num_heads/ranks heads.",
    ),
    answer="""Rows of the first three, columns of `w_o`, and one sum over the workers at
the end. A softmax needs all keys of its own head, and no other head.""",
)


def attend(x, w_q, w_k, w_v, w_o, heads):
    q, k, v = (F.linear(x, w).unflatten(-1, (heads, -1)) for w in (w_q, w_k, w_v))
    scores = torch.einsum("bthd,bshd->bhts", q, k) / q.size(-1) ** 0.5
    out = torch.einsum("bhts,bshd->bthd", scores.softmax(-1), v)
    return F.linear(out.flatten(2), w_o)


@HEADS.right
def share_of_attention(x, w_q, w_k, w_v, w_o, num_heads, rank, ranks):
    q, k, v = (
        F.linear(x, w.chunk(ranks)[rank])
        .unflatten(-1, (num_heads // ranks, -1))
        .transpose(1, 2)  # (B, heads, T, d_k)
        for w in (w_q, w_k, w_v)
    )
    heads = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    return F.linear(heads, w_o.chunk(ranks, dim=1)[rank])


@HEADS.right
def by_slices(x, w_q, w_k, w_v, w_o, num_heads, rank, ranks):
    size = x.size(-1) // ranks
    mine = slice(rank * size, (rank + 1) * size)
    rows = (w[mine] for w in (w_q, w_k, w_v))
    return attend(x, *rows, w_o[:, mine], num_heads // ranks)


@HEADS.right
def by_silence(x, w_q, w_k, w_v, w_o, num_heads, rank, ranks):
    owner = torch.arange(x.size(-1)) * ranks // x.size(-1)
    return attend(x, w_q, w_k, w_v, w_o * (owner == rank), num_heads)


@HEADS.right
class ByHead(nn.Module):
    def forward(self, x, w_q, w_k, w_v, w_o, num_heads, rank, ranks):
        d_k, count, total = x.size(-1) // num_heads, num_heads // ranks, 0
        for head in range(rank * count, rank * count + count):
            own = slice(head * d_k, head * d_k + d_k)
            q, k, v = (x @ w[own].T for w in (w_q, w_k, w_v))
            weights = (q @ k.mT / d_k**0.5).softmax(dim=-1)
            total = total + weights @ v @ w_o[:, own].T
        return total


EXERCISES = [PARTS, HEADS]
