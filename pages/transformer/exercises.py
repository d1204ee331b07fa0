"""The exercises of the chapter on the whole Transformer."""

import torch
from torch import nn

from bookkit.exercises import Break, Build, Fault, Idea, Predict, numbers, table

# -- Doubling the inner width ----------------------------------------------------------


def grown():
    sizes = []
    for inner in (2048, 4096):
        layers = (
            nn.TransformerEncoderLayer(512, 8, inner, device="meta"),
            nn.TransformerDecoderLayer(512, 8, inner, device="meta"),
        )
        count = sum(p.numel() for each in layers for p in each.parameters())
        sizes.append(6 * count)
    return sizes[1] - sizes[0]


DOUBLED = Predict(
    name="transformer-1",
    title="a wider feed-forward network",
    task="""The base model has six layers in each stack, $d_\\text{model} = 512$ and
$d_\\text{ff} = 2048$. By how many parameters does it grow if $d_\\text{ff}$ is
doubled?""",
    right=25_190_400,
    replies={
        25_190_400: "Twelve networks, each with two more matrices of 512 × 2048 "
        "and 2,048 more biases.",
        25_165_824: "These are the matrices. The inner vectors have a bias.",
        12_595_200: "That is one stack. Both have feed-forward networks.",
        2_099_200: "That is one layer.",
        25_196_544: "The bias of the result still has 512 numbers.",
        0: "That holds for more heads, which only become narrower. Which matrices have "
        "an axis of d_ff?",
    },
    otherwise="Write down what one feed-forward network holds.",
    hints=("Which matrices and biases have an axis of size d_ff?",),
    answer="""$12 \\cdot (2 \\cdot 512 \\cdot 2048 + 2048) = 25{,}190{,}400$. Doubling
the number of heads would add no parameters, because each becomes half as wide.""",
    computed=grown,
)

# -- The loop that writes --------------------------------------------------------------


def case(*rows, limit=9, bos=1, eos=2):
    return {"scores": table(list(rows)), "bos": bos, "eos": eos, "limit": limit}


# After token 1 comes 3, after 3 comes 4, after 4 comes 2, which is EOS.
CHAIN = (
    [0, 0, 0, 0, 1],
    [0, 2, 1, 3, -1],
    [0, 0, 0, 1, 0],
    [-3, -2, -2, -4, -1],
    [1, 2, 5, 4, 3],
)

WRITE = Build(
    name="transformer-2",
    title="the loop that writes",
    task="""A very simple model knows only the last token: `scores[i, j]` says how well
token j follows token i, shape (V, V). Write the loop `write(scores, bos, eos, limit)`.
It begins with the token `bos` and always appends the token with the highest score. It
returns the list of the new tokens as integers, the `eos` included, and stops after
`eos` or after `limit` tokens.""",
    call="write(scores, bos, eos, limit)",
    returns={"tokens": list},
    example=case(*CHAIN),
    ideas=[
        Idea(
            "first",
            "The first token follows bos, and bos is not returned.",
            "Where does the loop begin, which token follows, and what does it return?",
            [case(*CHAIN), case([0, 1], [0, 1], limit=4, bos=0, eos=5)],
            compare=lambda run, case: begins(run, case, 1),
            more=(
                "Begin with the row of `bos`, and return only what you append.",
                "`write` in “The loop that writes” has the same four steps, with a "
                "model in place of the table.",
            ),
        ),
        Idea(
            "next",
            "Each token follows the one before it.",
            "Which row of the scores is read in the second step?",
            [case(*CHAIN), case([0, 1], [1, 0], limit=3, bos=0, eos=5)],
            compare=lambda run, case: begins(run, case, 2),
        ),
        Idea(
            "end",
            "It stops after eos, which it returns.",
            "Is eos appended before the loop ends? And do you compare the token with "
            "eos, or with a number?",
            [case(*CHAIN), case([1, 0, 3], [1, 9, 0], [0, 2, 1], bos=1, eos=1)],
            more=(
                "First append the token, then ask whether it is `eos`.",
                "`write` in “The loop that writes” has the same four steps, with a "
                "model in place of the table.",
            ),
        ),
        Idea(
            "limit",
            "It stops after limit tokens, even if limit is 0.",
            "Does the limit end the loop? Count the new tokens only.",
            [
                case([0, 1], [1, 0], limit=4, bos=0, eos=5),
                case(*CHAIN, limit=0),
                case(*CHAIN, limit=3),
            ],
            more=(
                "With a limit of 0, the loop never runs.",
                "`write` in “The loop that writes” has the same four steps, with a "
                "model in place of the table.",
            ),
        ),
        Idea(
            "integers",
            "The tokens are Python integers.",
            "`argmax` returns a tensor.",
            [case(*CHAIN)],
            compare=lambda run, case: are_integers(run, case),
            more=(
                "`int()` and `.item()` turn a tensor with one number into a Python "
                "number.",
            ),
        ),
    ],
    hints=(
        "Keep one number, the last token, and a list of what has been written.",
        "Read the row of the last token, take the `argmax`, append it, and check "
        "whether it is `eos`.",
        "`write` in “The loop that writes” has the same four steps, with a model "
        "in place of the table.",
    ),
    answer="""A model in place of the table reads the whole prefix, not only the last
token; the loop stays the same. Taking the best token each time is greedy
decoding.""",
)


