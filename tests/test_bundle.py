"""The archive that is handed on: whole, the same every time, and nothing private."""

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from urllib.parse import unquote, urlsplit

import lxml.html
import pytest
from book_files import NOTEBOOKS, ROOT, code_cells, read_notebook, source

from website.bundle import bundle


@pytest.fixture
def project(tmp_path):
    """A project with something in every part, and things that are no one's business."""
    root = tmp_path / "project"
    for name in [
        *(
            part if "." in part or part[0].isupper() else f"{part}/file"
            for part in bundle.PARTS
        ),
        "_build/html/book/intro.html",
        "_build/html/_static/book.css",
        "_build/.doctrees/book.pickle",
        ".git/config",
        ".venv/bin/python",
        "runs/seed-1/model.safetensors",
        "notes.txt",
        "book/.ipynb_checkpoints/a.ipynb",
        "transformer_lib/__pycache__/masks.pyc",
    ]:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"what {name} holds")
    return root


def test_the_archive_holds_pages_and_project_nothing_private_and_the_same_bytes(
    project, tmp_path
):
    first, second = tmp_path / "first.zip", tmp_path / "second.zip"
    bundle.bundle(project, first)
    with zipfile.ZipFile(first) as archive:
        names = [name.removeprefix(f"{bundle.NAME}/") for name in archive.namelist()]
        page = archive.read(f"{bundle.NAME}/html/book/intro.html").decode()
    tops = {name.partition("/")[0] for name in names}
    assert tops == {"START-HERE.html", "html", *bundle.PARTS}
    assert "html/_static/book.css" in names
    assert not [name for name in names if "__pycache__" in name or "/." in name]
    assert page == "what _build/html/book/intro.html holds"
    (project / "README.md").touch()
    bundle.bundle(project, second)
    assert first.read_bytes() == second.read_bytes()


def test_an_archive_that_cannot_be_finished_leaves_the_old_one(
    project, tmp_path, monkeypatch
):
    def fail(file, name, content):
        raise OSError(f"no room for {name}")

    old = tmp_path / "archive" / "book.zip"
    bundle.bundle(project, old)
    before = old.read_bytes()
    monkeypatch.setattr(bundle, "add", fail)
    with pytest.raises(OSError, match="no room"):
        bundle.bundle(project, old)
    assert old.read_bytes() == before
    (project / "_build/html/book/intro.html").unlink()
    with pytest.raises(SystemExit, match="make book"):
        bundle.bundle(project, old)
    assert list(old.parent.iterdir()) == [old]


# -- The real one --------------------------------------------------------------------


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory):
    """The archive of this project, unpacked as on a stick."""
    folder = tmp_path_factory.mktemp("a stick")
    bundle.bundle(ROOT, folder / "book.zip")
    with zipfile.ZipFile(folder / "book.zip") as archive:
        archive.extractall(folder)
    return folder / bundle.NAME


@pytest.mark.slow
def test_what_a_page_links_to_is_in_the_archive(unpacked):
    html = unpacked / "html"
    templates = set(html.glob("_static/*.html"))  # of the theme: no pages
    missing, pages = set(), set(html.rglob("*.html")) - templates
    for page in pages:
        for _, _, link, _ in lxml.html.parse(page).getroot().iterlinks():
            address = urlsplit(link)
            if address.path and not address.scheme and not address.netloc:
                target = page.parent / unquote(address.path)
                if not target.exists():
                    missing.add(f"{page.name}: {link}")
    assert len(pages) > len(NOTEBOOKS)
    assert missing == set()


@pytest.mark.slow
def test_the_first_page_opens_the_book(unpacked, tab):
    tab.goto((unpacked / "START-HERE.html").as_uri())
    tab.wait_for_url("**/html/book/intro.html")
    assert tab.locator("h1").first.inner_text().startswith("The Transformer")
    assert tab.faults == []


FINDS = """
from pathlib import Path
import transformer_lib
from transformer_lib.translation import Translator
print(Path(transformer_lib.__file__).parent)
Translator.load(Path("../models/grammar-en-de"))
"""


@pytest.mark.slow
def test_the_notebooks_in_it_find_its_library_and_its_models(unpacked):
    chapters = sorted((unpacked / "book").glob("*.ipynb"))
    assert [path.name for path in chapters] == [path.name for path in NOTEBOOKS]
    lines = {
        ast.unparse(node)
        for path in chapters
        for cell in code_cells(read_notebook(path))
        for node in ast.walk(ast.parse(source(cell)))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and "transformer_lib" in ast.unparse(node)
    }
    code = "\n".join([*sorted(lines), FINDS])
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=unpacked / "book",
        env={**os.environ, "PYTHONPATH": str(unpacked)},
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()) == unpacked / "transformer_lib"
