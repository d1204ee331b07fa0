import errno
import os
import subprocess
import sys
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest
from tokenizers import Tokenizer as AnyTokenizer
from tokenizers import models

from transformer_lib.data import SPECIAL_TOKENS, Tokenizer
from transformer_lib.model import TransformerConfig

TEXTS = [
    "A man in a blue shirt is standing on a ladder.",
    "Ein Mann in einem blauen Hemd steht auf einer Leiter.",
    "Two dogs are playing in the snow.",
    "Zwei Hunde spielen im Schnee.",
] * 3
VOCAB_SIZE, SMALLEST = 355, 259
FAMILY = "\U0001f468‍\U0001f469‍\U0001f467"


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train(TEXTS, VOCAB_SIZE)


# -- Text to ids and back --------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        *((text, text) for text in TEXTS[:4]),
        ("", ""),
        (" \t\n ", ""),
        ("  two   words\t", "two words"),
        ("one\nline, another\u2028one", "one line, another one"),
        ("no\u00a0break", "no break"),
        ("<s> and </s> and <pad>", "<s> and </s> and <pad>"),
        ("</s>", "</s>"),
        (f"a {FAMILY} \U0001f680!", f"a {FAMILY} \U0001f680!"),
        ("שלום עולם مرحبا", "שלום עולם مرحبا"),
        ("cafe\u0301, Ko\u0308ln", "café, Köln"),  # NFD becomes NFC
        ("\u0301 alone", "\u0301 alone"),
        ("ﬁ ½", "ﬁ ½"),  # compatibility forms stay
        ("a\x00b\x1f", "a\x00b\x1f"),
        ("▁ and Ġ", "▁ and Ġ"),
        ("日本語", "日本語"),
    ],
)
def test_decoding_gives_back_the_cleaned_text(tokenizer, text, cleaned):
    assert tokenizer.clean(text) == cleaned
    assert tokenizer.clean(cleaned) == cleaned
    assert tokenizer.decode(tokenizer.encode(text)) == cleaned
    assert tokenizer.encode(cleaned) == tokenizer.encode(text)


def test_every_character_can_be_encoded(tokenizer):
    blocks = [*range(0x20, 0x3000), *range(0xE000, 0x11000), *range(0x1F000, 0x1FB00)]
    text = "".join(map(chr, blocks))
    assert tokenizer.decode(tokenizer.encode(text)) == tokenizer.clean(text)


def test_empty_text_becomes_no_tokens_and_back(tokenizer):
    assert tokenizer.encode("") == tokenizer.encode(" \n ") == []
    assert tokenizer.decode([]) == ""
    assert tokenizer.pieces([]) == []


def test_no_text_is_encoded_as_a_special_token(tokenizer):
    special = {tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id}
    for text in (*SPECIAL_TOKENS, "a</s>b", "<s><s>", " <pad> "):
        ids = tokenizer.encode(text)
        assert not special & set(ids)
        assert all(0 <= i < tokenizer.vocab_size for i in ids)


def test_special_ids_are_the_same_in_every_vocabulary():
    assert (Tokenizer.pad_id, Tokenizer.bos_id, Tokenizer.eos_id) == (0, 1, 2)
    config = TransformerConfig(src_vocab_size=3, tgt_vocab_size=3)  # a model's defaults
    assert (config.pad_id, config.bos_id, config.eos_id) == (0, 1, 2)
    for texts in (TEXTS, [], ["<s> </s> <pad>"] * 9):
        tokenizer = Tokenizer.train(texts, VOCAB_SIZE)
        assert tokenizer.pieces([0, 1, 2]) == ["<pad>", "<s>", "</s>"]


def test_decoding_leaves_special_tokens_out(tokenizer):
    ids = tokenizer.encode("Two dogs")
    assert tokenizer.decode([1, *ids, 2, 0, 0]) == "Two dogs"
    assert tokenizer.decode([1, 2, 0]) == ""


def test_part_of_a_character_becomes_the_replacement_character(tokenizer):
    ids = tokenizer.encode("日")
    assert tokenizer.decode(ids[:-1]) == "\ufffd"


def test_pieces_show_where_words_begin(tokenizer):
    assert tokenizer.pieces([1, *tokenizer.encode("man dogs."), 2]) == [
        "<s>",
        "▁man",
        "▁dogs",
        ".",
        "</s>",
    ]
    assert tokenizer.pieces(tokenizer.encode("日"))[-1] == "\ufffd"


def test_frequent_words_become_one_piece_and_one_vocabulary_serves_both(tokenizer):
    assert tokenizer.vocab_size == VOCAB_SIZE
    for word in ("in", "Ein"):
        assert len(tokenizer.encode(word)) == 1


@pytest.mark.parametrize(
    "text", [*TEXTS[:4], "", " \t", f"a {FAMILY} \u1234", "aaaaaaa"]
)
def test_at_random_without_dropout_is_as_usual(tokenizer, text):
    assert tokenizer.encode_at_random(text, 0.0, Random(1)) == tokenizer.encode(text)


@pytest.mark.parametrize("text", TEXTS[:4])
def test_pieces_at_random_are_smaller_and_make_the_same_text(tokenizer, text):
    cuts = [tokenizer.encode_at_random(text, 0.5, Random(seed)) for seed in range(20)]
    assert {tokenizer.decode(ids) for ids in cuts} == {tokenizer.clean(text)}
    assert len(set(map(tuple, cuts))) > 10
    usual = len(tokenizer.encode(text))
    assert all(len(ids) >= usual for ids in cuts)
    assert max(map(len, cuts)) > usual


