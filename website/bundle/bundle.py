"""Pack the built pages and the whole project into one archive.

The same files give the same bytes. The archive appears only when it is complete.
"""

import zipfile
from collections.abc import Iterator
from pathlib import Path

from transformer_lib.files import atomic_write

ROOT = Path(__file__).resolve().parents[2]

NAME = "the-transformer-line-by-line"
# What the archive contains in addition to the pages. Nothing else leaves the folder.
PARTS = [
    *("CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md", "LICENSE", "Makefile"),
    *("README.md", "make.py", "_config.yml", "_toc.yml"),
    *("book", "bookkit", "course", "measurements", "models"),
    *("pages", "pyproject.toml", "requirements.txt", "tests"),
    *("transformer_lib", "website"),
]
START = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="refresh" content="0; url=html/book/intro.html">
<title>The Transformer, Line by Line</title>
<p><a href="html/book/intro.html">The Transformer, Line by Line</a></p>
</html>
"""


def bundle(root: Path, archive: Path) -> None:
    """Write the project in ``root``, with its built pages, to ``archive``."""
    pages = root / "_build" / "html"
    if not (pages / "book" / "intro.html").is_file():
        raise SystemExit("There are no pages yet: run `make book` first.")
    with atomic_write(archive) as unfinished, zipfile.ZipFile(unfinished, "w") as file:
        add(file, "START-HERE.html", START.encode())
        for path in files(pages):
            add(file, f"html/{path.relative_to(pages).as_posix()}", path.read_bytes())
        add_project(file, root)


def add_project(file: zipfile.ZipFile, root: Path) -> None:
    """Add all that runs: chapters, library, models, tests."""
    for part in PARTS:
        for path in files(root / part):
            add(file, path.relative_to(root).as_posix(), path.read_bytes())


def files(top: Path) -> Iterator[Path]:
    """List the files in a folder, or the file itself; nothing hidden or compiled."""
    if top.is_file():
        yield top
    elif top.is_dir() and not top.name.endswith(("__pycache__", ".egg-info")):
        for path in sorted(top.iterdir()):
            if not path.name.startswith("."):
                yield from files(path)


def add(file: zipfile.ZipFile, name: str, content: bytes) -> None:
    """Add a file so that its bytes depend only on its name and its content."""
    entry = zipfile.ZipInfo(f"{NAME}/{name}")  # dated 1980, the default
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.create_system, entry.external_attr = 3, 0o644 << 16
    file.writestr(entry, content, compresslevel=9)


if __name__ == "__main__":
    target = ROOT / "_build" / f"{NAME}.zip"
    bundle(ROOT, target)
    print(f"The archive is at {target}, {target.stat().st_size / 1e6:.0f} MB")
