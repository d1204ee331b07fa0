"""The exercises of the chapter on pairs that are chosen."""

import torch

from bookkit.exercises import Break, Predict

# -- How many pairs? -------------------------------------------------------------------


def count_pairs(blocks=64, drawn=2):
    """Count the pairs of a global block, neighbours, and blocks drawn from the rest."""
    at = torch.arange(blocks)
    mask = ((at[:, None] - at).abs() <= 1) | (at == 0) | (at[:, None] == 0)
    rest = (~mask[1:]).sum(dim=1).clamp(max=drawn)
    return int(mask.sum() + rest.sum())


PAIRS = Predict(
    name="chosen-pairs-1",
    title="how many pairs?",
    task="""A text of 64 blocks has one global block, the first one. Every other block
reads itself, one neighbour to each side, the global block, and two blocks drawn from
the rest. Nothing is causal. How many pairs of blocks are computed?""",
    right=440,
    replies={
        440: "The global block reads 64, two blocks read five each, and 61 read six.",
        442: "Nearly. Has every block two neighbours other than the global block?",
        384: "That is six for each block. The global block reads more.",
        4096: "These are all pairs. How many does one ordinary block read?",
        378: "That is six for each ordinary block. What does the global block read?",
    },
    hints=(
        "The global block reads all 64. Most others read six. Which ones read fewer?",
    ),
    answer="""The global block reads 64. The other 63 read at most six each: 378. Two
read only five: the second block, whose left neighbour is the global one, and the last
block, which has no right neighbour. That makes $64 + 378 - 2 = 440$ of 4,096.""",
    computed=count_pairs,
)

# -- Without the gaps ------------------------------------------------------------------


def with_gaps(bucket, width=3):
    """Return which positions (rows) see which (columns)."""
    place = bucket.argsort(stable=True).argsort() + width * (bucket + 1)
    back = place[:, None] - place
    return (back >= 0) & (back < width)


def without_gaps(bucket, width=3):
    """Do the same with the rank alone."""
    place = bucket.argsort(stable=True).argsort()
    back = place[:, None] - place
    return (back >= 0) & (back < width)


TEXT = torch.tensor([2, 1, 0, 2, 0, 1, 3, 1, 3, 2, 1, 0])  # "cbacabdbdcba"


def own_bucket(sees):
    return not (sees(TEXT) & (TEXT[:, None] != TEXT)).any()


def never_later(sees):
    return not sees(TEXT).triu(1).any()


def always_itself(sees):
    return bool(sees(TEXT).diagonal().all())


def at_most_width(sees):
    return bool((sees(TEXT).sum(dim=1) <= 3).all())


def last_key_changes_nothing(sees):
    first = sees(TEXT)[:-1]
    others = [torch.cat([TEXT[:-1], torch.tensor([b])]) for b in range(4)]
    return all(sees(other)[:-1].equal(first) for other in others)


GAPS = Break(
    name="chosen-pairs-2",
    title="without the gaps",
    task="""A causal window of 3 over the sorted row, but somebody drops the gaps: the
place of a position is now its rank, `order.argsort()`, without `width * (bucket + 1)`.
The letters are those of Fig. 24.1.""",
    broken=without_gaps,
    intact=with_gaps,
    checks={
        "A": (
            "Every position sees itself.",
            always_itself,
            "A position has distance 0 from itself, with gaps or without.",
        ),
        "B": (
            "A position sees its own bucket only.",
            own_bucket,
            "The first of a bucket comes right after the last of the bucket before.",
        ),
        "C": (
            "No position sees a later one of the text.",
            never_later,
            "Within a bucket, earlier in the row is earlier in the text. b1 now sees "
            "a11.",
        ),
        "D": (
            "A position sees at most three positions.",
            at_most_width,
            "The ranks are all different, so a window of 3 contains at most three.",
        ),
        "E": (
            "If the last key of the text changes, no earlier position sees other keys.",
            last_key_changes_nothing,
            "If 11 leaves bucket a, then b1 sees a4 in its place.",
        ),
    },
    hints=(
        "Write down the sorted row. Which positions does b1 see now, the first of its "
        "bucket?",
    ),
    answer="""B, C and E. Without gaps, `b1` sees `a11` and `a4`. They are in another
bucket (B), and come later in the text (C). If the last key changes, the row before
`b1` changes too (E). The window itself still holds: a position sees itself (A), and at
most three (D).""",
)

EXERCISES = [PAIRS, GAPS]
