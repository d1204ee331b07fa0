"""The exercises of the chapter on the encoder."""

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import Break, Build, Fault, Idea, Predict, numbers, table

# -- How large an encoder is -----------------------------------------------------------


def parameters_of_six_layers():
    layer = nn.TransformerEncoderLayer(512, 8, 2048, device="meta")
    return 6 * sum(parameter.numel() for parameter in layer.parameters())


SIZE = Predict(
    name="encoder-1",
    title="how large an encoder is",
    task="""The encoder of the paper's base model has six layers with $d_\\text{model} =
512$ and $d_\\text{ff} = 2048$. Every projection has a bias, every norm two vectors.
How many parameters does the encoder have?""",
    right=18_914_304,
    replies={
        18_914_304: "Four square matrices, two matrices of 512 × 2048, their biases "
        "and two norms, six times.",
        3_152_384: "That is one layer. Six layers have parameters of their own.",
        18_874_368: "These are the matrices. The biases and the norms are missing.",
        18_902_016: "The norms are missing, or the biases of the attentions: both have "
        "2,048 numbers in each layer.",
        18_908_160: "A layer has two norms, one for each sublayer.",
        18_898_944: "The biases of the feed-forward networks are missing.",
    },
    otherwise="Write down one layer first: attention, feed-forward network, norms.",
    hints=("Attention has four projections: queries, keys, values and output.",),
    answer="""A layer has $4 (512^2 + 512)$ parameters in its attention, $2 \\cdot 512
\\cdot 2048 + 2048 + 512$ in its feed-forward network and $2 \\cdot 2 \\cdot 512$ in its
norms: 3,152,384. Six of them have 18,914,304. If you share one layer by accident, you
count 3,152,384 for all six.""",
    computed=parameters_of_six_layers,
)

# -- A layer ---------------------------------------------------------------------------


def case(words, width=2, inner=3, mask=None, seed=0, thinks=True):
    """One sentence, or several: the mask has a row for each."""
    mask = torch.ones(1, words, dtype=torch.bool) if mask is None else mask
    w_1 = numbers(width, inner, seed=seed + 1)
    return {
        "x": numbers(len(mask), words, width, seed=seed),
        "mask": torch.as_tensor(mask).bool(),
        "w_1": w_1 if thinks else torch.zeros_like(w_1),
        "w_2": numbers(inner, width, seed=seed + 2),
    }


