"""The exercises of the chapter on what changed since 2017."""

import torch
from torch import nn

from transformer_lib.exercises import Break, Build, Idea, Predict, numbers

# -- One key head ----------------------------------------------------------------------


def parameters(d_model, num_heads, key_heads):
    d_k = d_model // num_heads
    widths = (d_model, key_heads * d_k, key_heads * d_k, d_model)
    return sum(d_model * width + width for width in widths)  # matrices and biases


SHARE = Predict(
    name="since-2017-1",
    title="the small translator with one key head",
    task="""The translator of captions has attention layers with $d_\\text{model} = 128$
and 4 heads. Suppose that it had one head of keys and values in place of 4. Its cache
would shrink to 25 % of its size. To what percentage would the parameters of an
attention layer shrink?""",
    right=62.5,
    replies={
        62.5: "Two of four matrices keep their size, and two shrink to a quarter.",
        25: "This is the cache. Which of the four matrices become narrower?",
        50: "The keys' and values' matrices do not vanish: one head of each remains.",
        75: "One matrix lost three quarters here, or both lost half. How many become "
        "narrower, and by how much?",
        37.5: "This is the share that is lost.",
    },
    otherwise="Which of the four matrices become narrower, and by how much?",
    hints=(
        "The queries' and the output's matrix keep their size. The keys' and values' "
        "matrices produce one head in place of four.",
    ),
    answer="""Two matrices keep their size and two shrink to a quarter: (2 + 2/4) / 4 =
62.5 %. The cache holds keys and values only, so it shrinks more than the model.""",
    computed=lambda: 100 * parameters(128, 4, 1) / parameters(128, 4, 4),
)

# -- From one kind of pairs to the other -----------------------------------------------


def case(num_heads, d_k, width=1):
    rows = torch.arange(num_heads * d_k * width, dtype=torch.float64)
    return {"weight": rows.view(-1, width), "num_heads": num_heads}


REORDER = Build(
    name="since-2017-2",
    title="from one kind of pairs to the other",
    task="""The rows of `weight`, (D, W), are the features that `w_q` or `w_k` computes,
head after head. In each head of width $d_k$, rotary positions pair feature $m$ with
$m + d_k / 2$. Another program pairs neighbours, $2m$ and $2m + 1$. Write
`reorder(weight, num_heads)`: return the weight with its rows in the order that this
program needs.""",
    call="reorder(weight, num_heads)",
    returns={"weight": "D W"},
    example={"weight": numbers(12, 5), "num_heads": 2},
    ideas=[
        Idea(
            "pairs",
            "The two features of a pair become neighbours.",
            "Where do the features 0 and 2 of a head of width 4 go?",
            [case(1, 4), case(1, 4, 3)],
        ),
        Idea(
            "direction",
            "The order leads from halves to neighbours, not back.",
            "Where does feature 3 of a head of width 6 go?",
            [case(1, 6), case(1, 8)],
        ),
        Idea(
            "heads",
            "Each head keeps its features.",
            "Reorder within each head; no row moves to another head.",
            [case(2, 4), case(3, 2)],
        ),
    ],
    hints=(
        "Write down the order for one head of width 6: which old row comes first, "
        "which second?",
        "Give the rows three axes: the head, the half, and the pair.",
        "`unflatten` takes the rows apart, `transpose` swaps half and pair, and "
        "`flatten` joins them.",
    ),
    answer="""Rotated pairs are the same pairs as before, and queries and keys are
reordered alike, so each dot product has the same terms in another order. That is why
`w_v` and `w_o` stay: values are not rotated. A bias needs the same order.""",
)


@REORDER.right
def reorder(weight, num_heads):
    halves = weight.unflatten(0, (num_heads, 2, -1))  # (H, 2, d_k / 2, W)
    return halves.transpose(1, 2).flatten(0, 2)  # (D, W)


@REORDER.right
def by_stacking(weight, num_heads):
    first, second = weight.unflatten(0, (num_heads, -1)).chunk(2, dim=1)
    return torch.stack([first, second], dim=2).reshape(weight.shape)


@REORDER.right
def by_index(weight, num_heads):
    d_k = len(weight) // num_heads
    order = torch.arange(d_k).view(2, -1).T.flatten()
    rows = torch.cat([head * d_k + order for head in range(num_heads)])
    return weight[rows]


