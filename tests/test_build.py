"""The build, on a small book of two chapters: what it executes, and how it fails."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from pathlib import Path
from typing import ClassVar

import nbformat
import pytest
from book_files import ROOT
from bs4 import BeautifulSoup
from jupyter_cache import get_cache
from nbclient.exceptions import DeadKernelError
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from website.builder import build, execute
from website.builder.build import MODEL
from website.builder.execute import ExecutionFailed
from website.edition.write import ARCHIVE

ASCII_ONLY = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


class SmallBook:
    def __init__(self, root):
        self.root = root
        shutil.copy(ROOT / "_config.yml", root)
        self.write("requirements.txt", "")
        self.write("transformer_lib/pieces.py", "answer = 42\n")
        self.write("book/intro.md", "# A small book\n")
        self.write("book/teaching.md", "# Teach with it\n")
        self.write("book/glossary.md", "(page-glossary)=\n# Glossary\n")
        self.write("book/references.bib", "")
        own = shutil.ignore_patterns("vendor", "*.png")
        shutil.copytree(ROOT / "website", root / "website", ignore=own)
        files = "\n".join(f"  - file: book/{name}" for name in ("first", "second"))
        toc = f"format: jb-book\nroot: book/intro\nchapters:\n{files}\n"
        self.write("_toc.yml", toc)
        self.chapter("first", "1 + 1")
        self.chapter("second", "2 + 2")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def chapter(self, name, code):
        cells = [
            new_markdown_cell(f"# The {name} chapter", id="title"),
            new_code_cell("import warnings", id="setup"),
            new_code_cell(code),
        ]
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
        notebook.cells[0].metadata.label = f"ch-{name}"
        notebook.cells[-1].id = f"sum-of-{name}"  # which may be no legal one
        self.write(f"book/{name}.ipynb", json.dumps(notebook))

    def start(self, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "website.builder.build"],
            cwd=self.root,
            env=os.environ | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )

    def build(self, **environment):
        """Return the exit status, what was printed, and the chapters executed."""
        done = self.start(**environment)
        printed, _ = done.communicate()
        assert "Executing notebook" not in printed  # what Sphinx would say
        lines = re.findall(r"^executing ([^;]+);", printed, re.MULTILINE)
        executed = {name for line in lines for name in line.split(", ")}
        return done.returncode, printed, sorted(executed)


@pytest.fixture
def book(tmp_path):
    root = tmp_path / "it's $HOME" / "build"  # a name that is left out inside the book
    root.mkdir(parents=True)
    return SmallBook(root)


@pytest.mark.slow
def test_only_what_changed_is_executed_and_buttons_come_with_the_address(book):
    first, second = (
        book.root / f"_build/html/book/{name}.html" for name in ("first", "second")
    )
    services = ("colab.research.google.com", "mybinder.org")
    status, printed, executed = book.build()
    assert (status, executed) == (0, ["first", "second"]), printed
    assert str(book.root / "_build" / "html" / "index.html") in printed
    assert not [name for name in services if name in first.read_text("utf-8")]

    config = (book.root / "_config.yml").read_text("utf-8")
    address = "https://github.com/someone/the-book"
    book.write("_config.yml", config.replace('url: ""', f"url: {address}"))
    status, printed, executed = book.build()
    assert (status, executed) == (0, []), printed
    text = first.read_text("utf-8")
    colab, binder = (f'href="https://{name}/' for name in services)
    assert (
        f"{colab}github/someone/the-book/blob/gh-pages/_sources/book/first.ipynb"
        in text
    )
    edition = "gh-pages?urlpath=lab/tree/_sources/book/first"
    assert f"{binder}v2/gh/someone/the-book/{edition}" in text
    library = (book.root / "_build/html/requirements.txt").read_text("utf-8")
    assert library == f"transformer-line-by-line[chapters] @ git+{address}\n"
    with zipfile.ZipFile(book.root / "_build/html" / ARCHIVE) as archive:
        names = {name.partition("/")[2] for name in archive.namelist()}
    assert {"notebooks/first.ipynb", "book/first.ipynb", "_toc.yml"} < names

    book.chapter("second", "3 + 4")
    status, printed, executed = book.build()
    assert (status, executed) == (0, ["second"]), printed
    page = BeautifulSoup(second.read_text(encoding="utf-8"), "html.parser")
    (output,) = page.select(".cell_output")
    assert output.text.strip() == "7"
    assert build.ALL_AGAIN not in printed

    book.write("transformer_lib/pieces.py", "answer = 43\n")
    status, printed, executed = book.build()
    assert (status, executed) == (0, ["first", "second"]), printed
    assert build.ALL_AGAIN in printed


def test_another_library_and_a_damaged_note_of_what_was_built_make_it_build_all(
    book, monkeypatch
):
    monkeypatch.setattr(build, "execute", lambda root: 0)
    monkeypatch.setattr(build, "jupyter_book", lambda root: (0, "", ""))
    made = [book.root / "_build" / name for name in (".jupyter_cache", ".doctrees")]

    def kept():
        for folder in made:
            folder.mkdir(parents=True, exist_ok=True)
        assert build.main(book.root) == 0
        return [folder.exists() for folder in made]

    assert kept() == [False, False]  # the first time
    assert kept() == [True, True]
    (noted,) = (book.root / "_build").glob("inputs.*")
    noted.write_bytes(b"[]\xff")
    assert kept() == [False, False]
    book.write("transformer_lib/pieces.py", "answer = 43\n")
    assert kept() == [False, False]


@pytest.mark.slow
def test_chapters_that_fail_stop_the_build_with_name_cell_and_error_on_any_terminal(
    book,
):
    book.chapter("zürich", "import os; os._exit(1)")
    book.chapter("second", "assert 2 + 2 == 5, 'four'")
    for _ in range(2):  # a fault is not forgotten by the second run
        status, printed, executed = book.build(**ASCII_ONLY)
        assert status == 1
        assert "second" in executed
        second = printed.index("book/second.ipynb stopped at cell sum-of-second:")
        dead = printed.index("stopped at cell sum-of-z\\xfcrich:")
        end = printed[min(second, dead) :]
        assert "AssertionError: four" in end
        assert "import os; os._exit(1)\n\nKernel died" in end
        assert "first" not in end
        assert "\x1b" not in end

    (book.root / "book/zürich.ipynb").unlink()
    book.chapter("second", "2 + 2")
    status, printed, executed = book.build()
    assert (status, executed) == (0, ["second"]), printed


@pytest.mark.slow
def test_a_warning_fails_the_build_every_time(book):
    book.write("book/intro.md", "# A small book\n\n{ref}`nowhere`\n")
    book.chapter("second", "warnings.warn('mind the gap')")
    for _ in range(2):
        status, printed, _ = book.build()
        assert status != 0
        end = printed.partition("build finished with problems")[2]
        assert "undefined label: 'nowhere'" in end
        assert "second.ipynb" in end
        assert "stderr was found in the cell outputs" in end


# -- What stops it ---------------------------------------------------------------------


def test_a_model_that_is_missing_is_named_with_its_chapters_and_so_is_no_notebook(
    book, capsys
):
    book.chapter("second", f"open('../{MODEL}/model.safetensors')")
    assert build.main(book.root) == 1
    printed = capsys.readouterr().out
    assert f"{MODEL} is missing, and these chapters load it: second.\n" in printed
    assert "The others run without it" in printed
    assert (ROOT / MODEL).is_dir()
    book.write("book/first.ipynb", "no JSON")
    book.chapter("second", "2 + 2")
    assert build.main(book.root) == 1
    printed = capsys.readouterr().out
    assert "book/first.ipynb cannot be read: Expecting value" in printed
    assert len(printed.splitlines()) < 8


@pytest.mark.slow
def test_what_the_computer_refuses_is_told_in_a_line(book):
    book.write("_build", "a file where the folder shall be")
    status, printed, _ = book.build()
    assert status == 1
    assert printed.startswith("The book was not built: ")
    assert len(printed.splitlines()) == 1


def test_a_notebook_whose_kernel_dies_before_its_first_cell_is_named(book, monkeypatch):
    def die(self, **_):
        raise DeadKernelError("Kernel died")

    monkeypatch.setattr(execute.NotebookClient, "execute", die)
    job, *_ = execute.find_jobs(book.root, get_cache(str(book.root / "cache")), {})
    with pytest.raises(ExecutionFailed, match=r"^book/first\.ipynb did not begin: Ker"):
        job.run()


# -- In which order --------------------------------------------------------------------


class Recorded:
    """Stands for a notebook: how long it takes, and what runs beside it."""

    running: ClassVar = set()

    def __init__(self, name, alone=False, fails=False):
        self.path, self.alone, self.fails = Path(f"{name}.ipynb"), alone, fails
        self.seconds, self.began, self.beside = 1.0, 0.0, set()

    def run(self):
        self.running.add(self.path.stem)
        time.sleep(0.01)
        self.beside = self.running - {self.path.stem}
        self.running.discard(self.path.stem)
        if self.fails:
            raise ExecutionFailed(f"{self.path.stem} failed")

    def stop(self):
        pass


def test_a_notebook_that_measures_time_has_nothing_beside_it(capsys):
    jobs = [Recorded(name) for name in "abcdef"]
    jobs += [Recorded(name, alone=True) for name in "xyz"]
    jobs[2].fails = True
    ended = dict(execute.run_all(jobs))
    assert ended == {job: "c failed" if job.fails else None for job in jobs}
    assert [job.beside for job in jobs if job.alone] == [set()] * 3
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "executing z; 0 more; about 0.0 min left"
    assert len(lines) <= len(jobs)  # fewer if two end at once


def test_pieces_of_what_is_printed_are_joined_without_adding_anything(book):
    pieces = "block 1 ", "reads\n\n", "block", " 2\n"
    book.chapter(
        "first",
        "import time\n"
        f"for piece in {pieces}:\n"
        "    print(piece, end='', flush=True)\n"
        "    time.sleep(0.3)  # so that each arrives alone",
    )
    path = book.root / "book/first.ipynb"
    job = execute.Job(path, nbformat.read(path, 4), 1.0)
    job.run()
    (output,) = job.notebook.cells[-1].outputs
    assert output.text == "".join(pieces)


def test_what_reads_the_clock_of_a_processor_runs_alone(book):
    book.chapter("second", "from time import thread_time\nthread_time()")
    book.chapter("third", "from pages.processes.workers import Workers")
    cache = get_cache(str(book.root / "cache"))
    jobs = execute.find_jobs(book.root, cache, {"first": 7.5})
    found = {job.path.stem: (job.alone, job.seconds) for job in jobs}
    alone = True, execute.GUESS
    assert found == {"first": (False, 7.5), "second": alone, "third": alone}


@pytest.mark.slow
def test_a_build_that_is_told_to_end_leaves_no_kernel_behind(book):
    kernel = book.root / "kernel"
    code = f"import os, time, pathlib\npathlib.Path({str(kernel)!r}).write_text("
    book.chapter("first", f"{code}str(os.getpid()))\ntime.sleep(600)")
    building = book.start()
    while not (kernel.is_file() and kernel.read_text()):
        assert building.poll() is None
        time.sleep(0.1)
    building.terminate()
    printed, _ = building.communicate(timeout=600)  # until nobody could print any more
    assert building.returncode == 143, printed
    with pytest.raises(ProcessLookupError):
        os.kill(int(kernel.read_text()), 0)