LAYER = Build(
    name="encoder-2",
    title="a layer in ten lines",
    task="""Write a post-norm encoder layer without projections, biases and learned
norms: `encoder_layer(x, mask, w_1, w_2)`. It has one head, whose queries, keys and
values are `x` itself, of shape (B, S, d_model); `mask`, of shape (B, S), is True for
words and False for padding. The feed-forward network is a ReLU between `w_1`, of shape
(d_model, d_ff), and `w_2`, of shape (d_ff, d_model). The norms divide by the root of
the variance plus 1e-5.""",
    call="encoder_layer(x, mask, w_1, w_2)",
    returns={"x": "B S d_model"},
    example=case(5, 4, 6, mask=[[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]]),
    ideas=[
        Idea(
            "norm",
            "Each vector that comes out has mean 0 and variance 1.",
            "What is the last step of a post-norm layer, and along which axis?",
            [case(1, 3), case(2, 3)],
            compare=lambda run, case: is_normalised(run, case),
            more=(
                "Each sublayer ends in a sum, and then a norm over the features of "
                "each word.",
                "`F.layer_norm(x, x.shape[-1:])` is a norm. “One layer by hand” has "
                "two.",
            ),
        ),
        Idea(
            "think",
            "The word of a one-word sentence can gather only from itself.",
            "With one word, attention returns the word. Follow it through the two "
            "residuals, the ReLU and the norms.",
            [case(1, 3), case(1, 4, 2, seed=5)],
            more=(
                "Each sublayer: compute, add what went in, normalise.",
                "“One layer by hand” has both sums.",
            ),
        ),
        Idea(
            "gather",
            "Words gather from each other.",
            "The feed-forward weights are zero here. Is x added to what attention "
            "gathers? What are the scores divided by, and which axis sums to 1?",
            [case(2, thinks=False), case(3, 5, thinks=False, seed=9)],
            more=(
                "The scores are `x @ x.mT`, divided by the root of d_model. Each row "
                "becomes shares.",
                "“All words at once” in chapter 3 has the products.",
            ),
        ),
        Idea(
            "whole",
            "Both sublayers together.",
            "What does the feed-forward network read: x, or what attention has left?",
            [case(2), case(3, 5, seed=3)],
            more=(
                "The second sublayer reads the result of the first, and also adds it.",
                "“One layer by hand” calls it `x_1`.",
            ),
        ),
        Idea(
            "padding",
            "Noise in the padding moves no word.",
            "Which scores must be hidden, those of a row or of a column, and before "
            "or after the softmax?",
            [case(3, 4, mask=[[1, 1, 0]]), case(4, 4, mask=[[1, 0, 0, 0]], seed=4)],
            compare=lambda run, case: padding_is_inert(run, case),
            more=(
                "Hide the columns of the padding before the softmax.",
                "“The padding mask” in chapter 5 says which axis is that of the keys.",
            ),
        ),
        Idea(
            "sentences",
            "Each sentence has its own padding.",
            "Which axis of the mask is the batch?",
            [case(3, 4, mask=[[1, 1, 1], [1, 0, 0]])],
            more=(
                "The scores are (B, S, S), and the mask is (B, S). Which axis is "
                "missing?",
            ),
        ),
    ],
    hints=(
        "Write the two sublayers below each other. Each ends in a sum and a norm.",
        "The scores are `x @ x.mT`, divided by the root of d_model. Hide the columns "
        "of the padding before the softmax.",
        "`F.layer_norm(x, x.shape[-1:])` is a norm. “One layer by hand” has the rest.",
    ),
    answer="""The mask gets an axis for the queries, (B, 1, S), so it hides columns.
The feed-forward network reads what the first norm has left. With projections, biases,
heads, learned norms and dropout added, this is `EncoderLayer`.""",
)


def is_normalised(run, case):
    (x,) = run(case)
    spread = (x.mean(dim=-1).abs() > 1e-6) | (
        (x.var(dim=-1, correction=0) - 1) ** 2 > 1e-3
    )
    if spread.any():
        raise Fault("", case, x, (*spread.nonzero()[0].tolist(), 0))


def padding_is_inert(run, case):
    words = case["mask"][..., None]
    noisy = case | {"x": case["x"] + ~words * table([[[3.0] * case["x"].size(-1)]])}
    noisy["x"][..., 0] += (~words)[..., 0] * 5
    (clean,), (moved,) = run(case), run(noisy)
    wrong = ((clean - moved).abs() > 1e-7) & words
    if wrong.any():
        raise Fault("", noisy, moved, tuple(wrong.nonzero()[0].tolist()))


@LAYER.right
def encoder_layer(x, mask, w_1, w_2):
    scores = x @ x.mT / x.size(-1) ** 0.5  # (B, S, S)
    weights = scores.masked_fill(~mask[:, None], float("-inf")).softmax(dim=-1)
    x = F.layer_norm(x + weights @ x, x.shape[-1:])  # (B, S, d_model)
    return F.layer_norm(x + (x @ w_1).relu() @ w_2, x.shape[-1:])


@LAYER.right
def with_the_fused_kernel(x, mask, w_1, w_2):
    gathered = F.scaled_dot_product_attention(x, x, x, mask[:, None])
    x = F.layer_norm(x + gathered, x.shape[-1:])
    return F.layer_norm(x + F.linear(F.relu(F.linear(x, w_1.T)), w_2.T), x.shape[-1:])


@LAYER.right
def word_by_word(x, mask, w_1, w_2):
    def norm(vector):
        middle = vector - vector.mean()
        return middle / (middle.square().mean() + 1e-5).sqrt()

    made = []
    for sentence, real in zip(x, mask, strict=True):
        for word in sentence:
            weights = (sentence[real] @ word / len(word) ** 0.5).softmax(dim=0)
            word = norm(word + weights @ sentence[real])
            made.append(norm(word + (word @ w_1).clamp(min=0) @ w_2))
    return torch.stack(made).reshape(x.shape)


