"""The exercises of the chapter on training."""

import torch
from torch import nn

from bookkit.exercises import (
    Break,
    Build,
    Idea,
    Predict,
    numbers,
    same,
    table,
)

# -- Gradients that contradict each other ----------------------------------------------


def positions(gradients, rate=0.1):
    """Return where Adam puts a weight that begins at 0, after each gradient."""
    weight = m = v = 0.0
    after = []
    for step, gradient in enumerate(gradients, start=1):
        m, v = 0.9 * m + 0.1 * gradient, 0.98 * v + 0.02 * gradient**2
        m_mean, v_mean = m / (1 - 0.9**step), v / (1 - 0.98**step)
        weight -= rate * m_mean / (v_mean**0.5 + 1e-9)
        after.append(weight)
    return after


CONTRADICT = Predict(
    name="training-1",
    title="gradients that contradict each other",
    task="""A weight begins at 0. Adam, at a rate of 0.1, gets the gradients 1, -1, 1,
-1, and so on, ten in all. How far from 0 is the weight at the end?""",
    right="between one and two steps",
    replies={
        "exactly at 0": "The gradients cancel, but the first step is taken before the "
        "second gradient is known. How long is the first step?",
        "between one and two steps": "The first step has the full length. After that "
        "the mean of the gradients is small, and so are the steps.",
        "five steps": "Steps of full length would cancel each other. How large is the "
        "mean of the gradients after the second one?",
        "ten steps": "This is where ten equal gradients would lead.",
    },
    hints=("After two gradients, what is the mean m, and what is v?",),
    answer="""It is 0.155 below 0, about one and a half steps. The mean of the squares
stays at 1, because the squares agree. The mean of the gradients shrinks, because they
contradict each other. Ten gradients of 1 make ten full steps, down to -1.""",
    computed=lambda: (
        "between one and two steps"
        if 0.1 < -positions([1.0, -1.0] * 5)[-1] < 0.2
        else "something else"
    ),
)

# -- Adam for tensors ------------------------------------------------------------------


def one(gradient, m=0.0, v=0.0, step=1, rate=0.1):
    return {
        "weight": table([5.0]),
        "gradient": table([gradient]),
        "m": table([m]),
        "v": table([v]),
        "step": step,
        "rate": rate,
    }


ADAM = Build(
    name="training-2",
    title="a step of Adam",
    task="""Write the paper's Adam for tensors of any shape: `adam_step(weight,
gradient, m, v, step, rate)` returns the new weight, the new `m` and the new `v`.
`step` is the number of this step and begins at 1. $\\beta_1 = 0.9$, $\\beta_2 = 0.98$,
$\\varepsilon = 10^{-9}$.""",
    call="adam_step(weight, gradient, m, v, step, rate)",
    returns={"weight": "d_ff d_model", "m": "d_ff d_model", "v": "d_ff d_model"},
    example={
        "weight": numbers(5, 3),
        "gradient": numbers(5, 3, seed=1),
        "m": numbers(5, 3, seed=2),
        "v": numbers(5, 3, seed=3) ** 2 + 0.1,
        "step": 4,
        "rate": 0.05,
    },
    ideas=[
        Idea(
            "still",
            "A weight that never had a gradient does not move.",
            "Here both means are 0. What is 0 divided by 0?",
            [one(0.0), one(0.0, step=7)],
            more=(
                "Epsilon keeps the divisor from being 0.",
                "The last line of the loop in `adam` adds it.",
            ),
        ),
        Idea(
            "means",
            "m and v are running means: of the gradients, and of their squares.",
            "Look at the new m and v. Which share is old, which is new, and do you "
            "return them before the correction?",
            [one(2.0, m=1.0, v=1.0, step=9), one(-3.0, m=0.5, v=4.0, step=50)],
            compare=lambda run, case: same(run, case, slice(1, None)),
            more=(
                "A running mean keeps beta of the old mean and takes 1 - beta of the "
                "new number.",
                "The loop in `adam` begins with both means.",
            ),
        ),
        Idea(
            "first",
            "The first step has the length of the rate, whatever the gradient.",
            "Both means begin at 0 and are too small at first: what corrects this? "
            "Which way does the step go, and by what is the mean divided?",
            [one(1.0), one(1000.0), one(-0.001)],
            more=(
                "A mean that began at 0 is too small by a known factor.",
                "Divide each mean by 1 minus its beta to the power of `step`.",
            ),
        ),
        Idea(
            "later",
            "The correction depends on the number of the step.",
            "Step 2 is corrected less than step 1.",
            [one(2.0, m=0.1, v=0.02, step=2), one(1.0, m=0.5, v=0.3, step=20)],
            more=(
                "After many steps the correction is almost 1.",
                "Divide each mean by 1 minus its beta to the power of `step`.",
            ),
        ),
        Idea(
            "tiny",
            "A tiny gradient is divided by a tiny number.",
            "Where does epsilon stand: inside the root or outside?",
            [one(1e-6), one(-1e-5, m=1e-6, v=1e-13, step=3)],
            more=(
                "Next to a tiny number, even epsilon matters, and its root matters "
                "more.",
                "The last line of the loop in `adam` has epsilon.",
            ),
        ),
    ],
    hints=(
        "The function `adam` of the chapter has a loop. What does one turn of it do?",
        "`+ - * / **` and `sqrt` are enough, and all of them work on tensors.",
        "Divide each mean by 1 minus its beta to the power of `step`.",
    ),
    answer="""One turn of the chapter's loop, with tensors. `m` and `v` are kept for
the next step as they are; only the step itself uses the corrected means.""",
)


