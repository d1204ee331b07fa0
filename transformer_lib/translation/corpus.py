"""Where pairs of sentences come from: the grammar, Multi30k, or your own files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import BinaryIO

from transformer_lib.data.grammar import Splits, splits
from transformer_lib.data.multi30k import SPLITS, multi30k

DATA = ("grammar", "multi30k")
LONGEST = 100_000  # bytes of a line: no sentence has as many, and long words are slow
grammar_splits = cache(splits)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Pairs of sentences to learn from and to be judged by.

    Args:
        data: "grammar" or "multi30k"; not read where there are ``files``.
        source: Language to translate from, "en" or "de"; likewise.
        target: Language to translate into; likewise.
        files: For each split a file in the source language and one in the target
            language, which may be any. None takes ``data``.

    Raises:
        ValueError: If ``data`` is neither, or asked for another pair of languages, or
            ``files`` are not two for each split.
    """

    data: str = "grammar"
    source: str = "en"
    target: str = "de"
    files: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        if self.data not in DATA:
            raise ValueError(f"data must be {' or '.join(DATA)}, got {self.data}")
        for split, names in (self.files or {}).items():
            if len(names) != 2:
                raise ValueError(
                    f"files must be 2 for each split, got {len(names)} for {split}"
                )
        if self.files is None and {self.source, self.target} != {"en", "de"}:
            raise ValueError(
                f"source and target must be en and de in {self.data}, "
                f"got {self.source} and {self.target}; for other languages give files"
            )

    @property
    def names(self) -> tuple[str, ...]:
        """The splits there are."""
        if self.files is not None:
            return tuple(self.files)
        return Splits._fields if self.data == "grammar" else tuple(SPLITS)

    def pairs(self, split: str) -> list[tuple[str, str]]:
        """Read one split.

        Raises:
            FileNotFoundError: If a file is missing.
            ValueError: If there is no such split, or a file is damaged.
        """
        if split not in self.names:
            raise ValueError(
                f"split must be one of {', '.join(self.names)}, got {split}"
            )
        if self.files is not None:
            return read_parallel(*self.files[split])
        if self.data == "multi30k":
            return multi30k(split, source=self.source, target=self.target)
        pairs = getattr(grammar_splits(), split)
        return pairs if self.source == "en" else [(de, en) for en, de in pairs]

    def title(self, split: str) -> str:
        """Say which sentences a split holds."""
        if self.files is not None:
            return " and ".join(map(str, self.files[split]))
        return f"{split} of {self.data} {self.source}-{self.target}"


def read_parallel(source: str | Path, target: str | Path) -> list[tuple[str, str]]:
    """Read two files of which each line of one translates the same line of the other.

    Args:
        source: A UTF-8 text file in the language to translate from.
        target: One in the language to translate into.

    Returns:
        Pairs of lines.

    Raises:
        ValueError: If the files have different numbers of lines or no text, a line is
            not UTF-8, or one is empty where the other is not: then they have most
            likely slipped.
    """
    sides = read_lines(source), read_lines(target)
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{source} and {target} must have the same number of lines, "
            f"got {len(sides[0])} and {len(sides[1])}"
        )
    pairs = list(zip(*sides, strict=True))
    for number, pair in enumerate(pairs, 1):
        written = [side.strip() for side in pair]
        if any(written) and not all(written):
            raise ValueError(
                f"line {number} must have text in both {source} and {target}, "
                f"got {pair[0]!r} and {pair[1]!r}"
            )
    if not any(side.strip() for side in sides[0]):
        raise ValueError(
            f"{source} and {target} must have text, got {len(pairs)} empty lines"
        )
    return pairs


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a UTF-8 text file, as ``lines_of`` does.

    Raises:
        ValueError: If a line is too long or not UTF-8; the message says which.
    """
    with Path(path).open("rb") as file:
        return list(lines_of(file, str(path)))


def lines_of(file: BinaryIO, name: str) -> Iterator[str]:
    """Read lines as they come, ended by "\\n" or "\\r\\n" and by no other.

    Args:
        file: UTF-8 text.
        name: What the error calls it.

    Yields:
        Each line, without its end.

    Raises:
        ValueError: If a line is too long or not UTF-8; the message says which.
    """
    read = partial(file.readline, LONGEST + 2)  # what is longer is not read to its end
    for number, line in enumerate(iter(read, b""), 1):
        yield read_line(line, f"{name}, line {number}")


def read_line(line: bytes, place: str) -> str:
    """Decode a line, without its end and without a byte-order mark.

    Args:
        line: UTF-8, at most 100,000 bytes and the end.
        place: Where it comes from, for the error.

    Raises:
        ValueError: If it is longer or not UTF-8.
    """
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if len(line) > LONGEST:
        raise ValueError(
            f"{place} must have at most {LONGEST:,} bytes, got at least {len(line):,}"
        )
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{place} must be UTF-8, got {line[error.start]:#04x} as byte "
            f"{error.start + 1}"
        ) from error
    return text.removeprefix("\ufeff")
