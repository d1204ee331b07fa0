"""The exercises of the chapter on many heads."""

import torch
from torch import nn

from bookkit.exercises import Break, Build, Idea, Predict, numbers

# -- Heads of one feature --------------------------------------------------------------

NARROW = Predict(
    name="heads-1",
    title="heads of one feature",
    task="""`MultiHeadAttention(12, 12)` reads one sentence of six words, shape
(1, 6, 12). What is the shape of its attention weights?""",
    right=(1, 12, 6, 6),
    replies={
        (1, 12, 6, 6): "Twelve heads, and in each one six words ask six words. A head "
        "compares them by a single number.",
        (1, 6, 6): "This is one table. Each head has its own.",
        (1, 12, 6, 1): "This is the shape of `q`: one feature per word and head.",
        (1, 12, 12, 12): "A table has a row and a column for each word, not for each "
        "feature.",
        (1, 1, 6, 6): "The width of a head is 12 / 12 = 1. The number of heads is 12.",
    },
    otherwise="The axes are sentences, heads, words that ask, words that are asked.",
    hints=("One table per head. Which words ask in it, and which are asked?",),
    answer="""(1, 12, 6, 6). Each head is only one feature wide, but it still has a
weight for every pair of words.""",
    computed=lambda: tuple(
        (numbers(1, 12, 6, 1) @ numbers(1, 12, 1, 6)).softmax(dim=-1).shape
    ),
)

# -- Many heads, all of it -------------------------------------------------------------


def case(t, d_k, heads, seed=0, **changes):
    """Make a small case with random matrices."""
    names, d = ["w_q", "w_k", "w_v", "w_o"], heads * d_k
    made = {"x": numbers(1, t, d, seed=seed)}
    for i, name in enumerate(names, start=1):
        made[name] = numbers(d, d, seed=seed + i) / d**0.5
    return {**made, "num_heads": heads, **changes}


def even(t, d_k, heads):
    """Make a case in which all weights are equal, and the values are the words."""
    same = torch.eye(heads * d_k, dtype=torch.float64)
    nothing = torch.zeros_like(same)
    return case(t, d_k, heads, w_q=nothing, w_k=nothing, w_v=same, w_o=same)


MANY = Build(
    name="heads-2",
    title="many heads without a loop",
    task="""Write `many_heads(x, w_q, w_k, w_v, w_o, num_heads)`: self-attention in
`num_heads` heads, without a mask. `x` has the shape (B, T, d_model), each matrix
(d_model, d_model), and the matrices stand at the right: `x @ w_q`. Head 0 owns the
first d_k columns of `w_q`, `w_k` and `w_v`.""",
    call="many_heads(x, w_q, w_k, w_v, w_o, num_heads)",
    returns={"output": "B T d_model"},
    example={
        "x": numbers(2, 5, 6),
        **{
            name: numbers(6, 6, seed=seed)
            for seed, name in enumerate(("w_q", "w_k", "w_v", "w_o"), start=1)
        },
        "num_heads": 3,
    },
    ideas=[
        Idea(
            "merge",
            "If all words get equal weights, each row is the mean of the words.",
            "Here the queries and keys are 0, and the values are the words. Which "
            "axes must change places before the heads are joined, and how often?",
            [even(2, 1, 2), even(3, 2, 2)],
            more=(
                "On the way back, words and heads change places once more before the "
                "heads are joined.",
                "`merge_heads` in “All heads at once” does both.",
            ),
        ),
        Idea(
            "alone",
            "With one head it is plain attention.",
            "With one head nothing is cut: project, attend, and multiply by `w_o`. "
            "Compare each step with chapter 3.",
            [case(2, 1, 1), case(3, 2, 1, seed=5)],
            more=(
                "Are the scores divided by the root? Over which axis does softmax run? "
                "Is `w_o` transposed?",
                "“Head by head, by hand” does this for each head.",
            ),
        ),
        Idea(
            "columns",
            "Each head reads the whole word.",
            "Cut after the projection: which features of a word may reach head 0? And"
            " how wide are the vectors that it compares?",
            [case(2, 1, 2, seed=10), case(3, 2, 2, seed=15)],
            more=(
                "Project the whole word first, then cut the result into heads.",
                "“One projection for all heads” cuts after the projection.",
            ),
        ),
        Idea(
            "scale",
            "The scores are divided by the root of the width of a head.",
            "How wide are the vectors that a head compares?",
            [case(2, 4, 2, seed=20), case(3, 3, 3, seed=25)],
            more=(
                "A head compares vectors that are narrower than a word.",
                "“Head by head, by hand” computes d_k.",
            ),
        ),
        Idea(
            "mix",
            "The output matrix mixes the heads.",
            "The weights are equal here, and the values are the words. What is "
            "multiplied by `w_o`, and from which side?",
            [{**even(2, 1, 2), "w_o": numbers(2, 2, seed=30)}],
            more=(
                "`w_o` comes last, after the heads stand side by side.",
                "“Head by head, by hand” ends with it.",
            ),
        ),
    ],
    hints=(
        "Write the loop over heads first, and compare.",
        "Project, cut the features, swap words and heads; attend; swap back and join.",
        "`unflatten(-1, (num_heads, -1))`, then `transpose(1, 2)`.",
    ),
    answer="""Project first and cut afterwards, so that each head reads the whole word.
On the way back, swap words and heads before you join the heads.""",
)


