"""Icons on every page, and what a telephone and paper make of a page."""

import re

import pytest
from book_files import HTML, ROOT
from playwright.sync_api import expect
from pypdf import PdfReader
from test_pages import NARROW, built, faults_of, read, soup

pytestmark = pytest.mark.book
CHAPTER = HTML / "book" / "05_masks.html"
ICONS = ROOT / "website/offline/scripts/fontawesome.js"
STYLES = {"fa-solid", "fa-lg", "fa-regular", "fa-brands"}


@pytest.fixture
def phone(browser):
    """A tab of a telephone, whose pages are touched."""
    context = browser.new_context(
        viewport={"width": NARROW, "height": 800}, is_mobile=True, has_touch=True
    )
    yield context.new_page()
    context.close()


# -- Icons -----------------------------------------------------------------------------


def test_each_icon_of_a_page_is_drawn():
    drawn = set(
        re.findall(r'^  "?([a-z-]+)"?: "M', ICONS.read_text("utf-8"), re.MULTILINE)
    )

    def undrawn(page):
        for place in soup(page).select("[class*='fa-']"):
            names = {name for name in place["class"] if name.startswith("fa-")}
            yield from {name.removeprefix("fa-") for name in names - STYLES} - drawn

    assert faults_of(undrawn) == {}


def test_the_script_of_the_theme_with_all_icons_is_not_among_the_files():
    script = (built(HTML / "_static" / "scripts" / ICONS.name)).read_bytes()
    assert script == ICONS.read_bytes()


@pytest.mark.parametrize("name", ["intro", "05_masks", "glossary"])
def test_icons_are_drawings_and_fetch_no_font(tab, server, name):
    asked = []
    tab.on("request", lambda request: asked.append(request.url))
    read(tab, f"{server}/book/{name}.html")
    if tab.locator(".walk:visible").count():  # the contents beside it fold away
        tab.locator(".walk:visible").first.scroll_into_view_if_needed()
        tab.mouse.wheel(0, 300)
    tab.wait_for_timeout(500)
    assert [url for url in asked if "webfont" in url] == []
    assert tab.locator(":is(i, span)[class*='fa-']").count() == 0
    for icon in tab.locator(".icon:visible").all():
        box = icon.bounding_box()
        assert 10 < box["height"] < 30
        assert box["width"] == pytest.approx(box["height"], rel=0.1)


def test_the_button_for_the_theme_shows_the_icon_of_its_mode(tab):
    read(tab, built(CHAPTER).as_uri())
    seen = set()
    for _ in range(3):
        button = tab.locator(".theme-switch-button:visible")
        (icon,) = button.locator(".icon:visible").all()
        seen.add(icon.get_attribute("data-mode"))
        button.click()
    assert seen == {"auto", "light", "dark"}


# -- Telephone -------------------------------------------------------------------------


CODE = "article .cell_input div.highlight pre:visible"
LONG = """pre => [...pre.querySelectorAll(".hanging")]
  .find((line) => /^ {4}\\S/.test(line.textContent) && line.getClientRects().length
    && line.offsetHeight > 2 * parseFloat(getComputedStyle(line).lineHeight) - 2)
  ?.textContent"""


def test_a_long_line_of_code_goes_on_further_in_than_it_began(tab):
    read(tab, built(CHAPTER).as_uri())
    before = tab.locator(CODE).all_text_contents()
    tab.set_viewport_size({"width": NARROW, "height": 800})
    tab.wait_for_selector(".hanging", state="attached")
    assert tab.locator(CODE).all_text_contents() == before  # what is copied
    cut = "pre => pre.scrollWidth > pre.clientWidth"
    assert [pre for pre in tab.locator(CODE).all() if pre.evaluate(cut)] == []
    long = [line for pre in tab.locator(CODE).all() if (line := pre.evaluate(LONG))]
    assert long
    line = tab.locator(".hanging:visible", has_text=long[0].strip()).first
    starts = line.evaluate(
        """line => {
          const range = document.createRange();
          range.selectNodeContents(line);
          const rects = [...range.getClientRects()].filter(({ width }) => width > 1);
          const first = Math.min(...rects.map(({ top }) => top));
          return [true, false].map((isFirst) => Math.min(...rects
            .filter(({ top }) => (top < first + 8) === isFirst)
            .map(({ left }) => left)));
        }"""
    )
    assert starts[1] > starts[0] + 20


