"""Refresh the third-party files in this project, or check them.

    python -m website.offline.vendor          fetch the packages with npm
    python -m website.offline.vendor --check  compare the files with SHA256SUMS

For a newer version, change the number below and in the table beside the files, refresh,
and read the output of `git diff`.
"""

import argparse
import base64
import hashlib
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SUMS = "SHA256SUMS"


def source_serif(package: Path) -> str:
    """Write two fonts into a style sheet, because a page on disk may not load them."""
    made = "made as README.md beside this folder says"
    rules = [f"/* Source Serif 4, variable, latin; {made} */"]
    for style in ("normal", "italic"):
        font = package / "files" / f"source-serif-4-latin-wght-{style}.woff2"
        data = base64.b64encode(font.read_bytes()).decode()
        rules.append(
            f'@font-face{{font-family:"Source Serif 4";font-style:{style};'
            "font-weight:200 900;"
            f'src:url(data:font/woff2;base64,{data}) format("woff2")}}'
        )
    return "\n".join(rules) + "\n"


# For each folder, the package with its version, and for each file or folder in it the
# path in the package, or a function that creates it.
PACKAGES = {
    "website/offline/vendor/mathjax": (
        "mathjax@3.2.2",
        {
            "LICENSE": "LICENSE",
            "tex-chtml.js": "es5/tex-chtml.js",
            "output/chtml/fonts/woff-v2": "es5/output/chtml/fonts/woff-v2",
        },
    ),
    "website/offline/vendor/source-serif": (
        "@fontsource-variable/source-serif-4@5.3.1",
        {"LICENSE": "LICENSE", "source-serif.css": source_serif},
    ),
    "course/vendor/reveal": (
        "reveal.js@6.0.2",
        {
            "LICENSE": "LICENSE",
            "reveal.js": "dist/reveal.js",
            "reveal.css": "dist/reveal.css",
            "notes.js": "dist/plugin/notes.js",
        },
    ),
    "tests/vendor/axe-core": (
        "axe-core@4.14.1",
        {
            "LICENSE": "LICENSE",
            "LICENSE-3RD-PARTY.txt": "LICENSE-3RD-PARTY.txt",
            "axe.min.js": "axe.min.js",
        },
    ),
}


def refresh(folder: Path, package: str, files: dict) -> None:
    """Fetch a package, copy its files to ``folder``, and record their checksums."""
    with tempfile.TemporaryDirectory() as scratch:
        command = ["npm", "pack", package, "--silent"]
        subprocess.run(command, cwd=scratch, check=True, stdout=subprocess.DEVNULL)
        (archive,) = Path(scratch).glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        contents = Path(scratch) / "package"
        for here, source in files.items():
            if callable(source):
                (folder / here).write_text(source(contents), encoding="utf-8")
            elif (contents / source).is_dir():
                shutil.copytree(contents / source, folder / here)
            else:
                shutil.copyfile(contents / source, folder / here)
    (folder / SUMS).write_text(sums(folder), encoding="utf-8")


def sums(folder: Path) -> str:
    """List the files in a folder with their SHA-256, as sha256sum does."""
    names = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.is_file() and path.name != SUMS
    )
    return "".join(
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n"
        for name in names
    )


def faults(folder: Path) -> list[str]:
    """List the files that were changed, added or removed since they were fetched."""
    expected = (folder / SUMS).read_text(encoding="utf-8")
    differ = set(expected.splitlines()) ^ set(sums(folder).splitlines())
    return sorted({f"{folder.name}/{line.split(maxsplit=1)[1]}" for line in differ})


def main(check: bool) -> int:
    """Refresh or check every package; return the exit status."""
    found = []
    for name, (package, files) in PACKAGES.items():
        if not check:
            refresh(ROOT / name, package, files)
            print(f"{name}: {package}")
        found += faults(ROOT / name)
    for name in found:
        print(f"{name} differs from the fetched file")
    return 1 if found else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only compare, offline")
    sys.exit(main(**vars(parser.parse_args())))