def split(y, heads):
    return y.unflatten(-1, (heads, -1)).transpose(1, 2)


def weigh(q, k):
    return (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).softmax(dim=-1)


@MANY.right
def many_heads(x, w_q, w_k, w_v, w_o, num_heads):
    matrices = (w_q, w_k, w_v)
    q, k, v = ((x @ w).unflatten(-1, (num_heads, -1)).transpose(1, 2) for w in matrices)
    weights = (q @ k.transpose(-2, -1) / q.size(-1) ** 0.5).softmax(dim=-1)
    return (weights @ v).transpose(1, 2).flatten(-2) @ w_o


@MANY.right
def by_a_loop(x, w_q, w_k, w_v, w_o, num_heads):
    made = []
    for columns in torch.arange(x.size(-1)).chunk(num_heads):
        q, k, v = (x @ w[:, columns] for w in (w_q, w_k, w_v))
        made.append(weigh(q, k) @ v)
    return torch.cat(made, dim=-1) @ w_o


@MANY.right
def as_a_sum(x, w_q, w_k, w_v, w_o, num_heads):
    total = 0
    for part in torch.arange(x.size(-1)).chunk(num_heads):
        q, k, v = (x @ w[:, part] for w in (w_q, w_k, w_v))
        total = total + weigh(q, k) @ v @ w_o[part]
    return total


@MANY.right
def by_einsum(x, w_q, w_k, w_v, w_o, num_heads):
    cut = [w.reshape(len(w), num_heads, -1) for w in (w_q, w_k, w_v)]
    q, k, v = (torch.einsum("btm,mhd->bhtd", x, w) for w in cut)
    shares = (torch.einsum("bhtd,bhsd->bhts", q, k) / q.size(-1) ** 0.5).softmax(-1)
    back = w_o.reshape(num_heads, -1, len(w_o))
    return torch.einsum("bhts,bhsd,hdm->btm", shares, v, back)


