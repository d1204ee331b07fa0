"""The exercises of the chapter on positions."""

import math

import torch
from torch import nn

from bookkit.exercises import Break, Build, Idea, Predict, table

# -- Faster clocks ---------------------------------------------------------------------


def smallest_distance(base):
    speeds = base ** (torch.arange(8, dtype=torch.float64) / 8)
    angles = torch.arange(1024, dtype=torch.float64)[:, None] / speeds
    rows = torch.cat([angles.sin(), angles.cos()], dim=-1)
    return torch.cdist(rows, rows).fill_diagonal_(math.inf).min().item()


FASTER = Predict(
    name="positions-1",
    title="faster clocks",
    task="""Replace 10000 by 10, at width 16. What happens to the smallest distance
between two of the first 1,024 rows?""",
    right="it grows",
    replies={
        "it grows": "From 1.01 to 1.46. All hands turn further from one row to the "
        "next, and within these rows the eight never all come back "
        "together.",
        "it shrinks": "It would if all eight hands came back together somewhere. Do "
        "they, within 1,024 rows?",
        "it stays the same": "The distance between neighbours depends on how far each "
        "hand turns in one step. Which hands turn further now?",
    },
    hints=(
        "Which two rows are closest at 10000? How far does each hand turn between "
        "them?",
    ),
    answer="""It grows, from 1.01 to 1.46. Neighbours are the closest rows with either
number, and faster hands move them apart. Much further along, the eight fast hands
must come close to an earlier row, because no slow hand is left; 1,024 rows are too few
for that.""",
    computed=lambda: (
        "it grows" if smallest_distance(10) > smallest_distance(10000) else "it shrinks"
    ),
)

# -- The formula -----------------------------------------------------------------------


def at(*positions, width=6):
    return {"positions": table(list(positions)), "d_model": width}


ENCODE = Build(
    name="positions-2",
    title="the formula",
    task="""Write `encode(positions, d_model)`: for positions of shape (T,), in float64,
the rows of the paper's table, shape (T, d_model). `d_model` is even. The positions need
not be 0, 1, 2, ...: they may come in any order, and lie between whole numbers.""",
    call="encode(positions, d_model)",
    returns={"rows": "T d_model"},
    example=at(3.0, 0.0, 7.0, 2.0, 11.0, width=6),
    ideas=[
        Idea(
            "zero",
            "At position 0, sines are 0 and cosines are 1, in turn.",
            "Every angle is 0 here. In which order do sine and cosine come?",
            [at(0, width=2), at(0, width=4)],
            more=(
                "Feature 2i is the sine of pair i, and feature 2i + 1 is its cosine.",
                "`interleave` in “What does the formula say, term by term?” makes "
                "sines and cosines alternate.",
            ),
        ),
        Idea(
            "fast",
            "Pair 0 turns by one radian at each position.",
            "With width 2 there is one pair, and its timescale is 1. So its angle is "
            "the position itself.",
            [at(1, width=2), at(2, 5, width=2)],
        ),
        Idea(
            "timescale",
            "With width 4, the timescale of pair 1 is 100.",
            "Put i = 1 and d_model = 4 into the exponent.",
            [at(1, width=4), at(100, 7, width=4)],
            more=(
                "10000 to the power of one half is 100. Which exponent do you have?",
                "`timescales_of` in “What does the formula say, term by term?” has "
                "the exponent.",
            ),
        ),
        Idea(
            "pairs",
            "Each pair has its own timescale, from fast to slow.",
            "Which features belong to pair 2?",
            [at(1, width=6), at(3, 8, width=10)],
            more=(
                "The exponent counts pairs, not features.",
                "`timescales_of` in “What does the formula say, term by term?” has "
                "one timescale for each pair.",
            ),
        ),
        Idea(
            "order",
            "Positions may come in any order, and more than once.",
            "Use the positions that you are given. Do not count them.",
            [at(4, 1, 1, width=4)],
            more=(
                "The given positions take the place of 0, 1, 2, ... in the column.",
                "`angles_of` in “What does the formula say, term by term?” divides a "
                "column by a row.",
            ),
        ),
        Idea(
            "between",
            "A position may lie between two whole numbers, or below 0.",
            "Nothing in the formula needs a whole number.",
            [at(0.5, width=2), at(-3, 2.25, width=4)],
            more=(
                "A position is divided as it is. Do you round it, or use it as an "
                "index?",
            ),
        ),
        Idea(
            "far",
            "Far along the table, no digit is lost.",
            "Which dtype do your timescales have?",
            [at(5000, width=6), at(1_000_000, width=4)],
            more=(
                "A float32 has about seven digits, and the angle of a far position "
                "needs more.",
                "`timescales_of` in “What does the formula say, term by term?” asks "
                "for float64.",
            ),
        ),
    ],
    hints=(
        "Write down the row of one position at width 4: two sines and two cosines.",
        "One division gives all angles: a column of positions by a row of timescales.",
        "`interleave` in “What does the formula say, term by term?” makes sines "
        "and cosines alternate.",
    ),
    answer="""The positions become a column, the timescales a row, and their quotient
has the shape (T, d_model / 2). Sine and cosine, stacked in a new last axis and
flattened, alternate. In float32 the angles of far positions would lose digits.""",
)


