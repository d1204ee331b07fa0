"""The exercises of the chapter on precision and memory."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- A sum that stops ------------------------------------------------------------------


def running_sum():
    total = torch.zeros((), dtype=torch.bfloat16)
    for _ in range(4096):
        total += 1
    return int(total)


SUM = Predict(
    name="precision-1",
    title="a sum that stops",
    task="""A loop adds 4,096 ones to a running sum, and everything is bfloat16. What is
the sum at the end?""",
    right=256,
    replies={
        256: "From 256 on the neighbours are 2 apart. 257 lies halfway and is rounded "
        "to 256, every time.",
        4096: "This is what torch's sum returns: it adds up in float32 and rounds "
        "once, at the end. What does the loop do at 256?",
        2048: "This is where float16 stops. bfloat16 has three fraction bits fewer.",
        257: "Is there a bfloat16 number between 256 and 258?",
        255: "255 + 1 is 256, which bfloat16 holds. Does the next step still work?",
        128: "Between 128 and 256 the neighbours are 1 apart, so the sum still grows.",
    },
    hints=("Remember 256 + 1.",),
    answer="""256. `torch.ones(4096).bfloat16().sum()` gives 4,096, because torch's sum
adds up in float32 and rounds once, at the end. Every loop of your own over short
numbers, such as a running loss, behaves like the first one.""",
    computed=running_sum,
)

# -- Unscale, clip, skip ---------------------------------------------------------------


def case(gradients, factor, max_norm):
    return {"gradients": table(gradients), "factor": factor, "max_norm": max_norm}


INF, NAN = float("inf"), float("nan")

READY = Build(
    name="precision-2",
    title="unscale, clip, skip",
    task="""Write `ready(gradients, factor, max_norm)`. `gradients`, (P, D), are those
of a loss that was multiplied by `factor`. Return the gradients that the optimiser
should use, (P, D): divided by the factor, and then clipped, so that their norm over
all P x D numbers is at most `max_norm`. If one of them is infinite or nan,
return zeros.""",
    call="ready(gradients, factor, max_norm)",
    returns={"gradients": "P D"},
    example={"gradients": 40 * numbers(2, 3), "factor": 8.0, "max_norm": 2.5},
    ideas=[
        Idea(
            "unscale",
            "A short gradient is only divided by the factor.",
            "Here the true gradient is shorter than the maximum. What changes?",
            [case([[2.0]], 4.0, 1.0), case([[0.8, -1.6]], 8.0, 3.0)],
        ),
        Idea(
            "clip",
            "A long gradient gets exactly the maximal norm.",
            "Which norm do you compare with the maximum, and when?",
            [case([[12.0]], 4.0, 1.0), case([[24.0, -32.0]], 8.0, 2.0)],
        ),
        Idea(
            "whole",
            "The norm is that of all numbers together.",
            "Clipping must not change the direction of the whole gradient.",
            [
                case([[6.0], [8.0]], 2.0, 4.0),
                case([[16.0, 0.0], [0.0, 2.0]], 2.0, 4.0),
            ],
        ),
        Idea(
            "skip",
            "One number that is infinite or nan makes the whole step zero.",
            "What must happen to the finite gradients of such a step?",
            [
                case([[INF, 2.0]], 2.0, 1.0),
                case([[2.0], [-INF]], 2.0, 4.0),
                case([[NAN, 2.0]], 2.0, 4.0),
            ],
        ),
    ],
    hints=(
        "Undo the scaling first; everything else looks at the true gradient.",
        "Compare the norm of all numbers with the maximum. Multiply by their ratio "
        "only if the norm is too large.",
        "`isfinite` and `all` decide whether to return zeros.",
    ),
    answer="""The norm that decides is that of the true gradient, so the division comes
first. A norm over everything keeps the direction. In a real step you would skip
`optimizer.step()` as `LossScaler.update` does: with zeros, Adam would still move the
weights, because of its old means.""",
)


@READY.right
def ready(gradients, factor, max_norm):
    true = gradients / factor
    if not true.isfinite().all():
        return torch.zeros_like(true)
    return true * (max_norm / true.norm()).clamp(max=1.0)


@READY.right
def with_a_branch(gradients, factor, max_norm):
    true = gradients * (1 / factor)
    length = true.square().sum().sqrt()
    if not bool(length.isfinite()):
        return 0 * torch.nan_to_num(true, 0.0, 0.0, 0.0)
    return true / length * max_norm if length > max_norm else true


@READY.right
def by_where(gradients, factor, max_norm):
    true = gradients / factor
    fine = (true.abs() < float("inf")).all()
    length = torch.linalg.vector_norm(true)
    clipped = true / torch.clamp(length / max_norm, min=1)
    return torch.where(fine, clipped, torch.zeros_like(clipped))


@READY.right
class ByParts(nn.Module):
    def forward(self, gradients, factor, max_norm):
        rows = [row / factor for row in gradients]
        length = sum((row * row).sum() for row in rows) ** 0.5
        if not torch.isfinite(length):
            return gradients.new_zeros(gradients.shape)
        shrink = max_norm / length if length > max_norm else 1.0
        return torch.stack([shrink * row for row in rows])


EXERCISES = [SUM, READY]