@MANY.right
class Fused(nn.Module):
    def forward(self, x, w_q, w_k, w_v, w_o, num_heads):
        b, t, d = x.shape
        q, k, v = (
            (x @ w).view(b, t, num_heads, d // num_heads).permute(0, 2, 1, 3)
            for w in (w_q, w_k, w_v)
        )
        heads = nn.functional.scaled_dot_product_attention(q, k, v)
        return heads.permute(0, 2, 1, 3).contiguous().view(b, t, d) @ w_o


# -- Remove a head ---------------------------------------------------------------------

REMOVED = Predict(
    name="heads-3",
    title="remove a head",
    task="""A layer has 12 features and three heads. You want to remove head 1 by
setting numbers of `w_o.weight` to zero, where `w_o` is an `nn.Linear`. Which ones?""",
    right="columns 4 to 7",
    replies={
        "columns 4 to 7": "An `nn.Linear` stores the transpose. The rows of head 1 in "
        "the formula's matrix are these columns.",
        "rows 4 to 7": "These rows make the output features 4 to 7, to which every "
        "head contributes. An `nn.Linear` stores the transpose.",
        "columns 3 to 5": "Each head has 12 / 3 = 4 features. Head 0 comes first.",
        "all numbers": "Then no head contributes anything.",
    },
    hints=("The output is a sum over heads. Which part of `w_o` does head 1 meet?",),
    answer="""Head 1 meets rows 4 to 7 of the formula's $W^O$. `w_o.weight` is its
transpose, so these are columns 4 to 7.""",
    computed=lambda: columns_of_head_one(),
)


def columns_of_head_one():
    w_o, heads = nn.Linear(12, 12, bias=False), torch.randn(5, 12)
    others = heads.clone()
    others[:, 4:8] = 0  # what a sum without head 1 gets
    wanted = w_o(others)
    with torch.no_grad():
        w_o.weight[:, 4:8] = 0
    return "columns 4 to 7" if torch.allclose(w_o(heads), wanted) else "others"


# -- One transpose too many ------------------------------------------------------------


def attend_in_heads(x, join, causal=False):
    q, k, v = (split(x @ numbers(6, 6, seed=seed), 3) for seed in (1, 2, 3))
    scores = q @ k.transpose(-2, -1) / 2**0.5
    if causal:
        hidden = torch.ones(scores.shape[-2:]).triu(1).bool()
        scores = scores.masked_fill(hidden, float("-inf"))
    return join(scores.softmax(dim=-1) @ v)


def intact(x, causal=False):
    return attend_in_heads(x, lambda h: h.transpose(1, 2).flatten(-2), causal)


def broken(x, causal=False):
    def join(heads):
        joined = heads.transpose(1, 2).flatten(-2)
        return joined.transpose(1, 2).contiguous().view(joined.shape)

    return attend_in_heads(x, join, causal)


WORDS, ORDER = numbers(1, 5, 6), torch.tensor([3, 0, 4, 1, 2])


def with_a_new_last_word():
    changed = WORDS.clone()
    changed[:, -1] += 1
    return changed


TOO_MANY = Break(
    name="heads-4",
    title="one transpose too many",
    task="""After the heads stand side by side, shape (B, T, d_model), someone adds
`.transpose(1, 2).contiguous().view(B, T, d_model)`. Which of these checks fail?""",
    broken=broken,
    intact=intact,
    checks={
        "a": (
            "The output has the shape of the input.",
            lambda layer: layer(WORDS).shape == WORDS.shape,
            "Check a holds: `view` forces the shape.",
        ),
        "b": (
            "The output has the same numbers as the loop over heads, in some order.",
            lambda layer: torch.allclose(
                layer(WORDS).flatten().sort().values,
                intact(WORDS).flatten().sort().values,
            ),
            "Check b holds: the numbers only move.",
        ),
        "c": (
            "Without a mask, shuffled words give shuffled outputs.",
            lambda layer: torch.allclose(
                layer(WORDS[:, ORDER]), layer(WORDS)[:, ORDER]
            ),
            "Check c fails: a row is no longer a word.",
        ),
        "d": (
            "Under a causal mask, a new last word changes the last row only.",
            lambda layer: torch.allclose(
                layer(with_a_new_last_word(), True)[:, :-1], layer(WORDS, True)[:, :-1]
            ),
            "Check d fails: some of the last word lands in the rows before it.",
        ),
        "e": (
            "In a batch, a sentence does not depend on the other one.",
            lambda layer: torch.allclose(
                layer(torch.cat([WORDS, with_a_new_last_word()]))[:1], layer(WORDS)
            ),
            "Check e holds: the batch stays in front, so only words and features mix.",
        ),
    },
    hints=("Which axes does the extra step mix, and which does it leave alone?",),
    answer="""Checks c and d fail. The numbers are right and stay within their
sentence, but each row is put together from several words.""",
)

EXERCISES = [NARROW, MANY, REMOVED, TOO_MANY]
