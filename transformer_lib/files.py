"""Files: written whole or not at all."""

import csv
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def atomic_write(path: str | Path) -> Iterator[Path]:
    """Give a name to write to; the file appears at ``path`` only when it is complete.

    Args:
        path: Where to put the file. An older one stays until then, and stays if
            anything goes wrong: an error, a full disk, the process killed. One process
            at a time may write there.

    Yields:
        A path in the same folder, at which there is nothing. Folders that do not exist
        are made. An error deletes the unfinished file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.unfinished")
    unfinished.unlink(missing_ok=True)  # what a killed process left
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


@contextmanager
def folder_lock(folder: str | Path | None) -> Iterator[None]:
    """Keep other processes that use this lock from changing a folder.

    Reading stays possible. The same thread may take the lock again inside.

    Args:
        folder: Made if it does not exist; it comes to hold an empty file ``.lock``.
            None is no folder, and nobody has to wait for it.

    Raises:
        OSError: If the folder cannot be written.
        ValueError: If another process has it. One that was killed does not.
    """
    if folder is None:
        yield
        return
    folder = Path(folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / ".lock", blocking=False, is_singleton=True)
    try:
        lock.acquire()
    except Timeout as error:
        raise ValueError(
            f"{folder} is in use: another process trains there. Wait until it has "
            "ended, or choose another folder"
        ) from error
    try:
        yield
    finally:
        lock.release()


def write_json(path: str | Path, content: object) -> None:
    """Write what JSON can hold, whole or not at all."""
    with atomic_write(path) as unfinished:
        unfinished.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def write_csv(path: str | Path, rows: Sequence[Mapping[str, object]]) -> None:
    """Write rows under the names that the first one has, whole or not at all."""
    with (
        atomic_write(path) as unfinished,
        open(unfinished, "w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.DictWriter(file, rows[0], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
