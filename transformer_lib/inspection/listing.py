"""Show a function line by line: a note beside each line, and what the line made."""

import ast
import dataclasses
import difflib
import itertools
from collections.abc import Callable
from pathlib import PurePath
from types import FunctionType
from typing import Any

from transformer_lib.inspection import as_html, as_text
from transformer_lib.inspection.shapes import Letters, parse_shapes
from transformer_lib.inspection.statements import Statement
from transformer_lib.inspection.tracing import Record, Run, trace
from transformer_lib.inspection.values import Value

Notes = dict[str | tuple[str, int], str]


@dataclasses.dataclass
class Row:
    """A statement with all that the listing says about it.

    Attributes:
        statement: Its source.
        comment: Its trailing comment, unless that is a shape which the run confirmed.
        reached: Whether the run came here.
        flow: Where the run went from here: "taken", "3 passes", "not reached".
        made: What the last pass made.
        raised: The exception that came out of it.
        note: What it is for, in Markdown.
    """

    statement: Statement
    comment: str
    reached: bool
    flow: str
    made: list[Value]
    raised: str
    note: str = ""


@dataclasses.dataclass(repr=False)
class Walk:
    """A call that has run, line by line: a page in a notebook, text in a terminal.

    Attributes:
        module: Where the function is defined, ``transformer_lib.attention``.
        qualname: Its name there, ``MultiHeadAttention.forward``.
        file: The file, ``transformer_lib/attention.py``.
        dims: The size that each letter of a shape stands for.
        rows: Its statements, top to bottom.
        result: What the call returned.
        error: What the call raised, if it was to raise.
    """

    module: str
    qualname: str
    file: str
    dims: dict[str, int]
    rows: list[Row]
    result: Any
    error: BaseException | None

    @property
    def name(self) -> str:
        return f"{self.module}.{self.qualname}"

    @property
    def place(self) -> str:
        first, last = self.rows[0].statement.first, self.rows[-1].statement.last
        return f"{self.file}, lines {first} to {last}"

    def __repr__(self) -> str:
        return as_text.render(self)

    def _repr_html_(self) -> str:
        return as_html.render(self)


def walk(
    call: Callable,
    /,
    *args: Any,
    dims: dict[str, int] | None = None,
    notes: Notes | None = None,
    raises: type[BaseException] | tuple[()] = (),
    **kwargs: Any,
) -> Walk:
    """Run a call once and show each of its lines with a note and what the line made.

        walk(causal_mask, 5, dims={"T": 5}, notes={
            "def": "One row for each position that asks.",
            "require": "No negative sizes.",
            "allowed": "At first, everyone may look everywhere.",
            "return": "Below the diagonal lies the past.",
        })

    Args:
        call: A function, a method, a module (its ``forward``) or a class (its
            ``__init__``, or the ``__post_init__`` of a dataclass).
        *args: Handed to the call.
        dims: The sizes that the letters of shapes stand for. Trailing shape comments
            add to them, and are checked against the run.
        notes: A note in Markdown for every line that the run reaches. A key is a whole
            line without its comment, or the beginning of exactly one; the second of
            two alike is ``(key, 2)``. A statement over several lines goes by its first.
            None: no notes at all.
        raises: An exception that the call must raise; the listing ends there.
        **kwargs: Handed to the call.

    Returns:
        The listing. Its ``result`` is what the call returned.

    Raises:
        ValueError: If a line that was reached has no note, a key does not belong to
            exactly one line, or a shape comment is wrong.
        OSError, RuntimeError, TypeError: If the call cannot be walked, as in ``trace``.
    """
    run = trace(call, *args, raises=raises, **kwargs)
    letters = Letters(dims or {})
    confirmed = _name_shapes(run, letters)
    rows = [
        Row(
            statement=statement,
            comment="" if statement in confirmed else statement.comment,
            reached=record.times > 0,
            flow=_flow(statement, record),
            made=record.made,
            raised=record.raised,
        )
        for statement, record in zip(run.statements, run.records, strict=True)
    ]
    for row, following in reversed(list(itertools.pairwise(rows))):
        if not row.statement.nodes:  # a run never stops at "else:", it passes through
            row.reached = following.reached
    if notes is not None:
        _attach_notes(notes, rows, run.function.__qualname__)
    return Walk(
        module=run.function.__module__,
        qualname=run.function.__qualname__,
        file=_file(run.function),
        dims=letters.sizes,
        rows=rows,
        result=run.result,
        error=run.error,
    )


