"""What popular articles contain, and their mistakes: the cells that show them.

``articles.csv`` names for each row the chapter, the cell, and a piece of its code
without which nothing would be shown. No rewriting may lose one.
"""

import csv
import functools
import io
import tokenize
from contextlib import suppress

from book_files import BOOK, ROOT, headings_over, is_fold, is_hidden, read_notebook

with open(ROOT / "tests" / "articles.csv", newline="", encoding="utf-8") as table:
    ROWS = list(csv.DictReader(table))
MISSING = 0  # may only fall
SILENT = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"}


def words(code):
    """List the tokens of code without comments; a string is a single one."""
    found = []
    with suppress(tokenize.TokenError):  # a piece may leave a bracket open
        for token in tokenize.generate_tokens(io.StringIO(code).readline):
            if tokenize.tok_name[token.type] not in SILENT:
                found.append(token.string)
    return found


@functools.cache
def cells(chapter):
    """Find the code cells of a chapter, each with whether the reader must open it."""
    found = headings_over(read_notebook(BOOK / f"{chapter}.ipynb")["cells"])
    return {
        cell["id"]: (cell, is_hidden(cell) or any(map(is_fold, over)))
        for cell, over in found
        if cell is not None
    }


def fault_of(row, cells):
    """Say why a cell does not show what its row says, or return None."""
    if row["cell"] not in cells:
        return "the cell is gone"
    cell, is_folded = cells[row["cell"]]
    if {"skip-execution", "nbval-skip"} & set(cell["metadata"].get("tags", [])):
        return "the cell does not run"
    code, piece = words("".join(cell["source"])), words(row["shows"])
    places = range(len(code) - len(piece) + 1)
    if not piece or not any(code[at : at + len(piece)] == piece for at in places):
        return f"the cell has lost {row['shows']!r}"
    if is_folded != (row["sight"] == "fold"):
        return f"the cell is not {row['sight']}"
    return None


def test_every_row_of_the_articles_has_a_cell_that_shows_it():
    rows = [row for row in ROWS if row["chapter"] != "missing"]
    faults = {row["what"]: fault_of(row, cells(row["chapter"])) for row in rows}
    assert {what: fault for what, fault in faults.items() if fault} == {}
    assert len(ROWS) - len(rows) == MISSING
    assert len(ROWS) >= 155
