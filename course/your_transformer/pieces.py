"""The pieces of "Your Transformer", each with the tests of its adapter.

Every piece is a ``Build``, so an adapter is tested as an answer in a chapter is. The
solutions are the library's own layers.
"""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from types import ModuleType

import torch
from torch import Tensor, nn
from torch.func import functional_call

from bookkit.exercises import calling, testing
from bookkit.exercises.exercise import (
    Build,
    Fault,
    Idea,
    numbers,
    roughly,
    table,
)
from transformer_lib.decoding import greedy_decode
from transformer_lib.model import (
    FeedForward,
    MultiHeadAttention,
    Residual,
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
    scaled_dot_product_attention,
)

PAD, BOS, EOS = 0, 1, 2
calling.NOT_THEIRS.add(__file__)
Weights = dict[str, Tensor]


@dataclass(frozen=True)
class Piece:
    """An adapter to write.

    Args:
        build: Its tests.
        chapter: Where the book explains it.
        bind: Takes the student's module and returns what the tests call. None: the
            adapter of the same name.
    """

    build: Build
    chapter: str
    bind: Callable[[ModuleType], Callable] | None = None

    def answer(self, adapters: ModuleType) -> Callable:
        """Return what the tests call.

        Raises:
            AttributeError: If the adapter is gone.
        """
        adapter = getattr(adapters, self.build.name)
        return adapter if self.bind is None else self.bind(adapters)


def choices(**sizes: int) -> TransformerConfig:
    """Describe a model like the shipped translator: pre-norm, one table, no dropout."""
    vocab = sizes.pop("vocab_size", 11)
    small = {"d_model": 4, "num_heads": 2, "d_ff": 6, "num_layers": 1, "max_len": 16}
    return TransformerConfig(
        src_vocab_size=vocab,
        tgt_vocab_size=vocab,
        dropout=0.0,
        norm_first=True,
        share_embeddings=True,
        tie_output=True,
        **(small | sizes),
    )


def model_of(config: TransformerConfig) -> Transformer:
    """Make the library's model without changing the state of the random numbers."""
    with torch.random.fork_rng(devices=[]):
        return Transformer(config).double().eval()


def drawn(module: nn.Module, seed: int = 0) -> Weights:
    """Draw every weight of a module, those of the norms included."""
    named = enumerate(module.named_parameters())
    return {name: numbers(*p.shape, seed=100 * seed + i) for i, (name, p) in named}


def layers_in(weights: Weights) -> int:
    return len({name.split(".")[1] for name in weights if name.startswith("layers.")})


def stack_of(weights: Weights, num_heads: int) -> Transformer:
    """Make a model whose stacks have the sizes of these weights."""
    d_ff, d_model = weights["layers.0.feed_forward.w_1.weight"].shape
    sizes = {"d_model": d_model, "d_ff": d_ff, "num_layers": layers_in(weights)}
    return model_of(choices(num_heads=num_heads, **sizes))


def open_mask(*shape: int) -> Tensor:
    return torch.ones(shape, dtype=torch.bool)


def half_mask(*shape: int) -> Tensor:
    """Hide some keys from some queries, but never the first key."""
    mask = numbers(*shape, seed=7) > 0
    mask[..., 0] = True
    return mask


