"""Figures on their way from a cell into the page."""

import re

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from book_files import ROOT
from bs4 import BeautifulSoup
from docutils import nodes

from bookkit.colours import EDGES, SERIES, variables
from bookkit.plotting import plot_lines, plot_mask, plot_numbers, use_book_style
from bookkit.svg import inline
from website.figures.figures import picture

HEX = re.compile(r"#[0-9a-f]{6}\b", re.IGNORECASE)


@pytest.fixture(autouse=True)
def book_style(recwarn):
    matplotlib.use("Agg")
    with matplotlib.rc_context():
        use_book_style()
        yield
    plt.close("all")


@pytest.fixture
def page(tmp_path):
    """Give the figure that was drawn last as the page has it."""

    def page(prefix="page-0-", alt="What it shows"):
        path = tmp_path / "figure.svg"
        plt.gcf().savefig(path, bbox_inches="tight", metadata={"Date": None})
        html = inline(path.read_text(encoding="utf-8"), alt, prefix)
        return BeautifulSoup(html, "html.parser").svg

    return page


def words(svg):
    return {text.text.strip(): text for text in svg.find_all("text")}


def paints(svg):
    """List all colours but those of words."""
    shapes = svg.find_all(style=True, name=["path", "use", "rect", "circle"])
    return " ".join(shape["style"] for shape in shapes)


def test_a_figure_is_transparent_and_has_its_words_for_those_who_cannot_see_it(page):
    plot_lines([0, 1], {"a": [0, 1]})
    svg = page(alt='A line from "low" to <high>')
    assert svg["role"] == "img"
    assert svg["aria-label"] == 'A line from "low" to <high>'
    assert svg.find(["style", "metadata"]) is None
    assert "--book-paper" not in str(svg)
    assert "#ffffff" not in str(svg)
    # For the search it is no text.
    assert nodes.paragraph("", "", picture("", html=str(svg))).astext() == ""


def test_names_inside_are_those_of_the_figure_and_the_same_each_time(page, tmp_path):
    plot_lines([0, 1], {"a": [0, 1], "b": [1, 0]})
    made = [page() and (tmp_path / "figure.svg").read_bytes() for _ in range(2)]
    assert made[0] == made[1]
    for prefix in ("one-0-", "one-1-"):
        svg = page(prefix)
        ids = [element["id"] for element in svg.find_all(id=True)]
        assert ids
        assert len(ids) == len(set(ids))
        assert all(name.startswith(prefix) for name in ids)
        found = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', str(svg))
        assert {one or other for one, other in found} == set(ids)


def test_words_are_in_the_font_of_the_page_and_lines_in_colours_of_either_theme(page):
    ax = plot_lines([0, 1], {name: [i, 1] for i, name in enumerate("abcd")})
    ax.set_xlabel("epochs")
    ax.text(0, 0, "w_q", family="monospace")
    svg = page()
    assert "var(--book-ink)" in words(svg)["epochs"]["style"]
    assert "class" not in words(svg)["epochs"].attrs
    assert words(svg)["w_q"]["class"] == ["code"]
    assert "DejaVu" not in str(svg)
    used = re.findall(r"stroke:var\((--book-[\w-]+)\)", paints(svg))
    assert {variables()[name] for name in used} >= set(SERIES)
    assert not HEX.search(paints(svg))


def test_a_mask_is_cells_in_the_colours_of_either_theme(page):
    plot_mask(torch.ones(3, 3).tril().bool(), "abc", "xyz")
    svg = page()
    assert svg.find("image") is None
    (group,) = svg.select("g[shape-rendering]")
    hidden, seen = sorted(group.find_all("path"), key=lambda path: len(path["d"]))
    assert "var(--book-hidden)" in hidden["style"]
    cells = {f"M{x} {y}h1v1h-1" for x, y in [(1, 0), (2, 0), (2, 1)]}
    assert set(hidden["d"].split("z")) == {"", *cells}
    assert seen["d"].count("M") == 6
    assert not HEX.search(str(svg))


def test_a_heat_map_keeps_its_pixels_and_the_words_on_it_turn_with_it(page):
    plot_numbers(torch.tensor([[0.1, 0.9]]), ["row"], ["p", "q"])
    svg = page()
    (image,) = svg.find_all("image")
    assert image["href"].startswith("data:image/png;base64,")
    assert (image["width"], image["height"]) == ("2", "1")
    dark, pale = words(svg)["0.90"], words(svg)["0.10"]
    assert (dark["class"], pale["class"]) == (["over"], ["over"])
    assert "fill:#ffffff" in dark["style"]
    assert "fill:#000000" in pale["style"]
    assert "class" not in words(svg)["row"].attrs


def test_a_colour_that_the_book_has_no_name_for_gets_a_dark_twin_if_it_is_pale(page):
    ax = plt.subplots()[1]
    for i, colour in enumerate(["#f6d5c3", "#800000", "#444444", "black"]):
        ax.bar(i, 1, color=colour)
    svg = page()
    assert re.search("fill:#f6d5c3;--dark:#[0-9a-f]{6}", paints(svg))
    assert re.search("fill:#800000(?!;--dark)", paints(svg))
    assert "fill:var(--book-quiet)" in paints(svg)
    assert "#444444" not in paints(svg)


# -- One declaration -----------------------------------------------------------------


def literals(text):
    return {colour.lower() for colour in HEX.findall(text)}


def names(text):
    return set(re.findall(r"var\((--book-[\w-]+)\)", text))


def test_the_map_the_controls_plots_and_drawings_take_their_colours_from_there():
    style = (ROOT / "website/front/front.css").read_text("utf-8").splitlines()
    rules = "\n".join(line for line in style if line.startswith(".map "))
    assert "--book-serif" in names(rules) <= {"--book-serif", *variables()}
    svg = (ROOT / "website/front/map.svg").read_text("utf-8")
    assert not literals(rules + svg)
    meanings = [*SERIES, *(both for kind, both in EDGES.items() if kind != "plain")]
    for name in (
        "bookkit/controls/control.css",
        "pages/masks/masks.js",
        "pages/masks/leak.js",
        "pages/positions/positions.js",
        "pages/attention/arrows.js",
        "pages/inside/switches.js",
        "pages/text/merges.js",
    ):
        text = (ROOT / name).read_text(encoding="utf-8")
        assert not re.search(r"\[\d+, \d+, \d+\]", text), name
        assert not literals(text) & {colour for both in meanings for colour in both}
        assert names(text) <= variables().keys()
    for name in ("plotting", "drawing"):
        assert not literals((ROOT / "bookkit" / f"{name}.py").read_text("utf-8"))
