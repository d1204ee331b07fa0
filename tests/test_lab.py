"""`make lab`: what it says before JupyterLab starts, and what it asks of it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from book_files import ROOT
from jupyterlab_server.config import get_federated_extensions, get_page_config

from website.builder.build import MODEL
from website.lab import lab

SCRIPT = "book/_static/made/translator.js"


@pytest.fixture
def started(monkeypatch):
    """The options of every JupyterLab that would have started."""
    options = []
    monkeypatch.setattr(lab, "jupyterlab", options.append)
    return options


def test_the_translator_is_packed_and_the_lab_asks_nobody_for_news(tmp_path, started):
    shutil.copytree(ROOT / MODEL, tmp_path / MODEL)
    lab.main(tmp_path, ["--no-browser"])
    assert (tmp_path / SCRIPT).read_text("utf-8").startswith("document.currentScript")
    (options,) = started
    assert options[0] == f"--ServerApp.root_dir={tmp_path}/book"
    assert options[-1] == "--no-browser"
    assert {"--LabApp.news_url="} < set(options)
    assert "check_for_updates_class=jupyterlab.NeverCheck" in " ".join(options)


def test_without_the_model_the_lab_says_what_is_missing_and_starts(
    tmp_path, started, capsys
):
    (tmp_path / "book").mkdir()
    for name, text in (("with", MODEL), ("without", "")):
        (tmp_path / "book" / f"{name}.ipynb").write_text(text)
    lab.main(tmp_path, [])
    said = capsys.readouterr().err
    assert f"{MODEL} is missing, and these chapters load it: with.\n" in said
    assert len(started) == 1
    assert not (tmp_path / SCRIPT).exists()


@pytest.mark.parametrize("pages", ["_build/html", "html", ""])  # html: in an archive
def test_chapters_get_the_outputs_of_the_built_pages(tmp_path, started, capsys, pages):
    folder = tmp_path / pages / "_sources" / "book"
    if pages:
        folder.mkdir(parents=True)
    lab.main(tmp_path, [])
    assert f"--Chapters.executed={folder if pages else ''}" in started[0]
    told = "make book adds figures and controls" in capsys.readouterr().err
    assert told == (not pages)


def test_the_lab_disables_what_readers_do_not_need():
    (folder,) = (Path(o.partition("=")[2]) for o in lab.QUIET if "app_settings" in o)
    config = get_page_config([], str(folder))
    assert "@jupyter/nbgrader" in config["disabledExtensions"]
    (extensions,) = (o.partition("=")[2] for o in lab.QUIET if "labextensions" in o)
    ((name, found),) = get_federated_extensions([extensions]).items()
    build = found["jupyterlab"]["_build"]
    script = Path(extensions, name, build["load"])
    assert f'["{name}"]' in script.read_text("utf-8")
    assert (script.parent / "lab.css").is_file()


@pytest.mark.parametrize(
    ("user", "options", "says"),
    [(0, [], True), (0, ["--allow-root"], False), (1000, [], False)],
)
def test_root_is_told_how_to_go_on(
    tmp_path, started, capsys, monkeypatch, user, options, says
):
    monkeypatch.setattr("os.geteuid", lambda: user)
    lab.main(tmp_path, options)
    assert ("make lab OPTIONS=--allow-root" in capsys.readouterr().err) == says


def test_the_command_that_packs_a_model_names_the_one_that_is_missing(tmp_path):
    program = [sys.executable, "-m", "transformer_lib.javascript"]
    done = subprocess.run(
        [*program, tmp_path, tmp_path / "x"], capture_output=True, text=True, cwd=ROOT
    )
    assert done.returncode == 1
    (said,) = done.stderr.splitlines()
    assert said.startswith("The model was not packed: [Errno 2] No such file")