@contextlib.contextmanager
def float64() -> Iterator[None]:
    """Make float64 the dtype of new layers, so that they fit the tests."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


# -- Attention -------------------------------------------------------------------------


def attend(query, key, value, mask):
    return scaled_dot_product_attention(query, key, value, mask)[0]


def attending(queries, keys, values, mask):
    given = {"query": queries, "key": keys, "value": values}
    given = {name: table([[rows]]) for name, rows in given.items()}
    return given | {"mask": torch.tensor([[mask]])}


ATTENTION = Build(
    name="attention",
    title="attention",
    task="",
    call="attention(query, key, value, mask)",
    returns={"attended": "B H T D_v"},
    example={
        "query": numbers(2, 3, 5, 7),
        "key": numbers(2, 3, 4, 7, seed=1),
        "value": numbers(2, 3, 4, 6, seed=2),
        "mask": half_mask(2, 1, 5, 4),
    },
    ideas=[
        Idea(
            "alike",
            "Equal scores give the mean of the values.",
            "The weights of a query are positive and sum to 1. Over which axis?",
            [attending([[0.0]], [[1.0], [1.0]], [[2.0], [4.0]], [[True, True]])],
        ),
        Idea(
            "root",
            "The scores are divided by the root of the width of the keys.",
            "Which factor keeps the scores small when the vectors are wide?",
            [
                attending(
                    [[1.0] * 4], [[1.0] * 4, [0.0] * 4], [[1.0], [0.0]], [[True] * 2]
                )
            ],
        ),
        Idea(
            "mask",
            "A hidden key has no weight, and True means “may attend”.",
            "What must the score of a hidden key be, before the softmax?",
            [attending([[1.0]], [[1.0], [1.0]], [[2.0], [4.0]], [[True, False]])],
        ),
    ],
    hints=(
        "Write the shapes of the scores down first: one score per query and key.",
        "The mask acts on the scores, and the softmax runs over the keys.",
        "Chapter 3, “The finished function, line by line”.",
    ),
    answer="",
    rights=[attend],
)


# -- Many heads ------------------------------------------------------------------------


def many_heads(query, memory, mask, weights, num_heads):
    layer = MultiHeadAttention(query.size(-1), num_heads)
    return functional_call(layer, weights, (query, memory, memory, mask))


def heads(batch, length, keys, d_model, num_heads, mask=None):
    mask = open_mask(1, 1, length, keys) if mask is None else mask
    return {
        "query": numbers(batch, length, d_model),
        "memory": numbers(batch, keys, d_model, seed=1),
        "mask": mask,
        "weights": drawn(MultiHeadAttention(d_model, num_heads), seed=1),
        "num_heads": num_heads,
    }


HEADS = Build(
    name="multi_head_attention",
    title="many heads",
    task="",
    call="multi_head_attention(query, memory, mask, weights, num_heads)",
    returns={"attended": "B T d_model"},
    example=heads(2, 5, 4, 6, 3, half_mask(2, 1, 5, 4)),
    ideas=[
        Idea(
            "projections",
            "One head projects queries, keys and values, and the result.",
            "Is each matrix used where its name says, with its bias?",
            [heads(1, 1, 1, 1, 1), heads(1, 2, 3, 2, 1)],
        ),
        Idea(
            "heads",
            "Each head owns neighbouring features.",
            "Head 0 owns the first d_model / num_heads features of a projection. "
            "Follow one feature through your split and back.",
            [heads(1, 1, 2, 2, 2), heads(1, 2, 3, 4, 2)],
        ),
        Idea(
            "mask",
            "All heads respect the mask of each sentence and of each query.",
            "The mask is the same for all heads. Along which axes may it differ?",
            [
                heads(1, 1, 2, 2, 2, torch.tensor([[[[True, False]]]])),
                heads(2, 3, 2, 4, 2, half_mask(2, 1, 1, 2)),
                heads(1, 2, 3, 4, 2, half_mask(1, 1, 2, 3)),
            ],
        ),
    ],
    hints=(
        "Project, split, attend, merge, project.",
        "The split makes two axes of the last one, and then moves one of them.",
        "Chapter 4, “The finished layer”.",
    ),
    answer="",
    rights=[many_heads],
)


# -- Masks -----------------------------------------------------------------------------


def tokens(*rows, pad_id=PAD):
    return {"tokens": torch.tensor(rows), "pad_id": pad_id}


PADDING = Build(
    name="padding_mask",
    title="the padding mask",
    task="",
    call="padding_mask(tokens, pad_id)",
    returns={"mask": "B 1 1 S"},
    example=tokens([3, 4, 5, 0, 0], [3, 0, 0, 0, 0], [6, 7, 8, 9, 3]),
    ideas=[
        Idea(
            "padding",
            "Padding is hidden, and words are not.",
            "What does True mean?",
            [tokens([3, 0])],
        ),
        Idea(
            "pad_id",
            "PAD may have any id.",
            "Does your code use the argument `pad_id`?",
            [tokens([3, 5], pad_id=5)],
        ),
    ],
    hints=(
        "Compare the ids.",
        "The two axes of size 1 stand for the heads and the queries.",
        "Chapter 5, “The padding mask”.",
    ),
    answer="",
    rights=[padding_mask],
)

CAUSAL = Build(
    name="causal_mask",
    title="the causal mask",
    task="",
    call="causal_mask(size)",
    returns={"mask": "1 1 T T"},
    example={"size": 4},
    ideas=[
        Idea(
            "itself",
            "A position may read itself.",
            "Is the diagonal open?",
            [{"size": 1}],
        ),
        Idea(
            "future",
            "A position may not read a later one.",
            "Rows are queries and columns are keys. Which corner is hidden?",
            [{"size": 2}, {"size": 7}],
        ),
    ],
    hints=(
        "Draw the mask of three words on paper.",
        "Query t may read the keys 0 to t.",
        "Chapter 5, “The causal mask”.",
    ),
    answer="",
    rights=[causal_mask],
)


# -- Sublayers -------------------------------------------------------------------------


def forward(x, weights):
    d_ff, d_model = weights["w_1.weight"].shape
    return functional_call(FeedForward(d_model, d_ff), weights, (x,))


def feeding(batch, length, d_model, d_ff):
    weights = drawn(FeedForward(d_model, d_ff), seed=2)
    return {"x": numbers(batch, length, d_model), "weights": weights}


FEED = Build(
    name="feed_forward",
    title="the feed-forward network",
    task="",
    call="feed_forward(x, weights)",
    returns={"y": "B T d_model"},
    example=feeding(2, 3, 5, 7),
    ideas=[
        Idea(
            "two",
            "Two matrices, each with its bias, and a ReLU between them.",
            "Which axis of `w_1.weight` is d_ff? `nn.Linear` stores (out, in).",
            [feeding(1, 1, 1, 1), feeding(1, 1, 2, 3), feeding(1, 2, 3, 8)],
        ),
    ],
    hints=(
        "It treats each position by itself.",
        "Widen, cut off what is negative, narrow.",
        "Chapter 6, “What does a word do with what it gathered?”.",
    ),
    answer="",
    rights=[forward],
)


def surround(x, function, weights):
    layer = Residual(nn.LayerNorm(x.size(-1)), dropout=0.0, norm_first=True)
    return functional_call(layer, weights, (x, function))


class Named:
    """A function that a report can write."""

    def __init__(self, name: str, function: Callable) -> None:
        self.name, self.function = name, function

    def __call__(self, x: Tensor) -> Tensor:
        return self.function(x)

    def __repr__(self) -> str:
        return self.name


def surrounding(rows, function, scale=1.0, shift=0.0):
    x = table([rows])
    one = torch.ones(x.size(-1), dtype=x.dtype)
    weights = {"norm.weight": scale * one, "norm.bias": shift * one}
    return {"x": x, "function": function, "weights": weights}


SAME, SILENT = (
    Named("lambda x: x", lambda x: x),
    Named("lambda x: 0 * x", lambda x: 0 * x),
)

SUBLAYER = Build(
    name="sublayer",
    title="norm and residual connection",
    task="",
    call="sublayer(x, function, weights)",
    returns={"y": "B T d_model"},
    example={
        "x": numbers(2, 3, 5),
        "function": Named("torch.sin", torch.sin),
        "weights": {"norm.weight": numbers(5, seed=1), "norm.bias": numbers(5, seed=2)},
    },
    ideas=[
        Idea(
            "residual",
            "If the function returns zeros, x comes out unchanged.",
            "Pre-norm: what does the residual connection add to, x or its norm?",
            [surrounding([[1.0, 3.0]], SILENT)],
        ),
        Idea(
            "norm",
            "The function reads the norm of x.",
            "Each position has its own mean and its own variance, over which axis? The "
            "variance divides by n, and eps is 1e-5.",
            [
                surrounding([[1.0, 3.0]], SAME),
                surrounding([[0.001, 0.0], [5.0, 9.0]], SAME),
            ],
        ),
        Idea(
            "weights",
            "The norm has a scale and a shift.",
            "Where do `norm.weight` and `norm.bias` enter?",
            [surrounding([[1.0, 3.0]], SAME, 2.0, 5.0)],
        ),
    ],
    hints=(
        "Pre-norm has three steps: norm, function, sum.",
        "The sum is not normalised.",
        "Chapter 6, “Before or after? Post-norm and pre-norm”.",
    ),
    answer="",
    rights=[surround],
)


# -- The stacks ------------------------------------------------------------------------


def encode(x, mask, weights, num_heads):
    encoder = stack_of(weights, num_heads).encoder
    return functional_call(encoder, weights, (x, mask))


def encoding(batch, length, mask=None, seed=3, **sizes):
    config = choices(**sizes)
    return {
        "x": numbers(batch, length, config.d_model),
        "mask": open_mask(1, 1, 1, length) if mask is None else mask,
        "weights": drawn(model_of(config).encoder, seed),
        "num_heads": config.num_heads,
    }


ENCODER = Build(
    name="encoder",
    title="the encoder",
    task="",
    call="encoder(x, mask, weights, num_heads)",
    returns={"memory": "B S d_model"},
    example=encoding(
        2, 5, half_mask(2, 1, 1, 5), d_model=6, d_ff=7, num_heads=3, num_layers=2
    ),
    ideas=[
        Idea(
            "layer",
            "One layer attends, then runs the feed-forward network, and the stack ends "
            "in a norm.",
            "Does each sublayer use its own norm, and is the final norm there?",
            [encoding(1, 1, num_heads=1, d_model=2), encoding(1, 2)],
            roughly,
        ),
        Idea(
            "mask",
            "The attention respects the mask.",
            "Does every layer receive the mask?",
            [encoding(1, 2, torch.tensor([[[[True, False]]]]))],
            roughly,
        ),
        Idea(
            "layers",
            "The layers run in order, as many as there are.",
            "Does the second layer use the weights of “layers.1”? And the tenth comes "
            "after the ninth.",
            [encoding(1, 2, num_layers=2), encoding(1, 2, num_layers=11)],
            roughly,
        ),
    ],
    hints=(
        "First write one layer of two sublayers, then the loop.",
        "The weights of a part are those whose names begin with its name.",
        "Chapter 7, “The finished layer” and “The stack”.",
    ),
    answer="",
    rights=[encode],
)


def decode(x, memory, mask, memory_mask, weights, num_heads):
    decoder = stack_of(weights, num_heads).decoder
    return functional_call(decoder, weights, (x, memory, mask, memory_mask))


def decoding(batch, length, keys, memory_mask=None, seed=4, **sizes):
    config = choices(**sizes)
    hidden = open_mask(1, 1, 1, keys) if memory_mask is None else memory_mask
    return {
        "x": numbers(batch, length, config.d_model),
        "memory": numbers(batch, keys, config.d_model, seed=1),
        "mask": causal_mask(length),
        "memory_mask": hidden,
        "weights": drawn(model_of(config).decoder, seed),
        "num_heads": config.num_heads,
    }


DECODER = Build(
    name="decoder",
    title="the decoder",
    task="",
    call="decoder(x, memory, mask, memory_mask, weights, num_heads)",
    returns={"y": "B T d_model"},
    example=decoding(
        2, 5, 3, half_mask(2, 1, 1, 3), d_model=6, d_ff=7, num_heads=3, num_layers=2
    ),
    ideas=[
        Idea(
            "layer",
            "One layer attends to itself, then to the memory, then runs the "
            "feed-forward network. The stack ends in a norm.",
            "Three sublayers: which of them reads the memory, and is the memory "
            "normalised again?",
            [decoding(1, 1, 1, num_heads=1, d_model=2), decoding(1, 1, 2)],
            roughly,
        ),
        Idea(
            "causal",
            "The self-attention respects `mask`.",
            "Which of the two masks has the axes of target and target?",
            [decoding(1, 2, 1), decoding(1, 2, 2)],
            roughly,
        ),
        Idea(
            "memory_mask",
            "The cross-attention respects `memory_mask`.",
            "Padding of the source is hidden from the encoder and also from whom?",
            [decoding(1, 1, 2, torch.tensor([[[[True, False]]]]))],
            roughly,
        ),
        Idea(
            "layers",
            "The layers run in order, and each reads the same memory.",
            "What changes from layer to layer, x or the memory?",
            [decoding(1, 2, 2, num_layers=2), decoding(1, 2, 2, num_layers=11)],
            roughly,
        ),
    ],
    hints=(
        "It is the encoder with one more sublayer.",
        "In cross-attention the queries come from x; keys and values from the memory.",
        "Chapter 8, “The finished layer” and “The stack”.",
    ),
    answer="",
    rights=[decode],
)


# -- The whole model -------------------------------------------------------------------


def scores(src, tgt, weights, config):
    return functional_call(model_of(config), weights, (src, tgt))


def made(adapters: ModuleType, config: TransformerConfig, weights: Weights):
    """Make the student's model and load weights into it, in their dtype."""
    model = adapters.build(config)
    if not isinstance(model, nn.Module):
        kind = type(model).__name__
        raise TypeError(f"build must return an nn.Module, got a {kind}")
    model = model.to(next(iter(weights.values())).dtype).eval()
    adapters.load(model, {name: value.clone() for name, value in weights.items()})
    return model


