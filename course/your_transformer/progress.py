"""Check a piece or a milestone of a student, and show the progress."""

import ast
import hashlib
import importlib.util
import json
import sys
import traceback
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path
from types import ModuleType

from bookkit.exercises import checking
from bookkit.exercises.calling import plain
from bookkit.exercises.report import Report
from bookkit.exercises.testing import Results, run_tests
from transformer_lib.files import atomic_write
from your_transformer.milestones import MILESTONES, milestone
from your_transformer.pieces import PIECES, Piece, float64

BY_NAME = {piece.build.name: piece for piece in PIECES}
# Two milestones come before the last piece.
STEPS = [*list(BY_NAME)[:-1], "reverse", "translate", "greedy_cached", "cache"]
NEEDS = {"reverse": "greedy", "translate": "greedy", "cache": "greedy_cached"}
RECORD, PAGE = "progress.json", "progress.html"
BOOK = {"transformer_lib", "bookkit", "pages", "grading", "your_transformer"}


def load_adapters(folder: Path) -> ModuleType:
    """Import a student's ``adapters.py``, which may import its neighbours.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file raises an error, or ends the program.
    """
    path = folder / "adapters.py"
    if not path.is_file():
        raise FileNotFoundError(f"{path.name} is missing in {folder}")
    spec = importlib.util.spec_from_file_location("adapters", path)
    adapters = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(adapters)
    except BaseException as error:  # also exit() and Ctrl-C
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame.lineno for frame in frames if frame.filename == str(path)]
        line = getattr(error, "lineno", None) or own[-1]
        raise ValueError(f"{path.name}, line {line}: {plain(error)}") from error
    finally:
        sys.path.remove(str(folder))
    return adapters


def of_the_book(folder: Path) -> str:
    """Say where a folder's code imports the book; "" if nowhere."""
    for path in sorted(folder.glob("*.py")):
        if path.name == "check.py":
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            for name in named(node):
                if name.partition(".")[0] in BOOK:
                    return (
                        f"{path.name}, line {node.lineno}, uses `{name}`: that is the "
                        "book's code and not yours."
                    )
    return ""


def named(node: ast.AST) -> list[str]:
    """List the modules that a piece of code may import, by a text as well."""
    match node:
        case ast.Import(names=names):
            return [each.name for each in names]
        case ast.ImportFrom(module=str(module)) | ast.Constant(value=str(module)):
            return [module]
    return []


def check_piece(piece: Piece, adapters: ModuleType) -> Report:
    """Run an adapter through the tests of its piece."""
    name = piece.build.name
    if not hasattr(adapters, name):
        return Report(name, False, "not found.", f"adapters.py has no function {name}.")
    with float64():
        found = run_tests(piece.build, piece.answer(adapters))
    if found.fault:
        checking.failures[name, found.first] += 1
    return report_of(piece, found)


def report_of(piece: Piece, found: Results) -> Report:
    """Turn the results of a piece's tests into a report."""
    if found.fault and found.fault.raised == "NotImplementedError":
        trace = found.fault.trace
        return Report(piece.build.name, None, "not written yet.", trace=trace)
    return checking.report_of(piece.build, found)


