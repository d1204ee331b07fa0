"""What is committed as a notebook. That every one of them runs is for nbval to show."""

import re

import pytest
from book_files import (
    NOTEBOOKS,
    code_cells,
    headings_over,
    is_fold,
    is_hidden,
    read_notebook,
    source,
)

from website.folds import folds

MOST_LINES, MOST_IN_A_FOLD, MOST_IN_A_ROW = 15, 25, 4
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
            assert "caption" not in shown["figure"], cell["id"]
            assert shown["figure"]["name"].startswith("fig-"), cell["id"]
            assert len(shown["image"]["alt"].split()) >= 5, cell["id"]


def test_a_cell_that_the_reader_sees_is_short(notebook):
    long = {}
    for cell, over in headings_over(notebook["cells"]):
        if cell is None or is_hidden(cell):
            continue
        most = MOST_IN_A_FOLD if any(map(is_fold, over)) else MOST_LINES
        lines = sum(map(bool, source(cell).split("\n")))
        if lines > most:
            long[cell["id"]] = lines
    assert long == {}


def test_prose_comes_between_the_code(notebook):
    row = []
    for cell in notebook["cells"]:
        row = [*row, cell["id"]] if cell["cell_type"] == "code" else []
        assert len(row) <= MOST_IN_A_ROW, row


# -- Folds and exercises ---------------------------------------------------------------


def headings_of(cells):
    """List all headings, each with those above it."""
    return [over for cell, over in headings_over(cells) if cell is None]


def misused(cells):
    """List the headings that begin like a fold, but do not go on like one."""
    alike = r"#+ (set-?\s?up|checks|going deeper|(the )?rest of|hints?|answers?)\b"
    return [
        over[-1]
        for over in headings_of(cells)
        if re.match(alike, over[-1], re.IGNORECASE)
        and not re.fullmatch(rf"##+ ({folds.WORDS})([:,] .+)?", over[-1])
    ]


def unanswered(cells):
    """List the exercises without one answer at the end and a hint before it."""
    below = {}
    for over in headings_of(cells):
        names = [heading.lstrip("# ") for heading in over]
        if len(over) > 2 and over[1] == "## Exercises":
            kinds = below.setdefault(over[2], [])
            kinds += [re.split("[:,]", names[3])[0]] if len(over) == 4 else []
    wanted = re.compile("(Hint )+Answer")
    return [name for name in below if not wanted.fullmatch(" ".join(below[name]))]


def out_of_place(cells):
    """List the solutions out of an answer, and what else is code in one."""
    return [
        cell["id"]
        for cell, over in headings_over(cells)
        if cell
        and ("solution" in cell["metadata"].get("tags", []))
        != any(heading.lstrip("# ").startswith("Answer") for heading in over)
    ]


def test_no_heading_uses_the_word_of_a_fold_for_something_else(notebook):
    assert misused(notebook["cells"]) == []


def test_every_exercise_has_a_hint_and_then_an_answer(notebook):
    assert unanswered(notebook["cells"]) == []


def test_a_solution_is_in_an_answer_and_an_answer_has_no_other_code(notebook):
    assert out_of_place(notebook["cells"]) == []


def test_the_set_up_of_a_chapter_follows_its_opening(notebook):
    headings = [over[-1] for over in headings_of(notebook["cells"])]
    assert "## Set-up" not in headings[2:]


def test_a_chapter_does_not_end_in_a_fold(notebook):
    end = {"cell_type": "code"}
    _, over = list(headings_over([*notebook["cells"], end]))[-1]
    assert not any(map(is_fold, over))  # the next chapter, in a sentence, is in sight


EXERCISE = "# A\n## Exercises\n### 1 Predict\n"


def written(*sources):
    """Make cells: of text, or with ``!`` a solution, or with ``>`` other code."""
    for number, text in enumerate(sources):
        kind = "code" if text[0] in "!>" else "markdown"
        tags = {"tags": ["solution"]} if text[0] == "!" else {}
        yield {
            "id": str(number),
            "cell_type": kind,
            "metadata": tags,
            "source": [text],
        }


@pytest.mark.parametrize(
    ("find", "texts", "found"),
    [
        (misused, ["# A\n## Checks: all\n### Hint\n## Set-up"], []),
        (misused, ["# A\n```\n## Checks out\n```\n### Checked"], []),
        (misused, ["# A\n## Checks of it"], ["## Checks of it"]),
        (misused, ["# A\n## Set up\n### answer"], ["## Set up", "### answer"]),
        (misused, ["# Hint"], ["# Hint"]),
        (unanswered, ["# A\n## Exercises\n\n1. Predict"], []),
        (unanswered, [f"{EXERCISE}#### Hint: x\n#### Answer"], []),
        (unanswered, [f"{EXERCISE}#### Answer\n#### Hint"], ["### 1 Predict"]),
        (unanswered, [f"{EXERCISE}#### Hint\n### 2", "#### Answer"], 2),
        (out_of_place, [f"{EXERCISE}#### Answer", "!a", "### 2", ">b"], []),
        (out_of_place, [f"{EXERCISE}#### Answer", ">a", "### 2", "!b"], ["1", "3"]),
        (
            out_of_place,
            [f"{EXERCISE}#### Answer\n<!-- end of fold -->\nx", "!a"],
            ["1"],
        ),
    ],
)
def test_what_is_wrong_with_folds_is_found(find, texts, found):
    faults = find(list(written(*texts)))
    assert (len(faults) if isinstance(found, int) else faults) == found
