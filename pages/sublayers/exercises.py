"""The exercises of the chapter on feed-forward networks, residuals and norms."""

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import Break, Build, Idea, Predict, numbers, table

# -- torch's initial weights -----------------------------------------------------------


def left_at_the_bottom(xavier):
    """Return the share of the gradient that reaches the bottom of 24 networks."""
    generator = torch.Generator().manual_seed(6)
    first = y = numbers(1, 32).requires_grad_()
    for _ in range(24):
        for n_in, n_out in ((32, 128), (128, 32)):
            reach = (6 / (n_in + n_out)) ** 0.5 if xavier else n_in**-0.5
            drawn = torch.rand(n_in, n_out, generator=generator, dtype=y.dtype)
            y = y @ ((2 * drawn - 1) * reach)
            y = y.relu() if n_out == 128 else y
    (gradient,) = torch.autograd.grad(y.sum(), first)
    return gradient.norm().item() / 32**0.5


TORCH = Predict(
    name="sublayers-1",
    title="torch's initial weights",
    task="""Xavier's rule draws from $\\pm \\sqrt{6 / (n_\\text{in} + n_\\text{out})}$,
torch's `nn.Linear` from $\\pm 1/\\sqrt{n_\\text{in}}$. In the stack of 24 feed-forward
networks with widths 32 and 128, *without* residuals, how much of the gradient
reaches the bottom with torch's weights?""",
    right="much less than with Xavier's",
    replies={
        "much less than with Xavier's": "torch's ranges are 0.18 and 0.09, Xavier's "
        "0.19 twice. The product is 0.4 times as large, and 0.4 to the power of 24 is "
        "less than a billionth.",
        "about as much as with Xavier's": "Compare the ranges of both matrices. A "
        "small difference counts 24 times.",
        "much more than with Xavier's": "Compute both ranges for the matrix from 128 "
        "to 32 features. Which one is larger?",
    },
    hints=("A gradient passes through both matrices of each network, 24 times.",),
    answer="""Much less. For the matrix from 32 to 128 features the ranges are 0.18
(torch) and 0.19 (Xavier); for the matrix back they are 0.09 and 0.19. So each network
passes down 0.4 times as much as with Xavier's rule, and $0.4^{24}$ is less than a
billionth.""",
    computed=lambda: (
        "much less than with Xavier's"
        if left_at_the_bottom(False) < 1e-6 * left_at_the_bottom(True)
        else "something else"
    ),
)

# -- RMSNorm ---------------------------------------------------------------------------


def one(*features, weight=None, eps=0.0):
    x = table([list(features)])
    weight = torch.ones_like(x[0]) if weight is None else table(weight)
    return {"x": x, "weight": weight, "eps": eps}


RMS = Build(
    name="sublayers-2",
    title="RMSNorm",
    task="""Many newer models do not subtract the mean, and they divide by the root of
the mean square: $y_i = g_i \\, x_i / \\sqrt{\\frac{1}{d}\\sum_j x_j^2 + \\varepsilon}$.
Write `rms_norm(x, weight, eps)` for `x` with any number of axes, features last;
`weight` is $g$, shape (d_model). Use your own steps, not torch's `rms_norm`.""",
    call="rms_norm(x, weight, eps)",
    forbids=("rms_norm",),
    returns={"y": "... T d_model"},
    example={"x": numbers(2, 3, 5), "weight": numbers(5, seed=1), "eps": 1e-5},
    ideas=[
        Idea(
            "size",
            "Without weight and eps, each vector has the mean square 1.",
            "What is the mean square of your result? A mean divides by the number of "
            "features.",
            [one(2, -2), one(1, -2, 3, -2)],
            more=(
                "`x.square().mean(...)` over the features of one word, and then the "
                "root.",
                "“What keeps the sum in bounds?” has the same steps for the variance.",
            ),
        ),
        Idea(
            "mean",
            "The mean of the features is not subtracted.",
            "The mean is not 0 here. Does any of your steps subtract it, perhaps "
            "inside a variance?",
            [one(1, 3), one(5, 6, 7)],
            more=(
                "Only the division stays.",
                "“What keeps the sum in bounds?” subtracts first. Here there is "
                "nothing to subtract.",
            ),
        ),
        Idea(
            "rows",
            "Each word is normalised by itself.",
            "Along which axis do you take the mean, and what happens to that axis?",
            [
                {"x": numbers(2, 2), "weight": torch.ones(2).double(), "eps": 0.0},
                {"x": numbers(2, 3, 4), "weight": torch.ones(4).double(), "eps": 0.0},
            ],
            more=(
                "Each word has a mean square of its own, over its features.",
                "`keepdim=True` keeps the axis for the division.",
            ),
        ),
        Idea(
            "weight",
            "The weight multiplies the normalised features.",
            "Is the weight used, and does your mean square see it?",
            [one(1, 1, weight=[2, 3]), one(1, 2, 2, weight=[0, 1, -1])],
            more=("First normalise, then multiply by the weight.",),
        ),
        Idea(
            "eps",
            "eps is added inside the root.",
            "Here eps is as large as the mean square. Where is it in the formula?",
            [one(1, 1, eps=3.0), one(3, 4, 0, eps=1.0)],
            more=(
                "Read the formula from the inside out: what is below the root?",
                "“What keeps the sum in bounds?” also adds eps to something before "
                "the root.",
            ),
        ),
        Idea(
            "rank",
            "Any number of axes will do, even one.",
            "Count the axes from the end.",
            [
                {"x": numbers(4), "weight": numbers(4, seed=1), "eps": 1e-5},
                {"x": numbers(2, 1, 3, 4), "weight": numbers(4, seed=1), "eps": 1e-5},
            ],
            more=("The features are the last axis, `dim=-1`.",),
        ),
    ],
    hints=(
        "Start from the layer normalisation by hand. What stays, and what goes?",
        "`x.square().mean(...)` over the features of one word.",
        "`keepdim=True` keeps the axis for the division.",
    ),
    answer="""On vectors whose mean is 0, RMSNorm and layer normalisation agree, since
the variance is the mean square minus the square of the mean.""",
)


