"""How a figure opens large from its page; what it is made of is in test_pages.py."""

import pytest
from axe import COLOURS, findings
from book_files import HTML
from test_pages import WIDE, built, kept_open, read, turn

pytestmark = pytest.mark.book
page = kept_open("book/05_masks.html")
LARGE = "Figure, large"


def test_a_figure_opens_large_and_closes_by_keys_alone(page):
    figure = page.locator(".picture:visible").first
    size = figure.locator("svg").first.bounding_box()["width"]
    button = figure.get_by_role("button", name="Enlarge figure")
    large = page.get_by_role("dialog", name=LARGE)
    for close in ("Escape", "Enter"):  # Enter presses the button Close
        button.focus()
        page.keyboard.press("Enter")
        large.wait_for()
        assert size < large.get_by_role("img").bounding_box()["width"] <= WIDE
        ids = "[...document.querySelectorAll('article [id], dialog [id]')]"
        names = page.evaluate(f"{ids}.map(part => part.id)")
        assert len(names) == len(set(names))
        page.keyboard.press(close)
        large.wait_for(state="hidden")
        assert button.evaluate("e => e === document.activeElement")


def test_a_figure_opens_large_by_a_click_and_closes_by_one(page):
    page.locator(".picture:visible svg").first.click()
    large = page.get_by_role("dialog", name=LARGE)
    large.get_by_role("img").click()
    large.wait_for(state="hidden")


def test_a_figure_has_the_colours_of_the_theme_and_can_be_read_when_large(page):
    words, fills = page.locator(".picture text").first, set()
    for theme in ("light", "dark"):
        turn(page, theme)
        fills.add(words.evaluate("text => getComputedStyle(text).fill"))
        page.locator(".picture:visible svg").first.click()
        assert findings(page, () if theme == "light" else COLOURS) == []
        page.keyboard.press("Escape")
    assert len(fills) == 2


def test_paper_has_the_figures_and_not_their_buttons(page):
    page.emulate_media(media="print")
    assert page.locator(".picture > button:visible").count() == 0
    assert page.locator(".picture svg:visible").count() > 0
    page.emulate_media(media="null")


def test_on_a_phone_a_figure_opens_as_wide_as_the_screen_and_grows_by_a_tap(tab):
    tab.set_viewport_size({"width": 400, "height": 850})
    read(tab, built(HTML / "book" / "09_transformer.html").as_uri())
    figure = tab.locator(".picture:visible").first
    figure.get_by_role("button", name="Enlarge figure").click()
    large = tab.get_by_role("dialog", name=LARGE)
    picture = large.get_by_role("img")
    assert picture.bounding_box()["width"] <= 400
    picture.click()
    assert picture.bounding_box()["width"] > 500
    picture.click()
    assert picture.bounding_box()["width"] <= 400
    large.get_by_role("button", name="Close").click()
    large.wait_for(state="hidden")
