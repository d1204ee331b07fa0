"""The exercises of the chapter on the KV cache."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- A cache for the encoder? ----------------------------------------------------------


def layers_that_change():
    """Compare the keys of two small encoder layers before and after a word comes."""
    x, w = numbers(4, 3), numbers(3, 3, seed=1)

    def layer(x):
        return (x @ x.T).softmax(dim=-1) @ x + x

    short, long = x[:3], x
    first = torch.allclose((long @ w)[:3], short @ w)
    second = torch.allclose((layer(long) @ w)[:3], layer(short) @ w)
    return {
        (True, True): "in neither layer",
        (True, False): "in the second layer only",
        (False, True): "in the first layer only",
        (False, False): "in both layers",
    }[first, second]


ENCODER = Predict(
    name="cache-1",
    title="a cache for the encoder?",
    task="""An encoder with two layers reads "the cat reads", and then "the cat reads
a", both without EOS. In which layers do the self-attention's keys of the first three
words change?""",
    right="in the second layer only",
    replies={
        "in neither layer": "This holds for a decoder. Which mask does the encoder "
        "have?",
        "in the first layer only": "What has a word seen when it enters the first "
        "layer?",
        "in the second layer only": "In the first layer a key is made of one word and "
        "its position. Before the second, each word has attended to all others, and "
        "the new word is one of them.",
        "in both layers": "In the first layer, a key is made of one word and its "
        "position. Do they change?",
    },
    hints=(
        "What has a word seen when it enters the first layer, and what when it "
        "enters the second?",
    ),
    answer="""In the second layer only; with more layers, in all but the first. So an
encoder cannot keep its keys while its text grows. It does not have to: the source is
complete before it is read.""",
    computed=layers_that_change,
)

# -- Several positions at once ---------------------------------------------------------


def case(old, new, size=2, seed=0):
    shapes = {"old_k": old, "old_v": old, "q": new, "k": new, "v": new}
    return {
        name: numbers(1, 1, length, size, seed=seed + i)
        for i, (name, length) in enumerate(shapes.items())
    }


def flat(old, values):
    """Make keys that are all alike, so that each query takes a mean."""
    new = len(values) - old
    zeros = table([[[[0.0]] * len(values)]])
    values = table([[[[value] for value in values]]])
    return {
        "old_k": zeros[:, :, :old],
        "old_v": values[:, :, :old],
        "q": zeros[:, :, :new] + 1,
        "k": zeros[:, :, :new],
        "v": values[:, :, old:],
    }


PREFILL = Build(
    name="cache-2",
    title="several positions at once",
    task="""A prompt is long, so it is read in chunks. Write `chunk(old_k, old_v, q, k,
v)`. The cache holds the keys and values of the P old positions, (B, H, P, D), where P
may be 0. N new positions bring their queries, keys and values, (B, H, N, D).
Return what the new positions attend to, (B, H, N, D). It must equal one masked pass
over all P + N positions.""",
    call="chunk(old_k, old_v, q, k, v)",
    returns={"attended": "B H N D"},
    example={
        "old_k": numbers(2, 3, 5, 7),
        "old_v": numbers(2, 3, 5, 7, seed=1),
        "q": numbers(2, 3, 4, 7, seed=2),
        "k": numbers(2, 3, 4, 7, seed=3),
        "v": numbers(2, 3, 4, 7, seed=4),
    },
    ideas=[
        Idea(
            "past",
            "A new position reads all old positions and itself.",
            "With equal keys, a query takes the mean of the values that it reads.",
            [flat(1, [2.0, 4.0]), flat(2, [1.0, 2.0, 6.0])],
        ),
        Idea(
            "future",
            "A new position does not read a later new one.",
            "Is a mask needed when several positions come at once?",
            [flat(1, [2.0, 4.0, 9.0]), flat(2, [0.0, 0.0, 3.0, 8.0])],
        ),
        Idea(
            "empty",
            "The cache may be empty.",
            "What does the first position of a prompt read?",
            [flat(0, [5.0]), flat(0, [5.0, 7.0, 9.0])],
        ),
        Idea(
            "scores",
            "The scores decide the weights, divided by the root of D.",
            "Each key has its own value, at the same position.",
            [case(2, 1), case(3, 2, size=4)],
        ),
    ],
    hints=(
        "Join the old and the new keys, and the old and the new values.",
        "Query n of the chunk is at position P + n. Which keys may it read?",
        "`tril(diagonal=P)` of ones of shape (N, P + N) is the mask.",
    ),
    answer="""A causal mask of N rows and P + N columns: its last N rows are those of
the full mask. With N = 1 the mask is all true, which is why the loop of this chapter
needs none. With P = 0 it is the mask of a prefill in one pass.""",
)


@PREFILL.right
def chunk(old_k, old_v, q, k, v):
    past, new = old_k.size(2), k.size(2)
    k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
    mask = torch.ones(new, past + new, dtype=torch.bool).tril(diagonal=past)
    scores = q @ k.transpose(-2, -1) / q.size(-1) ** 0.5  # (B, H, N, P + N)
    return scores.masked_fill(~mask, -torch.inf).softmax(dim=-1) @ v


@PREFILL.right
def fused(old_k, old_v, q, k, v):
    keys, values = torch.cat([old_k, k], 2), torch.cat([old_v, v], 2)
    total = keys.shape[2]
    mask = torch.ones(total, total).tril().bool()[-q.shape[2] :]
    return nn.functional.scaled_dot_product_attention(q, keys, values, attn_mask=mask)


@PREFILL.right
def one_by_one(old_k, old_v, q, k, v):
    outputs = []
    for n in range(q.shape[2]):
        old_k = torch.cat([old_k, k[:, :, n : n + 1]], 2)
        old_v = torch.cat([old_v, v[:, :, n : n + 1]], 2)
        scores = q[:, :, n : n + 1] @ old_k.mT / q.shape[-1] ** 0.5
        outputs.append(scores.softmax(-1) @ old_v)
    return torch.cat(outputs, 2)


@PREFILL.right
class ByPositions(nn.Module):
    def forward(self, old_k, old_v, q, k, v):
        keys, values = torch.cat((old_k, k), -2), torch.cat((old_v, v), -2)
        at = torch.arange(keys.shape[-2])
        later = at > at[old_k.shape[-2] :, None]
        scores = torch.einsum("bhnd,bhsd->bhns", q, keys) * q.shape[-1] ** -0.5
        return scores.masked_fill(later, float("-inf")).softmax(-1) @ values


EXERCISES = [ENCODER, PREFILL]
