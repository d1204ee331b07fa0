"""The exercises of the chapter on text."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import Break, Build, Fault, Idea, Predict, numbers, table

# -- How many positions count? ---------------------------------------------------------


def counted():
    rows = [torch.tensor([1, *range(3, 3 + size), 2]) for size in (6, 4)]
    targets = nn.utils.rnn.pad_sequence(rows, batch_first=True)[:, 1:]
    return int((targets[1] != 0).sum())


COUNTED = Predict(
    name="text-1",
    title="positions that count",
    task="""A target sentence of 4 words is in a batch with one of 6 words. At how many
positions of the shorter sentence does the loss count what the decoder predicts?""",
    right=5,
    replies={
        5: "Four words, and EOS after them. At the other two positions the target is "
        "PAD.",
        4: "The decoder must also learn where the sentence ends.",
        6: "BOS is read but never predicted. Count the targets that are not PAD.",
        7: "This is the number of positions in the batch. At some of them the target "
        "is PAD.",
        8: "This is the length of the padded rows before they are cut.",
    },
    otherwise="Write down the row of targets: the words, EOS, and then PAD.",
    hints=("Write down what the decoder must predict, position by position.",),
    answer="""Five: the four words and EOS. The batch has 7 positions, for six words
and EOS, so the shorter sentence has two more positions, where the target is PAD.""",
    computed=counted,
)

# -- The embedding ---------------------------------------------------------------------


def look_up(*tokens, pad_id=0, width=4, seed=0):
    """Make a small case with a table of 9 rows."""
    tokens = torch.tensor(tokens)
    tokens = tokens if tokens.dim() == 2 else tokens[None]
    return {"tokens": tokens, "weight": numbers(9, width, seed=seed), "pad_id": pad_id}


EMBED = Build(
    name="text-2",
    title="the embedding",
    task="""Write `embed(tokens, weight, pad_id)`: the lookup, the factor and the zero.
`tokens` are ids of shape (B, S), `weight` is the table, shape (vocab_size, d_model),
and the result has the shape (B, S, d_model). It is zero at padding, whatever the
table holds, and no gradient reaches PAD's row.""",
    call="embed(tokens, weight, pad_id)",
    returns={"vectors": "B S d_model"},
    example={
        "tokens": torch.tensor([[3, 5, 1], [2, 0, 0]]),
        "weight": numbers(7, 5),
        "pad_id": 0,
    },
    ideas=[
        Idea(
            "one",
            "With width 1, the factor is 1: each id picks its row.",
            "Here each result is a number of the table. Which row belongs to id 3, "
            "and what is the factor?",
            [look_up(3, width=1), look_up(3, 5, 3, width=1)],
            more=(
                "A tensor of ids can index the table: one row for each id.",
                "“How does an id become a vector?” looks the rows up without a loop.",
            ),
        ),
        Idea(
            "root",
            "Each row is multiplied by the square root of d_model.",
            "By what are your rows multiplied? And is d_model an axis of the ids, or "
            "of the table?",
            [look_up(3, width=4), look_up(3, 5, 8, width=9)],
            more=(
                "It is the root of the length of a row.",
                "“The finished layer” looks up and multiplies in one line.",
            ),
        ),
        Idea(
            "padding",
            "Padding is zero, wherever it is.",
            "Compare the ids with `pad_id`; do not compare the vectors.",
            [look_up(3, 0), look_up(0, 3, 0), look_up([3, 0], [0, 4])],
            more=(
                "Padding is a comparison of ids. With one more axis, it covers all "
                "the features of a position.",
                "“The finished layer” ends with `masked_fill`.",
            ),
        ),
        Idea(
            "pad_id",
            "PAD may have any id.",
            "Does your answer use the argument `pad_id`?",
            [look_up(3, 1, pad_id=1), look_up(0, 4, 8, pad_id=8)],
            more=("Padding is where the id equals `pad_id`, which need not be 0.",),
        ),
        Idea(
            "nothing",
            "A batch of padding alone is all zeros, even if PAD's row is not finite.",
            "NaN times 0 is NaN. What replaces a number without multiplying it?",
            [
                {
                    "tokens": torch.tensor([[0, 1]]),
                    "weight": table([[math.nan, math.inf], [1, 2]]),
                    "pad_id": 0,
                }
            ],
            more=(
                "Multiplying by 0 keeps a NaN. Replace the numbers.",
                "“The finished layer” ends with `masked_fill`.",
            ),
        ),
    ],
    hints=(
        "Look at one token first: its row, then its row times the factor.",
        "A tensor of ids can index the table. Padding is a comparison of ids, and "
        "needs one more axis.",
        "“The finished layer” ends with `masked_fill`.",
    ),
    answer="""`weight[tokens]` picks the rows, and the factor is the square root of
the table's width. `tokens == pad_id` has the shape (B, S); with a last axis of size 1
it covers all features of a position.""",
)


