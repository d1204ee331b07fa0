"""The exercises of the chapter on faster kernels."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- Bytes of add & norm ---------------------------------------------------------------


def ratio_of_bytes():
    two_kernels = ["read x", "read y", "write sum", "read sum", "write out"]
    fused = ["read x", "read y", "write out"]
    return len(two_kernels) / len(fused)


BYTES = Predict(
    name="kernels-1",
    title="the most that fusing can gain",
    task="""Large arrays in float32 are added and normalised, `norm(x + y)`. We compare
two kernels, one that adds and one that normalises, with one fused kernel. Only movement
counts, and the weights of the norm are too small to matter. How many times as fast is
the fused kernel? Round to two digits after the point.""",
    right=5 / 3,
    replies={
        5 / 3: "Five arrays cross in two kernels, and three in one.",
        2: "Two trips become one, but the trips differ in size. Count the arrays.",
        1.5: "This counts the reads only: three against two. What is written?",
        4 / 3: "In the two kernels the sum is written and read again. Count both.",
        2.5: "The fused kernel reads x and y and writes the result: three arrays.",
        0.6: "This share of the time is left. How many times as fast is that?",
        3: "Count the arrows of Fig. 18.1 on both sides.",
    },
    hints=("Count the arrows in Fig. 18.1.",),
    answer="""Five arrays against three, so 1.67 times. The lines of C reached about 1.5
on our machine: kernels also compute, and for small arrays the calls count.""",
    computed=ratio_of_bytes,
)

# -- Merge two halves ------------------------------------------------------------------

NAMES = "largest_a", "total_a", "output_a", "largest_b", "total_b", "output_b"


def things(scores, values):
    """Return largest, total and output of some keys, as the chapter keeps them."""
    largest = scores.amax(dim=-1, keepdim=True)
    weights = (scores - largest).exp()
    return largest, weights.sum(dim=-1, keepdim=True), weights @ values


def halves(a, b, values_a, values_b):
    return dict(zip(NAMES, (*things(a, values_a), *things(b, values_b)), strict=True))


def small(a, b, values_a, values_b):
    """Two halves for one query, whose values are single numbers."""
    return halves(
        table([a]),
        table([b]),
        table([[value] for value in values_a]),
        table([[value] for value in values_b]),
    )


def with_nothing(case, half):
    """Let one half have seen no key at all."""
    case = dict(case)
    case[f"largest_{half}"] = torch.full_like(case[f"largest_{half}"], -torch.inf)
    for name in ("total", "output"):
        case[f"{name}_{half}"] = torch.zeros_like(case[f"{name}_{half}"])
    return case


def drawn(seed):
    scores, values = numbers(3, 5, seed=seed), numbers(5, 4, seed=seed + 1)
    others = 2 * numbers(3, 7, seed=seed + 2), numbers(7, 4, seed=seed + 3)
    return halves(scores, others[0], values, others[1])


MERGE = Build(
    name="kernels-2",
    title="merge two halves",
    task="""A long text is split: one processor attends to the first half of the keys
and another one to the second half. For T queries, each returns its largest scores,
(T, 1), its totals, (T, 1), and its outputs, (T, D), not yet divided. Write
`merge(largest_a, total_a, output_a, largest_b, total_b, output_b)`, which returns the
result of attention to all keys, (T, D). One of the halves may be hidden completely
from a query. Then its largest score is minus infinity, its total and output are 0.""",
    call="merge(largest_a, total_a, output_a, largest_b, total_b, output_b)",
    returns={"attended": "T D"},
    example=drawn(0),
    ideas=[
        Idea(
            "add",
            "If both largest scores are equal, totals and outputs add up.",
            "Nothing has to be corrected here. What is divided by what?",
            [
                small([0.0], [0.0], [2.0], [6.0]),
                small([1.0, 1.0], [1.0], [2.0, 5.0], [8.0]),
            ],
        ),
        Idea(
            "second",
            "If the second half has the larger score, the first is corrected.",
            "By which factor are the exponentials of the first half too large?",
            [small([0.0], [1.0], [2.0], [6.0]), small([3.0, 1.0], [5.0], [1, 2], [9])],
        ),
        Idea(
            "first",
            "If the first half has the larger score, the second is corrected.",
            "Does anything depend on which half is the larger one?",
            [small([1.0], [0.0], [2.0], [6.0]), small([5.0, 1.0], [3.0], [1, 2], [9])],
        ),
        Idea(
            "hidden",
            "A half that has seen nothing does not count.",
            "What is the exponential of minus infinity, and of plus infinity?",
            [
                with_nothing(small([1.0], [1.0], [2.0], [6.0]), "a"),
                with_nothing(small([1.0], [1.0], [2.0], [6.0]), "b"),
            ],
        ),
        Idea(
            "safe",
            "Large scores do not overflow.",
            "Which exponents can be large? Subtract something first.",
            [
                small([2000.0], [2001.0], [2.0], [6.0]),
                small([2001.0], [0.0], [2.0], [6.0]),
                small([0.0], [2001.0], [2.0], [6.0]),
            ],
        ),
    ],
    hints=(
        "The merged largest score is the larger of both, query by query.",
        "Each half gets a factor of its own: e to the power of its largest score minus "
        "the merged one.",
        "Correct totals and outputs with `exp`, add them, and divide at the end.",
    ),
    answer="""The same correction as in `attend_rows`, but for both sides, since either
may have the larger score. This is how long texts are decoded on a GPU: one query would
keep one processor busy, so the keys are split among many and their results are merged
(*split-KV*, or *Flash-Decoding*).""",
)


@MERGE.right
def merge(largest_a, total_a, output_a, largest_b, total_b, output_b):
    grown = torch.maximum(largest_a, largest_b)  # (T, 1)
    a, b = (largest_a - grown).exp(), (largest_b - grown).exp()
    return (output_a * a + output_b * b) / (total_a * a + total_b * b)


@MERGE.right
def by_logarithms(largest_a, total_a, output_a, largest_b, total_b, output_b):
    logs = torch.cat([largest_a + total_a.log(), largest_b + total_b.log()], dim=-1)
    share = logs.softmax(dim=-1)  # (T, 2)
    a = output_a / total_a.clamp(min=1e-30)
    b = output_b / total_b.clamp(min=1e-30)
    return share[:, :1] * a + share[:, 1:] * b


@MERGE.right
def stacked(largest_a, total_a, output_a, largest_b, total_b, output_b):
    largest = torch.stack([largest_a, largest_b])
    factor = torch.exp(largest - largest.max(0).values)
    output = (factor * torch.stack([output_a, output_b])).sum(0)
    return output / (factor * torch.stack([total_a, total_b])).sum(0)


@MERGE.right
class ByCases(nn.Module):
    def forward(self, largest_a, total_a, output_a, largest_b, total_b, output_b):
        first = largest_a > largest_b
        gap = -(largest_a - largest_b).abs()  # 0 or negative
        a = torch.where(first, torch.zeros_like(gap), gap).exp()
        b = torch.where(first, gap, torch.zeros_like(gap)).exp()
        return (a * output_a + b * output_b) / (a * total_a + b * total_b)


EXERCISES = [BYTES, MERGE]
