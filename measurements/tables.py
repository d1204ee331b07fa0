"""Tables that grow by whole runs, so that a stopped experiment can go on."""

import csv
from collections.abc import Sequence
from pathlib import Path

from transformer_lib.files import write_csv


def read(path: Path) -> list[dict[str, str]]:
    """Read a table; one that is not there is empty."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def add(path: Path, rows: Sequence[dict]) -> None:
    """Add rows to a table, all or none; those that it holds are not added again."""
    known = read(path)
    told = [{name: str(value) for name, value in row.items()} for row in rows]
    write_csv(path, [*known, *(row for row in told if row not in known)])