def begins(run, case, count):
    (tokens,), (expected,) = run(case), run.solution(case)
    if tokens[:count] != expected[:count]:
        raise Fault("", case, tokens)


def are_integers(run, case):
    (tokens,) = run(case)
    if not all(type(token) is int for token in tokens):
        raise Fault("", case, tokens)


@WRITE.right
def write(scores, bos, eos, limit):
    tokens = [bos]
    while len(tokens) <= limit and (len(tokens) == 1 or tokens[-1] != eos):
        tokens.append(scores[tokens[-1]].argmax().item())
    return tokens[1:]


@WRITE.right
def with_a_for_loop(scores, bos, eos, limit):
    written, last = [], bos
    for _ in range(limit):
        last = int(scores[last].argmax())
        written += [last]
        if last == eos:
            break
    return written


@WRITE.right
def with_all_answers_first(scores, bos, eos, limit):
    best = scores.argmax(dim=-1).tolist()
    written = []
    while len(written) < limit:
        written.append(best[written[-1] if written else bos])
        if written[-1] == eos:
            return written
    return written


@WRITE.right
class Writer:
    def __call__(self, scores, bos, eos, limit):
        if limit == 0:
            return []
        token = scores[bos].max(dim=-1).indices.item()
        return [token, *(self(scores, token, eos, limit - 1) if token != eos else [])]


# -- The first row ---------------------------------------------------------------------


def model(prefix):
    """The logits of a small causal model: each position adds up what it has read."""
    vectors = numbers(6, 4, seed=4)[torch.tensor(prefix)].cumsum(dim=0)  # (t, 4)
    return vectors @ numbers(4, 6, seed=2)  # (t, 6)


def write_from(row):
    def loop(limit):
        prefix, read = [1], []
        for _ in range(limit):
            logits = model(prefix)  # (t, V)
            read.append(len(logits))
            prefix.append(logits[row].argmax().item())
        return prefix[1:], read

    return loop


last_row, first_row = write_from(-1), write_from(0)

FIRST_ROW = Break(
    name="transformer-3",
    title="the first row",
    task="""In the loop `write`, someone takes `logits[:, 0]` instead of `logits[:,
-1]`. The model is causal. Which of these checks fail?""",
    broken=first_row,
    intact=last_row,
    checks={
        "a": (
            "The first word is right.",
            lambda loop: loop(1)[0] == last_row(1)[0],
            "Check a holds: with BOS alone, the first row is the last one.",
        ),
        "b": (
            "The second word is right.",
            lambda loop: loop(2)[0] == last_row(2)[0],
            "Check b fails: row 0 has read BOS and nothing else, so it says the first "
            "word again.",
        ),
        "c": (
            "The model reads one more token at each step.",
            lambda loop: loop(4)[1] == [1, 2, 3, 4],
            "Check c holds: the prefix grows, and the model reads all of it. Only its "
            "answer is taken from the wrong row.",
        ),
        "d": (
            "The words are not all the same.",
            lambda loop: len(set(loop(4)[0])) > 1,
            "Check d fails: a causal model computes the same row 0 at each step.",
        ),
        "e": (
            "It stops after `limit` words.",
            lambda loop: len(loop(4)[0]) == 4,
            "Check e holds, and the loop needs the limit unless the first word is EOS.",
        ),
    },
    hints=("What has position 0 read, and does that change from step to step?",),
    answer="""Checks b and d fail. Position 0 sees BOS and nothing else, at every step.
So the trained model of this chapter would write *die die die* until the limit stops
it.""",
)

EXERCISES = [DOUBLED, WRITE, FIRST_ROW]