def scoring(src, tgt, silent=False, seed=5, **sizes):
    config = choices(**sizes)
    weights = drawn(model_of(config), seed)
    if silent:
        ends = "w_o.weight", "w_o.bias", "w_2.weight", "w_2.bias"
        zero = {
            name: 0 * value for name, value in weights.items() if name.endswith(ends)
        }
        weights |= zero
    given = {"src": torch.tensor(src), "tgt": torch.tensor(tgt)}
    return given | {"weights": weights, "config": config}


def scored(run: Callable, case: dict) -> None:
    """Compare logits, and recognise what others make of them."""
    (found,), (expected,) = run(case), run.solution(case)
    for after in "softmax", "log_softmax":
        if torch.allclose(found.to(expected), getattr(expected, after)(-1)):
            says = f"This is the {after} of the logits. Return what enters it."
            raise Fault(says, case, found)
    roughly(run, case)


def at_words(run: Callable, case: dict) -> None:
    """Compare the logits after words: nobody reads those after padding."""
    is_word = case["tgt"] != PAD
    (found,), (expected,) = run(case), run.solution(case)
    found = found.to(expected)[is_word]
    if not torch.allclose(found, expected[is_word], rtol=1e-4, atol=1e-4):
        raise Fault("", case)


MODEL = Build(
    name="logits",
    title="the whole model",
    task="",
    call="logits(model, src, tgt)",
    returns={"logits": "B T V"},
    example=scoring([[3, 4, 5, 2], [6, 2, 0, 0]], [[1, 3, 4], [1, 5, 0]], num_layers=2),
    compare=at_words,
    ideas=[
        Idea(
            "embedding",
            "With silent sublayers, the logits are right: embedding, positions, final "
            "norm and output.",
            "Compare the size of an embedded token with that of its position: what "
            "does chapter 1 multiply it by? Do sines and cosines alternate? Does each "
            "stack end in its own norm?",
            [
                scoring([[2]], [[1]], silent=True),
                scoring([[2]], [[1, 3, 4]], silent=True),
            ],
            scored,
        ),
        Idea(
            "whole",
            "With one layer, the logits are right.",
            "Do both stacks get their own weights, and does the decoder read the "
            "encoder's last result?",
            [scoring([[2]], [[1]]), scoring([[3, 4, 2]], [[1]])],
            scored,
        ),
        Idea(
            "padding",
            "Padding at the end of a source changes nothing.",
            "The source is read in the encoder's self-attention and in the "
            "cross-attention. Do both hide its padding?",
            [
                scoring([[2, 0]], [[1]]),
                scoring([[3, 2, 0, 0], [3, 4, 5, 2]], [[1], [1]]),
            ],
            scored,
        ),
        Idea(
            "causal",
            "The logits at t have read the target up to t.",
            "Does the model make the causal mask itself?",
            [scoring([[2]], [[1, 3]]), scoring([[3, 2]], [[1, 3, 4, 5, 6]])],
            scored,
        ),
        Idea(
            "sizes",
            "Any sizes work.",
            "Is every size taken from the config?",
            [
                scoring(
                    [[12, 3, 2]],
                    [[1, 9]],
                    d_model=6,
                    num_heads=3,
                    d_ff=5,
                    num_layers=3,
                    vocab_size=13,
                )
            ],
            scored,
        ),
    ],
    hints=(
        "`build`, `load` and `logits` are tested together. Test `load` first: is any "
        "weight left as it was drawn?",
        "Check each part of the model with its own piece.",
        "Chapter 9, “The finished model”.",
    ),
    answer="",
    rights=[scores],
)


