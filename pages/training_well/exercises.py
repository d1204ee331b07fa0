"""The exercises of the chapter on what makes training work."""

import math

import torch
from torch import nn

from bookkit.exercises import (
    Break,
    Build,
    Fault,
    Idea,
    Predict,
    numbers,
    table,
)

# -- The floor of a smoothed loss ------------------------------------------------------


def floor(vocab_size, share):
    """Return the lowest loss that smoothing by this share allows."""
    others = share / vocab_size
    right = 1 - share + others
    return -right * math.log(right) - (vocab_size - 1) * others * math.log(others)


FLOOR = Predict(
    name="training-well-1",
    title="the parrot's floor",
    task="""The parrot knows 20 tokens. Train it with a smoothing of 0.1 instead of 0,
as long as you like. How far can its *training* loss fall?""",
    right="to about 0.6",
    replies={
        "to 0": "A loss of 0 needs the probability 1 for the right token. What does "
        "the smoothed answer ask of the other 19?",
        "to about 0.1": "This is -ln 0.9, the surprise at the right token. The "
        "surprise at the others counts as well.",
        "to about 0.6": "The best that a model can do is to give exactly the smoothed "
        "answer, and that answer is itself uncertain.",
        "to about 3.0": "This is ln 20, the loss of a model that gives all tokens the "
        "same probability.",
    },
    hints=("The lowest loss is that of a model whose probabilities are the answer.",),
    answer="""To 0.59, the entropy of the smoothed answer; `floor(20)` computes it. So
a training loss of 0.6 would be no reason to train longer. The validation loss, which
is not smoothed, ends lower than without smoothing: 2.3 instead of 3.6 in one run,
because the model becomes less sure where it is wrong. It still knows only its hundred
pairs.""",
    computed=lambda: f"to about {floor(20, 0.1):.1f}",
)

# -- Smoothing in another way ----------------------------------------------------------


def case(logits, targets, pad_id=0, smoothing=0.1):
    return {
        "logits": table(logits),
        "targets": torch.tensor(targets),
        "pad_id": pad_id,
        "smoothing": smoothing,
    }


SMOOTH = Build(
    name="training-well-2",
    title="label smoothing, another way",
    task="""Some codebases share $\\varepsilon$ out among the *wrong* words alone, and
give PAD nothing: the right word gets $1 - \\varepsilon$, and each of the $V - 2$ others
gets $\\varepsilon / (V - 2)$. Write `smoothed_losses(logits, targets, pad_id,
smoothing)`: from logits (B, T, V) and targets (B, T), the loss of each position, 0 at
padding.""",
    call="smoothed_losses(logits, targets, pad_id, smoothing)",
    returns={"losses": "B T"},
    example={
        "logits": numbers(2, 3, 7),
        "targets": torch.tensor([[4, 6, 1], [3, 0, 0]]),
        "pad_id": 0,
        "smoothing": 0.1,
    },
    ideas=[
        Idea(
            "plain",
            "Without smoothing, it is the surprise at the right word.",
            "What is left of the formula if smoothing is 0?",
            [case([[[0, 2, 1]]], [[1]], smoothing=0.0)],
            more=(
                "The surprise at a word is minus the logarithm of its probability.",
                "`gather` picks the right word.",
            ),
        ),
        Idea(
            "padding",
            "A padding position costs nothing.",
            "At which positions is the target `pad_id`?",
            [
                case([[[0, 2, 1]]], [[0]]),
                case([[[0, 2, 1], [2, 0, 1]]], [[2, 1]], pad_id=1),
            ],
            compare=lambda run, case: padding_is_free(run, case),
            more=(
                "The loss of a padding position is 0, whatever the logits are.",
                "`masked_fill` removes the padding.",
            ),
        ),
        Idea(
            "right",
            "The right word gets 1 - smoothing, and no share of the rest.",
            "With three words, one is left to share. How much does the right word "
            "get, and how much that one?",
            [case([[[0, 3, 0]]], [[1]], smoothing=0.5)],
            more=(
                "The right word is not among the words that share.",
                "`gather` picks the right word; leave it out of the sum over the "
                "others.",
            ),
        ),
        Idea(
            "others",
            "Each other word gets the same share.",
            "Count the words that share: without the right one, without PAD.",
            [case([[[0, 0, 3, 1, -2]]], [[2]], smoothing=0.3)],
        ),
        Idea(
            "pad",
            "The word PAD gets nothing.",
            "Here PAD's logit differs from the others. PAD counts in the softmax, but"
            " has no share of the answer.",
            [
                case([[[5, 0, 1, 0]]], [[2]], smoothing=0.5),
                case([[[0, 1, 0, 5]]], [[1]], pad_id=3, smoothing=0.5),
            ],
        ),
        Idea(
            "large",
            "Large logits give finite losses.",
            "Is there a probability that is too small for a float?",
            [case([[[0, 1000, 0, -1000]]], [[2]])],
            more=(
                "Do not compute the probability first and then its logarithm.",
                "“How confident should the model become?” takes `log_softmax`.",
            ),
        ),
    ],
    hints=(
        "Start from the surprise at every word, a tensor of shape (B, T, V).",
        "The sum over the other words is the sum over all, without two of them.",
        "`gather` picks the right word; `masked_fill` removes the padding.",
    ),
    answer="""With thousands of words the difference from the library's loss is tiny.
But two losses that were smoothed differently are not the same number.""",
)


def padding_is_free(run, case):
    (losses,) = run(case)
    wrong = (case["targets"] == case["pad_id"]) & (losses != 0)
    if wrong.any():
        raise Fault("", case, losses, tuple(wrong.nonzero()[0].tolist()))


