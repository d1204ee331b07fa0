"""Where pairs of sentences come from: the grammar, Multi30k, or your own files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import BinaryIO

from transformer_lib.checks import require_one_of
from transformer_lib.data.grammar import Splits, splits
from transformer_lib.data.multi30k import SPLITS, multi30k

DATA = ("grammar", "multi30k")
grammar_splits = cache(splits)


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """Pairs of sentences to learn from and to be judged by.

    Args:
        data: "grammar" or "multi30k".
        source: Language to translate from, "en" or "de".
        target: Language to translate into, the other one.
        files: For each split a file in the source language and one in the target
            language, which may be any two. They replace ``data``.

    Raises:
        ValueError: If ``data`` is neither, or cannot have these languages, or a split
            does not have two files.
    """

    data: str = "grammar"
    source: str = "en"
    target: str = "de"
    files: Mapping[str, Sequence[str]] | None = None

    def __post_init__(self) -> None:
        require_one_of(DATA, data=self.data)
        for split, names in (self.files or {}).items():
            if [type(name) for name in names] != [str, str]:
                raise ValueError(f"files must be 2 names a split, got {names}: {split}")
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
        require_one_of(self.names, split=split)
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
    """Read two files; each line of one translates the same line of the other.

    Args:
        source: A UTF-8 text file in the language to translate from.
        target: One in the language to translate into.

    Returns:
        Pairs of lines.

    Raises:
        ValueError: If the files have different numbers of lines, a line is not UTF-8,
            or one is empty where the other is not: then the files are probably not
            aligned.
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
    return pairs


def read_lines(path: str | Path) -> list[str]:
    """Read the lines of a UTF-8 text file, as ``lines_of`` does.

    Raises:
        ValueError: If a line is not UTF-8; the message says which.
    """
    with Path(path).open("rb") as file:
        return list(lines_of(file, str(path)))


def lines_of(file: BinaryIO, name: str) -> Iterator[str]:
    """Read lines as they arrive; only "\\n" and "\\r\\n" end one.

    Args:
        file: UTF-8 text.
        name: What the error calls it.

    Yields:
        Each line, without its end and without a byte-order mark.

    Raises:
        ValueError: If a line is not UTF-8; the message says which.
    """
    for number, line in enumerate(file, 1):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise ValueError(f"{name}, line {number} must be UTF-8: {error}") from error
        yield text.removesuffix("\n").removesuffix("\r").removeprefix("\ufeff")
