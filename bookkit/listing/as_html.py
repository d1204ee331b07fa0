"""A walk as part of a page: complete without its script, and in print."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from html import escape
from importlib.resources import files
from itertools import groupby

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from pygments.lexers import PythonLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String

from bookkit.listing.mentions import unmentioned_calls
from bookkit.listing.rows import (
    Fold,
    Group,
    Listing,
    Part,
    Row,
    group_by_note,
)
from bookkit.listing.values import Value, sizes

STYLE, *SCRIPTS = (
    files("bookkit.listing").joinpath(name).read_text(encoding="utf-8")
    for name in ("walk.css", "walk.js", "picture.js")
)
SCRIPT = "".join(SCRIPTS)
COLOURS = {  # of two kinds that a token belongs to, the special one comes first
    Comment: "comment",
    Keyword.Constant: "number",
    Keyword: "keyword",
    Operator.Word: "keyword",
    Name.Function: "name",
    Name.Decorator: "name",
    String: "string",
    Number: "number",
}
SMALL = 24  # letters of a text that leave room for another value on its line
LEGEND = {  # cells that a picture may hold, and what they mean
    "n4 n2 zero p2 p4": "below to above zero",
    "s0 s1 s2 s3 s4 s5": "0 to 1",
    "false true": "False, True",
    "hidden": "−∞",
    "nan": "nan",
}
CALLS = """<div class="w-bar w-calls">
<button type="button" value="i" aria-keyshortcuts="i">Step into</button>
<button type="button" value="o" aria-keyshortcuts="o">Step out</button></div>
"""  # in a listing with calls to step into
PANEL = """<div class="w-panel" hidden>
<div class="w-bar"><button type="button" value="-1">Back</button>
<button type="button" value="1">Next</button> <span class="w-count"></span>
<a class="w-link">Link to this step</a></div>
<div class="w-why"></div><div class="w-when"></div>
<ul class="w-exists" role="list" tabindex="0" aria-label="What exists"></ul>
<output class="w-spoken"></output></div>"""  # walk.js fills it in


def render(listing: Listing) -> str:
    """Write the listing with its style sheet and its script."""
    first, *others = listing.parts
    title = escape(first.qualname)
    dims = (f"{name}\u00a0=\u00a0{size}" for name, size in listing.dims.items())
    # The box goes by the name of the first function, each other part by its own.
    names = ["", *(f' data-walk="{escape(part.name)}"' for part in others)]
    body = "".join(
        f'<div class="w-part"{name}>{"".join(map(_group, part.groups))}</div>'
        for name, part in zip(names, listing.parts, strict=True)
    ).replace('tabindex="-1"', 'tabindex="0"', 1)
    silent = [
        f"{part.qualname}: {call}"
        for part in listing.parts
        for call in unmentioned_calls(part)
    ]
    can_enter = any(row.calls for row in listing.rows)
    stack = '<nav class="w-stack" aria-label="Call stack"></nav>' if can_enter else ""
    panel = PANEL.replace('<div class="w-why">', f'{CALLS}<div class="w-why">')
    keys = "; <kbd>i</kbd> into a call, <kbd>o</kbd> out of it" if can_enter else ""
    unmentioned = f' data-unmentioned="{escape("; ".join(silent))}"' if silent else ""
    return (
        f'<section class="walk" data-walk="{escape(listing.name)}"{unmentioned} '
        f'aria-label="{title}, line by line"><style>{STYLE}</style>'
        f'<div class="w-head"><b>{title}</b> '
        '<button type="button" class="w-step" hidden>Step through</button> '
        f"<span>{escape(listing.place)}</span> "
        f'<span class="w-dims">{escape(", ".join(dims))}</span></div>'
        f'{stack}<div class="w-body"><div class="w-rows">{body}</div>'
        f"{panel if can_enter else PANEL}</div>"
        f'<div class="w-foot">{_legend(listing)}'
        '<span class="w-keys"><kbd>↑</kbd> <kbd>↓</kbd> line by line'
        f"{keys}</span></div>"
        f"<script>{SCRIPT}</script></section>"
    )


def highlight(source: str) -> str:
    """Colour Python source; no span runs over the end of a line."""
    pieces = []
    for token, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens(source):
        colour = next((name for kind, name in COLOURS.items() if token in kind), None)
        for piece in re.split("(\n)", escape(text)):
            coloured = colour and piece.strip()
            pieces.append(f'<i class="w-{colour}">{piece}</i>' if coloured else piece)
    return "".join(pieces)


def markdown(note: str) -> str:
    """Render a note: emphasis, code, links, and ``$maths$`` for MathJax; no HTML."""
    return _MARKDOWN.renderInline(note.strip())


def _maths(state: StateInline, silent: bool) -> bool:
    found = re.compile(r"\$(?!\s)([^$]+)(?<!\s)\$").match(state.src, state.pos)
    if found and not silent:
        state.push("maths", "", 0).content = found[1]
    state.pos += len(found[0]) if found else 0
    return found is not None


def _render_maths(self: object, tokens: list, index: int, *_: object) -> str:
    return rf'<span class="tex2jax_process">\({escape(tokens[index].content)}\)</span>'


_MARKDOWN = MarkdownIt("commonmark", {"html": False})
_MARKDOWN.inline.ruler.before("escape", "maths", _maths)
_MARKDOWN.add_render_rule("maths", _render_maths)


def _group(group: Group) -> str:
    """Write a note, and beside it the rows that it stands for."""
    note = f'<div class="w-note">{markdown(group.note)}</div>\n' if group.note else ""
    items = (_fold(x) if isinstance(x, Fold) else _row(x) for x in group.items)
    rows = f'<ol class="w-lines" role="list">{"".join(items)}</ol>'
    return f'<div class="w-group">{note}{rows}</div>\n'


def _fold(fold: Fold) -> str:
    """Write refusals as one row that opens."""
    line = " " * fold.indent + f'<span class="w-folded">{fold.text}</span>'
    return (
        f'<li><details class="w-fold"><summary class="w-row{_pale(fold)}">'
        f'<span class="w-main" style="--indent:{fold.indent}">'
        f'<span class="w-spoken">{fold.lines.capitalize()}. </span>'
        f"<code>{_line(fold.rows[0].statement.first, line)}</code></span></summary>\n"
        f"{''.join(map(_group, group_by_note(fold.rows)))}"
        "</details></li>\n"
    )


def _pale(row: Row | Fold) -> str:
    return "" if row.reached else " w-pale"


def _row(row: Row) -> str:
    statement = row.statement
    source = "\n".join(statement.lines) + (f"  {row.comment}" if row.comment else "")
    html = highlight(source) if row.reached else escape(source)
    html += f' <span class="w-flow">{row.flow}</span>' if row.flow else ""
    lines = [("", highlight(comment)) for comment in statement.above]
    lines += enumerate(html.split("\n"), statement.first)
    code = "".join(_line(number, line) for number, line in lines)
    made = list(_made(row.made))
    if row.raised:
        made.append(f'<li class="w-raised">raised {escape(row.raised)}</li>')
    items = f'<ul class="w-made" role="list">{"".join(made)}</ul>' if made else ""
    return (
        f'<li class="w-row{_pale(row)}" tabindex="-1">'
        f'<div class="w-main" style="--indent:{row.indent}">'
        f'<span class="w-spoken">Line {statement.first}. </span>'
        f"<code>{code}</code>\n{items}</div>"
        f"{''.join(map(_call, row.calls))}</li>\n"
    )


def _call(part: Part) -> str:
    """Write a call that a reader can step into; without the script it does not show.

    It is empty if the listing also shows it.
    """
    content = "" if part.is_listed else "".join(map(_group, part.groups))
    return (
        f'<template data-name="{escape(part.name)}" data-file="{escape(part.file)}">'
        f"{content}</template>"
    )


def _line(number: int | str, html: str) -> str:
    indent = f'style="--indent:{_indent(html)}"'
    html = html.replace("(", "(<wbr>")  # where a long line may break on a phone
    return f'<span class="w-line" data-number="{number}" {indent}>{html}</span>'


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _made(values: list[Value]) -> Iterator[str]:
    """Write a line for every value; small ones that follow each other share one."""
    for small, group in groupby(values, _is_small):
        if small:
            cells = [f"{_name(value)} {escape(value.text)}" for value in group]
            yield f'<li class="w-few">{_spans(cells)}</li>'
        else:
            yield from (f"<li>{_spans(_cells(value))}</li>" for value in group)


def _spans(cells: Iterable[str]) -> str:
    return " ".join(f"<span>{cell}</span>" for cell in cells)


def _is_small(value: Value) -> bool:
    return value.shape is None and not value.parts and len(value.text) <= SMALL


def _cells(value: Value) -> Iterator[str]:
    yield _name(value)
    if value.shape is None:
        parts = [f"{escape(part.name)} {_shape(part)}" for part in value.parts]
        yield " ".join([escape(value.text), ", ".join(parts)])
    else:
        yield _shape(value)
        yield escape(value.text)
        if value.picture:
            yield _svg(value.picture.cells, _numbers(value))


def _name(value: Value) -> str:
    tag = "em" if value.status.startswith("changed") else "span"
    status = f" <{tag}>{value.status}</{tag}>" if value.status else ""
    return f"<b>{escape(value.name)}</b>{status}"


def _shape(value: Value) -> str:
    letters = f'<span class="w-letters">{escape(value.letters)}</span> '
    return f"{letters if value.letters else ''}<span>{sizes(value.shape)}</span>"


def _numbers(value: Value) -> str:
    """What the script needs to show a value and to draw another head."""
    picture, shape = value.picture, ",".join(map(str, value.shape))
    largest = f"{picture.largest:.6g}"
    return f' data-n="{picture.numbers}" data-shape="{shape}" data-max="{largest}"'


def _svg(cells: list[list[str]], numbers: str = "") -> str:
    """Draw the cells: one path for all that look the same."""
    marks = defaultdict(str)
    for y, row in enumerate(cells):
        for x, code in enumerate(row):
            left, top = 7 * x, 7 * y
            if code == "hidden":
                marks[code] += f"M{left} {top + 6}l6-6"
            elif code == "nan":
                marks[code] += f"M{left} {top}l6 6m0-6l-6 6"
            else:
                marks[code] += f"M{left} {top}h6v6h-6z"
    paths = "".join(f'<path class="w-{code}" d="{d}"/>' for code, d in marks.items())
    size = f'width="{7 * len(cells[0]) - 1}" height="{7 * len(cells) - 1}"'
    return f'<svg {size}{numbers} aria-hidden="true">{paths}</svg>'


def _legend(listing: Listing) -> str:
    """Explain the pictures of this listing, and no others."""
    pictures = [
        value.picture for row in listing.rows for value in row.made if value.picture
    ]
    seen = {code for picture in pictures for cells in picture.cells for code in cells}
    parts = [
        f"<span>{_svg([codes.split()])} {meaning}</span>"
        for codes, meaning in LEGEND.items()
        if seen.intersection(codes.split())
    ]
    if any(picture.is_slice for picture in pictures):
        parts.append("<span>pictures: the last item of the leading axes</span>")
    return "".join(parts)
