"""The project's own promises: exact pins, and nothing of one person's computer."""

import ast
import importlib
import io
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
import zipfile
from collections import defaultdict
from graphlib import TopologicalSorter
from tokenize import COMMENT, DEDENT, ENDMARKER, INDENT, NEWLINE, NL, generate_tokens

import pytest
from book_files import BOOK, ROOT

PIN = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._-]*==[0-9][A-Za-z0-9.]*(; [a-z_]+ == \"\w+\")?"
)
MACHINE = r"(^|[^A-Za-z0-9_.:/])/(home|Users|root|tmp|work|mnt)/|(^|\W)[A-Z]:\\\\?Users"


def test_every_requirement_is_pinned_exactly():
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    lines = [line.partition("#")[0].strip() for line in text.splitlines()]
    *pins, project = filter(None, lines)
    assert project == "-e ."
    assert [line for line in pins if not PIN.fullmatch(line)] == []
    names = [line.partition("==")[0].lower() for line in pins]
    assert len(names) == len(set(names))
    assert set().union(*declared().values()) <= set(names)


def declared():
    """List what pyproject.toml asks for, by extra; the core has the name ""."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = {"": project["dependencies"], **project["optional-dependencies"]}
    return {
        extra: {name.partition(";")[0].strip() for name in names if "[" not in name}
        for extra, names in extras.items()
    }


# From the bottom to the top: a floor imports nothing of those above it.
FLOORS = {
    "transformer_lib": "transformer_lib",
    "bookkit": "bookkit",
    "pages": "pages",
    "website": "website",
    "grading": "course/grading",
    "your_transformer": "course/your_transformer",
}


def sources():
    """Read every module, by its full name."""
    found = {}
    for top, folder in FLOORS.items():
        for path in (ROOT / folder).rglob("*.py"):
            if "handed_out" not in path.parts:
                parts = path.relative_to(ROOT / folder).with_suffix("").parts
                name = ".".join((top, *parts)).removesuffix(".__init__")
                found[name] = path.read_text(encoding="utf-8")
    return found


MODULE_OF = {"markdown-it-py": "markdown_it", "pillow": "PIL"}
# What no reader of a model needs: downloads, scores and progress; pictures and pages.
EXTRA_OF = {
    "transformer_lib.data.corpora.multi30k": "train",
    "transformer_lib.translation": "train",
    "transformer_lib.faster.triton_attention": "chapters",
    "bookkit": "chapters",
    "pages": "chapters",
}


def test_a_module_imports_only_what_its_extra_declares():
    names, own = declared(), {"transformer_lib", "bookkit", "pages"}
    for module, source in sources().items():
        if module.partition(".")[0] in own:
            extras = {of for name, of in EXTRA_OF.items() if module.startswith(name)}
            allowed = names[""].union(*(names[extra] for extra in extras))
            allowed = {MODULE_OF.get(name, name.replace("-", "_")) for name in allowed}
            named = {name.partition(".")[0] for name in named_in(source)}
            assert named <= allowed | own | sys.stdlib_module_names, module


def named_in(source, known=()):
    """Yield what a module imports, with the name behind "from" if that is a module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                below = f"{node.module}.{alias.name}"
                yield below if below in known else node.module


WITHOUT_EXTRAS = """
import importlib, sys
sys.modules.update(dict.fromkeys(sys.argv[1:]))  # importing None fails
from transformer_lib.training import (checkpoint, loop as training)
from transformer_lib.decoding import (beam as decoding)
from transformer_lib.translation import Translator
(german,) = Translator.load("models/grammar-en-de").translate(["the cat sleeps"])
print(german)
"""


def run(*command):
    return subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")


def test_the_core_translates_without_any_extra():
    extras = set().union(*(names for extra, names in declared().items() if extra))
    modules = [MODULE_OF.get(name, name.replace("-", "_")) for name in extras]
    done = run(sys.executable, "-c", WITHOUT_EXTRAS, *modules)
    assert (done.returncode, done.stdout) == (0, "die Katze schläft\n"), done.stderr


@pytest.mark.slow
def test_the_examples_of_the_front_door_run_and_print_what_they_say():
    texts = [
        (ROOT / page).read_text("utf-8") for page in ("README.md", "CONTRIBUTING.md")
    ]
    code = "".join(re.findall(r"```python\n(.*?)```", "".join(texts), re.DOTALL))
    done = run(sys.executable, "-c", code)
    reversed_, *printed = done.stdout.splitlines()
    assert int(reversed_.split()[0]) > 250, done.stderr
    assert printed == re.findall(r"^print\(.*\)  # (.+)$", code, re.MULTILINE)


@pytest.fixture
def make(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("make")


def test_the_pages_are_served_on_localhost_alone(make, monkeypatch):
    started = []
    monkeypatch.setattr(make, "call", lambda *command: started.append(command))
    make.serve("8123")
    assert "http.server 8123 --bind 127.0.0.1 --directory" in " ".join(started[-1])


def test_make_and_its_script_know_the_same_commands_and_refuse_others(make):
    text = (ROOT / "Makefile").read_text("utf-8")
    phony = re.search(r"^\.PHONY: (.*)$", text, re.MULTILINE)[1]
    assert set(phony.split()) == set(make.COMMANDS)
    done = run("make", "--no-print-directory", "help")
    assert len(done.stdout.splitlines()) == len(make.COMMANDS)
    done = run(sys.executable, "make.py", "boook")
    assert (done.returncode, done.stdout) == (1, "")
    assert "there is no command boook" in done.stderr


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_a_file_that_the_front_door_links_to_exists(name):
    text = re.sub("`[^`]*`", "", (ROOT / name).read_text("utf-8"))
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text)]
    local = [link for link in links if not link.startswith("https:")]
    assert [link for link in local if not (ROOT / link).exists()] == []


