"""The exercises of the chapter on windows."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, same, table

# -- How many layers? ------------------------------------------------------------------


def layers_until(position, length=33, width=5):
    """Count the layers until a position depends on all, in a window to both sides."""
    at = torch.arange(length)
    mask = ((at[:, None] - at).abs() < width).double()
    seen, layers = mask[position], 1
    while not seen.all():
        seen, layers = seen @ mask, layers + 1
    return layers


LAYERS = Predict(
    name="fewer-pairs-1",
    title="how many layers?",
    task="""An encoder has a window of 5 to both sides, and the text has 33 positions.
How many layers does it take until the position in the middle depends on all the
others?""",
    right=4,
    replies={
        4: "There are 16 steps to either end, and each layer takes four.",
        8: "That is the number for the last position, which has 32 steps to go.",
        3: "After three layers it depends on 12 positions to each side.",
        7: "How many steps is the middle away from an end? How many does a layer take?",
    },
    hints=(
        "Each layer adds four positions to each side. How many steps is the middle "
        "away from an end?",
    ),
    answer="""From the middle there are 16 steps to either end, and each layer takes
$5 - 1 = 4$: four layers. The last position has 32 steps to the first, so it needs
eight.""",
    computed=lambda: layers_until(16),
)

# -- A cache in a ring -----------------------------------------------------------------


def case(t, width=3, size=2, seed=0):
    """Make the arguments of step t, with large numbers in the rows not yet written."""
    kept = {name: numbers(1, 1, width, size, seed=seed + i) for i, name in KEPT}
    new = {name: numbers(1, 1, 1, size, seed=seed + 2 + i) for i, name in NEW}
    if t < width:
        for x in kept.values():
            x[:, :, t:] = 9.0
    return kept | new | {"t": t}


KEPT, NEW = list(enumerate(("ring_k", "ring_v"))), list(enumerate("qkv"))


def mean_of(t, kept, newest):
    """Make keys that are all alike, so that the query takes the mean of its values."""
    zeros = table([[[[0.0]] * len(kept)]])
    one = zeros[:, :, :1]
    values = table([[[[value] for value in kept]]])
    return {
        "ring_k": zeros,
        "ring_v": values,
        "q": one + 1,
        "k": one.clone(),
        "v": table([[[[newest]]]]),
        "t": t,
    }


def attended(run, case):
    """Compare the attended values alone."""
    same(First(run), case)


def rings(run, case):
    """Compare the two buffers alone."""
    same(First(run, slice(1, None)), case)


class First:
    """Calls an answer and the solution, and keeps some of the results."""

    def __init__(self, run, part=slice(1)):
        self.run, self.part = run, part

    def __call__(self, case):
        return self.run(case)[self.part]

    def solution(self, case):
        return self.run.solution(case)[self.part]


RING = Build(
    name="fewer-pairs-2",
    title="a cache in a ring",
    task="""The rolling cache of this chapter copies everything at each step. A ring