class Progress:
    """What a folder's ``progress.json`` remembers.

    Args:
        folder: The student's. A damaged record counts as an empty one.

    Attributes:
        failures: For each piece, how often each of its tests was the first to fail;
            this decides how many hints appear.
        passed: For each milestone that was reached, a digest of the code that did.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / RECORD
        try:
            kept = json.loads(self.path.read_text("utf-8"))
            failures = {
                name: {test: int(n) for test, n in tests.items()}
                for name, tests in kept["failures"].items()
            }
            passed = {name: str(digest) for name, digest in kept["passed"].items()}
        except (OSError, ValueError, TypeError, LookupError, AttributeError):
            failures, passed = {}, {}
        self.failures, self.passed = failures, passed
        code = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
        self.digest = hashlib.sha256(code).hexdigest()[:16]

    def keep(self, report: Report) -> None:
        """Remember the result of a check."""
        if report.passed is False:
            self.passed.pop(report.name, None)
        if report.name in MILESTONES and report.passed:
            self.passed[report.name] = self.digest
        text = json.dumps({"failures": self.failures, "passed": self.passed}, indent=1)
        with atomic_write(self.path) as unfinished:
            unfinished.write_text(text + "\n", "utf-8")

    def reached(self, name: str) -> Report:
        """Say whether a milestone was reached, without running it again."""
        if name not in self.passed:
            return Report(name, None, "a milestone, not reached yet.")
        if self.passed[name] == self.digest:
            return Report(name, True, "reached.")
        return Report(name, True, "reached by an earlier version of your code.")


def check_step(name: str, folder: Path) -> Report:
    """Check one piece or milestone of a folder, and remember the result.

    Raises:
        ValueError: If there is no such step.
    """
    if name not in STEPS:
        raise ValueError(f"name must be one of {', '.join(STEPS)}, got {name!r}")
    progress, adapters = Progress(folder), load_adapters(folder)
    if name in MILESTONES:
        report = milestone(name, adapters)
    else:
        earlier = progress.failures.get(name, {})
        checking.failures.clear()
        checking.failures.update({(name, test): n for test, n in earlier.items()})
        report = check_piece(BY_NAME[name], adapters)
        progress.failures[name] = {
            test: n for (_, test), n in checking.failures.items()
        }
    progress.keep(report)
    if report.passed and (borrowed := of_the_book(folder)):
        report = replace(report, says=f"{report.says} {borrowed}".strip())
    return report


def check_all(folder: Path) -> list[Report]:
    """Check every piece of a folder; the milestones are looked up."""
    progress, adapters = Progress(folder), load_adapters(folder)
    checking.failures.clear()
    return [
        progress.reached(name)
        if name in MILESTONES
        else check_piece(BY_NAME[name], adapters)
        for name in STEPS
    ]


def where(name: str) -> str:
    """Name the chapter where a step is explained."""
    return f"chapter {BY_NAME[NEEDS.get(name, name)].chapter}"


def summary(reports: Sequence[Report]) -> str:
    """Say what is done and what comes next."""
    done = sum(report.passed is True for report in reports)
    following = next((each.name for each in reports if not each.passed), None)
    if following is None:
        return f"All {done} steps are done. This Transformer is yours."
    says = f"{done} of {len(reports)} steps are done. Next: {following} "
    return says + f"({where(following)})."


def as_text(reports: Sequence[Report]) -> str:
    """Write the progress for a terminal."""
    lines = [
        f"{each.mark} {each.name:21} {each.headline:45} {where(each.name)}"
        for each in reports
    ]
    return "\n".join([*lines, "", summary(reports)])


STYLE = """:root{color-scheme:light dark}
body{font:1rem/1.5 system-ui,sans-serif;max-width:45rem;margin:2rem auto;padding:0 1rem}
li{margin:.4rem 0}"""
DARK = """if (matchMedia("(prefers-color-scheme: dark)").matches)
  document.documentElement.dataset.theme = "dark";"""


def as_html(
    reports: Sequence[Report], shown: Sequence[Report] = (), says: str = ""
) -> str:
    """Write the progress as a page of its own.

    Args:
        reports: Of all steps.
        shown: Those to show in full, such as the check that was just run.
        says: What else there is to say.
    """
    steps = "".join(
        f'<li><span aria-hidden="true">{each.mark}</span> '
        f"<strong>{escape(each.name)}</strong>: {escape(each.headline)} "
        f"Hints: {escape(where(each.name))}.</li>"
        for each in reports
    )
    checked = "".join(each._repr_html_() for each in shown)
    checked = checked and f"<h2>What the checks say</h2>{checked}"
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Your Transformer</title><style>{STYLE}</style>"
        f"<script>{DARK}</script></head><body><main>"
        f"<h1>Your Transformer</h1><p>{escape(summary(reports))} {escape(says)}</p>"
        f"<ol>{steps}</ol>{checked}</main></body></html>\n"
    )


def main(folder: Path, arguments: Sequence[str]) -> int:
    """Run the command of a student's folder: a name, or nothing for the progress.

    Returns:
        The exit status: 0 if the step is right, or if none was named.
    """
    try:
        last = check_step(arguments[0], folder) if arguments else None
        reports = check_all(folder)
    except (ValueError, FileNotFoundError) as error:
        print(error, file=sys.stderr)
        return 2
    with atomic_write(folder / PAGE) as unfinished:
        unfinished.write_text(as_html(reports, [last] if last else []), "utf-8")
    print(as_text(reports) if last is None else f"{last}\n\n{summary(reports)}")
    return 0 if last is None or last.passed else 1
