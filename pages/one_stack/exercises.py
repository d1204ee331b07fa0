"""The exercises of the chapter on one stack."""

import torch

from bookkit.exercises import Build, Idea, Predict

# -- Pairs under a prefix mask ---------------------------------------------------------


def visible(length, size):
    return sum(max(length, position + 1) for position in range(size))


PAIRS = Predict(
    name="one-stack-1",
    title="pairs under a prefix mask",
    task="""A stack reads 8 tokens with a prefix mask. The prefix is 5 tokens long. How
many of the 64 (query, key) pairs are visible?""",
    right=46,
    replies={
        46: "25 pairs within the prefix, and 6 + 7 + 8 for the last three queries.",
        36: "This is a causal mask. What else does the prefix see?",
        40: "Each query sees the prefix. Which others do the last three queries see?",
        25: "These are the pairs within the prefix. And the last three queries?",
        49: "The last three queries see each other only backwards.",
        64: "The prefix does not see the three tokens after it.",
    },
    otherwise="Count the visible keys of each query, row by row.",
    hints=("Draw the 8 rows. How many keys does each query of the prefix see?",),
    answer="""Each of the five queries of the prefix sees the 5 tokens of the prefix.
The other three see everything up to themselves: 6, 7 and 8 keys. That is 25 + 21 = 46.
A causal mask shows 36.""",
    computed=lambda: visible(5, 8),
)

# -- A prefix mask for a batch ---------------------------------------------------------


def case(*lengths, size=4):
    return {"lengths": torch.tensor(lengths), "size": size}


PREFIX = Build(
    name="one-stack-2",
    title="a prefix mask for a batch",
    task="""The prefixes of a batch differ in length. Write `prefix_mask(lengths, size)`
for `lengths`, (B), integers from 0 to `size`. Return a boolean mask,
(B, 1, T, T), for `size` = T tokens, in which True means visible: each token sees itself
and all tokens before it, and the tokens of a prefix also see its other tokens.""",
    call="prefix_mask(lengths, size)",
    returns={"mask": "B 1 T T"},
    example=case(2, 0, 5, size=5),
    ideas=[
        Idea(
            "past",
            "With a prefix of at most one token, the mask is causal.",
            "Which keys does the first query see?",
            [case(0), case(1)],
        ),
        Idea(
            "prefix",
            "If the prefix is the whole text, every token sees every token.",
            "What may the first token of a prefix see?",
            [case(4), case(2, size=2)],
        ),
        Idea(
            "after",
            "The prefix does not see what comes after it.",
            "Which keys does the first query see if the prefix has two tokens?",
            [case(2, size=3), case(2), case(3, size=6)],
        ),
        Idea(
            "each",
            "Each text of the batch has its own prefix.",
            "Compare the lengths with positions so that the result has an axis for the "
            "batch.",
            [case(1, 3), case(3, 1, 2)],
        ),
    ],
    hints=(
        "Which keys are visible to all queries of a text?",
        "A key is visible if it is in the prefix, or not after the query.",
        "Give `lengths` the axes (B, 1, 1, 1), compare `torch.arange(size)` with it, "
        "and combine it with a causal mask by `|`.",
    ),
    answer="""The keys of the prefix are visible to all queries, and the queries of the
prefix see no further, since their causal part ends before. A real batch also needs
`& padding_mask`.""",
)


@PREFIX.right
def prefix_mask(lengths, size):
    place = torch.arange(size)
    past = place[:, None] >= place  # (T, T)
    return past | (place < lengths[:, None, None, None])  # (B, 1, T, T)


@PREFIX.right
def by_loops(lengths, size):
    mask = torch.zeros(len(lengths), 1, size, size, dtype=torch.bool)
    for text, length in enumerate(lengths.tolist()):
        for query in range(size):
            mask[text, 0, query, : max(length, query + 1)] = True
    return mask


@PREFIX.right
def by_slices(lengths, size):
    causal = torch.ones(size, size).tril().bool()
    masks = causal.repeat(len(lengths), 1, 1, 1)
    for mask, length in zip(masks, lengths.tolist(), strict=True):
        mask[0, :length, :length] = True
    return masks


@PREFIX.right
def by_last_key(lengths, size):
    place = torch.arange(size)
    last = torch.maximum(place + 1, lengths[:, None])  # (B, T)
    return (place < last[..., None])[:, None]


EXERCISES = [PAIRS, PREFIX]
