"""What every control is: data, a script that draws it, and words in its place."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from bookkit.colours import style_sheet
from transformer_lib.data import SPECIAL_TOKENS, Tokenizer


def read(name: str, beside: str = __file__) -> str:
    """Return the text of a script or a style sheet.

    Args:
        name: Of the file.
        beside: A file in the same folder.

    Returns:
        What it holds.
    """
    return Path(beside).with_name(name).read_text(encoding="utf-8")


SHOWN = dict(zip(SPECIAL_TOKENS, ("PAD", "BOS", "EOS"), strict=True))


def words_of(tokenizer: Tokenizer, tokens: Sequence[int]) -> list[str]:
    """Name tokens as the controls show them."""
    return [SHOWN.get(piece, piece.lstrip("▁")) for piece in tokenizer.pieces(tokens)]


# On the book's pages and in JupyterLab.
DARK = 'html[data-theme="dark"] .control, body[data-jp-theme-light="false"] .control'
STYLE = style_sheet(".control", DARK) + read("control.css")
KIT = read("kit.js")
FOR_JSON_IN_HTML = str.maketrans({"<": r"\u003c", ">": r"\u003e", "&": r"\u0026"})


@dataclass(frozen=True)
class Control:
    """Something on the page that the reader moves.

    It shows itself wherever HTML is shown, a notebook or a built page, and works there
    without a kernel and without a network: what it needs comes with it.

    Args:
        name: Its script is ``NAME.js``, which defines a function
            ``draw(root, data, kit)``. ``NAME.css`` is its style, if there is one.
        title: What it is for, in a few words; the name that is read aloud.
        data: What the script starts from: anything that JSON can hold.
        words: The first state as plain text: shown where no script runs.
        beside: ``__file__``: script and style stand beside the function that makes the
            control.
        scripts: Further JavaScript that the script uses.
        html: The first state as HTML, in place of the words; the script's ``draw`` gets
            its elements.
    """

    name: str
    title: str
    data: object
    words: str
    beside: str
    scripts: tuple[str, ...] = ()
    html: str = ""

    def __repr__(self) -> str:
        return f"{self.title}\n{self.words}"

    def _repr_html_(self) -> str:
        data = json.dumps(self.data, allow_nan=False).translate(FOR_JSON_IN_HTML)
        parts = (
            KIT,
            *self.scripts,
            read(self.name + ".js", self.beside),
            "start(draw);",
        )
        script = "\n".join(parts)
        own = Path(self.beside).with_name(self.name + ".css")
        style = STYLE + (own.read_text(encoding="utf-8") if own.is_file() else "")
        first = self.html or f"<pre>{escape(self.words)}</pre>"
        return (
            f'<section class="control tex2jax_ignore" data-control="{self.name}" '
            f'aria-label="{escape(self.title)}"><style>{style}</style>'
            f'<p class="c-title">{escape(self.title)}</p>'
            f'<div class="c-body">{first}</div>'
            '<p class="c-print">Shown as it starts. It can be moved on the page, and '
            "in a notebook once its cell has run.</p>"
            f'<script type="application/json">{data}</script>'
            f"<script>(() => {{\n{script}\n}})();</script></section>"
        )
