"""The exercises of the chapter on masks."""

from __future__ import annotations

import torch

from transformer_lib.exercises import Build, Fault, Idea, Predict

# -- 1 ---------------------------------------------------------------------------------

WRONG_AXES = Predict(
    name="masks-1",
    title="a mask without its axes",
    task="""A batch has 6 sentences of 6 tokens, and one head. Someone passes `src !=
PAD`, of shape (6, 6), as the mask of the scores, of shape (6, 1, 6, 6). No error is
raised. Counting from 0: whose padding does query 2 of sentence 4 respect?""",
    right="the padding of sentence 2",
    replies={
        "the padding of sentence 4": "It should, but broadcasting aligns axes at the "
        "right. Which axis of the scores meets the first axis of the mask?",
        "the padding of sentence 2": "The two axes of the mask meet the axes T and S "
        "of the scores. Row 2 of the mask is sentence 2, and it serves query 2 of "
        "every sentence.",
        "the padding of every sentence": "One query reads one row of the mask, and one "
        "row is one sentence.",
        "no padding at all": "The mask does hide keys. Which row of it does query 2 "
        "read?",
    },
    hints=(
        "Write the two shapes below each other, aligned at the right.",
        "Which axis of the scores does the first axis of the mask meet?",
    ),
    answer="""The shapes are aligned at the right, so (B, S) is read as (T, S). Query
2 of every sentence respects the padding of sentence 2. With `[:, None, None]` the
mask has shape (6, 1, 1, 6), and each sentence respects its own padding. The mistake
raises an error unless B = T or one of them is 1.""",
    computed=lambda: "the padding of sentence 2",
)

# -- 2 ---------------------------------------------------------------------------------

PAD_AT_THE_RIGHT = Predict(
    name="masks-2",
    title="padding that the causal mask already hides",
    task="""A target of 7 positions holds 5 tokens and then 2 paddings. In how many
rows does `padding_mask(tgt, PAD) & causal_mask(7)` differ from `causal_mask(7)`
alone?""",
    right=2,
    replies={
        2: "Only the rows of the two paddings differ. Padding at the right is in the "
        "future of every real token, and no loss reads the rows of padding.",
        0: "The causal mask lets each position see itself. What does a padding see?",
        1: "The last row differs. Does the row before it see a padding?",
        5: "Look at one of these rows: is any padding to the left of its position?",
        7: "Row 0 sees only position 0 under both masks.",
        3: "Count the positions from 0. Which rows have a padding at or before them?",
    },
    otherwise="Write down the causal mask, and mark the last two columns.",
    hints=("In which rows of the causal mask are the last two columns open?",),
    answer="""Two: the rows of the two paddings. In every other row the causal mask
already hides the paddings, because they come later. No loss reads the rows of
padding, so a decoder with padding at the right learns the same without the padding
mask.""",
    computed=lambda: (
        (
            (torch.arange(7) < 5) & torch.ones(7, 7).tril().bool()
            != torch.ones(7, 7).tril().bool()
        )
        .any(dim=1)
        .sum()
        .item()
    ),
)

# -- 3 ---------------------------------------------------------------------------------

