"""Every command that the book quotes exists and takes the options it is quoted with."""

import argparse
import json
import re
import runpy
import shlex
from importlib.util import find_spec

import pytest
from book_files import BOOK, NOTEBOOKS, ROOT

from transformer_lib.translation import options

RUNS = re.compile(
    r"(?:-m (?P<module>transformer_lib\.\w+)|"
    r"(?P<script>measurements/\w+\.py))(?P<arguments>[^`\n]*)"
)
SPAN = re.compile(r"(?<!`)(`{1,2})(?!`)([^`]+)\1(?!`)")
SCRIPTS = sorted((ROOT / "measurements").glob("*.py"))


def texts():
    """Read what quotes commands: pages, notebooks, cards, records and docstrings."""
    for path in [*ROOT.glob("*.md"), *BOOK.glob("*.md"), *ROOT.glob("*/*/README.md")]:
        yield path.read_text("utf-8")
    yield (ROOT / "measurements" / "README.md").read_text("utf-8")
    for path in SCRIPTS:
        yield path.read_text("utf-8").split('"""')[1]
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text("utf-8"))["cells"]:
            yield "".join(cell["source"])
    for path in ROOT.glob("models/*/run.json"):
        yield f"`{json.loads(path.read_text('utf-8'))['command']}`"


def quoted():
    """List what is quoted, by module or script: its words each time."""
    commands = {}
    for text in texts():
        text = re.sub(r" *\\\n\s*", " ", text)
        text = SPAN.sub(lambda span: span[0].replace("\n", " "), text)
        for found in RUNS.finditer(text):
            words = shlex.split(found["arguments"].rstrip(".)"), comments=True)
            name = found["module"] or found["script"]
            commands.setdefault(name, set()).add(tuple(words))
    return commands


COMMANDS = quoted()


class Stopped(Exception):
    """The script need not go on."""


def parser_of(name, monkeypatch):
    """Return the parser of a program; None for one that reads its words itself."""
    if name.startswith("transformer_lib."):
        assert find_spec(f"{name}.__main__"), f"{name} is no program"
        return options.parser() if name == "transformer_lib.translation" else None
    path, parsers = ROOT / name, []
    assert path.is_file(), f"there is no {name}"
    if "argparse" not in path.read_text("utf-8"):
        return None

    def parse_args(self, *given):
        parsers.append(self)
        raise Stopped

    monkeypatch.syspath_prepend(path.parent)
    with monkeypatch.context() as patched:
        patched.setattr(argparse.ArgumentParser, "parse_args", parse_args)
        with pytest.raises(Stopped):
            runpy.run_path(str(path), run_name="__main__")
    return parsers[0]


@pytest.mark.parametrize("name", sorted(COMMANDS))
def test_every_command_is_quoted_with_options_that_it_has(name, monkeypatch):
    parser = parser_of(name, monkeypatch)
    for words in COMMANDS[name] - {()}:
        if parser and "--help" not in words:  # which ends the program
            parser.parse_args(words)
        elif name.startswith("measurements"):
            assert "sys.argv" in (ROOT / name).read_text("utf-8"), f"{name} takes none"


def test_what_the_book_quotes_is_found():
    assert len(COMMANDS) > 20
    assert sum(map(len, COMMANDS.values())) > 40
