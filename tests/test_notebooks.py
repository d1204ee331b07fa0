"""What is committed as a notebook. That every one of them runs is for nbval to show."""

import re

import pytest
from book_files import NOTEBOOKS, code_cells, is_hidden, read_notebook, source

MOST_LINES, MOST_IN_A_ROW = 15, 4
READABLE = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


def is_random(identifier):
    """Whether an id looks like what Jupyter makes up, such as 3f9a01bc."""
    return re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4})*.*", identifier) is not None


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def notebook(request):
    return read_notebook(request.param)


def test_the_book_has_notebooks():
    assert NOTEBOOKS


def test_a_notebook_is_committed_without_outputs(notebook):
    for cell in code_cells(notebook):
        assert cell["outputs"] == [], cell["id"]
        assert cell["execution_count"] is None, cell["id"]


def test_every_cell_has_an_id_of_its_own_that_a_person_can_read(notebook):
    assert (notebook["nbformat"], notebook["nbformat_minor"]) >= (4, 5)
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(ids) == len(set(ids))
    strange = [i for i in ids if not READABLE.fullmatch(i) or is_random(i)]
    assert strange == []


@pytest.mark.parametrize(
    "identifier", ["3f9a01bc", "0b1c2d3e-1f2a-4b3c-8d4e-5f6a7b8c9d0e"]
)
def test_an_id_that_jupyter_made_up_counts_as_random(identifier):
    assert is_random(identifier)
    assert not is_random("feed-forward")


def test_every_notebook_runs_with_the_kernel_that_every_jupyter_has(notebook):
    assert notebook["metadata"]["kernelspec"]["name"] == "python3"


def test_a_figure_has_a_caption_a_name_and_a_text_for_those_who_cannot_see_it(notebook):
    for cell in code_cells(notebook):
        shown = cell["metadata"].get("mystnb", {})
        if "figure" in shown or "image" in shown:
            assert shown["figure"]["caption"].strip(), cell["id"]
            assert shown["figure"]["name"].startswith("fig-"), cell["id"]
            assert len(shown["image"]["alt"].split()) >= 5, cell["id"]


def test_a_cell_that_the_reader_sees_is_short(notebook):
    seen = [cell for cell in code_cells(notebook) if not is_hidden(cell)]
    lines = {c["id"]: sum(map(bool, source(c).split("\n"))) for c in seen}
    assert {name: n for name, n in lines.items() if n > MOST_LINES} == {}


def test_prose_comes_between_the_code(notebook):
    row = []
    for cell in notebook["cells"]:
        row = [*row, cell["id"]] if cell["cell_type"] == "code" else []
        assert len(row) <= MOST_IN_A_ROW, row
