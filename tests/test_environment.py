"""The Makefile and the environment that it makes: what it fetches, and what it says."""

import ast
import os
import shlex
import shutil
import subprocess
import sys

import pytest
from book_files import ROOT
from stand_ins import Project

OLD_PYTHON = f"""#!/bin/sh
OLD=$0 exec "{sys.executable}" -c 'if True:
    import os, runpy, sys
    sys.executable = os.environ["OLD"]
    sys.version, sys.version_info = "3.10.13 of old", (3, 10, 13)
    sys.argv = [word for word in sys.argv[1:] if word != "-I"]
    runpy.run_path(sys.argv[0], run_name="__main__")
' "$@"
"""


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A project on a computer with an old Python and a new one, and what make said.

    First the old one was named; then it was, where an older Makefile had let it make an
    environment; then the new one.
    """
    folder = tmp_path_factory.mktemp("project")
    project = Project.make_new(folder / "book")
    old = folder / "python3.10"
    old.write_text(OLD_PYTHON)
    old.chmod(0o755)
    said = [project.make(python=old)]
    made = project.root / ".venv" / "bin"
    assert not made.exists()
    made.mkdir(parents=True)
    shutil.copy(old, made / "python")
    (made / "python3").symlink_to("python")
    said += [project.make(python=old), project.make()]
    return project, said


@pytest.fixture(scope="module")
def ready(begun):
    return begun[0]


@pytest.mark.slow
def test_a_python_that_is_too_old_is_named_and_a_newer_one_makes_all_anew(begun):
    _, (*refused, (status, printed)) = begun
    for failed, said in refused:
        assert failed
        assert "needs Python 3.11 or later, got Python 3.10.13" in said
        assert "make book PYTHON=python3.11" in said
    assert status == 0, printed
    assert "done by" in printed


@pytest.mark.slow
def test_what_is_installed_is_not_fetched_again_however_new_the_files_are(ready):
    for path in (ready.root / "requirements.txt", ready.root / "pyproject.toml"):
        os.utime(path)
    for goal in ("book", "lab"):
        done = f"done by {ready.root}/transformer_lib/__init__.py\n"
        assert ready.make(goal, network=False) == (0, done)


@pytest.mark.slow
def test_what_cannot_be_fetched_is_named(ready):
    pins = ready.root / "requirements.txt"
    before = pins.read_text()
    pins.write_text(before.replace("tiny==1.0", "tiny==2.0"))
    status, printed = ready.make(network=False)
    assert status != 0
    assert "It lacks tiny==2.0.\n" in printed
    assert "needs a network, or the packages in a folder" in printed
    assert "Traceback" not in printed
    pins.write_text(before)


@pytest.mark.slow
def test_a_checkout_that_was_copied_works_without_a_network(ready, tmp_path):
    copied = Project(tmp_path / "it's the Bücher of $HOME", ready.network)
    shutil.copytree(ready.root, copied.root, symlinks=True)
    ascii_only = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    for _ in range(2):
        status, printed = copied.make(network=False, **ascii_only)
        assert status == 0, printed
        assert f"done by {copied.root}/transformer_lib/__init__.py" in printed
    assert len(printed.splitlines()) == 1  # the second time
    script = (copied.root / ".venv/bin/activate").read_text("utf-8")
    folder = str(copied.root)  # which some versions of Python quote
    assert folder in script or shlex.quote(folder) in script


def test_the_environment_of_these_tests_holds_every_pin():
    environment = ROOT / "website/builder/environment.py"
    done = subprocess.run(
        [sys.executable, "-I", environment, "--missing"],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    # Another checkout may lend it.
    assert set(done.stdout.split("\n")) <= {"", "-e ."}


def test_a_python_of_long_ago_can_read_what_tells_it_so():
    text = (ROOT / "website/builder/environment.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 4))  # before f-strings