def test_the_bar_above_a_page_has_few_buttons_large_enough_for_a_thumb(phone):
    read(phone, built(CHAPTER).as_uri())
    buttons = phone.locator(".bd-header-article button:visible").all()
    assert len(buttons) == 4  # menu, theme, search, contents
    for button in buttons:
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 40
    assert phone.locator("button[onclick*='FullScreen']").count() == 0


def test_the_buttons_above_a_page_have_names_and_leave_no_tooltip(phone):
    read(phone, built(CHAPTER).as_uri())
    for name in ("Chapters", "On this page", "Theme: as the system has it"):
        phone.locator(".bd-header-article").get_by_role("button", name=name).first.tap()
        phone.wait_for_timeout(400)
        assert phone.locator(".tooltip:visible").count() == 0
        phone.keyboard.press("Escape")
        phone.wait_for_timeout(400)


PLAYED = "01_text_to_tensors", "02_positions", "03_attention", "04_many_heads"
PLAYED += "05_masks", "10_training", "12_decoding", "13_cache", "16_inside_attention"
TARGETS = """all => all
  .map((each) => (each.closest('label') ?? each).getBoundingClientRect())
  .filter(({width}) => width > 0).map(({width, height}) => Math.min(width, height))"""


@pytest.mark.parametrize("name", PLAYED)
def test_a_control_needs_one_and_a_half_screens_and_has_targets_of_24_px(phone, name):
    phone.set_viewport_size({"width": NARROW, "height": 850})
    read(phone, (HTML / "book" / f"{name}.html").as_uri())
    for control in phone.locator(".control").all():
        control.scroll_into_view_if_needed()
        assert control.bounding_box()["height"] <= 1.5 * 850
        sizes = control.locator("button, input, select, summary").evaluate_all(TARGETS)
        if name != "04_many_heads":  # its columns are as narrow as 12 in a row must be
            assert min(sizes) >= 24


def test_the_button_to_the_top_covers_no_control(phone):
    read(phone, CHAPTER.as_uri())
    for place, is_hidden in ((".control", True), ("#summary", False)):
        phone.locator(place).first.scroll_into_view_if_needed()
        phone.wait_for_function(
            "hidden => document.body.classList.contains('at-control') === hidden",
            arg=is_hidden,
        )
    phone.locator(".control").first.scroll_into_view_if_needed()
    expect(phone.locator("#pst-back-to-top")).to_be_hidden()


def test_below_a_figure_a_word_says_that_it_can_be_enlarged_where_nothing_hovers(phone):
    read(phone, built(CHAPTER).as_uri())
    figure = phone.locator(".picture:visible").first
    button = figure.get_by_role("button", name="Enlarge figure")
    assert button.inner_text() == "Enlarge"
    drawn, box = figure.locator("svg").first.bounding_box(), button.bounding_box()
    assert box["y"] >= drawn["y"] + drawn["height"] - 1
    button.tap()
    phone.get_by_role("dialog", name="Figure, large").wait_for()


# -- Paper -----------------------------------------------------------------------------


def test_the_set_up_stays_folded_on_paper(tab, tmp_path):
    read(tab, built(HTML / "book" / "03_attention.html").as_uri())
    tab.pdf(path=tmp_path / "page.pdf", format="A4")
    pages = [page.extract_text() for page in PdfReader(tmp_path / "page.pdf").pages]
    begins = pages[0] + pages[1]  # the first control stands between
    assert "the code is in the notebook" in begins
    assert "use_book_style()" not in "".join(pages)
    assert "Fig. 3.1" in begins  # it goes on below
