"""Notebooks are plain Markdown, which reads well in JupyterLab and elsewhere."""

import json
import re
from itertools import pairwise

import pytest
from book_files import (
    BOOK,
    CHAPTERS,
    HTML,
    NOTEBOOKS,
    headings_over,
    is_fold,
    is_hidden,
    notebook_faults,
    read_notebook,
    source,
)
from test_pages import built, soup

from website.links import notebook_links as plain

RAW = {
    "role": r"\{[a-z][a-z:]*\}`",
    "directive": r"^\s*(?::::+|```+|~~~+)\s*\{",
    "label": r"^\([\w-]+\)=\s*$",
    "substitution": r"\{\{",
    "comment": r"^(?:%|\+\+\+)",
}


def markdown(notebook):
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "markdown"]


def test_a_notebook_has_no_markup_that_only_the_pages_understand():
    def raw_markup(notebook):
        for cell in markdown(notebook):
            for name, pattern in RAW.items():
                if re.search(pattern, source(cell), re.MULTILINE):
                    yield cell["id"], name

    assert notebook_faults(raw_markup) == {}


def test_what_a_page_hides_is_hidden_in_jupyterlab():
    def other(notebook):
        for cell, over in headings_over(notebook["cells"]):
            if cell is None:
                continue
            # Who goes deeper wants the code; JupyterLab cannot fold a whole section.
            in_fold = any(is_fold(h) and "Going deeper" not in h for h in over)
            in_lab = cell["metadata"].get("jupyter", {}).get("source_hidden", False)
            # A page needs only the form of a question; in a lab code may answer it.
            asks = cell["id"].startswith("exercise-") and cell["id"].endswith("-try")
            if in_lab != (in_fold or (is_hidden(cell) and not asks)):
                yield cell["id"]

    assert notebook_faults(other) == {}


def test_a_caption_stands_below_its_figure_or_control_and_has_its_name():
    def misplaced(notebook):
        cells = [*notebook["cells"], {"source": ""}]
        for cell, below in pairwise(cells):
            figure = cell["metadata"].get("mystnb", {}).get("figure")
            wanted = figure and f"{figure['name']}-caption"
            if wanted != (plain.CAPTION.match(source(below)) and below["id"]):
                yield cell["id"]
            if plain.CONTROL_CAPTION.match(source(below)):
                label = below["metadata"]["label"]
                is_named = label.startswith("control-")
                if not is_named or below["id"] != f"{label}-caption":
                    yield below["id"]
                if cell["cell_type"] != "code":
                    yield cell["id"]

    assert notebook_faults(misplaced) == {}


# -- What the pages make of it ---------------------------------------------------------


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("book")
    glossary = "(page-glossary)=\n# Glossary\n\n```{glossary}\nkey\n  A word.\n\n"
    glossary += "weights (attention)\n  Numbers.\n```\n"
    (folder / "glossary.md").write_text(glossary)
    (folder / "05_masks.ipynb").write_text(
        '{"cells": [{"metadata": {"label": "ch-masks"}}]}'
    )
    return folder


MEANT = {
    "the [keys](glossary.md#key) of": "the {term}`keys <key>` of",
    "[w](glossary.md#weights-attention)": "{term}`w <weights (attention)>`",
    "[nothing](glossary.md#no-term)": "{term}`nothing <no-term>`",
    "[Vaswani et al. (2017)](bibliography.md#v2017)": "{cite:t}`v2017`",
    "so ([A](bibliography.md#a17); [B](bibliography.md#b18)).": "so {cite:p}`a17,b18`.",
    "([Fig. 5.1](#fig-x))": "({numref}`fig-x`)",
    "[Fig. 5.1](05_masks.ipynb#fig-x)": "{numref}`fig-x`",
    "[Control 5.1](05_masks.ipynb#control-x)": "{numref}`control-x`",
    "[pull](#control-x)": "{ref}`pull <control-x>`",
    "[chapter 5](05_masks.ipynb)": "{ref}`chapter 5 <ch-masks>`",
    "[a table](05_masks.ipynb#table)": "{ref}`a table <table>`",
    "[glossary](glossary.md)": "{ref}`glossary <page-glossary>`",
    "a\n\n> **Note.** One\n>\n> Two.\n\nb": "a\n\n```{note}\nOne\n\nTwo.\n```\n\nb",
}
OTHERS = "[here](https://example.org/a#fig-x) `x[i](j)` ![a](b.svg) [gone](99_no.ipynb)"


