"""The programs that pip cannot install are found, installed or named."""

import os

import pytest

from website.builder import programs

APT_GET = """#!/bin/sh
echo "$@" >> "$0.log"
case "$*" in install*) [ -e "$0.broken" ] || cp "$0" "$(dirname "$0")/chromium" ;; esac
"""


@pytest.fixture
def computer(tmp_path, monkeypatch):
    """A folder that holds all programs of a computer, which is empty at first."""
    real = {name: programs.shutil.which(name) for name in ("sh", "cp", "dirname")}
    for name, path in real.items():
        (tmp_path / name).symlink_to(path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    return tmp_path


def add(computer, name, text="#!/bin/sh\n"):
    (computer / name).write_text(text)
    (computer / name).chmod(0o755)


@pytest.mark.parametrize("name", programs.PROGRAMS["chromium"].commands)
def test_a_program_that_is_there_is_taken(computer, name, capfd):
    add(computer, name)
    add(computer, "apt-get", APT_GET)
    assert programs.find("chromium") == str(computer / name)
    assert programs.main(["chromium"]) == 0
    assert capfd.readouterr() == ("", "")
    assert not (computer / "apt-get.log").exists()


def test_root_installs_what_is_missing(computer, capfd):
    add(computer, "apt-get", APT_GET)
    assert programs.main(["chromium"]) == 0
    assert capfd.readouterr() == ("Installing chromium with apt-get\n", "")
    update, install = (computer / "apt-get.log").read_text().splitlines()
    assert update.startswith("update")
    assert install.split()[-2:] == ["-y", "chromium"]


@pytest.mark.parametrize("case", ["not root", "no apt-get", "apt-get fails"])
def test_otherwise_one_sentence_says_what_to_install(
    computer, monkeypatch, capfd, case
):
    if case != "no apt-get":
        add(computer, "apt-get", APT_GET)
    if case == "not root":
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    if case == "apt-get fails":
        (computer / "apt-get.broken").touch()
    assert programs.main(["chromium"]) == 1
    (sentence,) = capfd.readouterr().err.splitlines()
    assert sentence == (
        "chromium is missing: the tests of the pages and the PDF need a browser "
        "(on Debian: sudo apt install chromium)."
    )
    assert programs.main(["cc"]) == 0  # the book can be built without it
    assert "sudo apt install gcc libc6-dev" in capfd.readouterr().err