def bind_logits(adapters: ModuleType) -> Callable:
    def answer(src, tgt, weights, config):
        return adapters.logits(made(adapters, config, weights), src, tgt)

    return answer


# -- Decoding --------------------------------------------------------------------------

WRITER = choices(d_model=8)
# Seed 133 writes 3 1 7 3 10 10 7 3 after 4 5 EOS, and never PAD.
LEARNED = drawn(model_of(WRITER), seed=133)


def write(src, bos_id, eos_id, limit):
    model = model_of(replace(WRITER, bos_id=bos_id, eos_id=eos_id))
    model.load_state_dict(LEARNED, strict=False)
    return greedy_decode(model, src, max_len=limit)[0]


def writing(*src, bos_id=BOS, eos_id=EOS, limit=8):
    ids = {"bos_id": bos_id, "eos_id": eos_id}
    return {"src": torch.tensor([src]), **ids, "limit": limit}


def bind_decoding(name: str) -> Callable[[ModuleType], Callable]:
    def bind(adapters: ModuleType) -> Callable:
        def answer(src, bos_id, eos_id, limit):
            model = made(adapters, WRITER, LEARNED)
            return getattr(adapters, name)(model, src, bos_id, eos_id, limit)

        return answer

    return bind


WORDS = [
    Idea(
        "first",
        "The first word follows BOS, and BOS is not returned.",
        "Which row of the logits scores the next word?",
        [writing(4, 5, 2, limit=1), writing(4, 5, 2, bos_id=7, limit=1)],
    ),
    Idea(
        "next",
        "Each word follows all the words before it.",
        "After the second step, what has the decoder read, and at which positions?",
        [writing(4, 5, 2, limit=2), writing(4, 5, 2), writing(10, 6, 2)],
    ),
    Idea(
        "end",
        "It stops after EOS, which is not returned.",
        "Do you compare the new word with `eos_id`?",
        [writing(4, 5, 2, eos_id=3), writing(4, 5, 2, eos_id=10)],
    ),
    Idea(
        "limit",
        "It writes `limit` words at most.",
        "BOS does not count.",
        [writing(4, 5, 2, eos_id=10, limit=n) for n in (4, 5)],
    ),
]

