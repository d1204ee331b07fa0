"""The exercises of the chapter on the fast decoder."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers

# -- Which changes are for beams? ------------------------------------------------------


def idle_with_one_row():
    """Which changes find nothing to do with one row for each sentence?"""
    shares = {  # what a change joins or spares, by the rows of a sentence
        3: lambda rows: rows - 1,  # copies of the source
        4: lambda rows: rows - 1,  # rows that could be reordered
        1: lambda rows: 2,  # products
        2: lambda rows: rows,  # copies of old keys
        5: lambda rows: rows,  # calls
    }
    return " and ".join(str(n) for n, spares in shares.items() if spares(1) == 0)


GREEDY = Predict(
    name="fast-decoder-1",
    title="greedy, or a beam?",
    task="""In greedy decoding every sentence has one row. Which of the first five
changes do nothing for it?""",
    right="3 and 4",
    replies={
        "1 and 2": "Greedy decoding also projects queries, keys and values, and its "
        "cache also grows.",
        "3 and 4": "Both are about hypotheses of one sentence: they share the source, "
        "and they are reordered. One row does neither.",
        "4": "A row that is alone has nothing to reorder. With whom does it share the "
        "source?",
        "2 and 4": "Change 2 is about the cache that grows by a position. Does it not "
        "grow in greedy decoding?",
        "none": "Which changes are about several hypotheses of one sentence?",
    },
    hints=("Which changes are about hypotheses that share something?",),
    answer="""Changes 3 and 4. One row has nothing to share its source with, and
nothing is reordered. The other three remain, and the copies of `cat` were the largest.
If you count the bytes of a greedy step as the chapter does, `cat` is gone there as
well.""",
    computed=idle_with_one_row,
)

# -- The mask of the next step ---------------------------------------------------------


def mask_of(slots, width):
    """Return the mask of a table of slots, (B, W, n) to (B, W, n, W)."""
    return nn.functional.one_hot(torch.tensor(slots), width).bool()


def case(slots, parents, width):
    return {"past": mask_of(slots, width), "parents": torch.tensor(parents)}


def drawn(sentences, width, length):
    slots = (1000 * numbers(sentences, width, length)).long() % width
    parents = (1000 * numbers(sentences, width, seed=1)).long() % width
    return {
        "past": nn.functional.one_hot(slots, width).bool(),
        "parents": parents,
    }


FOLLOW = Build(
    name="fast-decoder-2",
    title="the mask of the next step",
    task="""A beam has W hypotheses for each of B sentences. `past`, (B, W, n, W), is
boolean: True in row w, position p, slot s means that slot s of position p belongs to
the past of hypothesis w. In the next step hypothesis w continues the hypothesis
`parents[b, w]`; `parents` is (B, W). Its new key is written into slot w of position n.
Write `follow(past, parents)`, which returns the mask of the next step, (B, W, n + 1,
W). No key moves.""",
    call="follow(past, parents)",
    returns={"mask": "B W n+1 W"},
    example=drawn(2, 3, 5),
    ideas=[
        Idea(
            "own",
            "Each hypothesis sees its own slot of the new position, and no other.",
            "Into which slot does hypothesis w write?",
            [
                case([[[0], [1]]], [[0, 1]], 2),
                case([[[0, 0], [1, 1], [2, 2]]], [[0, 1, 2]], 3),
            ],
        ),
        Idea(
            "past",
            "A hypothesis takes over the past of the one that it continues.",
            "Whose row of the mask does hypothesis w need now?",
            [
                case([[[0], [1]]], [[1, 1]], 2),
                case([[[0, 0], [1, 0], [2, 1]]], [[1, 2, 0]], 3),
            ],
        ),
        Idea(
            "sentence",
            "Each sentence has its own parents.",
            "Parents are numbered within a sentence, from 0.",
            [case([[[0], [1]], [[1], [0]]], [[0, 1], [1, 0]], 2), drawn(3, 4, 2)],
        ),
        Idea(
            "empty",
            "Before the first step, nothing is past.",
            "With n = 0, only the new position is left.",
            [
                {
                    "past": torch.zeros(1, 2, 0, 2, dtype=torch.bool),
                    "parents": torch.tensor([[0, 0]]),
                }
            ],
        ),
    ],
    hints=(
        "Two parts: rows of the old mask in a new order, and one new position.",
        "The new part is the same for every sentence: hypothesis w sees slot w.",
        "`past[torch.arange(B)[:, None], parents]` picks rows in each sentence; `eye` "
        "is the new part.",
    ),
    answer="""The rows are picked first and the new position is added afterwards, with
the hypothesis's own slot: the key of the new token depends on the hypothesis, not on
its parent. A step of the search copies n x W booleans for each hypothesis instead of
its keys and values in every layer.""",
)


@FOLLOW.right
def follow(past, parents):
    sentences, width = parents.shape
    rows = torch.arange(sentences, device=past.device)[:, None]  # (B, 1)
    own = torch.eye(width, dtype=torch.bool, device=past.device)
    own = own[None, :, None].expand(sentences, -1, -1, -1)  # (B, W, 1, W)
    return torch.cat([past[rows, parents], own], dim=2)  # (B, W, n + 1, W)


@FOLLOW.right
def by_gather(past, parents):
    index = parents[:, :, None, None].expand_as(past)
    new = nn.functional.pad(past.gather(1, index), (0, 0, 0, 1))
    slot = torch.arange(parents.shape[1])
    new[:, slot, -1, slot] = True
    return new


@FOLLOW.right
def by_loops(past, parents):
    masks = []
    for old, chosen in zip(past, parents.tolist(), strict=True):
        rows = []
        for w, parent in enumerate(chosen):
            own = torch.zeros(1, old.size(-1), dtype=torch.bool)
            own[0, w] = True
            rows.append(torch.cat([old[parent], own]))
        masks.append(torch.stack(rows))
    return torch.stack(masks)


@FOLLOW.right
class ByProduct(nn.Module):
    def forward(self, past, parents):
        width = parents.size(1)
        chosen = nn.functional.one_hot(parents, width).float()  # (B, W, W)
        kept = torch.einsum("bwv,bvns->bwns", chosen, past.float()) > 0.5
        own = torch.eye(width) > 0.5
        return torch.cat((kept, own[:, None].repeat(len(past), 1, 1, 1)), 2)


EXERCISES = [GREEDY, FOLLOW]
