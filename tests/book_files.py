"""Where the book's files lie, for the tests of notebooks and pages."""

import json
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
BOOK = ROOT / "book"
HTML = ROOT / "_build" / "html"
NOTEBOOKS = sorted(BOOK.glob("*.ipynb"))


def read_notebook(path):
    return json.loads(path.read_text(encoding="utf-8"))


def code_cells(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell):
    return "".join(cell["source"])


def is_hidden(cell):
    """Whether a reader has to open the cell to see its code."""
    hiding = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
    return bool(hiding & set(cell["metadata"].get("tags", [])))
