"""The exercises of the chapter on decoding."""

import math

import torch
from torch import nn

from bookkit.exercises import Build, Idea, Predict, numbers, table

# -- How much penalty? -----------------------------------------------------------------

ENOUGH = Predict(
    name="decoding-1",
    title="how much penalty is enough?",
    task="""The cat in the garden has the probability 0.1296 and 7 tokens, EOS included.
The cat that only sleeps has 0.144 and 4 tokens. Above which alpha does the garden
rank first? Round to two decimal places.""",
    right=0.18,
    replies={
        0.18: "There both scores are equal, and a larger alpha helps the longer "
        "sentence more.",
        0.19: "Almost: the exact value is 0.184.",
        0.6: "This is the paper's choice, which is more than enough.",
        0.0: "With alpha 0 the probability decides, and the shorter sentence wins.",
    },
    otherwise="At this alpha, are the two scores equal?",
    hints=(
        "Write down both scores and set them equal. The penalties are (12/6) and "
        "(9/6), each to the power alpha.",
    ),
    answer="""Set the scores equal: $\\ln 0.1296 / 2^\\alpha = \\ln 0.144 /
1.5^\\alpha$. So $\\alpha = \\ln(\\ln 0.1296 / \\ln 0.144) / \\ln(2 / 1.5)$, about
0.184.""",
    computed=lambda: round(
        math.log(math.log(0.1296) / math.log(0.144)) / math.log(2 / 1.5), 2
    ),
)

# -- Min-p -----------------------------------------------------------------------------


def case(probabilities, share):
    return {"probabilities": table(probabilities), "share": share}


MIN_P = Build(
    name="decoding-2",
    title="min-p",
    task="""*Min-p* keeps every word whose probability is at least `share` times the
largest one of its row. Write `min_p(probabilities, share)`: from probabilities of
shape (B, V), return those that a draw should use, (B, V). Words that are dropped get
0, and each row sums to 1 again.""",
    call="min_p(probabilities, share)",
    returns={"kept": "B V"},
    example={"probabilities": numbers(3, 5).softmax(dim=-1), "share": 0.3},
    ideas=[
        Idea(
            "sum",
            "Each row sums to 1.",
            "What is left after the cut must be divided by its sum.",
            [case([[0.5, 0.4, 0.1]], 0.5)],
        ),
        Idea(
            "relative",
            "The bar depends on the row's largest probability.",
            "With a largest probability of 0.4 and a share of 0.5, where is the bar?",
            [case([[0.4, 0.3, 0.25, 0.05]], 0.5), case([[0.9, 0.08, 0.02]], 0.05)],
        ),
        Idea(
            "rows",
            "Each row has its own bar.",
            "Take the largest value along the axis of the words.",
            [case([[0.9, 0.1], [0.5, 0.5]], 0.6), case([[0.8, 0.2], [0.3, 0.7]], 0.3)],
        ),
        Idea(
            "equal",
            "A word exactly at the bar stays.",
            "“At least” includes equality.",
            [case([[0.5, 0.25, 0.25]], 0.5), case([[0.25, 0.25, 0.5]], 1.0)],
        ),
        Idea(
            "all",
            "A share of 0 keeps every word, and 1 keeps the likeliest.",
            "Try both ends.",
            [case([[0.6, 0.3, 0.1]], 0.0), case([[0.6, 0.3, 0.1]], 1.0)],
        ),
    ],
    hints=(
        "First find the bar of each row.",
        "Set what lies below the bar to 0, then divide each row by its sum.",
        "`amax` with `keepdim=True` gives the largest value of each row.",
    ),
    answer="""Where the model is sure, the bar is high and few words stay; where it is
unsure, the bar is low. Top-p adapts in a similar way, but it can keep a word that is
hundreds of times less likely than the first one.""",
)


@MIN_P.right
def min_p(probabilities, share):
    bar = share * probabilities.amax(dim=-1, keepdim=True)  # (B, 1)
    kept = probabilities.masked_fill(probabilities < bar, 0.0)  # (B, V)
    return kept / kept.sum(dim=-1, keepdim=True)


@MIN_P.right
def with_where(probabilities, share):
    bar = share * probabilities.max(-1, keepdim=True).values
    kept = torch.where(probabilities >= bar, probabilities, 0)
    return kept / kept.sum(-1, keepdim=True)


@MIN_P.right
def by_loops(probabilities, share):
    rows = []
    for row in probabilities:
        kept = torch.stack([p if p >= share * row.max() else p * 0 for p in row])
        rows.append(kept / kept.sum())
    return torch.stack(rows)


@MIN_P.right
class BySoftmax(nn.Module):
    def forward(self, probabilities, share):
        bar = share * probabilities.amax(-1, keepdim=True)
        logits = probabilities.log().masked_fill(probabilities < bar, -torch.inf)
        return logits.softmax(-1)


EXERCISES = [ENOUGH, MIN_P]
