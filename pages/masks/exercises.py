"""The exercises of the chapter on masks."""

import itertools

import torch
from torch import nn

from bookkit.exercises import (
    Break,
    Build,
    Fault,
    Idea,
    Predict,
    numbers,
    same,
    table,
)

# -- A mask without its axes -----------------------------------------------------------

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
        "Write the two shapes below each other, aligned on the right.",
        "Which axis of the scores does the first axis of the mask meet?",
    ),
    answer="""The shapes are aligned from the right, so (B, S) is read as (T, S). Query
2 of every sentence respects the padding of sentence 2. With `[:, None, None]` the
mask has shape (6, 1, 1, 6), and each sentence respects its own padding. The mistake
raises an error unless B = T or one of them is 1.""",
    computed=lambda: "the padding of sentence 2",
)

# -- Padding on the right --------------------------------------------------------------

PAD_AT_THE_RIGHT = Predict(
    name="masks-2",
    title="padding that the causal mask already hides",
    task="""A target of 7 positions holds 5 tokens and then 2 padding tokens. In how
many rows does `padding_mask(tgt, PAD) & causal_mask(7)` differ from `causal_mask(7)`
alone?""",
    right=2,
    replies={
        2: "Only the rows of the two padding tokens differ. Padding on the right is "
        "in the "
        "future of every real token, and no loss reads the rows of padding.",
        0: "The causal mask lets each position see itself. What does a padding token "
        "see?",
        1: "The last row differs. Does the row before it see padding?",
        5: "Look at one of these rows: is any padding to the left of its position?",
        7: "Row 0 sees only position 0 under both masks.",
        3: "Count the positions from 0. Which rows have a padding token at or before "
        "them?",
    },
    otherwise="Write down the causal mask, and mark the last two columns.",
    hints=(
        "Which rows of the causal mask have at least one of the last two columns open?",
    ),
    answer="""It differs in two rows, those of the two padding tokens. In every other
row the causal mask already hides the padding, because it comes later. No loss reads
the rows of padding, so a decoder with padding on the right learns the same without
the padding mask.""",
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

# -- A window --------------------------------------------------------------------------


def sentence(*tokens, pad_id=0, back=1):
    tokens = torch.tensor(tokens)
    tokens = tokens if tokens.dim() == 2 else tokens[None]
    return {"tokens": tokens, "pad_id": pad_id, "back": back}


WINDOW = Build(
    name="masks-3",
    title="a window",
    task="""Each word of a target may see itself and the `back` words before it, but
no later word and no padding. Write `window_mask(tokens, pad_id, back)`: from token
ids of shape (B, T), make the mask of shape (B, 1, T, T), True = may attend.""",
    call="window_mask(tokens, pad_id, back)",
    returns={"mask": "B 1 T T"},
    example=sentence([3, 4, 5, 6, 7], [3, 4, 5, 0, 0], back=2),
    ideas=[
        Idea(
            "itself",
            "Each word sees itself.",
            "Look at the diagonal. How far is a word from itself?",
            [sentence(3), sentence(3, 4)],
            compare=lambda run, case: diagonal_is_open(run, case),
            more=(
                "The distance is 0, which is inside every window.",
                "“The causal mask” opens the diagonal and says why.",
            ),
        ),
        Idea(
            "future",
            "No word sees a later one.",
            "Rows are the words that look. Which numbers are above the diagonal?",
            [sentence(3, 4, back=1), sentence(3, 4, 5, 6, back=2)],
            compare=lambda run, case: future_is_hidden(run, case),
            more=(
                "A key later than the query is at a negative distance behind it.",
                "“The causal mask” keeps the lower triangle.",
            ),
        ),
        Idea(
            "back",
            "Each word sees `back` words before it, and no more.",
            "Take the last row and count the open keys: there should be `back` + 1.",
            [sentence(3, 4, 5), sentence(3, 4, 5, 6, 7, back=3)],
            more=(
                "How far is key s behind query t? The window is open from 0 to `back`.",
                "“The causal mask” compares t and s once. A window needs two "
                "comparisons.",
            ),
        ),
        Idea(
            "ends",
            "`back` may be 0, or longer than the sentence.",
            "Try the smallest and the largest window.",
            [sentence(3, 4, back=0), sentence(3, 4, 5, back=7)],
            more=(
                "With `back` = 0, a word sees itself alone. With a large `back`, it "
                "sees all words before it.",
            ),
        ),
        Idea(
            "padding",
            "No word sees padding, wherever it is.",
            "Padding is hidden as a key. Does your mask hide a column or a row, and "
            "does it use `pad_id`?",
            [sentence(0, 3), sentence(3, 0, 4, 5), sentence(1, 4, 0, pad_id=1)],
            more=(
                "One row of the padding mask serves every query of its sentence.",
                "“The padding mask” adds two axes of size 1, and “Both at once” joins"
                " with `&`.",
            ),
        ),
        Idea(
            "sentences",
            "Each sentence hides its own padding.",
            "Which axis of the padding mask is the batch?",
            [sentence([0, 3], [3, 4]), sentence([0, 3, 4], [0, 0, 4])],
            more=(
                "The padding mask has the shape (B, 1, 1, T): the batch is in front.",
                "“Both at once” lets two masks broadcast.",
            ),
        ),
    ],
    hints=(
        "Make two masks, one for the window and one for the padding, and look at each.",
        "The window compares two positions: how far is key s behind query t? It is "
        "open from 0 to `back`.",
        "“Both at once” joins two masks with `&`.",
    ),
    answer="""The distance t - s is a table of shape (T, T). The window is open where
it is between 0 and `back`; the padding mask, with shape (B, 1, 1, T), joins with
`&`. After two layers a word has received something from 2 `back` words before it.""",
)


def diagonal_is_open(run, case):
    (mask,) = run(case)
    closed = ~mask[0, 0].diagonal().bool()
    if closed.any():
        at = int(closed.nonzero()[0])
        raise Fault("", case, mask, (0, 0, at, at))


def future_is_hidden(run, case):
    (mask,) = run(case)
    early = mask[0, 0].bool().triu(diagonal=1)
    if early.any():
        raise Fault("", case, mask, (0, 0, *early.nonzero()[0].tolist()))


@WINDOW.right
def window_mask(tokens, pad_id, back):
    positions = torch.arange(tokens.size(1), device=tokens.device)
    distance = positions[:, None] - positions  # (T, T)
    window = (distance >= 0) & (distance <= back)  # (T, T)
    return window & (tokens != pad_id)[:, None, None, :]  # (B, 1, T, T)


@WINDOW.right
def window_by_triangles(tokens, pad_id, back):
    ones = torch.ones(tokens.size(1), tokens.size(1), dtype=torch.bool)
    window = ones.tril() & ones.triu(diagonal=-back)
    return window[None, None] & tokens.ne(pad_id).unsqueeze(1).unsqueeze(1)


@WINDOW.right
def window_by_loops(tokens, pad_id, back):
    size = tokens.size(1)
    mask = torch.zeros(len(tokens), 1, size, size, dtype=torch.bool)
    for b, row in enumerate(tokens.tolist()):
        for t in range(size):
            for s in range(max(0, t - back), t + 1):
                mask[b, 0, t, s] = row[s] != pad_id
    return mask


@WINDOW.right
class WindowMask(nn.Module):
    def forward(self, tokens, pad_id, back):
        ones = torch.ones(tokens.size(1), tokens.size(1))
        window = torch.tril(ones) - torch.tril(ones, -back - 1)
        real = (tokens != pad_id).float()
        return torch.einsum("ts,bs->bts", window, real).bool()[:, None]


# -- Lengths ---------------------------------------------------------------------------

LENGTHS = Build(
    name="masks-4",
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
            "The number of open keys is the number of tokens in the sentence.",
            "Count the open keys of each sentence.",
            [
                {"lengths": torch.tensor([2, 1]), "size": 2},
                {"lengths": torch.tensor([1, 4, 2]), "size": 4},
            ],
            compare=lambda run, case: count_open(run, case),
            more=(
                "Position s is a token if s is smaller than the length.",
                "Positions count from 0. Which is the last token of a sentence of "
                "length 2?",
            ),
        ),
        Idea(
            "first",
            "The tokens come first, the padding after them.",
            "Which positions are tokens: the first ones or the last ones?",
            [
                {"lengths": torch.tensor([2, 1]), "size": 2},
                {"lengths": torch.tensor([4, 1, 3]), "size": 4},
            ],
            more=("Position s is a token if s is smaller than the length.",),
        ),
        Idea(
            "empty",
            "A sentence of length 0 opens nothing, and a full one opens everything.",
            "Try the smallest and the largest length.",
            [
                {"lengths": torch.tensor([0]), "size": 1},
                {"lengths": torch.tensor([2, 0]), "size": 2},
            ],
            more=("No position is smaller than a length of 0.",),
        ),
        Idea(
            "wider",
            "The mask may be wider than the longest sentence.",
            "Who decides how wide the mask is?",
            [{"lengths": torch.tensor([1, 2]), "size": 4}],
            more=("The positions run up to `size`, not up to the longest length.",),
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
    wrong = mask.bool().sum(dim=-1) != expected.sum(dim=-1)
    differs = wrong[..., None] & (mask.bool() != expected)
    if wrong.any():
        raise Fault("", case, mask, tuple(differs.nonzero()[0].tolist()))


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
class LengthsByPadding(nn.Module):
    def forward(self, lengths, size):
        rows = [torch.ones(length, dtype=torch.bool) for length in lengths.tolist()]
        rows.append(torch.ones(size, dtype=torch.bool))
        return nn.utils.rnn.pad_sequence(rows, batch_first=True)[:-1, None, None]


# -- A row with nothing to see ---------------------------------------------------------


def weigh(*scores, mask):
    """Make a small case from rows of scores, and a mask written as 1 and 0."""
    scores = table(scores)
    return {"scores": scores, "mask": torch.tensor(mask).bool()}


MASKED = Build(
    name="masks-5",
    title="softmax with nothing to see",
    task="""Write `masked_softmax(scores, mask)`: the weights along the last axis,
where `mask` is boolean, True = may attend, and broadcasts to the scores. A row that
may attend to nothing gets zeros.""",
    call="masked_softmax(scores, mask)",
    returns={"weights": "... T S"},
    example={
        "scores": numbers(2, 3, 4, 5),
        "mask": torch.tensor([[1, 1, 1, 1, 1], [0, 1, 1, 0, 1]]).bool()[:, None, None],
    },
    ideas=[
        Idea(
            "open",
            "If everything is open, it is a softmax.",
            "Every key is open here. Does each row sum to 1, and what do you do where "
            "the mask is True?",
            [
                weigh([0, 1], mask=[[1, 1]]),
                weigh([0, 1, 2], [2, 0, 0], mask=[[1, 1, 1]]),
            ],
            more=(
                "Where everything is open, your steps must leave the scores as they "
                "are.",
                "“Softmax, row by row” in chapter 3 runs along the last axis.",
            ),
        ),
        Idea(
            "hidden",
            "A hidden key has the weight 0.",
            "Which keys are hidden: those with True or those with False? And what "
            "does a score of 0 become in the softmax?",
            [
                weigh([0, 1], mask=[[1, 0]]),
                weigh([0, 1, 2], [5, 3, 1], mask=[[0, 1, 1]]),
            ],
            compare=lambda run, case: hidden_is_zero(run, case),
            more=(
                "`exp` is 0 for one score only.",
                "“How do you hide a key?” sets the score before the softmax.",
            ),
        ),
        Idea(
            "share",
            "The open keys of a row share 1 among them.",
            "Add up the open weights of a row. Is a hidden key still in the total?",
            [
                weigh([0, 1], mask=[[1, 0]]),
                weigh([0, 1, 2], [5, 3, 1], mask=[[0, 1, 1]]),
            ],
            more=(
                "Hide before the softmax, so that the hidden keys are not in the "
                "total.",
                "“How do you hide a key?” compares both sums.",
            ),
        ),
        Idea(
            "empty",
            "A row that may attend to nothing gets zeros.",
            "What is the total of such a row, and what is 0/0?",
            [weigh([3], mask=[[0]]), weigh([0, 1], [2, 3], mask=[[0, 0], [1, 0]])],
            compare=lambda run, case: empty_is_zero(run, case),
        ),
        Idea(
            "backward",
            "An empty row sends finite gradients back.",
            "The weights are right, but the gradient of the scores is NaN. Which "
            "steps does the NaN of the empty row pass on its way back?",
            [weigh([0, 1], [2, 3], mask=[[0, 0], [1, 1]])],
            compare=lambda run, case: finite_backward(run, case),
            more=(
                "`masked_fill` sends 0 back to the numbers that it overwrites. A sum "
                "passes the NaN on.",
                "“A row with nothing to see” has one `masked_fill` before the softmax"
                " and one after it.",
            ),
        ),
        Idea(
            "size",
            "The scores may be of any size.",
            "Compare these scores with the number that you hide with. If you use "
            "`exp`, which power overflows?",
            [
                weigh([-2e9, 3], mask=[[1, 0]]),
                weigh([1000, 999, 3e9], mask=[[1, 1, 0]]),
                weigh([0, 1], [5000, 5001], mask=[[1, 1], [1, 1]]),
            ],
            more=(
                "Only one number is smaller than every finite score.",
                "“How do you hide a key?” sets the score to it.",
            ),
        ),
        Idea(
            "rank",
            "The mask may differ by query, and the scores may have two axes.",
            "Count the axes from the end.",
            [weigh([0, 1], [1, 0], mask=[[1, 0], [1, 1]])],
            more=(
                "The mask may have a row for each query, and axes may be missing in "
                "front.",
            ),
        ),
    ],
    hints=(
        "Look at one row with nothing to see, after each step.",
        "A row that is minus infinity throughout gives 0/0. Repair the weights, not "
        "the scores.",
        "“A row with nothing to see” has a second `masked_fill`.",
    ),
    answer="""Hide the scores with minus infinity, take the softmax, and set the
hidden weights to 0 once more. In a row with an open key the last step changes
nothing. In an empty row it replaces NaN by 0. In the backward pass, the first
`masked_fill` stops the NaN that comes out of the softmax. `nan_to_num` in place of the
last step passes, too, but it would also hide a NaN that an earlier layer made.""",
)


def hidden_is_zero(run, case):
    (weights,) = run(case)
    wrong = (weights != 0) & ~case["mask"]
    if wrong.any():
        raise Fault("", case, weights, tuple(wrong.nonzero()[0].tolist()))


def empty_is_zero(run, case):
    try:
        same(run, case)
    except Fault as fault:
        if fault.at is None:
            raise
        shares = fault.result.sum(dim=-1)[~case["mask"].any(dim=-1)]
        if torch.allclose(shares, torch.ones_like(shares)):
            fault.says = (
                "This row has nothing to see, but your weights still share 1 among its "
                "hidden keys. A softmax does so with any finite scores."
            )
        raise


def finite_backward(run, case):
    if run.gradients(case)["scores"].isnan().any():
        raise Fault("", case, run(case)[0])


@MASKED.right
def masked_softmax(scores, mask):
    hidden = scores.masked_fill(~mask, float("-inf"))
    return hidden.softmax(dim=-1).masked_fill(~mask, 0.0)


@MASKED.right
def masked_by_where(scores, mask):
    weights = torch.where(mask, scores, -torch.inf).softmax(-1)
    return torch.where(mask.any(-1, keepdim=True), weights, 0.0)


@MASKED.right
def masked_by_powers(scores, mask):
    hidden = torch.where(mask, scores, -torch.inf)
    top = hidden.amax(-1, keepdim=True).clamp(min=torch.finfo(scores.dtype).min)
    powers = (hidden - top).exp()
    total = powers.sum(-1, keepdim=True)
    return powers / torch.where(total == 0, 1.0, total)


@MASKED.right
def masked_by_loops(scores, mask):
    weights = torch.zeros_like(scores)
    for index in itertools.product(*map(range, scores.shape[:-1])):
        keys = mask.expand(scores.shape)[index].nonzero()[:, 0]
        if len(keys):
            weights[(*index, keys)] = torch.softmax(scores[index][keys], dim=0)
    return weights


@MASKED.right
class MaskedSoftmax(nn.Module):
    def forward(self, scores, mask):
        return (
            scores.masked_fill(mask.logical_not(), -torch.inf).softmax(-1).nan_to_num()
        )


# -- Without the second fill -----------------------------------------------------------


def once(scores, mask):
    return scores.masked_fill(~mask, float("-inf")).softmax(dim=-1)


def example_of_an_empty_row():
    query = numbers(3, 4).requires_grad_()
    key, value = numbers(3, 4, seed=1), numbers(3, 5, seed=2)
    mask = torch.tensor([[1, 1, 0], [1, 0, 0], [0, 0, 0]]).bool()
    return query, key.requires_grad_(), value.requires_grad_(), mask


def attended(weigh):
    """Return the weights, and the gradients if the loss reads the first two rows."""
    query, key, value, mask = example_of_an_empty_row()
    weights = weigh(query @ key.T / 2, mask)
    (weights @ value)[:2].square().sum().backward()
    return weights.detach(), query.grad, key.grad, value.grad


SECOND_FILL = Break(
    name="masks-6",
    title="without the second fill",
    task="""In `scaled_dot_product_attention`, someone removes the second
`masked_fill`, the one after the softmax. Some rows are partly hidden, and the last
row may attend to nothing. The loss reads only the other rows. Which of these checks
fail?""",
    broken=once,
    intact=masked_softmax,
    checks={
        "a": (
            "In a row with an open key, the weights sum to 1.",
            lambda weigh: bool(
                ((attended(weigh)[0][:2].sum(dim=-1) - 1).abs() < 1e-6).all()
            ),
            "Check a holds: the first fill does this alone.",
        ),
        "b": (
            "In a row with an open key, hidden keys have the weight 0.",
            lambda weigh: attended(weigh)[0][0, 2].item() == 0,
            "Check b holds: `exp(-inf)` is 0, and the total is not.",
        ),
        "c": (
            "The row that may attend to nothing gets zeros.",
            lambda weigh: bool((attended(weigh)[0][2] == 0).all()),
            "Check c fails: every power of this row is 0, and 0/0 is NaN.",
        ),
        "d": (
            "The gradient of the keys is finite.",
            lambda weigh: bool(attended(weigh)[2].isfinite().all()),
            "Check d holds: NaN arrives at the hidden scores of the empty row, and the "
            "first fill had overwritten them, so it sends 0 further back.",
        ),
        "e": (
            "The gradient of the values is finite.",
            lambda weigh: bool(attended(weigh)[3].isfinite().all()),
            "Check e fails: a value receives weight times gradient from every row. The "
            "loss does not read the empty row, but NaN times 0 is NaN.",
        ),
    },
    hints=("Follow the NaN of the empty row: forward into the blend, then backward.",),
    answer="""Checks c and e fail. The weights of the empty row are NaN. No loss
reads this row, yet the gradient of a value is the sum of weight times gradient over
all rows, and NaN times 0 is NaN. The scores of the empty row were overwritten by the
first fill, which passes zeros back to queries and keys.""",
)

EXERCISES = [WRONG_AXES, PAD_AT_THE_RIGHT, WINDOW, LENGTHS, MASKED, SECOND_FILL]
