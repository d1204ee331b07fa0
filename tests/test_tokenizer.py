from itertools import pairwise
from random import Random

import pytest

from transformer_lib.data import Tokenizer
from transformer_lib.model import TransformerConfig

TEXTS = [
    "A man in a blue shirt is standing on a ladder.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter.",
    "Two dogs are playing in the snow.",
    "Zwei Hunde spielen im Schnee.",
] * 3
VOCAB_SIZE, SMALLEST = 355, 259


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, VOCAB_SIZE)


# -- Text to ids and back --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        (TEXTS[1], TEXTS[1]),
        (" \t\n ", ""),
        ("one\nline, another\u2028one\t", "one line, another one"),
        ("no\u00a0break", "no break"),
        ("<s> and </s> and <pad>", "<s> and </s> and <pad>"),
        ("cafe\u0301, Ko\u0308ln", "café, Köln"),  # NFD becomes NFC
        ("ﬁ ½", "ﬁ ½"),  # compatibility forms stay
        ("▁ and Ġ, 日本語", "▁ and Ġ, 日本語"),
    ],
)
def test_decoding_gives_back_the_cleaned_text(tokenizer, text, cleaned):
    assert tokenizer.clean(text) == cleaned
    assert tokenizer.decode(tokenizer.encode(text)) == cleaned


def test_special_ids_are_the_same_in_every_vocabulary():
    config = TransformerConfig(src_vocab_size=3, tgt_vocab_size=3)  # a model's defaults
    assert (config.pad_id, config.bos_id, config.eos_id) == (0, 1, 2)
    for texts in (TEXTS, [], ["<s> </s> <pad>"] * 9):
        tokenizer = Tokenizer.train(texts, VOCAB_SIZE)
        ids = [tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id]
        assert ids == [0, 1, 2]
        assert tokenizer.pieces(ids) == ["<pad>", "<s>", "</s>"]
        assert tokenizer.decode(ids) == ""


def test_pieces_show_where_words_begin_and_parts_of_characters(tokenizer):
    ids = [1, *tokenizer.encode("man dogs."), 2, 3]
    assert tokenizer.pieces(ids) == ["<s>", "▁man", "▁dogs", ".", "</s>", "!"]
    ids = tokenizer.encode("日")
    assert tokenizer.pieces(ids)[-1] == tokenizer.decode(ids[:-1]) == "\ufffd"


def test_pieces_at_random_are_smaller_and_others_each_time(tokenizer):
    for text in TEXTS[:4]:
        cut = tokenizer.encode_at_random(text, 0.0, Random(1))
        assert cut == tokenizer.encode(text)
    cuts = [tokenizer.encode_at_random(TEXTS[0], 0.5, Random(s)) for s in range(20)]
    assert len(set(map(tuple, cuts))) > 10
    assert max(map(len, cuts)) > len(tokenizer.encode(TEXTS[0]))
    first, second = (
        [tokenizer.encode_at_random(text, 0.3, random) for text in TEXTS]
        for random in (Random(3), Random(3))
    )
    assert first == second
    assert all(a != b for a, b in pairwise(first[::4]))  # one text, cut anew each time


def test_a_pair_is_passed_over_as_often_as_said():
    small = Tokenizer.train(["ab"] * 9, SMALLEST + 2)  # Ġ + a, then Ġa + b
    random, whole = Random(4), len(small.encode("ab"))
    assert whole == 1
    cuts = [len(small.encode_at_random("ab", 0.2, random)) for _ in range(5000)]
    counts = [cuts.count(pieces) / 5000 for pieces in (3, 2, 1)]
    assert counts == pytest.approx([0.2, 0.8 * 0.2, 0.8 * 0.8], abs=0.02)


# -- Training --------------------------------------------------------------------------


def test_frequent_words_of_both_languages_become_one_piece_in_whatever_order(tokenizer):
    assert tokenizer.vocab_size == VOCAB_SIZE
    for word in ("in", "Ein"):
        assert len(tokenizer.encode(word)) == 1
    assert Tokenizer.train(TEXTS[::-1], VOCAB_SIZE).to_json() == tokenizer.to_json()


def test_few_texts_make_a_smaller_vocabulary_and_bytes_alone_the_smallest():
    tokenizer = Tokenizer.train(iter(["ab"]), 10_000)
    assert tokenizer.pieces(range(SMALLEST, tokenizer.vocab_size)) == ["ab", "▁ab"]
    tokenizer = Tokenizer.train(TEXTS, SMALLEST)
    assert tokenizer.vocab_size == SMALLEST
    assert len(tokenizer.encode("dög")) == len(" dög".encode())


# -- As a file -------------------------------------------------------------------------


def test_a_saved_tokenizer_is_one_line_of_json_and_loads_as_the_same(
    tokenizer, tmp_path
):
    path = tmp_path / "new" / "tokenizer.json"
    tokenizer.save(path)
    assert path.read_text(encoding="utf-8") == tokenizer.to_json()
    assert len(tokenizer.to_json().splitlines()) == 1
    loaded = Tokenizer.load(str(path))
    assert loaded.to_json() == tokenizer.to_json()
    for text in (*TEXTS, "</s> <s>", "neu"):
        assert loaded.encode(text) == tokenizer.encode(text)


def test_what_cannot_be_written_leaves_the_old_file(tokenizer, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    path.write_text("old")
    monkeypatch.setattr(Tokenizer, "to_json", lambda _: "\ud800")
    with pytest.raises(UnicodeError):
        tokenizer.save(path)
    assert path.read_text() == "old"


def test_a_damaged_file_is_named(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    whole = tokenizer.to_json().encode()
    half = whole[: len(whole) // 2]
    for content in (b"", b"\xff\xfe", b"{}", half, whole + b"}"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"\.json is not a whole tokenizer"):
            Tokenizer.load(path)
