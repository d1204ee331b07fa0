"""The exercises of the chapter on the inside of attention."""

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- The row of a word -----------------------------------------------------------------

WRITTEN = "das Mädchen macht die alte Tür auf".split()


def label_of_the_row(word):
    read = ["BOS", *WRITTEN]
    return read[WRITTEN.index(word)]


ROW = Predict(
    name="inside-1",
    title="the row of a word",
    task="""A blog shows a map of cross-attention for *das Mädchen macht die alte Tür
auf*. Its rows are labelled with the tokens that the decoder has *read*, from BOS on.
You want to know where the model looked when it wrote *Tür*. Which label does this row
have?""",
    right="alte",
    replies={
        "die": "This row writes *alte*. Which token had been read last, just before "
        "*Tür* was written?",
        "alte": "The last token that had been read was *alte*, and the row is labelled "
        "with it.",
        "Tür": "In this row *Tür* has been read, so the next word is being written.",
        "auf": "The decoder reads *auf* only after it has written *Tür* and *auf*.",
    },
    hints=("What had the decoder read when it wrote *Tür*?",),
    answer="""*alte*. A row reads one token and writes the next, so the labels of the
two kinds are shifted by one. The row that is labelled *Tür* shows where the model
looked when it wrote *auf*.""",
    computed=lambda: label_of_the_row("Tür"),
)

# -- Agreement with an alignment -------------------------------------------------------


def case(weights, gold):
    return {"weights": table(weights), "gold": torch.tensor(gold)}


AGREEMENT = Build(
    name="inside-2",
    title="agreement with an alignment",
    task="""Write `agreement(weights, gold)`. The weights, (L, H, T, S), are the maps of
all heads for one pair of sentences, rows by the word that is written. `gold`, (T),
holds for each row the number of the right column, or -1 if the word has no partner.
Return for each head the share of rows whose largest weight lies on the right column,
(L, H), in the dtype of the weights. Rows without a partner do not count.""",
    call="agreement(weights, gold)",
    returns={"shares": "L H"},
    example={
        "weights": numbers(2, 3, 5, 7).softmax(dim=-1),
        "gold": torch.tensor([1, 0, -1, 6, 3]),
    },
    ideas=[
        Idea(
            "largest",
            "A row agrees if its largest weight is on the right column.",
            "How much weight is there does not matter, only where the most is.",
            [
                case([[[[0.6, 0.4]]]], [0]),
                case([[[[0.4, 0.6]]]], [0]),
                case([[[[0.3, 0.3, 0.4], [0.2, 0.7, 0.1]]]], [2, 0]),
            ],
        ),
        Idea(
            "share",
            "The result is the share of the rows, not their number.",
            "What is the result if every row is right?",
            [case([[[[0.9, 0.1], [0.2, 0.8]]]], [0, 1])],
        ),
        Idea(
            "partner",
            "A row without a partner does not count.",
            "Leave the row out above and below the fraction line.",
            [
                case([[[[0.9, 0.1], [0.2, 0.8]]]], [0, -1]),
                case([[[[0.1, 0.9], [0.2, 0.8], [0.7, 0.3]]]], [0, -1, 0]),
            ],
        ),
        Idea(
            "heads",
            "Each head of each layer has a share of its own.",
            "Over which axes do you take the mean?",
            [
                case([[[[0.9, 0.1]], [[0.1, 0.9]]]], [0]),
                case([[[[0.9, 0.1]]], [[[0.1, 0.9]]]], [0]),
            ],
        ),
    ],
    hints=(
        "First find the column of the largest weight in each row, for all heads.",
        "Compare it with `gold`, which broadcasts along the heads.",
        "`argmax` finds the column; a mask on T picks the rows that count.",
    ),
    answer="""The mask picks the rows before the mean, so they count neither as hits
nor as misses. To measure the other alignment, pass the row *below* each row: the one
that has read the word.""",
)


@AGREEMENT.right
def agreement(weights, gold):
    found = weights.argmax(dim=-1)  # (L, H, T)
    counts = gold >= 0  # (T)
    return (found == gold)[..., counts].to(weights.dtype).mean(dim=-1)


@AGREEMENT.right
def by_sums(weights, gold):
    hits = ((weights.argmax(-1) == gold) & (gold != -1)).sum(-1)
    return hits.to(weights) / (gold != -1).sum()


@AGREEMENT.right
def by_loops(weights, gold):
    shares = weights.new_zeros(weights.shape[:2])
    for layer in range(weights.shape[0]):
        for head in range(weights.shape[1]):
            rows = [(r, g) for r, g in enumerate(gold.tolist()) if g >= 0]
            right = [weights[layer, head, r].argmax().item() == g for r, g in rows]
            shares[layer, head] = sum(right) / len(right)
    return shares


@AGREEMENT.right
class ByGather(nn.Module):
    def forward(self, weights, gold):
        rows = (gold > -1).nonzero()[:, 0]
        chosen = weights[:, :, rows]
        index = gold[rows][:, None].expand(*chosen.shape[:-1], 1)
        on_gold = chosen.gather(-1, index).squeeze(-1)
        return (on_gold == chosen.amax(-1)).to(weights.dtype).mean(-1)


EXERCISES = [ROW, AGREEMENT]
