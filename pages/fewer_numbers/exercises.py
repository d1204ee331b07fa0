"""The exercises of the chapter on fewer numbers."""

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- Shorter columns -------------------------------------------------------------------


def pays_from(number, column):
    return 1 - number / (number + column)


COLUMNS = Predict(
    name="fewer-numbers-1",
    title="shorter columns",
    task="""CSR lost at half zeros because torch stores the column of a number in eight
bytes. A matrix with 256 columns needs only one byte for it. From what share of zeros on
does such a format take less memory than the full matrix, with numbers of four bytes?
Leave aside where the rows begin.""",
    right=0.2,
    replies={
        0.2: "A stored number takes five bytes in place of four.",
        0.25: "A column is a quarter of a number, but what you need is the share s at "
        "which 5 (1 - s) equals 4.",
        0.5: "That is the answer for columns of four bytes.",
        2 / 3: "That is the answer for torch's columns of eight bytes.",
        0.8: "That is the share of numbers that are stored. How many are zero?",
    },
    otherwise="Compare the bytes of n numbers with those of (1 - s) n numbers, each "
    "with its column.",
    hints=(
        "Compare the bytes of n numbers with those of (1 - s) n numbers, each with its "
        "column.",
    ),
    answer="""From a fifth on. The full matrix takes $4n$ bytes, the sparse one
$(1 - s) \\cdot n \\cdot (4 + 1)$, which is less for $s > 1/5$. With torch's columns of
eight bytes it is less for $s > 2/3$.""",
    computed=lambda: round(pays_from(4, 1), 10),
)

# -- An update of low rank -------------------------------------------------------------


def case(x, weight, down, up, alpha=1.0):
    names = ("x", "weight", "down", "up")
    given = zip(names, map(table, (x, weight, down, up)), strict=True)
    return {**dict(given), "alpha": alpha}


LORA = Build(
    name="fewer-numbers-2",
    title="a linear layer with LoRA",
    task="""Write `with_lora(x, weight, down, up, alpha)`: multiply x, (n, d_in), by the
frozen `weight`, (d_out, d_in), and add the product with the update `up @ down`, with
`down` (r, d_in) and `up` (d_out, r), times alpha/r. Both are laid out as in
`nn.Linear`: one row for each output. Return (n, d_out).""",
    call="with_lora(x, weight, down, up, alpha)",
    returns={"y": "n d_out"},
    example={
        "x": numbers(4, 5),
        "weight": numbers(7, 5, seed=1),
        "down": numbers(3, 5, seed=2),
        "up": numbers(7, 3, seed=3),
        "alpha": 2.0,
    },
    ideas=[
        Idea(
            "begin",
            "As long as `up` is zero, the layer computes what it computed before.",
            "The update is added to the product with the frozen weight.",
            [
                case([[1, 2]], [[3, 1]], [[1, 1]], [[0]]),
                case([[1, -2]], [[3, 1], [0, 2]], [[1, 1]], [[0], [0]], 4.0),
            ],
        ),
        Idea(
            "update",
            "With a frozen weight of zero, only the update is left.",
            "x goes through `down` first, then through `up`. Nothing lies between.",
            [
                case([[1, 2]], [[0, 0]], [[1, 1]], [[2]]),
                case([[1, -2]], [[0, 0], [0, 0]], [[1, 1]], [[2], [-1]]),
            ],
        ),
        Idea(
            "both",
            "The two products are added.",
            "Both read the same x.",
            [case([[1, 2]], [[3, 1]], [[1, 1]], [[2]])],
        ),
        Idea(
            "alpha",
            "The update is multiplied by alpha.",
            "Does alpha also change what the frozen weight gives?",
            [case([[1, 2]], [[3, 1]], [[1, 1]], [[2]], 4.0)],
        ),
        Idea(
            "rank",
            "The update is divided by its rank.",
            "The rank is the number of rows of `down`.",
            [case([[1, 2, 0]], [[3, 1, 1]], [[1, 1, 0], [0, 1, 2]], [[2, 1]], 1.0)],
        ),
    ],
    hints=(
        "Both paths start at x, and their results are added.",
        "`F.linear(x, weight)` multiplies by a matrix that is laid out as in "
        "`nn.Linear`.",
        "Two calls of `F.linear` for the update, one after the other, then alpha/r.",
    ),
    answer="""x goes through `down`, which leaves r numbers, and then through `up`. The
product `up @ down`, a whole matrix, is never made. Once training is over, you can make
it once and add it to the weight, so that the layer costs nothing extra.""",
)


@LORA.right
def with_lora(x, weight, down, up, alpha):
    update = F.linear(F.linear(x, down), up)  # (n, d_out)
    return F.linear(x, weight) + alpha / len(down) * update


@LORA.right
def merged(x, weight, down, up, alpha):
    return x @ (weight + alpha / down.size(0) * up @ down).T


@LORA.right
def by_products(x, weight, down, up, alpha):
    return x @ weight.T + (alpha / up.size(1)) * (x @ down.T @ up.T)


@LORA.right
class Adapted(nn.Module):
    def forward(self, x, weight, down, up, alpha):
        inner = torch.einsum("ni,ri->nr", x, down) * alpha
        return F.linear(x, weight) + torch.einsum("nr,or->no", inner, up) / len(down)


EXERCISES = [COLUMNS, LORA]
