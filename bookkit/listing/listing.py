"""Show a function line by line: what each line made, and a note for each idea."""

import ast
import difflib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bookkit.listing import as_html, as_text, tracing
from bookkit.listing.rows import Listing, Part, Row
from bookkit.listing.shapes import Letters, parse_shapes
from bookkit.listing.statements import Statement

Notes = dict[str | tuple[str, int], str]


@dataclass(repr=False)
class Walk(Listing):
    """A call that has run, line by line: a page in a notebook, text in a terminal.

    Attributes:
        parts: The function that was called, and those shown with it.
        dims: The size that each letter of a shape stands for.
        result: What the call returned.
        error: What the call raised, if it was to raise.
    """

    result: Any
    error: BaseException | None

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
    also: Sequence[Callable] = (),
    depth: int = 0,
    raises: type[BaseException] | tuple[()] = (),
    **kwargs: Any,
) -> Walk:
    """Run a call once; show its lines, what each made, and a note for each idea.

        walk(causal_mask, 5, dims={"T": 5}, notes={
            "def": "One row for each position that asks.",
            "allowed": "At first everyone may look everywhere, then the future is cut.",
        })

    Lines that only refuse bad input are folded: a call of ``check_...`` or
    ``require_...`` whose result nobody takes, and an ``if`` that does nothing but raise
    or refuse. They need no note, and one that they have shows when they are opened. A
    refusal that refused is not folded.

    Args:
        call: A function, a method, a module (its ``forward``) or a class (its
            ``__init__``, or the ``__post_init__`` of a dataclass).
        *args: Handed to the call.
        dims: The sizes that the letters of shapes stand for. Trailing shape comments
            add to them, and are checked against the run.
        notes: Notes in Markdown that cover every line that the run reaches. A note
            stands for its line and those below it, in its block and the blocks within,
            up to the next note. A key is a whole line without its comment, or the
            beginning of exactly one; the second of two alike is ``(key, 2)``. A
            statement over several lines goes by its first. None: no notes at all.
        also: Functions, methods or modules that the call calls, directly or not: shown
            below it in this order, as they first ran. A key of a note is then the
            beginning of exactly one line of them all.
        depth: How many levels of calls a reader can step into from a line: functions of
            the same package, other than argument checks. They need no notes here. Each
            has its own letters for shapes, from its own comments.
        raises: An exception that the call must raise; the listing ends there.
        **kwargs: Handed to the call.

    Returns:
        The listing. Its ``result`` is what the call returned.

    Raises:
        ValueError: If no note covers a line that was reached, a key does not belong to
            exactly one line, a shape comment is wrong, or the call never came to a
            function in ``also``.
        OSError, RuntimeError, TypeError: If the call cannot be walked, as in ``trace``.
    """
    run = tracing.trace(call, *args, also=also, depth=depth, raises=raises, **kwargs)
    ran = [run, *run.also]
    letters = Letters(dims or {})
    confirmed = _name_shapes(ran, letters)
    parts = [_part(part, confirmed, ran) for part in ran]
    if notes is not None:
        _attach_notes(notes, parts)
    return Walk(parts, letters.sizes, run.result, run.error)


def _part(
    part: tracing.Part, confirmed: list[Statement], listed: list[tracing.Part]
) -> Part:
    """Prepare a function; one that is only called has letters of its own."""
    is_listed = any(part is other for other in listed)
    if not is_listed:
        letters = Letters({})
        letters.dims = letters.sizes  # what its comments name, names its arguments
        confirmed += _name_shapes([part], letters)
    return Part(part.function, _rows(part, confirmed, listed), is_listed)


def _rows(
    part: tracing.Part, confirmed: list[Statement], listed: list[tracing.Part]
) -> list[Row]:
    pairs = list(zip(part.statements, part.records, strict=True))
    refused = {statement.refusal for statement, record in pairs if record.raised}
    rows = [
        Row(
            statement=statement,
            comment="" if statement in confirmed else statement.comment,
            reached=record.times > 0,
            flow=_flow(statement, record),
            made=record.made,
            raised=record.raised,
            is_folded=statement.refusal not in {0, *refused},
            calls=[_part(c, confirmed, listed) for c in record.calls.values()],
        )
        for statement, record in pairs
    ]
    for row, following in reversed(list(itertools.pairwise(rows))):
        if not row.statement.nodes:  # a run never stops at "else:", it passes through
            row.reached = following.reached
    return rows


def _name_shapes(parts: list[tracing.Part], letters: Letters) -> list[Statement]:
    """Give every shape its letters; return the statements whose comments gave them."""
    traced = [
        pair
        for part in parts
        for pair in zip(part.statements, part.records, strict=True)
    ]
    confirmed, given = [], []
    for statement, record in traced:
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
    for _, record in traced:
        for value in record.made:
            for tensor in (value, *value.parts):
                if tensor.shape is not None and not tensor.letters:
                    tensor.letters = letters.guess(tensor.shape)
    return confirmed


def _flow(statement: Statement, record: tracing.Record) -> str:
    """Say where the run went from a header, or how often a line ran."""
    times, entered = record.times, record.entered
    if not times:
        return "" if statement.is_structure else "not reached"
    if statement.is_a(ast.For, ast.While) and statement.body:
        return "1 pass" if entered == 1 else f"{entered or 'no'} passes"
    if statement.is_a(ast.If, ast.ExceptHandler) and statement.body:
        if times > 1:
            return f"taken {entered} of {times} times"
        return "taken" if entered else "not taken"
    if times > 1 and not statement.is_structure:
        return f"{times} times; the last:" if record.made else f"{times} times"
    return ""


def _attach_notes(notes: Notes, parts: list[Part]) -> None:
    """Put each note on its row, and refuse any doubt."""
    problems = []
    rows = [row for part in parts for row in part.rows]
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
    bare = [group for part in parts for group in part.groups if not group.note]
    for item in [item for group in bare for item in group.items]:
        if isinstance(item, Row) and item.reached and not item.statement.is_structure:
            line, key = item.statement.first, item.statement.key
            problems.append(f"no note covers line {line}: {key!r}")
    if problems:
        names = ", ".join(part.qualname for part in parts)
        raise ValueError(f"notes of {names}:\n" + "\n".join(problems))