@EMBED.right
def embed(tokens, weight, pad_id):
    vectors = weight[tokens] * weight.size(1) ** 0.5  # (B, S, d_model)
    padding = (tokens == pad_id).unsqueeze(-1)  # (B, S, 1)
    return vectors.masked_fill(padding, 0.0)


@EMBED.right
def embed_by_where(tokens, weight, pad_id):
    vectors = F.embedding(tokens, weight) * weight.shape[-1] ** 0.5
    return torch.where((tokens != pad_id)[..., None], vectors, 0.0)


@EMBED.right
def embed_by_a_changed_table(tokens, weight, pad_id):
    rows = torch.arange(len(weight))[:, None] == pad_id
    return (weight.masked_fill(rows, 0.0) * weight.size(1) ** 0.5)[tokens]


@EMBED.right
def embed_by_loops(tokens, weight, pad_id):
    root, zero = math.sqrt(weight.size(1)), torch.zeros_like(weight[0])
    return torch.stack(
        [
            torch.stack([zero if i == pad_id else weight[i] * root for i in row])
            for row in tokens.tolist()
        ]
    )


@EMBED.right
class Embed(nn.Module):
    def forward(self, tokens, weight, pad_id):
        vectors = F.embedding(tokens, weight) * math.sqrt(weight.size(-1))
        keep = tokens.ne(pad_id).unsqueeze(-1).expand_as(vectors)
        return torch.zeros_like(vectors).masked_scatter(keep, vectors[keep])


# -- What the decoder reads and predicts -----------------------------------------------


def german(*rows, pad=0, bos=1, eos=2):
    return {"rows": [list(row) for row in rows], "pad": pad, "bos": bos, "eos": eos}


FORCE = Build(
    name="text-3",
    title="what the decoder reads and predicts",
    task="""Write `cut(rows, pad, bos, eos)`. `rows` is a list of sentences, each a list
of ids without special tokens. Return two tensors of shape (B, T): what the decoder
reads, and what it must predict. As in the chapter, pad first, then cut.""",
    call="cut(rows, pad, bos, eos)",
    returns={"reads": "B T", "predicts": "B T"},
    example=german([5, 6, 7], [8, 9]),
    ideas=[
        Idea(
            "begin",
            "The decoder reads BOS first, and predicts the first word there.",
            "What does the decoder read before there is a word?",
            [german([5]), german([5, 6])],
            compare=lambda run, case: begins(run, case),
        ),
        Idea(
            "shift",
            "What is predicted at a position is read at the next.",
            "Write both rows below each other. They are one sentence, one step apart.",
            [german([5]), german([5, 6, 7])],
            compare=lambda run, case: is_shifted(run, case),
        ),
        Idea(
            "end",
            "After its last word, each sentence must predict EOS.",
            "A model that never predicts EOS never stops. Where does EOS go, and is "
            "it cut off?",
            [german([5]), german([5, 6, 7], [8])],
            compare=lambda run, case: ends(run, case),
            more=(
                "Add BOS and EOS to each sentence before you pad.",
                "“Why are the targets shifted by one?” puts BOS in front and EOS "
                "behind, and then cuts.",
            ),
        ),
        Idea(
            "padding",
            "After EOS there is only PAD.",
            "Take the shorter sentence: what is in the rectangle after its EOS?",
            [german([5, 6], [7]), german([5], [6, 7, 8], [9, 5])],
            more=(
                "First fill up with `pad`, then cut the rectangle.",
                "“How do sentences of different length fit one tensor?” fills up the "
                "rows.",
            ),
        ),
        Idea(
            "ids",
            "The special tokens may have any ids.",
            "Does your answer use the arguments `pad`, `bos` and `eos`?",
            [
                german([5], pad=3, bos=0, eos=4),
                german([5, 0], [6], pad=9, bos=7, eos=8),
            ],
            more=("Nothing may assume that PAD is 0, BOS is 1, or EOS is 2.",),
        ),
        Idea(
            "empty",
            "A sentence may be empty: it must predict EOS at once.",
            "An empty list of ids still gets its special tokens.",
            [german([], [5])],
            more=("With no words at all, BOS and EOS are left.",),
        ),
    ],
    hints=(
        "Make one rectangle first, with BOS before every sentence and EOS after it.",
        "The rectangle has one more column than each result. Which column does each "
        "result leave out?",
        "“Why are the targets shifted by one?” cuts with two slices of `row`.",
    ),
    answer="""Put BOS before each sentence and EOS after it, and pad. The decoder reads
all columns but the last and must predict all but the first.""",
)