LENGTHS = Build(
    name="masks-3",
    title="a mask from lengths",
    task="""A tokenizer hands you the lengths of the sentences instead of their
padding. Write `from_lengths(lengths, size)`: from `lengths`, of shape (B,), make the
padding mask of shape (B, 1, 1, `size`), True = may attend.""",
    call="from_lengths(lengths, size)",
    returns={"mask": "B 1 1 S"},
    example={"lengths": torch.tensor([2, 5, 3]), "size": 5},
    ideas=[
        Idea(
            "tokens",
            "As many keys are open as the sentence has tokens.",
            "Count the open keys of each sentence.",
            [
                {"lengths": torch.tensor([2, 1]), "size": 2},
                {"lengths": torch.tensor([1, 4, 2]), "size": 4},
            ],
            compare=lambda run, case: count_open(run, case),
        ),
        Idea(
            "first",
            "The tokens come first, the padding after them.",
            "Which positions are tokens: the first ones or the last ones?",
            [
                {"lengths": torch.tensor([2, 1]), "size": 2},
                {"lengths": torch.tensor([4, 1, 3]), "size": 4},
            ],
        ),
        Idea(
            "empty",
            "A sentence of length 0 opens nothing, and a full one opens everything.",
            "Try the smallest and the largest length.",
            [
                {"lengths": torch.tensor([0]), "size": 1},
                {"lengths": torch.tensor([2, 0]), "size": 2},
            ],
        ),
        Idea(
            "wider",
            "The mask may be wider than the longest sentence.",
            "Who decides how wide the mask is?",
            [{"lengths": torch.tensor([1, 2]), "size": 4}],
        ),
    ],
    hints=(
        "The mask compares two things: a position and a length. What are their shapes?",
        "Position s is a token if s is smaller than the length. Broadcasting can make "
        "all the comparisons at once.",
        "The section on the padding mask adds two axes of size 1. The lengths need one "
        "more for the comparison.",
    ),
    answer="""The positions have shape (S,) and the lengths, with one more axis, (B,
1). The comparison broadcasts to (B, S). Two more axes of size 1 serve every head and
every query.""",
)


def count_open(run, case):
    (mask,), (expected,) = run(case), run.solution(case)
    if not torch.equal(mask.bool().sum(), expected.sum()):
        raise Fault("", case, mask)


@LENGTHS.right
def from_lengths(lengths, size):
    positions = torch.arange(size, device=lengths.device)  # (S,)
    return (positions < lengths[:, None])[:, None, None, :]  # (B, 1, 1, S)


@LENGTHS.right
def lengths_by_loops(lengths, size):
    mask = torch.zeros(len(lengths), 1, 1, size, dtype=torch.bool)
    for sentence, length in enumerate(lengths):
        mask[sentence, ..., : int(length)] = True
    return mask


@LENGTHS.right
def lengths_by_a_running_count(lengths, size):
    ones = torch.ones(len(lengths), 1, 1, size, dtype=torch.long)
    return ones.cumsum(dim=-1) <= lengths.view(-1, 1, 1, 1)


@LENGTHS.right
class LengthsByPadding(torch.nn.Module):
    def forward(self, lengths, size):
        rows = [torch.ones(length, dtype=torch.bool) for length in lengths.tolist()]
        rows.append(torch.ones(size, dtype=torch.bool))
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)[:-1, None, None]


LENGTHS.rights[-1] = LengthsByPadding()


@LENGTHS.wrong("tokens", "first", "empty", "wider")
def one_too_many(lengths, size):
    return (torch.arange(size) <= lengths[:, None])[:, None, None]


@LENGTHS.wrong("tokens", "first", "empty", "wider")
def one_too_few(lengths, size):
    return (torch.arange(size) < lengths[:, None] - 1)[:, None, None]


@LENGTHS.wrong("tokens", "first", "empty", "wider")
def true_means_hidden(lengths, size):
    return (torch.arange(size) >= lengths[:, None])[:, None, None]


@LENGTHS.wrong("first", "wider")
def padding_first(lengths, size):
    return (torch.arange(size) >= size - lengths[:, None])[:, None, None]


@LENGTHS.wrong("shape")
def on_the_rows(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None, :, None]


@LENGTHS.wrong("shape")
def without_axes(lengths, size):
    return torch.arange(size) < lengths[:, None]


@LENGTHS.wrong("dtype")
def ones_and_zeros(lengths, size):
    return (torch.arange(size) < lengths[:, None])[:, None, None].long()


@LENGTHS.wrong("wider")
def as_wide_as_the_longest(lengths, size):
    return (torch.arange(max(int(lengths.max()), 1)) < lengths[:, None])[:, None, None]


@LENGTHS.wrong("empty")
def at_least_one(lengths, size):
    return (torch.arange(size) < lengths.clamp(min=1)[:, None])[:, None, None]


@LENGTHS.wrong("runs")
def without_the_axis(lengths, size):
    return (torch.arange(size) < lengths)[:, None, None]


@LENGTHS.wrong("runs")
def never_ends(lengths, size):
    while True:
        size += 1


EXERCISES = [WRONG_AXES, PAD_AT_THE_RIGHT, LENGTHS]
