"""Text that people bring: one sentence a line, or an error that says what it is."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from transformer_lib.checks import require_no_faults

# How files begin that are not one sentence a line, what they seem to be, and what
# converts them.
FORMS = [
    (re.compile(b"(?:\xef\xbb\xbf)?" + beginning, re.DOTALL | re.IGNORECASE), form, how)
    for beginning, form, how in (
        (rb"\x1f\x8b", "gzip", "gzip -dc FILE > NEW"),
        (rb"BZh\d", "bzip2", "bzip2 -dc FILE > NEW"),
        (rb"\xfd7zXZ", "xz", "xz -dc FILE > NEW"),
        (rb"\(\xb5/\xfd", "Zstandard", "zstd -dc FILE > NEW"),
        (rb".{257}ustar", "a tar archive", "tar -xf FILE"),
        (rb"PK\x03\x04", "a zip archive or a spreadsheet", "save its content as text"),
        (rb"\xd0\xcf\x11\xe0", "an Office file", "save FILE as text"),
        (rb"\{\\rtf", "RTF", "save FILE as text"),
        (rb"%PDF-", "PDF", "pdftotext FILE NEW"),
        (rb"PAR1", "Parquet", "write each column of FILE to a text file"),
        (rb"\xff\xfe\0\0", "UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > NEW"),
        (rb"\0\0\xfe\xff", "UTF-32", "iconv -f UTF-32 -t UTF-8 FILE > NEW"),
        (rb"\xff\xfe|\xfe\xff", "UTF-16", "iconv -f UTF-16 -t UTF-8 FILE > NEW"),
        (rb"version https://git-lfs", "a Git LFS pointer", "git lfs pull"),
        (rb"\s*<(!doctype )?html", "a web page", "download FILE again"),
        (
            rb"\s*<(\?xml|!doctype|tmx|srcset|refset|tstset|mteval|xliff)\b",
            "XML or SGML",
            r"sed -n 's:.*<seg[^>]*>\(.*\)</seg>.*:\1:p' FILE > NEW (of TMX, grep the "
            "lines of one language first)",
        ),
        (rb'\s*\{\s*"[^"]+"\s*:', "JSON lines", "jq -r .FIELD FILE > NEW"),
        (rb"\s*\S[^\t]*\t\s*\S", "columns between tabs", "cut -f1 FILE > NEW"),
        (rb".*\S \|\|\| \S", "columns between |||", "sed 's: ||| .*::' FILE > NEW"),
    )
]


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a UTF-8 text file, as ``lines_of`` does.

    Raises:
        ValueError: If lines cannot be read; the message says how many and which.
    """
    lines, faults = [], {}
    with Path(path).open("rb") as file:
        for number, line in _numbered(file, str(path)):
            try:
                lines.append(_decode(line, number, str(path)))
            except ValueError as error:
                faults[number] = str(error)
    require_no_faults(faults, "lines")
    return lines


def lines_of(file: BinaryIO, name: str) -> Iterator[str]:
    """Read lines as they arrive.

    A line ends with "\\n" or "\\r\\n", and with "\\r" in a file that has no "\\n".

    Args:
        file: UTF-8 text.
        name: What the error calls it.

    Yields:
        Each line, without its end and without a byte-order mark.

    Raises:
        ValueError: If a line cannot be read, or the first shows that the file holds
            something else than one sentence a line. The message says which line, what
            it seems to be and what converts it.
    """
    for number, line in _numbered(file, name):
        yield _decode(line, number, name)


def _numbered(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Cut a file into lines, unless the first shows another form."""
    first = next(file, b"")
    line = re.split(b"[\r\n]", first, maxsplit=1)[0]
    for beginning, form, how in FORMS:
        if beginning.match(line):
            raise ValueError(
                f"{name}, line 1 must be one sentence; this seems to be {form}: {how}"
            )
    if first.endswith(b"\n"):
        yield 1, first
        yield from enumerate(file, 2)
    elif first:  # the whole file, perhaps with the line ends of an old Mac
        yield from enumerate(first.removesuffix(b"\r").split(b"\r"), 1)


def _decode(line: bytes, number: int, name: str) -> str:
    """Make text of a line, or say what is wrong with it."""
    line = line.rstrip(b"\r\n")
    if b"\0" in line:
        order = "LE" if line.index(b"\0") % 2 else "BE"
        raise ValueError(
            f"{name}, line {number} must hold no NUL; if the file is UTF-16: "
            f"iconv -f UTF-16{order} -t UTF-8 FILE > NEW"
        )
    returns = line.count(b"\r")
    if returns > 1:  # a single one counts as a space
        raise ValueError(
            f"{name}, line {number} holds {returns} carriage returns; if they are line "
            r"ends: perl -pe 's/\r\n?/\n/g' FILE > NEW"
        )
    try:
        return line.decode().removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{name}, line {number} must be UTF-8: {error}; if it is Latin-1: "
            "iconv -f LATIN1 -t UTF-8 FILE > NEW"
        ) from error
