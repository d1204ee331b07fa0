"""Where pairs of sentences come from: the grammar, Multi30k, or your own files."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from transformer_lib.checks import MOST_SHOWN, require_no_faults, require_one_of
from transformer_lib.data.corpora.grammar import Splits, splits
from transformer_lib.data.corpora.multi30k import SPLITS, multi30k
from transformer_lib.translation.text_files import read_lines

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
        source: A text file in the language to translate from, as ``read_lines`` reads.
        target: One in the language to translate into.

    Returns:
        Pairs of lines. Both lines of a pair may be blank.

    Raises:
        ValueError: If the files have different numbers of lines, no text, or the same
            text; if a line cannot be read, or is blank in one file only: then the files
            are probably not aligned.
    """
    sides = read_lines(source), read_lines(target)
    for path, lines in zip((source, target), sides, strict=True):
        if not any(map(str.strip, lines)):
            raise ValueError(f"{path} must hold at least 1 sentence, got 0")
    if len(sides[0]) != len(sides[1]):
        raise ValueError(
            f"{source} and {target} must have the same number of lines, "
            f"got {len(sides[0])} and {len(sides[1])}"
        )
    if sides[0] == sides[1]:
        raise ValueError(
            f"{source} and {target} must be in two languages, got the same text twice"
        )
    pairs = list(zip(*sides, strict=True))
    wrong = [
        n
        for n, (there, here) in enumerate(pairs, 1)
        if bool(there.strip()) != bool(here.strip())
    ]
    delete = "; delete such lines from both"
    if len(wrong) <= MOST_SHOWN:
        delete += f", as sed '{';'.join(f'{n}d' for n in wrong)}' FILE > NEW does"
    require_no_faults(
        {
            n: f"line {n} must have text in both {source} and {target}, "
            f"got {pairs[n - 1][0]!r} and {pairs[n - 1][1]!r}{delete}"
            for n in wrong
        },
        "lines",
    )
    return pairs
