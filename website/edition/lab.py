"""Open the reader's edition in JupyterLab: `lab.py [OPTIONS]`.

Readers work on a copy in ``notebooks/``, where nothing that they changed is
overwritten: what a new build made of such a notebook gets the name ``-new`` beside it.
JupyterLab does not look for news or newer versions, and does not ask whether it may. It
needs no network.
"""

import hashlib
import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from jupyterlab.labapp import main as jupyterlab
from nbformat.sign import NotebookNotary

from transformer_lib.files import atomic_write
from website.edition.write import FOLDER, files

ROOT = Path(__file__).resolve().parents[2]

SETTINGS = ROOT / "website" / "edition" / "jupyterlab"
QUIET = [
    f"--LabApp.app_settings_dir={SETTINGS}",  # overrides.json and page_config.json
    f"--LabApp.extra_labextensions_path={SETTINGS / 'extensions'}",  # the style
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--LabApp.default_url=/lab/tree/notebooks/start.md",
]
PAGES = "_build/html", "html"  # of the project, and of an unpacked archive
RECORD = ".edition.json"  # the digest of each file as it was copied


def main(root: Path, options: list[str]) -> None:
    """Bring the working copy up to date, then start JupyterLab."""
    folders = [root / pages / FOLDER for pages in PAGES]
    edition = next((folder for folder in folders if folder.is_dir()), None)
    notebooks = root / "notebooks"
    if edition is None and not notebooks.is_dir():  # an archive without pages has them
        sys.exit("There are no notebooks yet: run `make book` first.")
    if getattr(os, "geteuid", lambda: 1)() == 0 and "--allow-root" not in options:
        print("As root, use: make lab OPTIONS=--allow-root", file=sys.stderr)
    if edition:
        told = [*update(notebooks, edition), *changed_in_book(root)]
        start = edition.joinpath("start.md").read_text("utf-8")
        if told:
            start += "\n## Yours\n\n" + "".join(f"* {line}\n" for line in told)
        write(notebooks / "start.md", start.encode())
    jupyterlab([f"--ServerApp.root_dir={root}", *QUIET, *options])


def update(notebooks: Path, edition: Path) -> list[str]:
    """Copy the edition, and leave what a reader has changed.

    Returns:
        A line about each notebook that the reader has changed and a build has renewed.
    """
    record = notebooks / RECORD
    copied = json.loads(record.read_text("utf-8")) if record.is_file() else {}
    notary = NotebookNotary()
    for path in files(edition)[:-1]:  # the start page is always the newest
        content = path.read_bytes()
        if target := place(notebooks / path.name, digest(content), copied):
            write(target, content)
            copied[target.name] = digest(content)
            if path.suffix == ".ipynb":  # so that JupyterLab runs its controls
                notary.sign(nbformat.reads(content, as_version=4))
    write(record, json.dumps(copied, indent=1).encode())
    newer = [path.name for path in sorted(notebooks.glob("*-new.ipynb"))]
    return [
        f"You changed [{(old := name.replace('-new', ''))}]({old}). "
        f"What a later build made of it is [{name}]({name})."
        for name in newer
    ]


def place(target: Path, new: str, copied: dict[str, str]) -> Path | None:
    """Find where to put a file: where nothing is, or what nobody has changed."""
    while target.is_file():
        known = copied.get(target.name)
        if known == new:
            return None  # the reader has this one, changed or not
        if digest(target.read_bytes()) == known:
            return target
        target = target.with_stem(f"{target.stem}-new")
    return target


def changed_in_book(root: Path) -> Iterator[str]:
    """Name the notebooks in ``book/`` that somebody has run, and so perhaps changed."""
    for path in sorted((root / "book").glob("*.ipynb")):
        if re.search(r'"execution_count": \d', path.read_text("utf-8")):
            yield f"[book/{path.name}](../book/{path.name}) was changed there."


def digest(content: bytes) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(content).hexdigest()


def write(path: Path, content: bytes) -> None:
    """Write a file whole or not at all."""
    with atomic_write(path) as unfinished:
        unfinished.write_bytes(content)


if __name__ == "__main__":
    main(ROOT, sys.argv[1:])
