"""The project's own promises: exact pins, and nothing of one person's computer."""

import ast
import re
import signal
import subprocess
import tomllib

import pytest
from book_files import BOOK, NOTEBOOKS, ROOT

PIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.]*(; [a-z_]+ == \"\w+\")?"
)
MACHINE = re.compile(
    r"(?<![\w.:/])/(?:home|Users|root|tmp|work|mnt)/|\b[A-Z]:\\\\?Users"
)


def requirements():
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    return [line for line in lines if line]


def test_every_requirement_is_pinned_exactly():
    *pins, project = requirements()
    assert project == "-e ."
    assert [line for line in pins if not PIN.fullmatch(line)] == []
    names = [re.sub("[-_.]+", "-", line.partition("==")[0].lower()) for line in pins]
    assert len(names) == len(set(names))


def test_what_the_library_needs_is_among_the_pins():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    pinned = {line.partition("==")[0].lower() for line in requirements()}
    assert {name.lower() for name in project["project"]["dependencies"]} <= pinned


def test_every_chapter_is_in_the_table_of_contents():
    contents = (ROOT / "_toc.yml").read_text(encoding="utf-8")
    listed = re.findall(r"book/(\w+)", contents)
    pages = [path.stem for path in [*NOTEBOOKS, *BOOK.glob("*.md")]]
    assert sorted(listed) == sorted(pages)


def committed_text():
    names = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout.split("\0")
    kinds = {".md", ".ipynb", ".py", ".yml", ".toml", ".txt", ".css", ".js", ".bib", ""}
    paths = [ROOT / name for name in names if name]
    return [
        path
        for path in paths
        if path.suffix in kinds and path.is_file() and "vendor" not in path.parts
    ]


def test_no_file_names_a_folder_of_one_computer():
    found = {
        f"{path.relative_to(ROOT)}: {match.group()}"
        for path in committed_text()
        for match in MACHINE.finditer(path.read_text(encoding="utf-8"))
    }
    assert found == set()


@pytest.mark.parametrize(
    "text", [f"open('/{folder}/me')" for folder in ("home", "tmp")]
)
def test_a_folder_of_one_computer_is_noticed(text):
    assert MACHINE.search(text)
    assert not MACHINE.search("https://example.org/home/page")


# -- What imports what -----------------------------------------------------------------


def imports(sources):
    """Which of these modules each of them imports, also only for the types' sake."""
    found = {}
    for module, source in sources.items():
        named = set()
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.Import):
                named |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    below = f"{node.module}.{alias.name}"
                    named.add(below if below in sources else node.module)
        found[module] = sources.keys() & named
    return found


def circle(found):
    """Find modules that import one another in a circle, if there are any."""
    found = dict(found)
    while found:
        free = {module for module, named in found.items() if not named & found.keys()}
        if not free:
            return set(found)
        found = {module: found[module] for module in found.keys() - free}
    return set()


def test_no_module_of_the_library_imports_itself_in_a_circle():
    sources = {}
    for path in (ROOT / "transformer_lib").rglob("*.py"):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts).removesuffix(".__init__")
        sources[name] = path.read_text(encoding="utf-8")
    found = imports(sources)
    assert "transformer_lib.checks" in found["transformer_lib.attention"]
    assert circle(found) == set()


@pytest.mark.parametrize(
    "way",
    ["import p.a", "from p.a import x", "from p import a", "from p import a, x"],
)
def test_a_circle_of_imports_is_found_however_it_is_written(way):
    types = f"from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    {way}\n"
    late = f"def f():\n    {way}\n"
    for source in (way, types, late):
        sources = {"p": "", "p.a": "import p.b", "p.b": source, "p.c": "import p.a"}
        assert {"p.a", "p.b"} <= circle(imports(sources)), source
    assert (
        circle(imports({"p": "", "p.a": "import p.b, re", "p.b": "import p"})) == set()
    )


def test_tests_that_are_told_to_end_end_what_they_started():
    with pytest.raises(KeyboardInterrupt):  # and so every fixture ends in order
        signal.raise_signal(signal.SIGTERM)