def test_every_command_of_make_that_is_written_about_exists(make):
    texts = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
    texts += [*BOOK.glob("*.md")]
    for path in texts:
        commands = r"(?:`|^)(?:make|python make\.py) (\w+)"
        named = re.findall(commands, path.read_text("utf-8"), re.MULTILINE)
        assert set(named) <= set(make.COMMANDS), path.name


def test_no_file_names_a_folder_of_one_computer():
    done = run("git", "grep", "--untracked", "-nIE", MACHINE, "--", ".", ":!*vendor/*")
    assert (done.returncode, done.stdout) == (1, ""), done.stderr  # nothing is found


def code_lines(text):
    """Count the lines that hold code: no blank lines, comments or docstrings."""
    ends = {NEWLINE, NL, COMMENT, INDENT, DEDENT, ENDMARKER}
    lines = set()
    for token in generate_tokens(io.StringIO(text).readline):
        if token.type not in ends:
            lines |= set(range(token.start[0], token.end[0] + 1))
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            lines -= set(range(node.lineno, node.end_lineno + 1))
    return len(lines)


@pytest.mark.parametrize("page", ["README.md", "book/api.md"])
def test_the_size_of_the_core_is_as_stated(page):
    paths = (ROOT / "transformer_lib/model").glob("[!_]*.py")
    sizes = [code_lines(path.read_text("utf-8")) for path in paths]
    said = " ".join((ROOT / page).read_text("utf-8").split())
    assert len(sizes) == 14
    assert re.search(rf"Fourteen modules .* {sum(sizes)} lines of code", said)


# -- What imports what -----------------------------------------------------------------


def above(module):
    """List the packages that a module lies in, from the outside."""
    parts = module.split(".")
    return [".".join(parts[:end]) for end in range(1, len(parts))]


def imports(sources):
    """Which of these modules each of them runs, also only for the types' sake.

    Importing ``p.q`` runs ``p`` too, unless it runs already: for a module inside it.
    """
    found = {}
    for module, source in sources.items():
        named = set(named_in(source, sources))
        inside = {module, *above(module)}
        named |= {package for name in named for package in above(name)} - inside
        found[module] = sources.keys() & named - {module}
    return found


def test_no_module_and_no_package_is_in_a_circle_of_imports():
    found, packages = imports(sources()), defaultdict(set)
    assert "transformer_lib.checks" in found["transformer_lib.model.attention"]
    TopologicalSorter(found).prepare()  # which refuses a circle
    for module, named in found.items():
        own, *others = (".".join(n.split(".")[:2]) for n in (module, *named))
        packages[own] |= {*others} - {own}
    TopologicalSorter(packages).prepare()


def test_no_floor_imports_one_above_it_and_no_page_another_page():
    floors = list(FLOORS)
    for module, named in imports(sources()).items():
        top, *inside = module.split(".")
        above = floors[floors.index(top) + 1 :]
        assert not [name for name in named if name.split(".")[0] in above], module
        others = {tuple(name.split(".")[:2]) for name in named} - {(top, *inside[:1])}
        assert top != "pages" or not [a for a, *b in others if a == top and b], module


def test_tests_that_are_told_to_end_end_what_they_started():
    with pytest.raises(KeyboardInterrupt):  # and so every fixture ends in order
        signal.raise_signal(signal.SIGTERM)


@pytest.mark.slow
def test_an_installed_copy_has_what_chapters_read_and_no_wrong_answer(tmp_path):
    git = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    for name in run(*git).stdout.splitlines():
        copy = tmp_path / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, copy)
    options = ["--no-index", "--no-deps", "--no-build-isolation", "--wheel-dir", "made"]
    command = [sys.executable, "-m", "pip", "wheel", *options, "."]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (wheel,) = (tmp_path / "made").glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "installed")
    assert {
        "bookkit/exercises/checking.py",
        "measurements/multi30k/scores.csv",
        "models/peeking/masked.safetensors",
        "pages/masks/exercises.py",
        "pages/masks/masks.js",
    } <= names
    private = ("wrong_answers.txt", "mistakes.txt", "exam_key.md", "multi30k-en-de/")
    assert not [name for name in names if any(each in name for each in private)]
    program = (
        "from bookkit.shipped import *; import bookkit; print(bookkit.__file__);"
        "print((shipped('grammar-en-de') / 'run.json').is_file());"
        "read_table('toys'); shipped('multi30k-en-de')"
    )
    installed = tmp_path / "installed"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path / "installed",
        env=os.environ | {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        encoding="utf-8",
    )
    where, found = done.stdout.splitlines()
    assert where == str(installed / "bookkit/__init__.py")
    assert found == "True"
    assert "fetch it: python -m bookkit.shipped" in done.stderr
