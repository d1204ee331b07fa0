"""Change the library in small ways and see whether a test or a chapter fails.

    python scripts/mutants.py --sample 100

Each mutant is the library with one change: a different comparison, a number one higher,
a call left out. First the tests that import its module run, then the chapters, their
listings stripped of notes, because a note that no longer finds its line is no check.
If nothing fails, the mutant is printed: the code is superfluous, or a check is missing.

The sample depends only on the text of the changed lines, so unchanged code is judged by
the same mutants before and after a change elsewhere.
"""

import argparse
import ast
import copy
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LIBRARY = ROOT / "transformer_lib"
CORE = "model training decoding faster.precision faster.training_at_scale"
OTHER = {  # what each operator becomes
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.In: ast.NotIn, ast.NotIn: ast.In, ast.And: ast.Or, ast.Or: ast.And},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult},
    **{ast.FloorDiv: ast.Mult, ast.Mod: ast.Mult, ast.Pow: ast.Mult},
    **{ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.MatMult: ast.Add},
}
SLOW = re.compile("api|widget|stepping|cuda|experiments|javascript")  # not of the core
SECONDS = 300  # a run that takes longer has hung, which counts as noticed


@dataclass(frozen=True)
class Mutant:
    """One change of one module.

    Attributes:
        module: Its name after ``transformer_lib.``.
        line: The number of the line.
        before, after: The line as it is, and as it becomes.
        source: The whole module with the change.
    """

    module: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.module}:{self.line}\n  - {self.before}\n  + {self.after}"

    @property
    def rank(self) -> str:
        text = f"{self.module}\n{self.before}\n{self.after}"
        return hashlib.sha256(text.encode()).hexdigest()


def mutants_of(module: str, source: str) -> Iterator[Mutant]:
    """Make every change that is known here, one at a time.

    What only types, documents or names an error is left as it is.
    """
    lines = source.encode().splitlines(keepends=True)
    for node, change in _changes(ast.parse(source)):
        if node.lineno != node.end_lineno:
            continue  # the line would not show it
        number, old = node.lineno, lines[node.lineno - 1]
        text = ast.unparse(change).encode()
        if not isinstance(node, ast.stmt | ast.Constant | ast.Name):
            text = b"(" + text + b")"  # as strongly bound as before
        new = old[: node.col_offset] + text + old[node.end_col_offset :]
        changed = b"".join([*lines[: number - 1], new, *lines[number:]]).decode()
        before, after = old.decode().strip(), new.decode().strip()
        yield Mutant(module, number, before, after, changed)


def _changes(tree: ast.AST) -> Iterator[tuple[ast.AST, ast.AST]]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Raise | ast.Import | ast.ImportFrom | ast.JoinedStr):
            continue
        if isinstance(node, ast.AnnAssign):
            yield from _changes(ast.Expression(node.value)) if node.value else ()
            continue
        if isinstance(node, ast.FunctionDef):
            inside = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
            for part in [*inside, *node.body]:
                yield from _changes(ast.Module([part], []))
            continue
        yield from ((node, change) for change in _instead(node))
        yield from _changes(node)


