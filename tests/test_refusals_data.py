"""Calls that transformer_lib.data refuses, and what it says."""

from functools import cache
from random import Random

from refusals import assert_refused, over
from test_grammar import clause
from tokenizers import Tokenizer as AnyTokenizer

from transformer_lib.data import Tokenizer, token_batches
from transformer_lib.data.corpora.grammar import sentence, sentence_pairs, splits
from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.data.corpora.toy import toy_pairs

LONG, SHORT = [7] * 9, [7]


@cache
def tokenizer():
    return Tokenizer.train(["ab"], 300)


def unlike(old, new):
    """Read a tokenizer whose special tokens have other names."""
    return Tokenizer.from_json(tokenizer().to_json().replace(old, new))


def unclean():
    other = AnyTokenizer.from_str(tokenizer().to_json())
    other.normalizer = None
    Tokenizer.from_json(other.to_str())


def toys(task="copy", count=3, **sizes):
    return toy_pairs(task, count, 1, **sizes)


def drawn(count=3, **sizes):
    return sentence_pairs(count, 3, **sizes)


def said(*texts, word=""):
    sentence([("", clause(texts[0])), *[(word, clause(text)) for text in texts[1:]]])


@over(
    [
        # Batches: before the first one is asked for
        (ValueError, "10 in pairs[0]", lambda: token_batches([(LONG, SHORT)], 9)),
        (ValueError, "10 in pairs[0]", lambda: token_batches([(SHORT, LONG)], 9)),
        (ValueError, "max_tokens must be at least 1", lambda: token_batches([], 0)),
        # Tokenizer
        (ValueError, "259, got 258", lambda: Tokenizer.train(["ab"], 258)),
        (
            ValueError,
            "dropout must be in [0, 1), got 1.0",
            lambda: tokenizer().encode_at_random("a", 1.0, Random(1)),
        ),
        (IndexError, "[0, 261), got 261", lambda: tokenizer().decode([5, 261])),
        (IndexError, "[0, 261), got -1", lambda: tokenizer().pieces([5, -1])),
        (ValueError, "must be a tokenizer, got 'no", lambda: Tokenizer.from_json("no")),
        (ValueError, "clean what it reads, got", unclean),
        (ValueError, "must begin its vocabulary", lambda: unlike("<pad>", "[PAD]")),
        (ValueError, "must begin its vocabulary", lambda: unlike("</s>", "<end>")),
        (FileNotFoundError, "none.json", lambda: Tokenizer.load("none.json")),
        # Corpora
        (ValueError, "copy, reverse, sort, got double", lambda: toys("double")),
        (ValueError, "count must be at least 0, got -1", lambda: toys(count=-1)),
        (ValueError, "shortest must be at least 1", lambda: toys(shortest=0)),
        (ValueError, "got 4 and 5", lambda: toys(shortest=5, longest=4)),
        (ValueError, "longest + 3, got 12", lambda: toys(vocab_size=12, longest=10)),
        (
            ValueError,
            "too few sequences for held_out=True, got 4 and 1",
            lambda: toys(vocab_size=4, shortest=1, longest=1, held_out=True),
        ),
        (ValueError, "test_2017, mscoco, got test", lambda: multi30k("test")),
        (ValueError, "source must be one", lambda: multi30k("train", source="fr")),
        (ValueError, "target must be one", lambda: multi30k("train", target="fr")),
        # The grammar
        (ValueError, "count must be at least 0, got -1", lambda: drawn(-1)),
        (ValueError, "shortest must be at least 1", lambda: drawn(shortest=0)),
        (ValueError, "clauses must be at least 1, got 0", lambda: drawn(clauses=0)),
        (ValueError, "got 5 and 7", lambda: drawn(shortest=7, longest=5)),
        (ValueError, "of 2 to 2 words", lambda: drawn(1000, longest=2, clauses=1)),
        *[
            (ValueError, f"{name} must be at least 0", lambda x=name: splits(**{x: -1}))
            for name in ("train", "validation", "test", "longer")
        ],
        (ValueError, "got 'a' and plural=True", lambda: said("a cats, sleep")),
        (ValueError, "got '' and plural=False", lambda: said("cat, sleep")),
        (ValueError, "'read' takes, got 0 and 1", lambda: said("she, read")),
        (ValueError, "has, got 'adverb'", lambda: said("she, sleep, first=adverb")),
        (ValueError, "has, got 'place'", lambda: said("she, sleep, first=place")),
        (ValueError, "pronoun must be a subject", lambda: said("the man, see, she")),
        (ValueError, "pronoun must be a subject", lambda: said("the she, sleep")),
        (ValueError, "pronoun must be a subject", lambda: said("old she, sleep")),
        (
            ValueError,
            "got 'adverb' and a verb that is last",
            lambda: said(
                "she, sleep", "she, sleep, adverb=now, first=adverb", word="if"
            ),
        ),
    ]
)
def test_a_bad_argument_is_named_with_its_value(error, text, call):
    assert_refused(error, text, call)
