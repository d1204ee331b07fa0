"""Tables that grow by whole runs, so that a stopped experiment can go on."""

import csv
from collections.abc import Sequence
from pathlib import Path

from transformer_lib.files import whole_file


def read(path: Path) -> list[dict[str, str]]:
    """Read a table; one that is not there is empty."""
    if not path.exists():
        return []
    with open(path, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def add(path: Path, rows: Sequence[dict]) -> None:
    """Add rows to a table, all or none."""
    rows = [*read(path), *rows]
    with (
        whole_file(path) as unfinished,
        open(unfinished, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
