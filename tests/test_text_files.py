"""Files that people bring: read rightly, or refused in words that mend them."""

import bz2
import gzip
import io
import lzma

import pytest

from transformer_lib.translation.corpus import read_parallel
from transformer_lib.translation.scores import score
from transformer_lib.translation.text_files import lines_of, read_lines

TEXT = "Ein Löwe.\nZwei Kühe.\n"
LINES = ["Ein Löwe.", "Zwei Kühe."]
XML = b"<?xml version='1.0'?>\n<tmx version='1.4'>\n"
TAR = b"text.de".ljust(257, b"\0") + b"ustar\x00"


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r", "\r\r\n"])
@pytest.mark.parametrize("marked", ["Ein", "Zwei"])  # by a byte-order mark
def test_the_same_lines_are_read_whatever_ends_them(tmp_path, end, marked):
    for last in ("", "\n"):
        text = (TEXT.removesuffix("\n") + last).replace(marked, f"\ufeff{marked}")
        content = text.replace("\n", end).encode()
        (tmp_path / "text").write_bytes(content)
        assert read_lines(tmp_path / "text") == LINES
        assert list(lines_of(io.BytesIO(content), "text")) == LINES


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"", []),
        (b"\r\na\n\n", ["", "a", ""]),
        ("a\n\nb\u2028c\x0bd\x85e\n".encode(), ["a", "", "b\u2028c\x0bd\x85e"]),
        (b"a\rb\nc\n", ["a\rb", "c"]),  # a single return counts as a space
        (b"a\n\tb\tc\n", ["a", "\tb\tc"]),  # the first line is no table
        (b"\ta\t\n", ["\ta\t"]),
        (b'{"\n<b>\n', ['{"', "<b>"]),
        (b"PK a || b\n", ["PK a || b"]),
    ],
)
def test_what_looks_odd_is_read_as_it_is(content, lines):
    assert list(lines_of(io.BytesIO(content), "text")) == lines


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (TEXT.encode("utf-16"), "UTF-16: iconv -f UTF-16 -t"),
        (TEXT.encode("utf-16-le"), "no NUL; .* UTF-16LE .*3 bad lines"),
        (TEXT.encode("utf-16-be"), "no NUL; .* UTF-16BE .*2 bad lines"),
        (TEXT.encode("utf-32"), "UTF-32: iconv"),
        (TEXT.encode("latin-1"), "byte 0xf6 .* LATIN1 .*2 bad lines: 1, 2"),
        (b"a\nb\xff\nc\n\xff\n", r"byte 0xff .*\(2 bad lines: 2, 4\)"),
        (b"\xff\n" * 30, r"\(30 bad lines: 1, 2, .* 20, \.\.\.\)"),
        (b"a\rb\rc\rd\ne\n", "holds 3 carriage returns; .* perl -pe"),
        (gzip.compress(TEXT.encode(), mtime=0), "gzip: gzip -dc FILE"),
        (bz2.compress(TEXT.encode()), "bzip2: bzip2 -dc"),
        (lzma.compress(TEXT.encode()), "xz: xz -dc"),
        (b"PK\3\4\x14\0", "a zip archive"),
        (TAR, "a tar archive: tar -xf"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"%PDF-1.7\n", "PDF"),
        (b"\xef\xbb\xbf1\tA cat.\n", "columns between tabs: cut -f1"),
        (b"A cat.\tEine Katze.\rA dog.\tEin Hund.\r", "columns between tabs"),
        (b"A cat. ||| Eine Katze.\n", r"columns between \|\|\|: sed"),
        (XML, "XML or SGML: sed -n 's:"),
        (b"<!DOCTYPE html>\n<title>404", "a web page: download"),
        (b'{"translation": {"en": "A"}}\n', "JSON lines: jq"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS pointer"),
    ],
)
def test_what_is_not_lines_of_text_is_named_with_what_converts_it(
    tmp_path, content, message
):
    (tmp_path / "text").write_bytes(content)
    with pytest.raises(ValueError, match=f"text, line .*{message}"):
        read_lines(tmp_path / "text")
    with pytest.raises(ValueError, match="standard input, line "):
        list(lines_of(io.BytesIO(content), "standard input"))


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("a\n", "A\nB\n", "the same number of lines, got 1 and 2"),
        ("a\n\nb\n", "A\nB\n\n", "line 2 must .*, got '' and 'B'; delete .* '2d;3d'"),
        ("a\n \t\u00a0\n", "A\nB\n", "line 2 must have text in both"),
        ("a\n" * 30, "\n" * 29 + "A\n", r"\(29 bad lines: 1, .* 20, \.\.\.\)"),
        ("\n \n", "A\nB\n", "xx must hold at least 1 sentence"),
        ("a\n", "\n", "yy must hold at least 1 sentence"),
        ("a\nb\n", "a\nb\n", "two languages, got the same text twice"),
    ],
)
def test_files_that_are_no_translations_are_refused(tmp_path, source, target, message):
    (tmp_path / "xx").write_text(source, encoding="utf-8")
    (tmp_path / "yy").write_text(target, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read_parallel(tmp_path / "xx", tmp_path / "yy")


def test_pairs_without_text_are_read_but_never_scored(tmp_path):
    (tmp_path / "xx").write_text("a\n\n \n", encoding="utf-8")
    (tmp_path / "yy").write_text("A\n\n\t\n", encoding="utf-8")
    pairs = read_parallel(tmp_path / "xx", tmp_path / "yy")
    assert pairs == [("a", "A"), ("", ""), (" ", "\t")]
    scores = score(["B", "", ""], [target for _, target in pairs])
    assert (scores.sentences, scores.exact, scores.bleu) == (1, 0, 0)
