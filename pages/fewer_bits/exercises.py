"""The exercises of the chapter on fewer bits."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- Bits for a small neighbour --------------------------------------------------------


def bits_needed(largest, small):
    bits = 2
    while round(small / (largest / (2 ** (bits - 1) - 1))) == 0:
        bits += 1
    return bits


NEIGHBOUR = Predict(
    name="fewer-bits-1",
    title="a small neighbour",
    task="""The largest weight of a row is 1, and all others are 0.01. With one scale
for the row, as in `quantize_rows`, how many bits do you need so that the small weights
do not become 0?""",
    right=7,
    replies={
        7: "The last mark is 63. Half a step is 1/126, and 0.01 is more than that.",
        6: "The last mark is 31, so half a step is about 0.016. A smaller weight is "
        "rounded to 0.",
        8: "Eight bits are enough, but one bit fewer also is.",
        50: "The last mark must be at least 50. How many bits does that take?",
        100: "A weight need not be a whole step: half a step is enough. And how many "
        "bits does the last mark take?",
        5: "The last mark is 15, so half a step is 1/30.",
    },
    otherwise="Compute half a step for some numbers of bits, and compare it with 0.01.",
    hints=("A weight becomes 0 if it is less than half a step.",),
    answer="""Seven. A weight of 0.01 survives if half a step is smaller. The step is
1 divided by the last mark, $2^{b-1} - 1$, so the last mark must be above 50. With six
bits it is 31, with seven it is 63.""",
    computed=lambda: bits_needed(1.0, 0.01),
)

# -- Groups of columns -----------------------------------------------------------------


def case(weight, columns, bits=4):
    return {"weight": table(weight), "columns": columns, "bits": bits}


GROUPS = Build(
    name="fewer-bits-2",
    title="a scale for each group",
    task="""Write `round_groups(weight, columns, bits)` without `quantize_rows`. The
matrix, (R, C), is cut into groups: the first `columns` weights of a row, the next
`columns`, and so on; C is a multiple of `columns`. Each group has its own scale, and
its largest weight falls on the last mark. Return the rounded weights, already
multiplied by their scales, in the shape and dtype of `weight`. A group of zeros stays
as it is.""",
    call="round_groups(weight, columns, bits)",
    forbids=("quantize_rows",),
    returns={"rounded": "R C"},
    example={"weight": numbers(3, 10), "columns": 5, "bits": 4},
    ideas=[
        Idea(
            "ruler",
            "A weight moves to the nearest mark of its group's ruler.",
            "Divide by the step, round, and multiply by the step again.",
            [case([[0.56, 0.31]], 2), case([[0.56, -0.11, 0.05]], 3)],
        ),
        Idea(
            "sign",
            "The largest weight may be negative.",
            "Which of −0.9 and 0.3 is larger without its sign?",
            [case([[-0.9, 0.3]], 2)],
        ),
        Idea(
            "bits",
            "The last mark follows from the number of bits.",
            "With four bits the marks go from -7 to 7. How far do they go with three?",
            [case([[0.9, 0.2]], 2, 3), case([[0.9, 0.2, -0.5]], 3, 8)],
        ),
        Idea(
            "groups",
            "A large weight spoils only its own group.",
            "Which weights share a scale?",
            [case([[8.0, 0.3, 0.2, 0.1]], 2), case([[0.1, 0.4, 0.2, 9.0, 0.3, 1]], 2)],
        ),
        Idea(
            "rows",
            "No group reaches into another row.",
            "Each row has groups of its own.",
            [case([[8.0, 0.3], [0.2, 0.1]], 2)],
        ),
        Idea(
            "zeros",
            "A group of zeros stays as it is.",
            "What is 0/0?",
            [case([[0.0, 0.0, 0.3, 0.1]], 2)],
        ),
    ],
    hints=(
        "In the chapter, a row of numbers had one scale. A group is a short row.",
        "Give the weights a third axis, one position for each weight of a group.",
        "`unflatten` adds the axis; `amax` with `keepdim` finds the largest weights.",
    ),
    answer="""A group is a row that is shorter. That is why the chapter could use
`quantize_rows`, which the solution spells out here, on a matrix of another shape.""",
)


@GROUPS.right
def round_groups(weight, columns, bits):
    groups = weight.unflatten(1, (-1, columns))  # (R, G, columns)
    step = groups.abs().amax(dim=-1, keepdim=True) / (2 ** (bits - 1) - 1)
    step = torch.where(step == 0, 1.0, step)
    return ((groups / step).round() * step).flatten(1)


@GROUPS.right
def by_short_rows(weight, columns, bits):
    rows = weight.reshape(-1, columns)
    largest = rows.abs().max(dim=1, keepdim=True).values
    largest = largest + (largest == 0)
    most = 2 ** (bits - 1) - 1
    return ((rows / largest * most).round() / most * largest).view_as(weight)


@GROUPS.right
def by_pieces(weight, columns, bits):
    pieces = []
    for piece in weight.split(columns, dim=1):
        step = piece.abs().amax(1, keepdim=True) / (2 ** (bits - 1) - 1)
        whole = torch.round(piece / step.clamp(min=1e-300))
        pieces.append(whole * step)
    return torch.cat(pieces, dim=1)


@GROUPS.right
class BySteps(nn.Module):
    def forward(self, weight, columns, bits):
        largest = weight.abs().unfold(1, columns, columns).amax(-1)  # (R, G)
        step = (largest / (2 ** (bits - 1) - 1)).repeat_interleave(columns, dim=1)
        return (weight / step.masked_fill(step == 0, 1)).round() * step


EXERCISES = [NEIGHBOUR, GROUPS]