def _name_shapes(run: Run, letters: Letters) -> list[Statement]:
    """Give every shape its letters; return the statements whose comments gave them."""
    confirmed, given = [], []
    for statement, record in zip(run.statements, run.records, strict=True):
        shapes = parse_shapes(statement.comment)
        tensors = [value for value in record.made if value.shape is not None]
        if not record.times or record.raised or not shapes:
            continue
        if not tensors and len(shapes[0]) == 1:
            continue  # a word in brackets
        if len(shapes) not in (1, len(tensors)) or not tensors:
            raise ValueError(
                f"line {statement.last}: the comment {statement.comment} and the "
                f"{len(tensors)} tensors that the line made do not match"
            )
        confirmed.append(statement)
        if len(shapes) == 1:
            shapes *= len(tensors)
        given += [(statement, *pair) for pair in zip(shapes, tensors, strict=True)]
    for _, shape, tensor in given:  # all of them first: H * d_k may come before d_k
        letters.learn(shape, tensor.shape)
    for statement, shape, tensor in given:
        if not letters.fit(shape, tensor.shape):
            known = ", ".join(f"{k} = {v}" for k, v in letters.sizes.items())
            raise ValueError(
                f"line {statement.last}: the comment says {statement.comment}, but "
                f"{tensor.name} has the shape {tensor.shape} (with {known})"
            )
        tensor.letters = letters.write(shape, tensor.shape)
    for record in run.records:
        for value in record.made:
            for tensor in (value, *value.parts):
                if tensor.shape is not None and not tensor.letters:
                    tensor.letters = letters.guess(tensor.shape)
    return confirmed


def _flow(statement: Statement, record: Record) -> str:
    """Say where the run went from a header, or how often a line ran."""
    times, entered = record.times, record.entered
    if not times:
        return "" if statement.is_structure else "not reached"
    if statement.is_a(ast.For, ast.While) and statement.body:
        return "1 pass" if entered == 1 else f"{entered or 'no'} passes"
    if statement.is_a(ast.If, ast.ExceptHandler, ast.match_case) and statement.body:
        if times > 1:
            return f"taken {entered} of {times} times"
        return "taken" if entered else "not taken"
    if times > 1 and not statement.is_structure:
        return f"{times} times; the last:" if record.made else f"{times} times"
    return ""


def _attach_notes(notes: Notes, rows: list[Row], name: str) -> None:
    """Put each note on its row, and refuse any doubt."""
    problems = []
    keys = [row.statement.key for row in rows]
    for key, note in notes.items():
        start, which = key if isinstance(key, tuple) else (key, None)
        start = start.partition("  #")[0].strip()
        found = [row for row in rows if row.statement.key == start]
        found = found or [row for row in rows if row.statement.key.startswith(start)]
        if which is not None:
            found = found[which - 1 : which]
        if not found:
            close = difflib.get_close_matches(start, keys, n=3, cutoff=0.4)
            like = f"; close to it: {', '.join(map(repr, close))}" if close else ""
            problems.append(f"no line matches the note {key!r}{like}")
        elif len(found) > 1:
            lines = ", ".join(str(row.statement.first) for row in found)
            problems.append(
                f"the note {key!r} matches the lines {lines}: write more of the line, "
                f"or ({start!r}, 2) for the second"
            )
        elif found[0].note:
            problems.append(f"line {found[0].statement.first} has two notes: {key!r}")
        else:
            found[0].note = note
    for row in rows:
        if row.reached and not row.note and not row.statement.is_structure:
            line, key = row.statement.first, row.statement.key
            problems.append(f"line {line} has no note: {key!r}")
    if problems:
        raise ValueError(f"notes of {name}:\n" + "\n".join(problems))


def _file(function: FunctionType) -> str:
    """The file of a function, counted from where its package stands."""
    path = PurePath(function.__code__.co_filename)
    if "ipykernel" in str(path) or path.name.startswith("<"):
        return "this notebook"
    as_module = "/".join(function.__module__.split(".")) + ".py"
    return as_module if path.as_posix().endswith(as_module) else path.name
