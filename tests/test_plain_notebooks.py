"""Notebooks are plain Markdown, which reads well in JupyterLab and elsewhere."""

import json
import re

import lxml.html
import pytest
from book_files import (
    BOOK,
    CHAPTERS,
    HTML,
    NOTEBOOKS,
    headings_over,
    is_fold,
    is_hidden,
    read_notebook,
    source,
)

from website.links import notebook_links as plain

RAW = {
    "role": re.compile(r"\{[a-z][a-z:]*\}`"),
    "directive": re.compile(r"^\s*(?::::+|```+|~~~+)\s*\{", re.MULTILINE),
    "label": re.compile(r"^\([\w-]+\)=\s*$", re.MULTILINE),
    "substitution": re.compile(r"\{\{"),
    "comment": re.compile(r"^(?:%|\+\+\+)", re.MULTILINE),
}


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return read_notebook(path)


def markdown(notebook):
    cells = notebook["cells"]
    return [cell for cell in cells if cell["cell_type"] == "markdown"]


def raw_markup(text):
    """Name the markup in a text that only the pages understand."""
    return [name for name, pattern in RAW.items() if pattern.search(text)]


def test_a_notebook_has_no_markup_that_only_the_pages_understand(notebook):
    found = {cell["id"]: raw_markup(source(cell)) for cell in markdown(notebook)}
    assert {identifier: names for identifier, names in found.items() if names} == {}


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("a {term}`key`", "role"),
        ("see {cite:t}`vaswani2017`", "role"),
        ("```{note}\nx\n```", "directive"),
        (":::{warning}\nx\n:::", "directive"),
        ("(ch-masks)=\n# Masks", "label"),
        ("by {{ author }}", "substitution"),
        ("% hidden", "comment"),
    ],
)
def test_such_markup_is_found(text, name):
    assert raw_markup(text) == [name]


def test_what_a_page_hides_is_hidden_in_jupyterlab(notebook):
    for cell, over in headings_over(notebook["cells"]):
        if cell is None:
            continue
        # Who goes deeper wants the code; JupyterLab cannot fold a whole section.
        in_fold = any(is_fold(h) and "Going deeper" not in h for h in over)
        in_lab = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
        # A page needs only the form of a question; in JupyterLab code may answer it.
        asks = cell["id"].startswith("exercise-") and cell["id"].endswith("-try")
        assert in_lab == (in_fold or (is_hidden(cell) and not asks)), cell["id"]


def test_the_first_line_below_the_title_says_how_to_run_a_notebook(notebook):
    _, run, *_ = source(notebook["cells"][0]).split("\n\n")
    assert run.startswith("> **Run** Choose *Run > Run All Cells* first: ")
    assert "the library and the models" in run


def test_a_figure_has_its_caption_in_the_cell_below(notebook):
    cells = notebook["cells"]
    for cell, below in zip(cells, [*cells[1:], {}], strict=True):
        figure = cell["metadata"].get("mystnb", {}).get("figure")
        is_caption = bool(below) and plain.CAPTION.match(source(below)) is not None
        assert (figure is not None) == is_caption, cell["id"]
        if figure:
            assert below["id"] == f"{figure['name']}-caption"


def test_a_caption_of_a_control_stands_below_code_and_has_its_label(notebook):
    above = {}
    for cell in notebook["cells"]:
        if plain.CONTROL_CAPTION.match(source(cell)):
            label = cell["metadata"]["label"]
            assert label.startswith("control-")
            assert cell["id"] == f"{label}-caption"
            assert above["cell_type"] == "code", cell["id"]
        above = cell


# -- What the pages make of it ---------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    glossary = "(page-glossary)=\n# Glossary\n\n```{glossary}\nkey\n  A word.\n\n"
    glossary += "weights (attention)\n  Numbers.\n```\n"
    (folder / "glossary.md").write_text(glossary)
    cell = {"metadata": {"label": "ch-masks"}}
    (folder / "05_masks.ipynb").write_text(json.dumps({"cells": [cell]}))
    return folder


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the [keys](glossary.md#key) of", "the {term}`keys <key>` of"),
        (
            "[weights](glossary.md#weights-attention)",
            "{term}`weights <weights (attention)>`",
        ),
        ("[nothing](glossary.md#no-term)", "{term}`nothing <no-term>`"),
        ("[Vaswani et al. (2017)](bibliography.md#v2017)", "{cite:t}`v2017`"),
        (
            "so ([A, 2017](bibliography.md#a2017); [B, 2018](bibliography.md#b2018)).",
            "so {cite:p}`a2017,b2018`.",
        ),
        ("([Fig. 5.1](#fig-x))", "({numref}`fig-x`)"),
        ("[Fig. 5.1](05_masks.ipynb#fig-x)", "{numref}`fig-x`"),
        ("[Control 5.1](#control-x)", "{numref}`control-x`"),
        ("[Control 5.1](05_masks.ipynb#control-x)", "{numref}`control-x`"),
        ("[pull](#control-x)", "{ref}`pull <control-x>`"),
        ("[chapter 5](05_masks.ipynb)", "{ref}`chapter 5 <ch-masks>`"),
        ("[a table](05_masks.ipynb#table)", "{ref}`a table <table>`"),
        ("[glossary](glossary.md)", "{ref}`glossary <page-glossary>`"),
        (
            "a\n\n> **Note.** One\n> two.\n>\n> Three.\n\nb",
            "a\n\n```{note}\nOne\ntwo.\n\nThree.\n```\n\nb",
        ),
        ("> A quotation.", "> A quotation."),
        ("[here](https://example.org/a#fig-x)", "[here](https://example.org/a#fig-x)"),
        ("`x[i](j)` and ![a](b.svg)", "`x[i](j)` and ![a](b.svg)"),
        ("[gone](99_nowhere.ipynb)", "[gone](99_nowhere.ipynb)"),
    ],
)
def test_a_plain_link_becomes_the_reference_that_it_means(text, expected, folder):
    assert plain.upgrade_text(text, folder) == expected


