"""Excerpts of the JavaScript, which a notebook shows in colour."""

from dataclasses import dataclass
from textwrap import dedent

from transformer_lib.javascript import source


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a file, which a notebook shows in colour."""

    name: str
    first: int
    code: str

    def __repr__(self) -> str:
        return f"{self.name}, from line {self.first}:\n\n{self.code}"

    def _repr_markdown_(self) -> str:
        return f"`{self.name}`, from line {self.first}:\n\n```js\n{self.code}\n```"


def excerpt(name: str, *starts: str) -> Excerpt:
    """Take classes, functions or constants out of a file, with all their lines.

    Args:
        name: As in ``FILES``.
        *starts: How the first line of each begins, indentation aside. They follow one
            another in the file.

    Returns:
        The lines from the first that was asked for to the last, as they are.

    Raises:
        ValueError: If a start does not begin exactly one line.
    """
    lines = source(name).splitlines()
    ends = [_lines_of(name, lines, start) for start in starts]
    first, last = ends[0][0], ends[-1][1]
    return Excerpt(name, first + 1, dedent("\n".join(lines[first : last + 1])))


def _lines_of(name: str, lines: list[str], start: str) -> tuple[int, int]:
    """Find the first and the last line of what begins with ``start``."""
    found = [i for i, line in enumerate(lines) if line.strip().startswith(start)]
    if len(found) != 1:
        raise ValueError(
            f"start must begin one line of {name}, got {start!r}, which begins "
            f"{len(found)}"
        )
    first = last = found[0]
    indent = lines[first][: -len(lines[first].lstrip())]
    is_constant = start.startswith("const")
    while not (
        lines[last].endswith(";") if is_constant else lines[last] == indent + "}"
    ):
        last += 1
    return first, last
