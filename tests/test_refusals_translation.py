"""Calls that transformer_lib.translation refuses, and what it says."""

from functools import partial

from refusals import assert_refused, over

from transformer_lib.translation import run
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.scores import score

SIZES = {"vocab_size": 262, "d_model": 4, "num_heads": 2, "d_ff": 3, "max_len": 5}
NAN = float("nan")
PAIR = "ba", "ba de"


def translate(*arguments, **choices):
    run.untrained([PAIR], SIZES).translate(*arguments, **choices)


def encode(pairs, *more, **sizes):
    run.encode_pairs(run.untrained([PAIR], SIZES | sizes), pairs, *more)


def choose(**choices):
    return partial(run.require_choices, choices)


REFUSED = [
    (TypeError, "sentences must be a list of str, got a str", lambda: translate("ba")),
    (ValueError, "beam must be at least 1", lambda: translate(["ba"], beam=0)),
    (
        ValueError,
        "alpha must be in [-100, 100], got 101",
        lambda: translate(["ba"], alpha=101),
    ),
    (
        ValueError,
        "sentence 2 must have at most 5 tokens with its end, got 8: cut it into "
        "shorter ones (2 bad sentences: 2, 3)",
        lambda: translate(["ba", "xxxxxx", "xxxxxx"]),
    ),
    (
        ValueError,
        "train, pair 2 must have at most 4 tokens a side with the end, got 8",
        lambda: encode([("ba", "ba"), ("ba", "xxxxxx")], 4, "train"),
    ),
    (
        ValueError,
        "pair 1 must have at most 5 tokens a side with the end, got 8",
        lambda: encode([("ba", "xxxxxx")], 1000),
    ),
    (
        ValueError,
        "files must be 2 names a split",
        lambda: Corpus(files={"validation": ["a", "b", "c"]}),
    ),
    (
        ValueError,
        "split must be one of train, validation, test, longer, got valid",
        lambda: Corpus().pairs("valid"),
    ),
    (
        ValueError,
        "must be en and de in grammar, got en and en",
        lambda: Corpus(target="en"),
    ),
    (ValueError, "data must be one of grammar, multi30k", lambda: Corpus(data="wmt")),
    (ValueError, "at least 1 with text, got 0 and 0", lambda: score([], [])),
    (ValueError, "at least 1 with text, got 1 and 1", lambda: score([""], [" "])),
    (ValueError, "must be as many", lambda: score(["a"], ["a", "b"])),
    (ValueError, "warmup_steps; got drop_out", choose(drop_out=0.1)),
    (ValueError, "; got pad_id", choose(pad_id=300)),  # the tokenizer's
    (ValueError, "d_model must be int, got '32x'", choose(d_model="32x")),
    (ValueError, "patience must be int | None, got 1.5", choose(patience=1.5)),
    (ValueError, "d_model must be int, got True", choose(d_model=True)),
    (ValueError, "dropout must be float, got False", choose(dropout=False)),
    (ValueError, "seed must be between -2**63 and 2**63, got 1", choose(seed=10**30)),
    (ValueError, "must be between -2**63 and 2**63, got nan", choose(factor=NAN)),
]


@over(REFUSED)
def test_a_bad_argument_is_named_with_what_it_was(error, text, call):
    assert_refused(error, text, call)
