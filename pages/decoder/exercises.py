"""The exercises of the chapter on the decoder."""

import torch
from torch import nn
from torch.nn import functional as F

from bookkit.exercises import Break, Build, Fault, Idea, Predict, numbers, table

# -- A causal mask on the wrong attention ----------------------------------------------


def words_that_position_3_reads():
    causal = torch.ones(7, 7).tril()[:, :6]
    words = "the cat reads a red book".split()
    return " ".join(words[s] for s in range(6) if causal[3, s])


WRONG_MASK = Predict(
    name="decoder-1",
    title="a causal mask on the wrong attention",
    task="""The target is "BOS die Katze liest ein rotes Buch", the source "the cat
reads a red book". Someone gives the *cross*-attention a causal mask,
`causal_mask(7)[..., :6]`. One position has read *liest* and must predict *ein*. Which
source words can it read?""",
    right="the cat reads a",
    replies={
        "the cat reads a": "*liest* is at position 3, so columns 0 to 3 are open. "
        "*ein* depends on the gender of *Buch*, and “book” is hidden.",
        "the cat reads": "Count the positions from 0, and do not forget BOS.",
        "the cat reads a red book": "Without this mask, yes. Which columns are open in "
        "row 3?",
        "red book": "A causal mask opens the beginning of a row, not its end.",
    },
    hints=("Write the target beside the rows and the source above the columns.",),
    answer="""The four words up to "a". German order is not English order, so such a
mask hides what is needed. Part of "book" may still arrive: each row of the memory has
gathered from all words, so the row of "a" contains something of it.""",
    computed=words_that_position_3_reads,
)

# -- What a decoder layer has more -----------------------------------------------------


def difference():
    sizes = {"dim_feedforward": 2048, "device": "meta"}
    layers = (
        nn.TransformerDecoderLayer(512, 8, **sizes),
        nn.TransformerEncoderLayer(512, 8, **sizes),
    )
    decoder, encoder = (sum(p.numel() for p in each.parameters()) for each in layers)
    return decoder - encoder


MORE = Predict(
    name="decoder-2",
    title="the larger layer",
    task="""How many more parameters does a decoder layer have than an encoder layer,
with $d_\\text{model} = 512$ and $d_\\text{ff} = 2048$? Every projection has a bias,
every norm two vectors.""",
    right=1_051_648,
    replies={
        1_051_648: "A second attention has four projections with biases, and a third "
        "norm has two vectors.",
        1_048_576: "These are the four matrices. Two more kinds of parameters are new.",
        1_050_624: "That is the attention. Around it goes a residual; what does that "
        "hold?",
        1_049_600: "The four projections have biases.",
        0: "The decoder layer has a sublayer that the encoder layer does not have.",
    },
    otherwise="Compare the two drawings: which boxes are new?",
    hints=("The third sublayer is attention inside a residual.",),
    answer="""$4 (512^2 + 512) + 2 \\cdot 512 = 1{,}051{,}648$: the cross-attention
and the norm of its residual. That is a third of an encoder layer.""",
    computed=difference,
)

# -- Cross-attention -------------------------------------------------------------------


def case(target=2, source=3, mask=None, width=2, d_k=3, d_v=2, seed=0):
    mask = [[1] * source] if mask is None else mask
    return {
        "x": numbers(len(mask), target, width, seed=seed),
        "memory": numbers(len(mask), source, width, seed=seed + 1),
        "mask": torch.tensor(mask).bool(),
        "w_q": numbers(width, d_k, seed=seed + 2),
        "w_k": numbers(width, d_k, seed=seed + 3),
        "w_v": numbers(width, d_v, seed=seed + 4),
    }


