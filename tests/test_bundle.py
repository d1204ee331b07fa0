"""The archive that is handed on: whole, the same every time, and nothing private."""

import re
import subprocess
import zipfile

import pytest
from book_files import ROOT

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


def test_everything_of_the_project_is_in_the_archive_and_its_door_opens_the_book():
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    tops = {name.partition("/")[0] for name in listed}
    assert {top for top in tops if not top.startswith(".")} == set(bundle.PARTS)
    links = re.findall(r'(?:href="|url=)([^"]+)"', bundle.START)
    assert links == ["html/book/intro.html"] * 2
