"""The exercises of the chapter on what changed since 2017."""

import torch

from bookkit.exercises import Build, Idea, Predict, numbers

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


EXERCISES = [SHARE, REORDER]