def test_the_same_numbers_cut_alike(tokenizer):
    draws = [Random(3), Random(3)]
    first, second = (
        [tokenizer.encode_at_random(text, 0.3, random) for text in TEXTS]
        for random in draws
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


@pytest.mark.parametrize("dropout", [-0.1, 1.0])
def test_merges_are_passed_over_with_a_probability_below_one(tokenizer, dropout):
    with pytest.raises(
        ValueError, match=rf"dropout must be in \[0, 1\), got {dropout}"
    ):
        tokenizer.encode_at_random("a", dropout, Random(1))


def test_a_lone_surrogate_is_refused(tokenizer):
    for method in (tokenizer.encode, tokenizer.clean):
        with pytest.raises(UnicodeEncodeError, match="surrogates not allowed"):
            method("\ud800")


@pytest.mark.parametrize("bad", [-1, VOCAB_SIZE])
@pytest.mark.parametrize("method", ["decode", "pieces"])
def test_ids_outside_the_vocabulary_are_refused(tokenizer, method, bad):
    with pytest.raises(IndexError, match=rf"in \[0, {VOCAB_SIZE}\), got {bad}"):
        getattr(tokenizer, method)([5, bad])


# -- Training --------------------------------------------------------------------------


def test_training_is_the_same_in_every_process():
    program = f"""if True:
        from transformer_lib.data import (Tokenizer)
        print(Tokenizer.train({TEXTS!r}, {VOCAB_SIZE}).to_json())
    """
    printed = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", program],
        env=os.environ | {"PYTHONHASHSEED": "1", "RAYON_NUM_THREADS": "3"},
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout
    for _ in range(3):
        assert printed.strip() == Tokenizer.train(TEXTS, VOCAB_SIZE).to_json()


def test_the_order_of_the_texts_does_not_matter(tokenizer):
    assert Tokenizer.train(TEXTS[::-1], VOCAB_SIZE).to_json() == tokenizer.to_json()


@pytest.mark.parametrize("vocab_size", [10_000])
def test_few_texts_make_a_smaller_vocabulary_than_allowed(vocab_size):
    tokenizer = Tokenizer.train(iter(["ab"]), vocab_size)
    assert tokenizer.vocab_size == SMALLEST + 2
    assert tokenizer.pieces([SMALLEST, SMALLEST + 1]) == ["ab", "▁ab"]


def test_the_smallest_vocabulary_is_bytes_alone():
    tokenizer = Tokenizer.train(TEXTS, SMALLEST)
    assert tokenizer.vocab_size == SMALLEST
    assert len(tokenizer.encode("dög")) == len(" dög".encode())


def test_a_vocabulary_without_room_for_the_bytes_is_refused():
    expected = f"vocab_size must be at least {SMALLEST}, got {SMALLEST - 1}"
    with pytest.raises(ValueError, match=expected):
        Tokenizer.train(TEXTS, SMALLEST - 1)


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


def test_a_full_disk_leaves_the_old_file(tokenizer, tmp_path, monkeypatch):
    path = tmp_path / "tokenizer.json"
    path.write_text("old")

    def write_text(self, text, **_):
        self.write_bytes(text.encode()[:50])
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(OSError, match="No space left"):
        tokenizer.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["tokenizer.json"]
    assert path.read_text() == "old"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        Tokenizer.load(tmp_path / "none.json")


def test_a_damaged_file_is_named(tokenizer, tmp_path):
    path = tmp_path / "tokenizer.json"
    whole = tokenizer.to_json().encode()
    half = whole[: len(whole) // 2]
    for content in (b"", b"\xff\xfe", b"[]", b"{}", half, whole[:-1], whole + b"}"):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"\.json is not a whole tokenizer"):
            Tokenizer.load(path)


def test_what_is_no_tokenizer_is_refused():
    with pytest.raises(ValueError, match="text must be a tokenizer, got 'no json'"):
        Tokenizer.from_json("no json")


def test_a_tokenizer_that_does_not_clean_its_text_is_refused(tokenizer):
    other = AnyTokenizer.from_str(tokenizer.to_json())
    other.normalizer = None
    with pytest.raises(ValueError, match=r"and clean what it reads, got .* and None"):
        Tokenizer.from_json(other.to_str())


def test_a_tokenizer_with_other_special_tokens_is_refused():
    other = AnyTokenizer(models.WordLevel({"[PAD]": 0, "a": 1}, unk_token="a"))
    with pytest.raises(ValueError, match=r"must begin .*'<pad>'.*got \('\[PAD\]', 'a'"):
        Tokenizer.from_json(other.to_str())


def test_the_first_piece_after_the_special_ones_is_shown_as_text(tokenizer):
    assert tokenizer.pieces([2, 3, 4]) == ["</s>", "!", '"']


def test_a_tokenizer_with_other_special_tokens_is_refused_even_if_it_cleans(tokenizer):
    whole = tokenizer.to_json()
    for text in (whole.replace("<pad>", "[PAD]"), whole.replace("</s>", "<end>")):
        with pytest.raises(ValueError, match="must begin its vocabulary with"):
            Tokenizer.from_json(text)