def test_labels_and_captions_go_where_the_pages_look_for_them(folder):
    figure = {"mystnb": {"figure": {"name": "fig-x"}}}
    cells = [
        {"cell_type": "markdown", "metadata": {"label": "ch-a"}, "source": ["# A"]},
        {"cell_type": "code", "metadata": figure, "source": ["1"]},
        {
            "cell_type": "markdown",
            "metadata": {},
            "source": ["**Fig. 1.2.** One\n", "x"],
        },
        {"cell_type": "markdown", "metadata": {}, "source": ["**Fig. 1.2.** Two"]},
        {
            "cell_type": "markdown",
            "metadata": {"label": "control-x"},
            "source": ["**Control 1.1.** [A](05_masks.ipynb)"],
        },
    ]
    found = json.loads(plain.upgrade(json.dumps({"cells": cells}), folder))["cells"]
    assert found[0]["source"] == "(ch-a)=\n# A"
    assert found[1]["metadata"]["mystnb"]["figure"]["caption"] == "One\nx"
    assert [cell["cell_type"] for cell in found[1:]] == ["code", *["markdown"] * 2]
    assert found[3]["source"] == "```{control} control-x\n{ref}`A <ch-masks>`\n```"


# -- Numbers that a notebook writes out ------------------------------------------------


@pytest.fixture(scope="module")
def numbers():
    """The numbers of all figures and controls, from the pages."""
    found = {}
    for page in (HTML / "book").glob("*.html"):
        for figure in lxml.html.parse(str(page)).getroot().iter("figure"):
            number = figure.xpath('.//span[@class="caption-number"]')
            if number and figure.get("id"):
                found[figure.get("id")] = number[0].text_content().strip()
    return found


@pytest.mark.book
def test_what_has_a_caption_has_the_number_that_the_notebook_says(notebook, numbers):
    for cell in markdown(notebook):
        for said, name in re.findall(
            r"\[([^\]]*)\]\([^)]*#(fig-[\w-]+|control-[\w-]+)\)", source(cell)
        ):
            if name.startswith("fig-") or said.startswith("Control "):
                assert said == numbers[name], cell["id"]
        if caption := re.match(r"\*\*((?:Fig\.|Control) .*?)\.\*\* ", source(cell)):
            assert caption[1] == numbers[cell["id"].removesuffix("-caption")]


@pytest.mark.book
def test_every_control_of_a_chapter_has_a_caption_and_the_first_cell_names_one(path):
    if path not in CHAPTERS:
        return  # the page is the control
    page = lxml.html.parse(str(HTML / "book" / f"{path.stem}.html")).getroot()
    # The panels of appendix B may show a control; they are not controls themselves.
    controls = page.xpath(
        '//section[@data-control and not(ancestor::*[@class="c-shown"])]'
    )
    names = []
    for control in controls:
        (figure,) = control.iterancestors("figure")
        assert len(figure.xpath(".//*[@data-control]")) == 1
        assert figure.xpath("./figcaption")
        names.append(figure.get("id"))
    first = source(read_notebook(path)["cells"][0])
    tried = re.findall(r"\n\n\*\*Try\*\* \[[^\]]+\]\(#([\w-]+)\): \S", first)
    assert len(tried) == bool(names)
    assert set(tried) <= set(names)


def test_a_chapter_has_the_number_that_the_notebook_says(notebook):
    for cell in markdown(notebook):
        for said, name in re.findall(r"\[([^\]]+)\]\((\w+)\.ipynb\)", source(cell)):
            if number := re.fullmatch(r"(?:[Cc]hapter )?(\d+|[AB])", said):
                assert name.partition("_")[0].lstrip("0") == number[1].lower(), cell[
                    "id"
                ]


def test_a_source_is_cited_with_its_year(notebook):
    entries = re.split(
        r"^@\w+\{", (BOOK / "references.bib").read_text("utf-8"), flags=re.M
    )
    year = {
        entry.partition(",")[0]: re.search(r"\byear\s*=\s*\W?(\d+)", entry)[1]
        for entry in entries[1:]
    }
    for cell in markdown(notebook):
        for said, key in re.findall(r"\[([^\]]+)\]\(bib\w+\.md#(\w+)\)", source(cell)):
            assert re.search(r"\d{4}", said)[0] == year[key], cell["id"]