@RMS.right
def rms_norm(x, weight, eps):
    mean_square = x.square().mean(dim=-1, keepdim=True)
    return weight * x / (mean_square + eps).sqrt()


@RMS.right
def by_rsqrt(x, weight, eps):
    return x * torch.rsqrt((x**2).mean(-1, keepdim=True) + eps) * weight


@RMS.right
def by_a_norm(x, weight, eps):
    size = (x.norm(dim=-1, keepdim=True) ** 2 / x.shape[-1] + eps) ** 0.5
    return x / size * weight


@RMS.right
def by_loops(x, weight, eps):
    made = []
    for row in x.reshape(-1, x.shape[-1]):
        size = (sum(feature * feature for feature in row) / len(row) + eps) ** 0.5
        made.append(torch.stack([f * g / size for f, g in zip(row, weight)]))  # noqa: B905
    return torch.stack(made).reshape(x.shape)


@RMS.right
class Norm(nn.Module):
    def forward(self, x, weight, eps):
        return torch.einsum(
            "...d,...,d->...d", x, (x.square().mean(dim=-1) + eps) ** -0.5, weight
        )


# -- Dropped on the stream -------------------------------------------------------------

NEVER = Predict(
    name="sublayers-3",
    title="dropout on the stream",
    task="""Someone applies dropout to the sum, `dropout(x + f(x))`, with
$p = 0.1$, around each of 24 sublayers. What percentage of the features of the
first `x` have never been dropped on their way to the top? Round to a whole number.""",
    right=8,
    replies={
        8: "0.9 to the power of 24. That is why dropout is applied to the "
        "sublayer's output and never to the stream.",
        90: "This is what one sublayer leaves. There are 24.",
        10: "This is what one sublayer drops.",
        0: "24 times 10 per cent is more than all, but a feature can be lost only "
        "once. Multiply the shares that stay.",
    },
    otherwise="After one sublayer 90 per cent is left. And after two?",
    hints=("Each sublayer keeps nine tenths of what the one before kept.",),
    answer="""$0.9^{24} = 0.08$, so 8 per cent. Where the paper drops, on the
sublayer's output, all of `x` stays in the sum.""",
    computed=lambda: round(100 * 0.9**24),
)

# -- A residual forgotten --------------------------------------------------------------


def post_norm(x, sublayer):
    return F.layer_norm(x + sublayer(x), x.shape[-1:])


def forgotten(x, sublayer):
    return F.layer_norm(sublayer(x), x.shape[-1:])


def average(x):
    """Attend to all words equally."""
    return x.mean(dim=1, keepdim=True).expand_as(x)


def relu(x):
    return (x @ numbers(4, 4, seed=2)).relu()


def with_a_new_last_word():
    changed = WORDS.clone()
    changed[:, -1] += table([1, 0, -1, 3])
    return changed


WORDS = numbers(1, 3, 4)

RESIDUAL = Break(
    name="sublayers-4",
    title="the residual is forgotten",
    task="""In post-norm someone writes `norm(sublayer(x))` and forgets the sum. Which
of these checks fail?""",
    broken=forgotten,
    intact=post_norm,
    checks={
        "a": (
            "The output has the shape of the input.",
            lambda step: step(WORDS, relu).shape == WORDS.shape,
            "Check a holds: a sublayer keeps the shape.",
        ),
        "b": (
            "Each vector that leaves has mean 0 and mean square 1.",
            lambda step: torch.allclose(
                step(WORDS, relu).square().mean(dim=-1),
                torch.ones(1, 3, dtype=torch.float64),
                atol=1e-3,
            ),
            "Check b holds: the norm comes last, whatever it receives.",
        ),
        "c": (
            "With a position-wise sublayer, a new last word changes the last row only.",
            lambda step: torch.allclose(
                step(with_a_new_last_word(), relu)[:, :-1], step(WORDS, relu)[:, :-1]
            ),
            "Check c holds: neither the sublayer nor the norm looks at other words.",
        ),
        "d": (
            "If the sublayer averages all words, different words stay different.",
            lambda step: (
                not torch.allclose(
                    step(WORDS, average)[:, 0], step(WORDS, average)[:, 1]
                )
            ),
            "Check d fails: all words get the same average, and nothing else is left.",
        ),
        "e": (
            "If the sublayer writes zeros, the words pass through, normalised.",
            lambda step: torch.allclose(
                step(WORDS, torch.zeros_like), F.layer_norm(WORDS, (4,))
            ),
            "Check e fails: the norm of zeros is zeros, and the words are lost.",
        ),
    },
    hints=("Which checks need `x` itself in the output?",),
    answer="""Checks d and e fail. Shapes, sizes and positions look right without the
residual. Only the word itself is missing.""",
)

EXERCISES = [TORCH, RMS, NEVER, RESIDUAL]