@REORDER.right
def by_writing(weight, num_heads):
    result = torch.empty_like(weight)
    d_k = len(weight) // num_heads
    for row in range(len(weight)):
        head, feature = divmod(row, d_k)
        second, pair = divmod(feature, d_k // 2)
        result[head * d_k + 2 * pair + second] = weight[row]
    return result


@REORDER.wrong("pairs", "direction", "heads")
def unchanged(weight, num_heads):
    return weight.clone()


@REORDER.wrong("direction")
def back_to_halves(weight, num_heads):
    neighbours = weight.unflatten(0, (num_heads, -1, 2))
    return neighbours.transpose(1, 2).flatten(0, 2)


@REORDER.wrong("heads")
def across_the_heads(weight, num_heads):
    return weight.unflatten(0, (2, -1)).transpose(0, 1).flatten(0, 1)


@REORDER.wrong("heads")
def first_head_only(weight, num_heads):
    d_k = len(weight) // num_heads
    return torch.cat([reorder(weight[:d_k], 1), weight[d_k:]])


@REORDER.wrong("heads")
def heads_reversed(weight, num_heads):
    heads = reorder(weight, num_heads).unflatten(0, (num_heads, -1))
    return heads.flip(0).flatten(0, 1)


@REORDER.wrong("pairs", "direction", "heads")
def second_half_first(weight, num_heads):
    halves = weight.unflatten(0, (num_heads, 2, -1)).flip(1)
    return halves.transpose(1, 2).flatten(0, 2)


@REORDER.wrong("pairs", "direction", "heads")
def halves_swapped(weight, num_heads):
    halves = weight.unflatten(0, (num_heads, 2, -1))
    return halves.flip(1).flatten(0, 2)


@REORDER.wrong("pairs", "direction", "heads")
def from_both_ends(weight, num_heads):
    first, second = weight.unflatten(0, (num_heads, -1)).chunk(2, dim=1)
    return torch.stack([first, second.flip(1)], dim=2).reshape(weight.shape)


@REORDER.wrong("pairs", "direction", "heads")
def neighbours_swapped(weight, num_heads):
    return weight.unflatten(0, (-1, 2)).flip(1).flatten(0, 1)


@REORDER.wrong("pairs", "direction", "heads")
def features_reversed(weight, num_heads):
    return weight.unflatten(0, (num_heads, -1)).flip(1).flatten(0, 1)


# -- eps outside the root --------------------------------------------------------------

EPS = 1e-5


def eps_under_the_root(x):
    return x / (x.square().mean(dim=-1, keepdim=True) + EPS).sqrt()


def eps_outside(x):
    return x / (x.square().mean(dim=-1, keepdim=True).sqrt() + EPS)


def size(x):
    """Return the root of the mean square."""
    return x.square().mean().sqrt()


VECTOR = numbers(64)

ROOT = Break(
    name="since-2017-3",
    title="eps outside the root",
    task="""Someone writes $x / (\\sqrt{\\text{mean}(x^2)} + \\varepsilon)$ for
$x / \\sqrt{\\text{mean}(x^2) + \\varepsilon}$, with $\\varepsilon = 10^{-5}$. Let $x$
be a vector of 64 random features with a root mean square near 1. Which of these checks
fail?""",
    broken=eps_outside,
    intact=eps_under_the_root,
    checks={
        "a": (
            "The norm of x equals that of `nn.RMSNorm`, to within 0.001.",
            lambda norm: torch.allclose(
                norm(VECTOR),
                nn.functional.rms_norm(VECTOR, (64,), eps=EPS),
                rtol=0,
                atol=1e-3,
            ),
            "Check a holds: next to 1, eps is too small to matter in either place.",
        ),
        "b": (
            "The norm of a vector of zeros is zero.",
            lambda norm: bool((norm(0 * VECTOR) == 0).all()),
            "Check b holds: eps prevents a division by zero in either place.",
        ),
        "c": (
            "The norm of 0.01 x equals that of `nn.RMSNorm`, to within 0.001.",
            lambda norm: torch.allclose(
                norm(0.01 * VECTOR),
                nn.functional.rms_norm(0.01 * VECTOR, (64,), eps=EPS),
                rtol=0,
                atol=1e-3,
            ),
            "Check c fails: the mean square is 0.0001, only ten times eps. Under the "
            "root, eps changes the result by a few percent.",
        ),
        "d": (
            "The norms of x and 2 x are equal, to within 0.001.",
            lambda norm: torch.allclose(
                norm(VECTOR), norm(2 * VECTOR), rtol=0, atol=1e-3
            ),
            "Check d holds: at these sizes, the division removes the size of x.",
        ),
        "e": (
            "The norm of 0.0001 x has a root mean square below 0.1.",
            lambda norm: bool(size(norm(1e-4 * VECTOR)) < 0.1),
            "Check e fails: outside the root, eps is a tenth of the size, so the "
            "vector is still brought to about 0.9.",
        ),
    },
    hints=(
        "Under the root, eps is compared with the *square* of the size; outside, with "
        "the size itself.",
    ),
    answer="""Checks c and e fail. A vector of size 1 does not show the fault, so a test
with `torch.randn` alone does not find it. At a size of 0.01 the results differ by a few
percent. At 0.0001 the right form shrinks the vector to about 0.03, and the wrong one
brings it to about 0.9.""",
)

EXERCISES = [SHARE, REORDER, ROOT]