def _instead(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in place of a node."""
    match node:
        case ast.Compare(ops=[op]) if type(op) in OTHER:
            yield _with(node, ops=[OTHER[type(op)]()])
        case ast.BoolOp(op=op) | ast.BinOp(op=op) if type(op) in OTHER:
            yield _with(node, op=OTHER[type(op)]())
        case ast.UnaryOp():
            yield node.operand
        case ast.Constant(value=bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.IfExp():
            yield node.body
            yield node.orelse
        case ast.Expr(value=ast.Call()):
            yield ast.Pass()
        case ast.Return(value=ast.expr()):
            yield ast.Return(ast.Constant(None))
        case ast.Call(keywords=[_, *_] as keywords):
            for i in range(len(keywords)):
                yield _with(node, keywords=keywords[:i] + keywords[i + 1 :])


def _with(node: ast.AST, **parts: object) -> ast.AST:
    changed = copy.copy(node)
    for name, part in parts.items():
        setattr(changed, name, part)
    return changed


def chapter_code(notebook: str) -> str:
    """Give a notebook's code as one program, its listings without notes."""

    class Bare(ast.NodeTransformer):
        def visit_Call(self, node: ast.Call) -> ast.Call:
            self.generic_visit(node)
            if isinstance(node.func, ast.Name) and node.func.id == "walk":
                node.keywords = [k for k in node.keywords if k.arg != "notes"]
            return node

    cells = [c for c in json.loads(notebook)["cells"] if c["cell_type"] == "code"]
    code = "\n".join("".join(cell["source"]) for cell in cells)
    return "def display(*_): ...\n" + ast.unparse(Bare().visit(ast.parse(code)))


def watchers(module: str) -> list[Path]:
    """List the tests and chapters that name a module, the quickest to notice first."""
    package, _, stem = module.rpartition(".")
    name = re.compile(rf"transformer_lib\.{package}\b")
    tests = sorted((ROOT / "tests").glob("test_*.py"))
    tests = [path for path in tests if not SLOW.search(path.stem)]
    tests.sort(key=lambda path: path.stem != f"test_{stem}")
    chapters = sorted((ROOT / "book").glob("*.ipynb"))
    files = [*tests, *chapters]
    return [path for path in files if name.search(path.read_text(encoding="utf-8"))]


def passes(path: Path, folder: Path) -> bool:
    """Run a test file, or a chapter, with the library that lies in a folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "PYTHONDONTWRITEBYTECODE": "1",
        "MPLBACKEND": "agg",
        "OMP_NUM_THREADS": "1",
    }
    if path.suffix == ".ipynb":
        program = folder / "chapter.py"
        program.write_text(chapter_code(path.read_text("utf-8")), "utf-8")
        arguments = [program]
    else:
        arguments = ["-m", "pytest", "-x", "-q", "-c", ROOT / "pyproject.toml"]
        arguments += ["--rootdir", ROOT, "--override-ini", "addopts="]
        arguments += ["-p", "no:cacheprovider", path]
    try:
        run = subprocess.run(
            [sys.executable, *map(str, arguments)],
            cwd=ROOT / "book",
            env=environment,
            capture_output=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode in (0, 5)  # 5: the file has only tests of the sweep


def files_of(names: list[str]) -> list[Path]:
    """List the files of packages and modules, named as after ``transformer_lib.``."""
    places = [LIBRARY / name.replace(".", "/") for name in names]
    files = [sorted(p.glob("*.py")) or [p.with_suffix(".py")] for p in places]
    return [file for some in files for file in some if file.stem != "__init__"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("modules", nargs="*", default=CORE.split())
    parser.add_argument("--sample", type=int, default=100, help="how many mutants")
    arguments = parser.parse_args()
    everything = []
    for path in files_of(arguments.modules):
        module = ".".join(path.relative_to(LIBRARY).with_suffix("").parts)
        everything += mutants_of(module, path.read_text(encoding="utf-8"))
    chosen = sorted(everything, key=lambda mutant: mutant.rank)[: arguments.sample]
    print(f"{len(chosen)} of {len(everything)} mutants", flush=True)
    noticed: Counter[str] = Counter()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        library = folder / "transformer_lib"
        shutil.copytree(LIBRARY, library)
        modules = {mutant.module for mutant in chosen}
        of_all = sorted({path for module in modules for path in watchers(module)})
        broken = [path for path in of_all if not passes(path, folder)]
        for path in broken:
            print(f"{path.name} fails without any change: left out", flush=True)
        for number, mutant in enumerate(chosen, start=1):
            file = library / f"{mutant.module.replace('.', '/')}.py"
            whole = file.read_text(encoding="utf-8")
            file.write_text(mutant.source, encoding="utf-8")
            able = [path for path in watchers(mutant.module) if path not in broken]
            by = next((path.name for path in able if not passes(path, folder)), "")
            file.write_text(whole, encoding="utf-8")
            noticed[by] += 1
            print(f"{number:4} {by or 'SURVIVED':28} {mutant}", flush=True)
    survivors = noticed.pop("", 0)
    print(f"{survivors} of {len(chosen)} survived; the others were noticed by:")
    for name, times in noticed.most_common():
        print(f"{times:5} {name}")
    print(f"{time.monotonic() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
