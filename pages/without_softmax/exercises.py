"""The exercises of the chapter on attention without the softmax."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- State or cache? -------------------------------------------------------------------


def first_larger(d=128):
    """Find the number of tokens from which the cache holds more than the state."""
    length = 1
    while 2 * length * d <= d * (d + 1):
        length += 1
    return length


LARGER = Predict(
    name="without-softmax-1",
    title="state or cache?",
    task="""A head has a width of 128. From how many tokens on does its KV cache hold
more numbers than its `state` and `total`?""",
    right=65,
    replies={
        65: "The cache holds 256 numbers per token, state and total hold 128 × 129.",
        64: "At 64 tokens, the cache holds 16,384 numbers. And state with total?",
        33: "This is the number for a width of 64.",
        129: "A token adds a key and a value to the cache.",
    },
    hints=(
        "The cache holds a key and a value for each token. The state is d times d, the "
        "total has d numbers.",
    ),
    answer="""$2 T d > d(d + 1)$ if $T > (d + 1) / 2 = 64.5$: from 65 tokens on.""",
    computed=first_larger,
)

# -- A state that fades ----------------------------------------------------------------


def case(length, features=2, width=1, seed=0):
    shape = 1, 1, length
    return {
        "q": numbers(*shape, features, seed=seed),
        "k": numbers(*shape, features, seed=seed + 1),
        "v": numbers(*shape, width, seed=seed + 2),
        "gate": numbers(*shape, seed=seed + 3).sigmoid(),
    }


def plain(values, gates):
    """Give each query and key the single feature 1, so that only the gates count."""
    ones = table([[[[1.0]] * len(values)]])
    return {
        "q": ones,
        "k": ones.clone(),
        "v": table([[[[value] for value in values]]]),
        "gate": table([[gates]]),
    }


FADE = Build(
    name="without-softmax-2",
    title="a gate on the state",
    task="""Write `fade(q, k, v, gate)`, a causal layer without a divisor. `q` and `k`
are features of shape (B, H, T, F), `v` has the shape (B, H, T, D), and `gate`, (B, H,
T), has a number from 0 to 1 for each position. At each position, multiply the state by
the position's gate, add the product of key and value, then multiply the query by the
state. Return (B, H, T, D).""",
    call="fade(q, k, v, gate)",
    returns={"read": "B H T D"},
    example={
        "q": numbers(2, 3, 4, 5),
        "k": numbers(2, 3, 4, 5, seed=1),
        "v": numbers(2, 3, 4, 7, seed=2),
        "gate": numbers(2, 3, 4, seed=3).sigmoid(),
    },
    ideas=[
        Idea(
            "sum",
            "With gates of 1, a query reads the sum of all values so far.",
            "Does the state contain the position's own key and value?",
            [plain([5.0], [1.0]), plain([1.0, 2.0, 4.0], [1.0, 1.0, 1.0])],
        ),
        Idea(
            "forget",
            "A gate of 0 removes everything before the position.",
            "Which gate acts on the old state, and on what does it not act?",
            [plain([3.0, 5.0], [1.0, 0.0]), plain([3.0, 5.0, 7.0], [1.0, 0.0, 1.0])],
        ),
        Idea(
            "product",
            "A value is multiplied by the gate of every later position.",
            "How often has the first value been multiplied when the third query reads?",
            [plain([1.0, 2.0, 4.0], [1.0, 0.5, 0.5]), plain([8.0] * 3, [1, 0.5, 0.25])],
        ),
        Idea(
            "features",
            "The features of query and key decide how much is read.",
            "The state has a row for each feature of a key.",
            [case(2), case(3, features=3, width=2, seed=5)],
        ),
    ],
    hints=(
        "Begin with the loop of this chapter and an empty state of shape (B, H, F, D).",
        "The gate acts on the old state, before the new product is added.",
        "`gate[:, :, t, None, None]` has the shape (B, H, 1, 1).",
    ),
    answer="""This is the update of gated linear attention with one gate per position.
In a layer, the gate is computed from the token. The same result by a table: the weight
of key $s$ for query $t$ is $q_t \\cdot k_s$ times the gates from $s + 1$ to $t$.""",
)


@FADE.right
def fade(q, k, v, gate):
    state = q.new_zeros(*q.shape[:2], q.size(3), v.size(3))  # (B, H, F, D)
    read = []
    for t in range(q.size(2)):
        new = k[:, :, t, :, None] * v[:, :, t, None]
        state = gate[:, :, t, None, None] * state + new
        read.append((q[:, :, t, None] @ state)[:, :, 0])
    return torch.stack(read, dim=2)


@FADE.right
def by_table(q, k, v, gate):
    length = q.shape[2]
    rows = []
    for t in range(length):
        kept = [gate[:, :, s + 1 : t + 1].prod(-1) for s in range(t + 1)]
        row = (q[:, :, t : t + 1] @ k[:, :, : t + 1].mT) * torch.stack(kept, -1)[
            :, :, None
        ]
        rows.append(row @ v[:, :, : t + 1])
    return torch.cat(rows, 2)


@FADE.right
def by_einsum(q, k, v, gate):
    state, out = 0, []
    for t in range(v.shape[2]):
        new = torch.einsum("bhf,bhd->bhfd", k[:, :, t], v[:, :, t])
        state = torch.einsum("bh,bhfd->bhfd", gate[:, :, t], state + 0 * new) + new
        out.append(torch.einsum("bhf,bhfd->bhd", q[:, :, t], state))
    return torch.stack(out, 2)


@FADE.right
class ByRecursion(nn.Module):
    def forward(self, q, k, v, gate):
        first = k[:, :, :1].mT @ v[:, :, :1]
        states = [first]
        for g, each_k, each_v in zip(
            gate.unbind(2)[1:], k.unbind(2)[1:], v.unbind(2)[1:], strict=True
        ):
            new = each_k.unsqueeze(-1) * each_v.unsqueeze(-2)
            states.append(g[..., None, None] * states[-1] + new)
        return (q.unsqueeze(-2) @ torch.stack(states, 2)).squeeze(-2)


EXERCISES = [LARGER, FADE]
