"""Every command that the book quotes exists and takes the options it is quoted with."""

import argparse
import json
import re
import runpy
import shlex
import sys
from importlib.util import find_spec

import pytest
from book_files import BOOK, NOTEBOOKS, ROOT

from transformer_lib.translation import options

RUNS = re.compile(
    r"(?:-m (?P<module>transformer_lib\.\w+)|"
    r"(?P<script>measurements/\w+\.py))(?P<arguments>[^`\n]*)"
)
SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`]+)\1(?!`)")


def texts():
    """Read what quotes commands: pages, notebooks, cards, records and docstrings."""
    for path in [*ROOT.glob("*.md"), *BOOK.glob("*.md"), *ROOT.glob("*/*/README.md")]:
        yield path.name, path.read_text("utf-8")
    yield "README.md", (ROOT / "measurements" / "README.md").read_text("utf-8")
    for path in (ROOT / "measurements").glob("*.py"):
        yield path.name, path.read_text("utf-8").split('"""')[1]
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            yield path.name, "".join(cell["source"])
    for path in ROOT.glob("models/*/run.json"):
        yield path.name, f"`{json.loads(path.read_text('utf-8'))['command']}`"


def quoted():
    """List module or script, and arguments."""
    commands = set()
    for _, text in texts():
        text = re.sub(r" *\\\n\s*", " ", text)
        text = SPAN.sub(lambda span: span[0].replace("\n", " "), text)
        for found in RUNS.finditer(text):
            commands.add((found["module"] or found["script"], found["arguments"]))
    return sorted(commands)


COMMANDS = quoted()


class Parsed(Exception):
    """The arguments are right; the script need not go on."""


def parse(name, arguments, monkeypatch):
    """Parse arguments as the command would, without doing its work."""
    words = shlex.split(arguments.rstrip(".)"), comments=True)
    if name.startswith("transformer_lib."):
        assert find_spec(f"{name}.__main__"), f"{name} is no program"
    else:
        assert (ROOT / name).is_file(), f"there is no {name}"
    if not words:  # only its name
        return
    if name == "transformer_lib.translation":
        if "--help" not in words:  # which ends the program
            options.parser().parse_args(words)
        return
    path = ROOT / name
    source = path.read_text("utf-8")
    if "argparse" not in source:
        assert "sys.argv" in source, f"{name} takes no arguments"
        return
    original = argparse.ArgumentParser.parse_args

    def parse_args(self, *given):
        original(self, *given)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse_args)
    monkeypatch.setattr(sys, "argv", [name, *words])
    monkeypatch.syspath_prepend(path.parent)
    with pytest.raises(Parsed):
        runpy.run_path(str(path), run_name="__main__")


@pytest.mark.parametrize(("name", "arguments"), COMMANDS)
def test_a_quoted_command_parses(name, arguments, monkeypatch):
    parse(name, arguments, monkeypatch)


def test_commands_are_found_in_every_kind_of_text():
    assert len(COMMANDS) > 40
    assert {name for name, _ in COMMANDS} > {
        "transformer_lib.translation",
        "measurements/ablations.py",
        "measurements/decoding.py",
    }


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("transformer_lib.translation", " train --epoks 3"),
        ("measurements/quantization.py", " everything"),
        ("measurements/no_such_thing.py", ""),
    ],
)
def test_a_command_that_is_not_one_is_found(name, arguments, monkeypatch):
    with pytest.raises((SystemExit, AssertionError)):
        parse(name, arguments, monkeypatch)