@ENCODE.right
def encode(positions, d_model):
    pairs = torch.arange(d_model // 2, dtype=positions.dtype)
    angles = positions[:, None] / 10000 ** (2 * pairs / d_model)  # (T, d_model / 2)
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


@ENCODE.right
def encode_by_logarithm(positions, d_model):
    step = torch.arange(0, d_model, 2, dtype=torch.float64)
    angles = positions[:, None] * torch.exp(step * (-math.log(10000.0) / d_model))
    rows = torch.zeros(len(positions), d_model, dtype=torch.float64)
    rows[:, 0::2], rows[:, 1::2] = angles.sin(), angles.cos()
    return rows


@ENCODE.right
def encode_by_loops(positions, d_model):
    rows = []
    for t in positions:
        angles = [t / 10000 ** (2 * i / d_model) for i in range(d_model // 2)]
        rows.append(torch.stack([f(a) for a in angles for f in (torch.sin, torch.cos)]))
    return torch.stack(rows)


@ENCODE.right
class Encode(nn.Module):
    def forward(self, positions, d_model):
        feature = torch.arange(d_model, dtype=torch.float64)
        scales = 10000 ** ((feature - feature % 2) / d_model)
        shift = feature % 2 * math.pi / 2
        return torch.sin(positions.unsqueeze(-1) / scales + shift)


def angles_of(positions, d_model, double=2):
    pairs = torch.arange(d_model // 2, dtype=torch.float64)
    return positions[:, None] / 10000.0 ** (double * pairs / d_model)


def laid(angles):
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


# -- Moving on -------------------------------------------------------------------------


def step(*positions, k=1, width=4):
    made = encode(table(list(positions)), width)
    return {"rows": made, "k": k, "timescales": scales(width)}


def scales(width):
    return 10000 ** (torch.arange(0, width, 2, dtype=torch.float64) / width)


MOVE = Build(
    name="positions-3",
    title="move on by k positions",
    task="""Write `move(rows, k, timescales)`. `rows` are rows of the table, shape
(T, d_model), with sines and cosines in turn. `timescales`, shape (d_model / 2,), are
those of the pairs. Return the rows of the positions that are `k` further on. You are
not told which positions the rows belong to.""",
    call="move(rows, k, timescales)",
    returns={"moved": "T d_model"},
    example=step(0, 5, 9, k=3, width=8),
    ideas=[
        Idea(
            "stay",
            "With k = 0, the rows stay as they are.",
            "A turn by the angle 0 changes nothing. What are its sine and its cosine?",
            [step(0, k=0, width=2), step(3, 8, k=0)],
        ),
        Idea(
            "one",
            "From position 0, one step of the fastest pair gives sin 1 and cos 1.",
            "At position 0 the pair is (0, 1). Which of its numbers must become sin 1?",
            [step(0, width=2)],
        ),
        Idea(
            "anywhere",
            "The same turn works from any position.",
            "Try position 2: both numbers of the pair have a part in both new ones.",
            [step(2, width=2), step(1, 4, width=2)],
        ),
        Idea(
            "pairs",
            "Each pair turns by its own angle.",
            "What is the angle of pair 1 for `k` positions, and which two features "
            "are pair 1?",
            [step(2), step(1, 4, k=5, width=6)],
        ),
        Idea(
            "back",
            "A negative k goes back.",
            "A negative `k` is a negative angle. What happens to its sine, and what "
            "to its cosine?",
            [step(3, k=-1, width=2), step(9, 6, k=-4)],
            more=(
                "The sine of a negative angle is negative. Is a sign lost?",
                "The formula with the matrix is in “What happens to a row when you "
                "move on by one position?”.",
            ),
        ),
        Idea(
            "length",
            "Rows of any length are turned: the result has the same length.",
            "A turn is a matrix. It does not need to know that the row is from the "
            "table.",
            [{"rows": table([[3.0, 4.0]]), "k": 2, "timescales": table([1.0])}],
            more=(
                "Do not work out the angle of the row. Use both of its numbers as "
                "they are.",
                "The formula with the matrix is in “What happens to a row when you "
                "move on by one position?”.",
            ),
        ),
    ],
    hints=(
        "Take one pair at position 0, which is (0, 1), and turn it by one step.",
        "The angle of a pair is `k` divided by its timescale. The new sine needs the "
        "old sine and the old cosine.",
        "The formula with the matrix is in “What happens to a row when you move on by "
        "one position?”.",
    ),
    answer="""The addition formula needs only the old sine, the old cosine and the
angle $k / \\text{timescale}$. The position itself is in none of them, so one turn
serves every row.""",
)


@MOVE.right
def move(rows, k, timescales):
    sine, cosine = rows[:, 0::2], rows[:, 1::2]  # (T, d_model / 2)
    angle = k / timescales
    further = [
        sine * angle.cos() + cosine * angle.sin(),
        cosine * angle.cos() - sine * angle.sin(),
    ]
    return torch.stack(further, dim=-1).flatten(-2)


@MOVE.right
def move_by_matrix(rows, k, timescales):
    cosine, sine = (k / timescales).cos(), (k / timescales).sin()
    blocks = torch.stack(
        [torch.stack([cosine, sine], -1), torch.stack([-sine, cosine], -1)], -2
    )
    return torch.einsum("pij,tpj->tpi", blocks, rows.unflatten(-1, (-1, 2))).flatten(-2)


@MOVE.right
def move_by_complex_numbers(rows, k, timescales):
    hands = torch.complex(rows[:, 1::2], rows[:, 0::2])
    turned = hands * torch.exp(1j * (k / timescales))
    return torch.stack([turned.imag, turned.real], dim=-1).flatten(-2)


@MOVE.right
class Move(nn.Module):
    def forward(self, rows, k, timescales):
        moved = []
        for i, timescale in enumerate(timescales):
            sine, cosine = torch.sin(k / timescale), torch.cos(k / timescale)
            turn = torch.stack(
                [torch.stack([cosine, sine]), torch.stack([-sine, cosine])]
            )
            moved.append(rows[:, 2 * i : 2 * i + 2] @ turn.T)
        return torch.cat(moved, dim=-1)


# -- Half the exponent -----------------------------------------------------------------


def paper(positions, width):
    return laid(angles_of(positions, width))


def slipped(positions, width):
    return laid(angles_of(positions, width, double=1))


def first_rows(make, size=60, width=64):
    return make(torch.arange(float(size), dtype=torch.float64), width)


def depends_on_distance(make):
    dots = first_rows(make) @ first_rows(make).T
    return all(
        torch.allclose(dots.diagonal(k), dots[0, k].expand(60 - k)) for k in range(60)
    )


def turns_alike_everywhere(make):
    sine, cosine = first_rows(make)[:, 0::2], first_rows(make)[:, 1::2]
    hands = torch.complex(cosine, sine)
    turns = hands[1:] / hands[:-1]
    return torch.allclose(turns, turns[:1].expand_as(turns))


def turns_of_the_slowest(make):
    row = make(table([1.0]), 512)[0]
    return math.atan2(row[-2].item(), row[-1].item()) / (2 * math.pi)


SLIP = Break(
    name="positions-4",
    title="half the exponent",
    task="""A common slip writes the exponent as $i / d_\\text{model}$ instead of
$2i / d_\\text{model}$. Which of these checks fail?""",
    broken=slipped,
    intact=paper,
    checks={
        "a": (
            "At width 64, all rows have the length √32.",
            lambda make: torch.allclose(
                first_rows(make).norm(dim=1), torch.tensor(32.0).double().sqrt()
            ),
            "Check a holds: each pair adds 1 to the squared length, at any timescale.",
        ),
        "b": (
            "The dot product of two rows depends on their distance only.",
            depends_on_distance,
            "Check b holds: this needs sine and cosine of the same angle, whatever the "
            "timescales are.",
        ),
        "c": (
            "One matrix moves every row on by one position.",
            turns_alike_everywhere,
            "Check c holds: each pair still turns by an angle of its own.",
        ),
        "d": (
            "At width 512, the slowest hand needs more than 10,000 positions for one "
            "turn.",
            lambda make: turns_of_the_slowest(make) < 1 / 10_000,
            "Check d fails: the largest timescale is about 98 instead of 9,647, so the "
            "slowest hand is back after 617 positions.",
        ),
        "e": (
            "The rows are those of the paper.",
            lambda make: torch.allclose(first_rows(make), first_rows(paper)),
            "Check e fails: all pairs but the first have a wrong timescale.",
        ),
    },
    hints=(
        "Put the largest i into the exponent.",
        "Which arguments of the chapter used the values of the timescales?",
    ),
    answer="""Checks d and e fail. The exponents stop at one half, so the largest
timescale is 98 instead of 9,647. Lengths, distances and rotations do not depend on the
values of the timescales, so tests of these properties do not notice the slip. Only a
comparison with the paper's numbers does.""",
)

EXERCISES = [FASTER, ENCODE, MOVE, SLIP]