@LAYER.right
class Layer(nn.Module):
    def forward(self, x, mask, w_1, w_2):
        norm = nn.LayerNorm(x.size(-1), elementwise_affine=False)
        scores = torch.einsum("btd,bsd->bts", x, x) * x.size(-1) ** -0.5
        powers = scores.exp() * mask.unsqueeze(1)
        x = norm(x + powers @ x / powers.sum(dim=-1, keepdim=True))
        return norm(x + torch.where(x @ w_1 > 0, x @ w_1, 0) @ w_2)


def norm(x):
    return F.layer_norm(x, x.shape[-1:])


def attend(x, mask, root=None):
    root = x.size(-1) ** 0.5 if root is None else root
    scores = (x @ x.mT / root).masked_fill(~mask[:, None], float("-inf"))
    return scores.softmax(dim=-1) @ x


# -- The mask reaches the first layer only ---------------------------------------------


def stack(x, mask, masks):
    for each in masks:
        x = norm(x + attend(x, mask if each else torch.ones_like(mask)))
    return x


def forgetful(x, mask):
    return stack(x, mask, (True, False))


def careful(x, mask):
    return stack(x, mask, (True, True))


def sentences(words=5, noise=0.0):
    """A sentence without padding, and one of three words."""
    mask = torch.ones(2, words, dtype=torch.bool)
    mask[1, 3:] = False
    x = numbers(2, words, 4) if words == 5 else longer(words)
    x[1, 3:] += noise
    x[1, 3:, 0] -= 2 * noise
    return x, mask


def longer(words):
    x = torch.cat([numbers(2, 5, 4), numbers(2, words - 5, 4, seed=2)], dim=1)
    return x


def agree(one, other):
    return bool(torch.allclose(one, other, atol=1e-9))


FORGETFUL = Break(
    name="encoder-3",
    title="the mask reaches the first layer only",
    task="""A stack of two layers gives its padding mask to the first layer and forgets
it in the second. The batch holds a sentence without padding and a sentence of three
words with two padding tokens. Which of these checks fail?""",
    broken=forgetful,
    intact=careful,
    checks={
        "a": (
            "The sentence without padding comes out as from a correct stack.",
            lambda stack: agree(stack(*sentences())[0], careful(*sentences())[0]),
            "Check a holds: a sentence without padding has nothing to hide. A test "
            "with one sentence never finds this mistake.",
        ),
        "b": (
            "Noise in the padding moves no real word.",
            lambda stack: agree(
                stack(*sentences())[1, :3], stack(*sentences(noise=3.0))[1, :3]
            ),
            "Check b fails: the padded positions carry the noise through the first "
            "layer, and the second layer reads them.",
        ),
        "c": (
            "The words of the padded sentence do not depend on further padding.",
            lambda stack: agree(
                stack(*sentences())[1, :3], stack(*sentences(words=8))[1, :3]
            ),
            "Check c fails: every further padding token is one more key to read.",
        ),
        "d": (
            "The result has the shape of the input.",
            lambda stack: stack(*sentences()).shape == (2, 5, 4),
            "Check d holds: a mask changes numbers, not shapes.",
        ),
        "e": (
            "If two words change places, their new vectors change places.",
            lambda stack: agree(
                stack(*swapped())[1, [1, 0, 2]], stack(*sentences())[1, :3]
            ),
            "Check e holds: there are no positions here, and the padding is the same "
            "for both orders.",
        ),
    },
    hints=("What does a padded position hold after the first layer?",),
    answer="""Checks b and c fail. In the first layer the padded positions are hidden
as keys, but as queries they gather just as real words do. In the second layer the words
read what they have gathered.""",
)


def swapped():
    x, mask = sentences()
    x[1, :2] = x[1, [1, 0]]
    return x, mask


EXERCISES = [SIZE, LAYER, FORGETFUL]