@ADAM.right
def adam_step(weight, gradient, m, v, step, rate):
    m = 0.9 * m + 0.1 * gradient
    v = 0.98 * v + 0.02 * gradient**2
    m_mean, v_mean = m / (1 - 0.9**step), v / (1 - 0.98**step)
    return weight - rate * m_mean / (v_mean.sqrt() + 1e-9), m, v


@ADAM.right
def by_lerp(weight, gradient, m, v, step, rate):
    m, v = m.lerp(gradient, 0.1), v.lerp(gradient.square(), 0.02)
    size = (v / (1 - 0.98**step)) ** 0.5 + 1e-9
    return weight - (rate / (1 - 0.9**step)) * m / size, m, v


@ADAM.right
def corrected_rate(weight, gradient, m, v, step, rate):
    m, v = m + 0.1 * (gradient - m), v + 0.02 * (gradient * gradient - v)
    root = (1 - 0.98**step) ** 0.5
    moved = rate * root / (1 - 0.9**step) * m / (v.sqrt() + root * 1e-9)
    return [weight - moved, m, v]


@ADAM.right
class Adam(nn.Module):
    def forward(self, weight, gradient, m, v, step, rate):
        made = []
        for w, g, a, b in zip(*map(torch.flatten, (weight, gradient, m, v))):  # noqa: B905
            a, b = 0.9 * a + 0.1 * g, 0.98 * b + 0.02 * g**2
            root = (b / (1 - 0.98**step)).sqrt() + 1e-9
            made.append(torch.stack([w - rate * a / (1 - 0.9**step) / root, a, b]))
        return tuple(torch.stack(made, dim=1).unflatten(1, weight.shape))


# -- The shift forgotten ---------------------------------------------------------------

PAD, BOS, EOS = 0, 1, 2
TARGETS = torch.tensor([[BOS, 5, 6, 7, EOS], [BOS, 8, EOS, PAD, PAD]])


def shifted(targets):
    return targets[:, :-1], targets[:, 1:]


def not_shifted(targets):
    return targets[:, :-1], targets[:, :-1]


def share_right_by_repeating(split):
    """Return how often a decoder that repeats what it reads gives the right answer."""
    reads, answers = split(TARGETS)
    real = answers != PAD
    return (reads == answers)[real].double().mean().item()


SHIFT = Break(
    name="training-3",
    title="the shift is forgotten",
    task="""Someone splits the targets into `targets[:, :-1]`, which the decoder reads,
and `targets[:, :-1]`, which it must answer. Nothing else changes. Which of these checks
fail?""",
    broken=not_shifted,
    intact=shifted,
    checks={
        "a": (
            "What is read and what must be answered have the same shape.",
            lambda split: split(TARGETS)[0].shape == split(TARGETS)[1].shape,
            "Check a holds, and so no error is raised.",
        ),
        "b": (
            "The decoder reads BOS first.",
            lambda split: bool((split(TARGETS)[0][:, 0] == BOS).all()),
            "Check b holds: what is read is split as before.",
        ),
        "c": (
            "BOS is never an answer.",
            lambda split: not (split(TARGETS)[1] == BOS).any(),
            "Check c fails: the first answer is now BOS.",
        ),
        "d": (
            "The longest sentence must answer EOS.",
            lambda split: bool((split(TARGETS)[1][0] == EOS).any()),
            "Check d fails: its EOS was in the last column, so the model never "
            "learns where such a sentence ends.",
        ),
        "e": (
            "A decoder that repeats what it reads is not right everywhere.",
            lambda split: share_right_by_repeating(split) < 1,
            "Check e fails: repeating is now the perfect answer, with a loss near 0.",
        ),
    },
    hints=("Write the two slices of the first sentence one below the other.",),
    answer="""Checks c, d and e fail. The loss falls to nearly 0 as it should, because
each answer is the last word that was read. When the model writes, it repeats BOS
without end.""",
)

# -- The gradients stay ----------------------------------------------------------------


def third_gradient():
    """Return what the third step finds in `grad` if nothing is cleared."""
    weight = torch.zeros(1, requires_grad=True)
    for gradient in (1.0, 2.0, 3.0):
        (gradient * weight).sum().backward()
    return int(weight.grad.item())


STAYS = Predict(
    name="training-4",
    title="nobody clears the gradients",
    task="""The gradients of three updates are 1, 2 and 3, and nobody calls `zero_grad`.
There is no clipping. Which gradient does the third step use?""",
    right=6,
    replies={
        6: "`backward` adds to what is there. After a hundred updates, the newest "
        "gradient is one of a hundred.",
        3: "This would be right after `zero_grad`. What does `backward` do with the "
        "gradient that is there?",
        2: "`backward` adds; it does not average.",
        5: "The first gradient is still there as well.",
    },
    otherwise="What is in `grad` after the first update, and what is added to it?",
    hints=("`backward` adds its gradient to `grad`.",),
    answer="""1 + 2 + 3 = 6. Clipping to a length of 1 would shorten the sum at each
step, so that old gradients fade. The chapter's model then still learns its batch in 64
updates.""",
    computed=third_gradient,
)

EXERCISES = [CONTRADICT, ADAM, SHIFT, STAYS]