CROSS = Build(
    name="decoder-3",
    title="cross-attention",
    task="""Write one head of cross-attention:
`cross_attention(x, memory, mask, w_q, w_k, w_v)`. The target `x` has shape (B, T,
d_model), the `memory` (B, S, d_model). `mask`, of shape (B, S), is True for source
words and False for their padding. The matrices multiply from the right: `x @ w_q` has
d_k features, `memory @ w_v` has d_v.""",
    call="cross_attention(x, memory, mask, w_q, w_k, w_v)",
    returns={"read": "B T d_v"},
    example=case(4, 5, [[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], width=6, d_k=3, d_v=7),
    ideas=[
        Idea(
            "values",
            "If the source has one word, its value is the answer to every query.",
            "From every query, the only key gets the weight 1. Which sequence gives "
            "the values, and through which matrix?",
            [case(1, 1), case(3, 1, seed=7)],
        ),
        Idea(
            "queries",
            "Equal target vectors read the same, whatever their positions are.",
            "Which sequence gives the queries? No causal mask is needed here.",
            [case(3, 2), case(4, 3, seed=5)],
            compare=lambda run, case: equal_queries(run, case),
        ),
        Idea(
            "weights",
            "The weights are a softmax over the source.",
            "What are the scores divided by, and which axis sums to 1?",
            [case(1, 2), case(2, 3), case(3, 4, d_k=5, seed=9)],
            more=(
                "The scores are divided by the root of d_k. Softmax runs along the "
                "source.",
                "“Cross-attention: what does the source say?” has this line, with "
                "heads.",
            ),
        ),
        Idea(
            "padding",
            "Padding of the source is not read.",
            "Hide columns of the scores, before the softmax.",
            [case(1, 2, [[1, 0]]), case(2, 4, [[1, 1, 0, 0]], seed=6)],
            more=(
                "The mask is True for words. The score of a hidden key is minus "
                "infinity.",
                "“Cross-attention: what does the source say?” hides with "
                "`memory_mask`.",
            ),
        ),
        Idea(
            "sentences",
            "Each sentence has its own padding.",
            "The mask needs an axis for the queries. Where?",
            [case(2, 2, [[1, 1], [1, 0]]), case(2, 3, [[1, 0, 0], [1, 1, 1]])],
            more=(
                "The scores are (B, T, S), and the mask is (B, S). Which axis is "
                "missing?",
            ),
        ),
    ],
    hints=(
        "Write down the shape of each product. The scores are (B, T, S).",
        "Queries come from `x`, keys and values from `memory`. The mask hides keys.",
        "“Cross-attention: what does the source say?” has these lines, with heads.",
    ),
    answer="""The result has as many rows as the target. The source axis is gone: it
was summed over. The mask, with an axis for the queries, has shape (B, 1, S).""",
)


def equal_queries(run, case):
    case = case | {"x": case["x"][:, :1].expand_as(case["x"]).clone()}
    (read,) = run(case)
    wrong = (read - read[:, :1]).abs() > 1e-7
    if wrong.any():
        raise Fault("", case, read, tuple(wrong.nonzero()[0].tolist()))


@CROSS.right
def cross_attention(x, memory, mask, w_q, w_k, w_v):
    q, k, v = x @ w_q, memory @ w_k, memory @ w_v
    scores = q @ k.mT / q.size(-1) ** 0.5  # (B, T, S)
    weights = scores.masked_fill(~mask[:, None], float("-inf")).softmax(dim=-1)
    return weights @ v  # (B, T, d_v)


@CROSS.right
def by_the_fused_kernel(x, memory, mask, w_q, w_k, w_v):
    k, v = memory @ w_k, memory @ w_v
    return F.scaled_dot_product_attention(x @ w_q, k, v, mask.unsqueeze(1))


@CROSS.right
def one_query_at_a_time(x, memory, mask, w_q, w_k, w_v):
    made = []
    for target, source, real in zip(x, memory, mask, strict=True):
        words = source[real]
        for word in target:
            scores = words @ w_k @ (word @ w_q) / w_k.shape[1] ** 0.5
            made.append(scores.softmax(dim=0) @ (words @ w_v))
    return torch.stack(made).reshape(*x.shape[:2], -1)


@CROSS.right
class CrossAttention(nn.Module):
    def forward(self, x, memory, mask, w_q, w_k, w_v):
        scores = torch.einsum("btd,dk,ek,bse->bts", x, w_q, w_k, memory)
        powers = (scores / w_q.size(1) ** 0.5).exp() * mask[:, None, :]
        weights = powers / powers.sum(dim=-1, keepdim=True)
        return weights @ memory @ w_v


def weigh(scores, mask):
    return scores.masked_fill(~mask[:, None], float("-inf")).softmax(dim=-1)


# -- A causal mask after the softmax ---------------------------------------------------


def masked_before(scores):
    """Return the weights under a causal mask."""
    hidden = torch.ones(scores.shape).triu(1).bool()
    return scores.masked_fill(hidden, float("-inf")).softmax(dim=-1)


def masked_after(scores):
    return scores.softmax(dim=-1).tril()


def weights_of(weigh, changed=False):
    """Weights of four words; or the last word is another one."""
    x = numbers(4, 3, seed=8)
    x[3] += table([1.0, -2.0, 3.0]) * changed
    return weigh(x @ x.T)


AFTER = Break(
    name="decoder-4",
    title="the causal mask after the softmax",
    task="""In the self-attention of a decoder, someone sets the weights above the
diagonal to zero *after* the softmax instead of hiding the scores before it. The
target has four words. Which of these checks fail?""",
    broken=masked_after,
    intact=masked_before,
    checks={
        "a": (
            "The weights of later words are 0.",
            lambda weigh: bool((weights_of(weigh).triu(1) == 0).all()),
            "Check a holds: this is what the change sets to zero.",
        ),
        "b": (
            "The weights of each word sum to 1.",
            lambda weigh: bool(((weights_of(weigh).sum(-1) - 1).abs() < 1e-6).all()),
            "Check b fails: the later words had a share, and no word gets it now.",
        ),
        "c": (
            "The first word gives itself the weight 1.",
            lambda weigh: abs(weights_of(weigh)[0, 0].item() - 1) < 1e-6,
            "Check c fails: three later words are still in its total.",
        ),
        "d": (
            "If the last word changes, the weights of the earlier words stay.",
            lambda weigh: bool(
                torch.allclose(weights_of(weigh)[:3], weights_of(weigh, True)[:3])
            ),
            "Check d fails: the total of the softmax still contains the later words. "
            "That is a leak, although the map of the weights is a clean triangle.",
        ),
        "e": (
            "The weights of the last word are those of a correct mask.",
            lambda weigh: bool(
                torch.allclose(weights_of(weigh)[3], weights_of(masked_before)[3])
            ),
            "Check e holds: the last word has no later one.",
        ),
    },
    hints=("What does the softmax divide by?",),
    answer="""Checks b, c and d fail. The softmax divides by a total over all words,
later ones included, so the future leaks through the total. A picture of the weights
does not show it; the gradient does.""",
)

EXERCISES = [WRONG_MASK, MORE, CROSS, AFTER]
