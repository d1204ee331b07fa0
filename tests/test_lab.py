"""`make lab`: what it says before JupyterLab starts, and what it asks of it."""

import subprocess
import sys
from pathlib import Path

import pytest
from book_files import ROOT
from jupyterlab_server.config import get_federated_extensions, get_page_config

from website.edition import lab
from website.edition.write import FOLDER


@pytest.fixture
def started(monkeypatch, tmp_path):
    """The options of every JupyterLab that would have started."""
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))
    options = []
    monkeypatch.setattr(lab, "jupyterlab", options.append)
    return options


def build(root, pages="_build/html"):
    """Write an edition of one page."""
    edition = root / pages / FOLDER
    edition.mkdir(parents=True)
    for name in ("start.md", "glossary.md"):
        (edition / name).write_text(f"# {name}\n")


@pytest.mark.parametrize("pages", lab.PAGES)  # html: in an unpacked archive
def test_the_lab_opens_the_start_page_of_a_copy_and_asks_nobody_for_news(
    tmp_path, started, pages
):
    build(tmp_path, pages)
    lab.main(tmp_path, ["--no-browser"])
    assert (tmp_path / "notebooks/start.md").read_text() == "# start.md\n"
    (options,) = started
    assert options[0] == f"--ServerApp.root_dir={tmp_path}"
    assert options[-1] == "--no-browser"
    wanted = "--LabApp.news_url=", "--LabApp.default_url=/lab/tree/notebooks/start.md"
    assert set(wanted) < set(options)
    assert "check_for_updates_class=jupyterlab.NeverCheck" in " ".join(options)


def test_the_start_page_names_what_somebody_changed(tmp_path, started):
    build(tmp_path)
    (tmp_path / "book").mkdir()
    (tmp_path / "book/a.ipynb").write_text('{"execution_count": 1}')
    lab.main(tmp_path, [])
    start = (tmp_path / "notebooks/start.md").read_text()
    assert start.endswith(
        "## Yours\n\n* [book/a.ipynb](../book/a.ipynb) was changed there.\n"
    )


def test_without_a_build_the_lab_says_what_to_run(tmp_path, started):
    with pytest.raises(SystemExit, match="run `make book` first"):
        lab.main(tmp_path, [])
    assert started == []


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
    build(tmp_path)
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
