"""Files: written whole or not at all."""

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def whole_file(path: str | Path) -> Iterator[Path]:
    """Give a name to write to; the file appears at ``path`` only when it is complete.

    Args:
        path: Where the file shall be. What was there stays until then, and stays if
            anything goes wrong: an error, a full disk, the process killed. One process
            at a time may write there.

    Yields:
        A path in the same folder. Folders that do not exist are made. An error deletes
        it again; what a killed process left there, the next one writes over.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    try:
        yield unfinished
        with open(unfinished, "r+b") as file:
            os.fsync(file.fileno())  # or a power cut could leave the name without bytes
        unfinished.replace(path)
    except OSError as error:
        if error.errno is not None:  # the computer's own, such as a full disk's
            error.filename = error.filename or str(path)
        raise
    finally:
        unfinished.unlink(missing_ok=True)


def write_json(path: str | Path, content: object) -> None:
    """Write what JSON can hold, whole or not at all."""
    with whole_file(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_csv(path: str | Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows under the names that the first one has, whole or not at all."""
    with (
        whole_file(path) as unfinished,
        open(unfinished, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