GREEDY = Build(
    name="greedy",
    title="greedy decoding",
    task="",
    call="greedy(model, src, bos_id, eos_id, limit)",
    returns={"tokens": list},
    example=writing(4, 5, 2, eos_id=10),
    ideas=WORDS,
    hints=(
        "Keep a list of words that begins with BOS.",
        "Score, take the best word of the last row, append it, and see whether it ends "
        "the sentence.",
        "Chapter 9, “The loop that writes”.",
    ),
    answer="",
    rights=[write],
)


def once(run: Callable, case: dict) -> None:
    """Count the positions that are computed: each one once, or hardly more."""
    length, steps = case["src"].size(1), case["limit"]
    run.call(case, d_ff=WRITER.d_ff)
    if run.count > length + 2 * steps:
        says = f"For {length} tokens of the source and {steps} steps, the feed-forward "
        says += f"networks must read {length + steps} positions, and yours read "
        says += f"{run.count}. Does a token enter the decoder twice, or does the "
        raise Fault(says + "encoder run again?", case)


ONCE = Idea(
    "once",
    "No position is computed twice.",
    "",
    [writing(4, 5, 2, eos_id=10, limit=4)],  # shorter than d_ff, also with BOS
    once,
)


def twice(adapters: ModuleType) -> str:
    """Say whether a decoder with a cache computes a position twice; "" if not."""
    answer = bind_decoding("greedy_cached")(adapters)
    try:
        with float64():
            once(testing.Run(CACHED, answer), ONCE.cases[0])
    except Fault as fault:
        return fault.says
    return ""


CACHED = Build(
    name="greedy_cached",
    title="greedy decoding with a cache",
    task="",
    call="greedy_cached(model, src, bos_id, eos_id, limit)",
    returns={"tokens": list},
    example=writing(4, 5, 2, eos_id=10),
    ideas=[*WORDS, ONCE],
    hints=(
        "Only the newest word enters the decoder. What must be kept from the others?",
        "Self-attention keeps keys and values of each layer. The memory never changes. "
        "And which position does the newest word have?",
        "Chapter 13, “The loop, mended”.",
    ),
    answer="",
    rights=[write],
)

PIECES = [
    Piece(ATTENTION, "3, attention"),
    Piece(HEADS, "4, many heads"),
    Piece(PADDING, "5, masks"),
    Piece(CAUSAL, "5, masks"),
    Piece(FEED, "6, sublayers"),
    Piece(SUBLAYER, "6, sublayers"),
    Piece(ENCODER, "7, the encoder"),
    Piece(DECODER, "8, the decoder"),
    Piece(MODEL, "9, the whole Transformer", bind_logits),
    Piece(GREEDY, "9, the whole Transformer", bind_decoding("greedy")),
    Piece(CACHED, "13, the cache", bind_decoding("greedy_cached")),
]
