"""What the controls and panels of the pages refuse, and what they say."""

import json
from unittest import mock

import torch
from refusals import assert_refused, over
from test_control_contract import ENGLISH, GERMAN
from test_control_contract import translator as grammar
from test_widget_beam import SOURCE, STEPS, WEIGHTS, pieces
from test_widget_learning import table

from bookkit.controls.beam import beam_control
from bookkit.controls.translator import translator_control
from pages.attention.arrows import arrows_control
from pages.attention.softmax import softmax_control
from pages.cache.race import race_control
from pages.encoder.context import context_control
from pages.fewer_pairs.window import window_control
from pages.heads.split import split_control
from pages.inside.heads import heads_control
from pages.inside.switches import switches_control
from pages.laboratory.panel import Panel, slide
from pages.laboratory.what_if import altered
from pages.masks.leak import leak_control
from pages.masks.masks import mask_control
from pages.positions.positions import positions_control
from pages.text.merges import merges_control
from pages.training.learning import learning_control
from transformer_lib.data import Tokenizer
from transformer_lib.model import Transformer, TransformerConfig

ENCODER = "encoder.layers.0.self_attention"
CROSS = "decoder.layers.0.cross_attention"
SQUARE, ONE, TWO = torch.zeros(1, 1, 2, 2), [["a", "b"]], [["a", "b"]] * 2
LONG = (
    "the old woman helps the red bears under the big chair because the girl opens "
    "the old door because she must work"
)
RESIDUALS = "encoder's residuals"


def leak(english, german):
    models = [grammar().model] * 2
    return leak_control(*models, grammar().tokenizer, english, german)


def learning():
    return learning_control(table("learning"), table("learning_words")[:-1])


def swapped():
    """A tokenizer whose vocabulary is not in the order of its merges."""
    data = json.loads(grammar().tokenizer.to_json())
    vocab = data["model"]["vocab"]
    first, last = list(vocab)[300], list(vocab)[-1]
    vocab[first], vocab[last] = vocab[last], vocab[first]
    return Tokenizer.from_json(json.dumps(data))


def split(words="abc", heads=3):
    return split_control(words, torch.zeros(3, 12), *[torch.zeros(12, 12)] * 4, heads)


def race_of_two_that_differ():
    written = mock.Mock(side_effect=[[[5]], [[6]]])
    with mock.patch("pages.cache.race.greedy_decode", written):
        race_control(grammar(), ["the cat reads a red book"])


def alter(part, head=None, norm_first=True):
    sizes = {"src_vocab_size": 9, "tgt_vocab_size": 9, "d_model": 8, "num_heads": 2}
    sizes |= {"d_ff": 8, "num_layers": 1, "norm_first": norm_first}
    altered(Transformer(TransformerConfig(**sizes)), part, 0, head).__enter__()


REFUSED = [
    (ValueError, "as many, got 2 and 3", lambda: softmax_control("ab", [1, 2, 3])),
    (
        ValueError,
        "power of two up to 512, got 48",
        lambda: softmax_control("ab", [1, 2], d_k=48),
    ),
    (
        ValueError,
        "three each, got 3, 2 and 3",
        lambda: arrows_control("abc", (2, 1), [(0, 0)] * 2, [(0, 0)] * 3),
    ),
    (ValueError, "got [4, 6] in step 1", lambda: beam_control(STEPS[1:], pieces)),
    (ValueError, "at least one step", lambda: beam_control([], pieces)),
    (
        ValueError,
        "weights must be as many as steps, and none without a source, got 3 and 4",
        lambda: beam_control(STEPS, pieces, SOURCE, WEIGHTS[1:]),
    ),
    (
        ValueError,
        "none without a source, got 4 and 4",
        lambda: beam_control(STEPS, pieces, weights=WEIGHTS),
    ),
    (
        ValueError,
        "step 2 must have shape (hypotheses, S) = (2, 2), got (1, 2)",
        lambda: beam_control(STEPS, pieces, SOURCE, [WEIGHTS[0][:1]] * 4),
    ),
    (
        ValueError,
        "each word must be one token, got 10 tokens for 'the cat reads a red zebra'",
        lambda: context_control(grammar(), "the cat reads a red zebra", {}),
    ),
    (
        ValueError,
        f"{ENCODER} must have shape (B, H, T, S) with (B, T, S) = (1, 2, 2), "
        "as the tokens have, got (1, 1, 2, 1)",
        lambda: heads_control({ENCODER: SQUARE[..., :1]}, ONE, ONE),
    ),
    (
        ValueError,
        f"{CROSS} must have shape (B, H, T, S) with (B, T, S) = (1, 1, 2)",
        lambda: heads_control({CROSS: SQUARE}, ONE, ONE),
    ),
    (
        ValueError,
        "an encoder or a decoder, got 'attention'",
        lambda: heads_control({"attention": SQUARE}, ONE, ONE),
    ),
    (ValueError, "has the model run", lambda: heads_control({}, ONE, ONE)),
    (ValueError, "got 1 and 2", lambda: heads_control({ENCODER: SQUARE}, ONE, TWO)),
    (ValueError, "got 0 and 0", lambda: heads_control({ENCODER: SQUARE}, [], [])),
    (
        ValueError,
        "at least 5 words, got 'die Katze'",
        lambda: leak(ENGLISH, GERMAN[:9]),
    ),
    (ValueError, "one token, got", lambda: leak("the zebra", GERMAN)),
    (ValueError, "the same 41 updates for every word, got 40 rows", learning),
    (
        ValueError,
        "two sentences each, got 2 and 1",
        lambda: mask_control(["a", "b"], ["c"]),
    ),
    (ValueError, "in the order of the merges", lambda: merges_control(swapped(), "a")),
    (ValueError, "at least 1 text, got 0", lambda: merges_control(swapped(), [])),
    (ValueError, "of 64, got 4 and 32", lambda: positions_control(positions=(4, 32))),
    (ValueError, "d_model must be even", lambda: positions_control(d_model=7)),
    (ValueError, "at least 1 sentence, got 0", lambda: race_control(grammar(), [])),
    (ValueError, "end within 16 tokens, got", lambda: race_control(grammar(), [LONG])),
    (ValueError, "[5] without the cache and [6] with it", race_of_two_that_differ),
    (ValueError, "as many, got 2 and 3", lambda: split("ab")),
    (ValueError, "divisible by num_heads, got 12 and 5", lambda: split(heads=5)),
    (ValueError, "at least 2, got 1", lambda: switches_control(grammar(), ["a cat"])),
    (ValueError, "examples must hold at least 1", lambda: translator_control([])),
    (ValueError, "length must be 2 to 32, got 33", lambda: window_control(33, 1)),
    (ValueError, "width must be 1 to 12, got 13", lambda: window_control(12, 13)),
    (ValueError, "layers must be 1 to 8, got 9", lambda: window_control(12, 3, 9)),
    (TypeError, "size must be made by slide", lambda: Panel("Wrong", print, size=3)),
    (ValueError, "value must be one of 1, 2, got 3", lambda: slide("size", [1, 2], 3)),
    (ValueError, "part must be one of src_positions", lambda: alter("encoder")),
    (ValueError, "all for src_positions, got 1", lambda: alter("src_positions", 1)),
    (ValueError, "head must be below 2, got 2", lambda: alter(ENCODER, 2)),
    (ValueError, "pre-norm layers, got post", lambda: alter(RESIDUALS, None, False)),
]


@over(REFUSED)
def test_a_control_that_cannot_be_made_says_why(error, text, call):
    assert_refused(error, text, call)