@pytest.mark.parametrize("text", [*MEANT, "> A quotation.", *OTHERS.split()])
def test_a_plain_link_becomes_the_reference_that_it_means(text, folder):
    assert plain.upgrade_text(text, folder) == MEANT.get(text, text)


def test_labels_and_captions_go_where_the_pages_look_for_them(folder):
    figure = {"mystnb": {"figure": {"name": "fig-x"}}}
    cells = [
        ("markdown", {"label": "ch-a"}, ["# A"]),
        ("code", figure, ["1"]),
        ("markdown", {}, ["**Fig. 1.2.** One\n", "x"]),
        ("markdown", {}, ["**Fig. 1.2.** Two"]),
        ("markdown", {"label": "control-x"}, ["**Control 1.1.** [A](05_masks.ipynb)"]),
    ]
    cells = [{"cell_type": t, "metadata": m, "source": s} for t, m, s in cells]
    found = json.loads(plain.upgrade(json.dumps({"cells": cells}), folder))["cells"]
    assert found[0]["source"] == "(ch-a)=\n# A"
    assert found[1]["metadata"]["mystnb"]["figure"]["caption"] == "One\nx"
    assert [cell["cell_type"] for cell in found[1:]] == ["code", *["markdown"] * 2]
    assert found[3]["source"] == "```{control} control-x\n{ref}`A <ch-masks>`\n```"


# -- Numbers that a notebook writes out ------------------------------------------------


def page_of(path):
    return soup(built(HTML / "book" / f"{path.stem}.html"))


@pytest.fixture(scope="module")
def numbers():
    """The numbers of all figures and controls, from the pages."""
    return {
        figure["id"]: figure.select_one(".caption-number").text.strip()
        for path in NOTEBOOKS
        for figure in page_of(path).select("figure[id]:has(.caption-number)")
    }


@pytest.mark.book
def test_what_has_a_caption_has_the_number_that_the_notebook_says(numbers):
    def misnumbered(notebook):
        for cell in markdown(notebook):
            for said, name in re.findall(
                r"\[([^\]]*)\]\([^)]*#(fig-[\w-]+|control-[\w-]+)\)", source(cell)
            ):
                by_number = name.startswith("fig-") or said.startswith("Control ")
                if by_number and said != numbers[name]:
                    yield cell["id"], said
            caption = re.match(r"\*\*((?:Fig\.|Control) .*?)\.\*\* ", source(cell))
            if caption and caption[1] != numbers[cell["id"].removesuffix("-caption")]:
                yield cell["id"], caption[1]

    assert notebook_faults(misnumbered) == {}


@pytest.mark.book
def test_every_control_of_a_chapter_has_a_caption_and_the_first_cell_names_one():
    for path in CHAPTERS:
        names = []
        # The panels of appendix B may show a control; they are not controls themselves.
        for control in page_of(path).select("[data-control]:not(.c-shown *)"):
            (figure,) = control.find_parents("figure")
            assert len(figure.select("[data-control]")) == 1
            assert figure.find("figcaption", recursive=False)
            names.append(figure["id"])
        first = source(read_notebook(path)["cells"][0])
        tried = re.findall(r"\n\n\*\*Try\*\* \[[^\]]+\]\(#([\w-]+)\): \S", first)
        assert len(tried) == bool(names), path.stem
        assert set(tried) <= set(names), path.stem


def test_a_chapter_has_its_number_and_a_source_its_year_as_the_notebook_says():
    entries = (BOOK / "references.bib").read_text("utf-8").split("\n@")
    year = {
        re.search(r"\{(\w+)", entry)[1]: re.search(r"\byear\s*=\s*\W?(\d+)", entry)
        for entry in entries
    }

    def mistaken(notebook):
        for cell in markdown(notebook):
            for said, name in re.findall(r"\[([^\]]+)\]\((\w+)\.ipynb\)", source(cell)):
                number = re.fullmatch(r"(?:[Cc]hapter )?(\d+|[AB])", said)
                own = name.partition("_")[0].lstrip("0")
                if number and number[1].lower() != own:
                    yield cell["id"], said
            cited = r"\[([^\]]+)\]\(bib\w+\.md#(\w+)\)"
            for said, key in re.findall(cited, source(cell)):
                if re.search(r"\d{4}", said)[0] != year[key][1]:
                    yield cell["id"], said

    assert notebook_faults(mistaken) == {}
