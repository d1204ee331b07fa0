"""What is committed as a notebook. That every one of them runs is for nbval to show."""

import re

import pytest
from book_files import (
    code_cells,
    headings_over,
    is_fold,
    is_hidden,
    notebook_faults,
    source,
)

MOST_LINES, MOST_IN_A_FOLD, MOST_IN_A_ROW = 15, 25, 4
READABLE = re.compile(r"[a-z][a-z0-9]*([-_][a-z0-9]+)*")


RANDOM = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4})*")  # Jupyter makes them up


def test_a_notebook_is_committed_without_outputs_for_the_kernel_that_all_have():
    def kept(notebook):
        if notebook["metadata"]["kernelspec"]["name"] != "python3":
            yield notebook["metadata"]["kernelspec"]
        for cell in code_cells(notebook):
            if cell["outputs"] or cell["execution_count"] is not None:
                yield cell["id"]

    assert notebook_faults(kept) == {}


def test_every_cell_has_an_id_of_its_own_that_a_person_can_read():
    def strange(notebook):
        assert (notebook["nbformat"], notebook["nbformat_minor"]) >= (4, 5)
        ids = [cell["id"] for cell in notebook["cells"]]
        for name in ids:
            is_readable = READABLE.fullmatch(name) and not RANDOM.match(name)
            if not is_readable or ids.count(name) > 1:
                yield name

    assert notebook_faults(strange) == {}


def test_a_figure_has_a_name_and_a_text_for_those_who_cannot_see_it():
    def unnamed(notebook):
        for cell in code_cells(notebook):
            shown = cell["metadata"].get("mystnb", {})
            figure, image = shown.get("figure"), shown.get("image")
            if (figure or image) and (
                not figure["name"].startswith("fig-")
                or len(image["alt"].split()) < 5
                or "caption" in figure
            ):
                yield cell["id"]

    assert notebook_faults(unnamed) == {}


def test_a_cell_that_the_reader_sees_is_short():
    def long(notebook):
        for cell, over in headings_over(notebook["cells"]):
            if cell is None or is_hidden(cell):
                continue
            most = MOST_IN_A_FOLD if any(map(is_fold, over)) else MOST_LINES
            if sum(map(bool, source(cell).split("\n"))) > most:
                yield cell["id"]

    assert notebook_faults(long) == {}


def test_prose_comes_between_the_code():
    def unexplained(notebook):
        row = []
        for cell in notebook["cells"]:
            row = [*row, cell["id"]] if cell["cell_type"] == "code" else []
            if len(row) > MOST_IN_A_ROW:
                yield row

    assert notebook_faults(unexplained) == {}


# -- Folds and exercises ---------------------------------------------------------------


def headings_of(notebook):
    """List all headings, each with those above it."""
    return [over for cell, over in headings_over(notebook["cells"]) if cell is None]


def misused(notebook):
    """List the headings that begin like a fold, but do not go on like one."""
    alike = r"#+ (set-?\s?up|checks|going deeper|(the )?rest of|hints?|answers?)\b"
    for over in headings_of(notebook):
        if re.match(alike, over[-1], re.IGNORECASE) and not re.fullmatch(
            r"##+ (Going deeper|The rest of the module)([:,] .+)?", over[-1]
        ):
            yield over[-1]


def untitled(notebook):
    """List the folded cells whose first line does not say what they are."""
    for cell in notebook["cells"]:
        if "hide-cell" in cell["metadata"].get("tags", []):
            first = source(cell).partition("\n")[0]
            if not re.fullmatch("# (Set-up|Checks|Answer)(: .+)?", first):
                yield cell["id"]


def unanswered(notebook):
    """List the exercises without one answer at the end and a hint before it."""
    cells = [c for c in notebook["cells"] if c["cell_type"] == "markdown"]
    text = "\n\n".join(map(source, cells)).partition("\n## Exercises\n")[2]
    for exercise in re.findall(r"^### .*\n(?:(?!##).*\n?)*", text, re.MULTILINE):
        kinds = re.findall(r"<summary>(\w+)", exercise)
        if not re.fullmatch("(Hint )+Answer", " ".join(kinds)):
            yield exercise.partition("\n")[0]


def ends_in_a_fold(notebook):
    """The next chapter, in a sentence, is in sight; the set-up follows the opening."""
    _, over = list(headings_over([*notebook["cells"], {"cell_type": "code"}]))[-1]
    yield from filter(is_fold, over)
    for cell, over in headings_over(notebook["cells"]):
        if cell and cell["id"] == "setup" and len(over) > 1:
            yield "a late set-up"


@pytest.mark.parametrize("find", [misused, untitled, unanswered, ends_in_a_fold])
def test_folds_and_exercises_are_as_the_pages_expect_them(find):
    assert notebook_faults(find) == {}
