"""Figures in the built pages: what they are made of, and how they open large."""

import re

import pytest
from axe import COLOURS, findings
from book_files import HTML, NOTEBOOKS
from test_pages import NARROW, PAGES, WIDE, built, read, soup

PAGE = HTML / "book" / "05_masks.html"
CHAPTERS = [HTML / "book" / f"{path.stem}.html" for path in NOTEBOOKS]


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_the_figures_of_a_chapter_are_drawn_in_the_page(path):
    page = soup(built(path))
    assert page.select("article .cell_output img") == []
    for figure in page.select(".picture svg"):
        assert figure["role"] == "img"
        assert len(figure["aria-label"].split()) >= 5, figure["aria-label"]


@pytest.mark.parametrize("path", PAGES)
def test_no_two_things_on_a_page_have_one_name(path):
    names = [part["id"] for part in soup(built(HTML / path)).select("article [id]")]
    assert sorted(names) == sorted(set(names))


def test_a_figure_has_the_colours_of_the_theme(tab):
    read(tab, built(PAGE).as_uri())
    words = tab.locator(".picture text").first
    fill = "text => getComputedStyle(text).fill"
    light = words.evaluate(fill)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert words.evaluate(fill) != light


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_figure_opens_large_and_closes_by_keys_alone(tab, server, width):
    tab.set_viewport_size({"width": width, "height": 900})
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/book/{built(PAGE).name}")
        figure = tab.locator(".picture:visible").first
        size = figure.locator("svg").first.bounding_box()["width"]
        button = figure.get_by_role("button", name="Enlarge figure")
        large = tab.get_by_role("dialog", name="Figure, large")
        for close in ("Escape", "Enter"):  # Enter presses the button Close
            button.focus()
            tab.keyboard.press("Enter")
            large.wait_for()
            assert large.get_by_role("img").bounding_box()["width"] > size
            ids = "[...document.querySelectorAll('article [id], dialog [id]')]"
            names = tab.evaluate(f"{ids}.map(part => part.id)")
            assert len(names) == len(set(names))
            tab.keyboard.press(close)
            large.wait_for(state="hidden")
            assert button.evaluate("e => e === document.activeElement")
        assert tab.faults == []


def test_a_figure_opens_large_by_a_click_and_closes_by_one(tab):
    read(tab, built(PAGE).as_uri())
    figure = tab.locator(".picture:visible svg").first
    figure.click()
    large = tab.get_by_role("dialog", name="Figure, large")
    large.get_by_role("img").click()
    large.wait_for(state="hidden")


def test_nothing_keeps_a_reader_out_of_a_large_figure_in_either_theme(tab):
    read(tab, built(PAGE).as_uri())
    for theme in ("light", "dark"):
        tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
        tab.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")
        tab.locator(".picture:visible svg").first.click()
        assert findings(tab, () if theme == "light" else COLOURS) == []
        tab.keyboard.press("Escape")


def test_paper_has_the_figures_and_not_their_buttons(tab):
    read(tab, built(PAGE).as_uri())
    tab.emulate_media(media="print")
    assert tab.locator(".picture > button:visible").count() == 0
    assert tab.locator(".picture svg:visible").count() > 0


def test_no_figure_paints_the_paper_of_a_page(tab):
    for path in CHAPTERS:
        figures = soup(built(path)).select(".picture svg")
        assert not [svg for svg in figures if svg.find("style")]
        sized = [svg for svg in figures if not re.match("[1-9]", svg["width"])]
        assert sized == []
