"""Controls that cannot be made of what they are given, and what is said."""

import torch
from refusals import assert_refused, over
from test_control_contract import ENGLISH, GERMAN, translator
from test_widget_beam import SOURCE, STEPS, WEIGHTS, pieces
from test_widget_learning import table

from bookkit.controls.beam import beam_control
from pages.attention.arrows import arrows_control
from pages.attention.softmax import softmax_control
from pages.encoder.context import context_control
from pages.inside.heads import heads_control
from pages.masks.leak import leak_control
from pages.masks.masks import mask_control
from pages.training.learning import learning_control

ENCODER = "encoder.layers.0.self_attention"
CROSS = "decoder.layers.0.cross_attention"
SQUARE, ONE, TWO = torch.zeros(1, 1, 2, 2), [["a", "b"]], [["a", "b"]] * 2


def leak(english, german):
    models = [translator().model] * 2
    return leak_control(*models, translator().tokenizer, english, german)


def learning():
    return learning_control(table("learning"), table("learning_words")[:-1])


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
        lambda: context_control(translator(), "the cat reads a red zebra", {}),
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
    (
        ValueError,
        "the same 41 updates for every word, got 40 rows",
        learning,
    ),
    (
        ValueError,
        "two sentences each, got 2 and 1",
        lambda: mask_control(["a", "b"], ["c"]),
    ),
]


@over(REFUSED)
def test_a_control_that_cannot_be_made_says_why(error, text, call):
    assert_refused(error, text, call)