does not move what it keeps. Its two buffers, (B, H, W, D), hold the keys and values of
the last W positions: position s is in row s modulo W. Write `step(ring_k, ring_v, q, k,
v, t)` for position t, which counts from 0: put the new key and value, (B, H, 1, D),
into their row, and let the query, (B, H, 1, D), attend to all rows written so far.
Return the attended values and both new buffers. Do not change the buffers that you
receive.""",
    call="step(ring_k, ring_v, q, k, v, t)",
    returns={"attended": "B H 1 D", "ring_k": "B H W D", "ring_v": "B H W D"},
    example={
        "ring_k": numbers(2, 3, 5, 7),
        "ring_v": numbers(2, 3, 5, 7, seed=1),
        "q": numbers(2, 3, 1, 7, seed=2),
        "k": numbers(2, 3, 1, 7, seed=3),
        "v": numbers(2, 3, 1, 7, seed=4),
        "t": 13,
    },
    ideas=[
        Idea(
            "row",
            "The new key and value replace those of row t modulo W.",
            "Which position leaves the window when position t enters?",
            [case(4), case(3), case(1)],
            rings,
        ),
        Idea(
            "itself",
            "The query reads its own position.",
            "With equal keys, the query takes the mean of the values. Is the newest "
            "one among them?",
            [mean_of(2, [1.0, 2.0, 9.0], 6.0), mean_of(1, [5.0, 9.0], 7.0)],
            attended,
        ),
        Idea(
            "unwritten",
            "Rows that are not written yet are hidden.",
            "At t = 1, how many rows hold a position of the text?",
            [mean_of(0, [9.0, 9.0, 9.0], 4.0), mean_of(1, [2.0, 9.0, 9.0, 9.0], 4.0)],
            attended,
        ),
        Idea(
            "full",
            "Once the ring is full, the query reads every row.",
            "After W steps, does any row have to be hidden?",
            [mean_of(3, [1.0, 2.0, 3.0], 7.0), mean_of(5, [1.0, 2.0], 4.0)],
            attended,
        ),
        Idea(
            "scores",
            "The scores decide the weights, divided by the root of D.",
            "Each key has its own value, in the same row.",
            [case(7), case(4, width=4, size=3)],
            attended,
        ),
    ],
    hints=(
        "Copy the buffers, write one row of each, then attend.",
        "Before the ring is full, only the rows 0 to t hold positions of the text.",
        "`clone` copies a buffer, and the row is `t % W`. The first `t + 1` rows are "
        "written; a slice beyond the end is no error.",
    ),
    answer="""The order of the rows does not matter: attention is a sum over keys, and
each key was computed with its position already in it. So nothing has to be moved, and
no mask is needed once the ring is full.""",
)


@RING.right
def step(ring_k, ring_v, q, k, v, t):
    ring_k, ring_v = ring_k.clone(), ring_v.clone()
    row = t % ring_k.size(2)
    ring_k[:, :, row], ring_v[:, :, row] = k[:, :, 0], v[:, :, 0]
    keys, values = ring_k[:, :, : t + 1], ring_v[:, :, : t + 1]
    weights = (q @ keys.mT / q.size(-1) ** 0.5).softmax(dim=-1)  # (B, H, 1, W or less)
    return weights @ values, ring_k, ring_v


@RING.right
def by_mask(ring_k, ring_v, q, k, v, t):
    rows = torch.arange(ring_k.shape[2])
    new = (rows == t % len(rows))[:, None]
    ring_k, ring_v = torch.where(new, k, ring_k), torch.where(new, v, ring_v)
    return attend(q, ring_k, ring_v, (rows <= t)[None]), ring_k, ring_v


@RING.right
def by_joining(ring_k, ring_v, q, k, v, t):
    at = t % ring_k.shape[2]
    ring_k = torch.cat([ring_k[:, :, :at], k, ring_k[:, :, at + 1 :]], dim=2)
    ring_v = torch.cat([ring_v[:, :, :at], v, ring_v[:, :, at + 1 :]], dim=2)
    filled = min(t + 1, ring_k.shape[2])
    return attend(q, ring_k[:, :, :filled], ring_v[:, :, :filled]), ring_k, ring_v


@RING.right
class ByIndexCopy(nn.Module):
    def forward(self, ring_k, ring_v, q, k, v, t):
        row = torch.tensor([t % ring_k.size(2)])
        ring_k, ring_v = ring_k.index_copy(2, row, k), ring_v.index_copy(2, row, v)
        scores = torch.einsum("bhtd,bhsd->bhts", q, ring_k) * q.size(-1) ** -0.5
        scores[..., t + 1 :] = -torch.inf
        return scores.softmax(-1) @ ring_v, ring_k, ring_v


def attend(q, k, v, mask=None, scale=None):
    return nn.functional.scaled_dot_product_attention(
        q, k, v, attn_mask=mask, scale=scale
    )


EXERCISES = [LAYERS, RING]
