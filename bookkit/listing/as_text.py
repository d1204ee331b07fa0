"""A walk in a terminal, 88 columns wide."""

import textwrap

from bookkit.listing.rows import Fold, Listing, Row, fold_refusals
from bookkit.listing.values import Value, sizes

WIDTH = 88


def render(listing: Listing) -> str:
    """Write each line with its number; below it, what it made and the note.

    Refusals that follow each other are one line: ``lines 12 to 19: 3 argument checks``.
    """
    head = [*(part.name for part in listing.parts), listing.place]
    if listing.dims:
        dims = [f"{name} = {size}" for name, size in listing.dims.items()]
        head.append(", ".join(dims))
    items = [item for part in listing.parts for item in fold_refusals(part.rows)]
    return "\n\n".join(["\n".join(head), *map(_item, items)])


def _item(row: Row | Fold) -> str:
    if isinstance(row, Fold):
        return f"{'':7}{row.lines}: {row.text}"
    statement = row.statement
    lines = [f"{'':5}  {comment}" for comment in statement.above]
    for number, line in enumerate(statement.lines, statement.first):
        lines.append(f"{number:5}  {line}")
    if row.comment:
        lines[-1] += f"  {row.comment}"
    made = [row.flow, *map(describe, row.made)]
    if row.raised:
        made.append(f"raised {row.raised}")
    for text in filter(None, made):
        lines += _wrap(text, "       > ", "         ")
    if row.note:
        lines += _wrap(row.note, "       | ", "       | ")
    return "\n".join(line.rstrip() for line in lines)


def describe(value: Value) -> str:
    """Write on one line what is known of a value."""
    parts = "; ".join(f"{part.name} {_shape(part)}" for part in value.parts)
    status = f"({value.status})" if value.status else ""
    words = [value.name, status, _shape(value), value.text, parts]
    return "  ".join(filter(None, words))


def _shape(value: Value) -> str:
    if value.shape is None:
        return ""
    return "  ".join(filter(None, [value.letters, sizes(value.shape)]))


def _wrap(text: str, first: str, then: str) -> list[str]:
    text = " ".join(text.split("\n"))
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=then)