@SMOOTH.right
def smoothed_losses(logits, targets, pad_id, smoothing):
    surprise = -logits.log_softmax(dim=-1)  # (B, T, V)
    right = surprise.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    others = surprise.sum(dim=-1) - right - surprise[..., pad_id]  # (B, T)
    losses = (1 - smoothing) * right + smoothing * others / (logits.size(-1) - 2)
    return losses.masked_fill(targets == pad_id, 0.0)


@SMOOTH.right
def by_a_table(logits, targets, pad_id, smoothing):
    q = torch.full_like(logits, smoothing / (logits.shape[-1] - 2))
    q.scatter_(-1, targets[..., None], 1 - smoothing)
    q[..., pad_id] = 0
    return -(q * torch.log_softmax(logits, -1)).sum(-1) * (targets != pad_id)


@SMOOTH.right
def by_loops(logits, targets, pad_id, smoothing):
    rows = []
    for scores, words in zip(logits, targets.tolist()):  # noqa: B905
        row = []
        for at_t, word in zip(scores, words):  # noqa: B905
            log_p, total = at_t - at_t.logsumexp(0), at_t.new_zeros(())
            for other in range(len(at_t)):
                if word == pad_id or other == pad_id:
                    continue
                share = 1 - smoothing if other == word else smoothing / (len(at_t) - 2)
                total = total - share * log_p[other]
            row.append(total)
        rows.append(torch.stack(row))
    return torch.stack(rows)


@SMOOTH.right
class Losses(nn.Module):
    def forward(self, logits, targets, pad_id, smoothing):
        size = logits.shape[-1]
        shares = torch.eye(size, dtype=logits.dtype)[targets]  # one-hot
        wrong = (1 - shares).index_fill(-1, torch.tensor([pad_id]), 0.0)
        q = (1 - smoothing) * shares + smoothing / (size - 2) * wrong
        losses = -(q * logits.log_softmax(-1)).sum(dim=-1)
        return torch.where(targets == pad_id, torch.zeros_like(losses), losses)


# -- Means of means --------------------------------------------------------------------


def sum_over_all(parts):
    """Return the mean loss of a batch from (sum of losses, number of answers)."""
    return sum(loss for loss, _ in parts) / sum(number for _, number in parts)


def mean_of_means(parts):
    return sum(loss / number for loss, number in parts) / len(parts)


def close(a, b):
    return bool(torch.isclose(table([a]), table([b])))


MEANS = Break(
    name="training-well-3",
    title="the mean of the means",
    task="""A batch is computed in parts. Each part gives the sum of its losses and the
number of its answers, as two tensors. Someone takes the mean of each part and then the
mean of these means. Which of these checks fail?""",
    broken=mean_of_means,
    intact=sum_over_all,
    checks={
        "a": (
            "One part alone gives its own mean.",
            lambda mean: close(mean([(table([6.0]), table([4.0]))]), 1.5),
            "Check a holds: there is only one mean.",
        ),
        "b": (
            "Two parts of 4 answers each give the mean of the 8.",
            lambda mean: close(
                mean([(table([4.0]), table([4.0])), (table([12.0]), table([4.0]))]), 2.0
            ),
            "Check b holds: parts of the same size weigh the same.",
        ),
        "c": (
            "A part of 12 and a part of 4 answers give the mean of the 16.",
            lambda mean: close(
                mean([(table([12.0]), table([12.0])), (table([12.0]), table([4.0]))]),
                1.5,
            ),
            "Check c fails: each answer of the short part counts three times as much.",
        ),
        "d": (
            "The order of the parts does not matter.",
            lambda mean: close(
                mean([(table([1.0]), table([5.0])), (table([9.0]), table([2.0]))]),
                mean([(table([9.0]), table([2.0])), (table([1.0]), table([5.0]))]),
            ),
            "Check d holds: a sum has no order.",
        ),
        "e": (
            "A part that holds nothing but padding changes nothing.",
            lambda mean: close(
                mean([(table([6.0]), table([4.0])), (table([0.0]), table([0.0]))]), 1.5
            ),
            "Check e fails: 0 divided by 0 is undefined, and so is the whole mean.",
        ),
    },
    hints=("Which parts have a mean that is wrong, or none at all?",),
    answer="""Checks c and e fail. With parts of equal size nothing shows, so the
mistake can stay hidden until the first batch of mixed lengths.""",
)

# -- Clipped and divided ---------------------------------------------------------------


def first_step_of_adam(gradient):
    m, v = 0.1 * gradient, 0.02 * gradient**2
    return 0.1 * (m / 0.1) / ((v / 0.02).sqrt() + 1e-9)


def compared():
    gradient = table([600.0, 800.0])  # of length 1000
    clipped = gradient / gradient.norm()
    same = torch.allclose(first_step_of_adam(gradient), first_step_of_adam(clipped))
    return "as long as without clipping" if same else "something else"


CLIPPED = Predict(
    name="training-well-4",
    title="clipped, then divided",
    task="""The very first gradient of a training run has a length of 1000. Clipping
shortens it to 1, then Adam makes the first step. How long is this step?""",
    right="as long as without clipping",
    replies={
        "a thousandth of the step without clipping": "This would be so for the plain "
        "step. What does Adam divide the gradient by?",
        "as long as without clipping": "Adam divides each gradient by its own size, "
        "and clipping divides all of them by the same number.",
        "longer than without clipping": "Clipping shortens the gradient. Does Adam's "
        "first step depend on its length at all?",
    },
    hints=("How long is Adam's first step?",),
    answer="""As long as without clipping: each weight moves by the rate. Clipping
protects Adam only from a gradient that differs from those *before* it, as in the
chapter's table with the gradient -1000 at step 21.""",
    computed=compared,
)

EXERCISES = [FLOOR, SMOOTH, MEANS, CLIPPED]
