"""Figures in the built pages: what they are made of, and how they open large."""

import re
from collections import Counter

import pytest
from axe import COLOURS, findings
from book_files import HTML
from test_pages import NARROW, WIDE, built, faults_of, read, soup

pytestmark = pytest.mark.book
PAGE = HTML / "book" / "05_masks.html"


def test_the_figures_of_a_chapter_are_drawn_in_the_page():
    def otherwise(page):
        yield from soup(page).select("article .cell_output img")
        for figure in soup(page).select(".picture svg"):
            if figure["role"] != "img" or len(figure["aria-label"].split()) < 5:
                yield figure

    assert faults_of(otherwise) == {}


def test_no_two_things_on_a_page_have_one_name():
    def repeated(page):
        names = Counter(part["id"] for part in soup(page).select("article [id]"))
        return [name for name, times in names.items() if times > 1]

    assert faults_of(repeated) == {}


def test_a_figure_has_the_colours_of_the_theme(tab):
    read(tab, built(PAGE).as_uri())
    words = tab.locator(".picture text").first
    fill = "text => getComputedStyle(text).fill"
    light = words.evaluate(fill)
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert words.evaluate(fill) != light


@pytest.mark.parametrize("width", [WIDE, pytest.param(NARROW, marks=pytest.mark.slow)])
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
            opened = large.get_by_role("img").bounding_box()["width"]
            assert size < opened <= width or width - 40 < opened <= width
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


def test_on_a_phone_a_figure_opens_as_wide_as_the_screen_and_grows_by_a_tap(tab):
    tab.set_viewport_size({"width": 400, "height": 850})
    read(tab, built(HTML / "book" / "09_transformer.html").as_uri())
    figure = tab.locator(".picture:visible").first
    figure.get_by_role("button", name="Enlarge figure").click()
    large = tab.get_by_role("dialog", name="Figure, large")
    picture = large.get_by_role("img")
    assert picture.bounding_box()["width"] <= 400
    picture.click()
    assert picture.bounding_box()["width"] > 500
    picture.click()
    assert picture.bounding_box()["width"] <= 400
    large.get_by_role("button", name="Close").click()
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


def test_no_figure_paints_the_paper_of_a_page():
    def painted(page):
        for figure in soup(page).select(".picture svg"):
            if figure.find("style") or not re.match("[1-9]", figure["width"]):
                yield figure

    assert faults_of(painted) == {}
