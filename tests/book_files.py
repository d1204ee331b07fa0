"""Where the book's files lie, for the tests of notebooks and pages."""

import json
import re
from pathlib import Path

from website.folds import folds

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
HTML = ROOT / "_build" / "html"
NOTEBOOKS = sorted(BOOK.glob("*.ipynb"))
CHAPTERS = [path for path in NOTEBOOKS if path.stem != "open_model"]


def read_notebook(path):
    return json.loads(path.read_text(encoding="utf-8"))


def notebook_faults(find):
    """Look at each notebook; list what is wrong with it by its name."""
    assert NOTEBOOKS
    found = {path.stem: list(find(read_notebook(path))) for path in NOTEBOOKS}
    return {name: faults for name, faults in found.items() if faults}


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell):
    return "".join(cell["source"])


def is_hidden(cell):
    """Whether a reader has to open the cell to see its code."""
    hiding = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
    return bool(hiding & set(cell["metadata"].get("tags", [])))


def is_fold(heading):
    """Whether a heading, such as ``### Checks: both agree``, begins a fold."""
    level, _, text = heading.partition(" ")
    return len(level) > 1 and folds.HEADING.match(text) is not None


def headings_over(cells):
    """List all headings and code cells, each with the headings that it stands under.

    A heading is the last of its own, and comes without a cell.
    """
    over = []
    for cell in cells:
        if cell["cell_type"] == "code":
            yield cell, over
            continue
        fence = False
        for line in source(cell).split("\n"):
            fence ^= line.startswith(("```", ":::"))
            if not fence and re.match("#+ ", line):
                level = line.index(" ")
                over = [*(above for above in over if above.index(" ") < level), line]
                yield None, over
