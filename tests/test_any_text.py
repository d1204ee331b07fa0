"""Any text, any ids: the tokenizer gives back what it says, and nothing else."""

import re
import unicodedata
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import SEEDS, examples

from transformer_lib.data import SPECIAL_TOKENS, Tokenizer

pytestmark = pytest.mark.sweep
TEXTS = ["Two dogs are playing.", "Zwei Hunde spielen im Schnee."] * 3
# White space to Unicode, which is less than str.isspace() says.
SPACE = re.compile(
    r"[\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+"
)
WHATEVER = st.text(max_size=40)  # all of Unicode but surrogates


def is_old(character):
    """Say whether Unicode has had it since 2002: of what is newer, not all know all."""
    return unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs")


OLD = st.text(st.characters().filter(is_old), max_size=40)
NASTY = st.lists(
    st.sampled_from([*SPECIAL_TOKENS, " ", "\x00", "\u0308", "a", "A\u030a", "\ufeff"])
    | st.characters(categories=("Cc", "Zs", "Zl", "Zp", "Mn")).filter(is_old),
    max_size=20,
).map("".join)


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, 300)


def cleaned(text):
    return SPACE.sub(" ", unicodedata.normalize("NFC", text)).strip(" ")


@examples(60, 8_000)
@example("</s>")
@example("\u2003\x85a\u3000\r\n")
@given(OLD | NASTY)
def test_text_is_cleaned_as_documented(tokenizer, text):
    assert tokenizer.clean(text) == cleaned(text)


@examples(100, 20_000)
@given(WHATEVER | NASTY, SEEDS, st.floats(0, 0.99))
def test_any_text_comes_back_cleaned(tokenizer, text, seed, dropout):
    clean, ids = tokenizer.clean(text), tokenizer.encode(text)
    assert tokenizer.clean(clean) == clean
    assert tokenizer.decode(ids) == clean
    assert all(len(SPECIAL_TOKENS) <= i < tokenizer.vocab_size for i in ids)
    assert (ids == []) == (clean == "")
    assert tokenizer.encode(clean) == ids
    cut = tokenizer.encode_at_random(text, dropout, Random(seed))
    assert tokenizer.decode(cut) == clean
    assert len(cut) >= len(ids)
    assert tokenizer.encode_at_random(text, 0.0, Random(seed)) == ids


@examples(60, 20_000)
@given(st.lists(st.integers(0, 299), max_size=20))
def test_any_ids_give_a_text_and_special_ones_none(tokenizer, ids):
    text, pieces = tokenizer.decode(ids), tokenizer.pieces(ids)
    assert text == tokenizer.decode([i for i in ids if i >= len(SPECIAL_TOKENS)])
    assert len(pieces) == len(ids)
    for i, piece in zip(ids, pieces, strict=True):
        assert piece
        if i < len(SPECIAL_TOKENS):
            assert piece == SPECIAL_TOKENS[i]
    if "\ufffd" not in text:  # else a character was cut in two
        assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.clean(text)


@examples(30, 5_000)
@given(WHATEVER, st.characters(categories=["Cs"]), WHATEVER)
def test_half_a_character_is_refused(tokenizer, before, half, after):
    text = before + half + after
    for method in (
        tokenizer.encode,
        tokenizer.clean,
        lambda text: tokenizer.encode_at_random(text, 0.1, Random(0)),
    ):
        with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
            method(text)


@examples(10, 1_000)
@given(st.lists(WHATEVER | NASTY, max_size=6), st.integers(259, 280), WHATEVER)
def test_a_vocabulary_of_any_texts_serves_any_text(texts, vocab_size, text):
    learned = Tokenizer.train(texts, vocab_size)
    assert 259 <= learned.vocab_size <= vocab_size
    again = Tokenizer.from_json(learned.to_json())
    assert again.to_json() == learned.to_json()
    for each in (text, *texts):
        ids = learned.encode(each)
        assert again.encode(each) == ids
        assert learned.decode(ids) == learned.clean(each)