def begins(run, case):
    reads, predicts = run(case)
    first = torch.tensor([row[0] for row in case["rows"]])
    if (reads[:, 0] != case["bos"]).any():
        raise Fault("", case, reads, (0, 0))
    if (predicts[:, 0] != first).any():
        raise Fault("", case, predicts, (0, 0))


def is_shifted(run, case):
    reads, predicts = run(case)
    wrong = reads[:, 1:] != predicts[:, :-1]
    if wrong.any():
        b, t = wrong.nonzero()[0].tolist()
        raise Fault("", case, reads, (b, t + 1))


def ends(run, case):
    _, predicts = run(case)
    for b, row in enumerate(case["rows"]):
        if predicts[b, len(row)] != case["eos"]:
            raise Fault("", case, predicts, (b, len(row)))


@FORCE.right
def cut(rows, pad, bos, eos):
    whole = [torch.tensor([bos, *row, eos]) for row in rows]
    padded = nn.utils.rnn.pad_sequence(whole, batch_first=True, padding_value=pad)
    return padded[:, :-1], padded[:, 1:]


@FORCE.right
def cut_by_filling(rows, pad, bos, eos):
    padded = torch.full((len(rows), max(map(len, rows)) + 2), pad)
    for b, row in enumerate(rows):
        padded[b, : len(row) + 2] = torch.tensor([bos, *row, eos])
    return padded[:, :-1], padded[:, 1:]


@FORCE.right
def cut_by_lists(rows, pad, bos, eos):
    size = max(len(row) for row in rows) + 2
    whole = [[bos, *row, eos] for row in rows]
    whole = [row + [pad] * (size - len(row)) for row in whole]
    return torch.tensor([row[:-1] for row in whole]), torch.tensor(whole)[:, 1:]


@FORCE.right
class Cut:
    def __call__(self, rows, pad, bos, eos):
        size = max(len(row) for row in rows) + 1
        targets = torch.tensor([(row + [eos] + [pad] * size)[:size] for row in rows])
        return torch.cat([torch.full((len(rows), 1), bos), targets[:, :-1]], 1), targets


# -- Zero in the table -----------------------------------------------------------------


def masked(tokens, weight):
    return (weight[tokens] * 2).masked_fill((tokens == 0)[..., None], 0.0)


def looked_up(tokens, weight):
    return weight[tokens] * 2  # the root of 4


TOKENS = torch.tensor([[3, 4, 0, 0]])
MADE = numbers(6, 4)
MADE[0] = 0
MOVED = MADE - 0.01 * numbers(6, 4, seed=1)


def gradient_of_padding(embed):
    weight = MADE.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(
        (embed(TOKENS, weight) * numbers(1, 4, 4)).sum(), weight
    )
    return gradient[0]


IN_THE_TABLE = Break(
    name="text-4",
    title="zero in the table only",
    task="""Someone sets PAD's row of the table to zero once, when the model is made,
and then returns `weight[tokens]` times the factor, without `masked_fill`. The table is
tied to the output. Which of these checks fail?""",
    broken=looked_up,
    intact=masked,
    checks={
        "a": (
            "Before training, padding is zero.",
            lambda embed: not embed(TOKENS, MADE)[0, 2:].any(),
            "Check a holds: the row is zero, and so is what is looked up.",
        ),
        "b": (
            "After a step of training that moved every row, padding is zero.",
            lambda embed: not embed(TOKENS, MOVED)[0, 2:].any(),
            "Check b fails: the output moves PAD's row, and the lookup returns it.",
        ),
        "c": (
            "The vectors of words are the rows times the factor.",
            lambda embed: torch.equal(embed(TOKENS, MOVED)[0, :2], 2 * MOVED[[3, 4]]),
            "Check c holds: only padding is treated differently.",
        ),
        "d": (
            "No gradient reaches PAD's row from the lookup.",
            lambda embed: not gradient_of_padding(embed).any(),
            "Check d fails: PAD's row is looked up like any other, so it receives a "
            "gradient.",
        ),
        "e": (
            "A word has the same vector in every sentence.",
            lambda embed: torch.equal(
                embed(TOKENS, MOVED)[0, 0],
                embed(torch.tensor([[4, 3, 5]]), MOVED)[0, 1],
            ),
            "Check e holds: a lookup does not depend on the neighbours.",
        ),
    },
    hints=("What moves PAD's row: the input side, the output side, or both?",),
    answer="""Checks b and d fail. The output scores PAD as a candidate for every next
word, so its row moves. And without `masked_fill` or `padding_idx`, the lookup also
sends it a gradient.""",
)

EXERCISES = [COUNTED, EMBED, FORCE, IN_THE_TABLE]
