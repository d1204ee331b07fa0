"""Icons on every page, and what a telephone and paper make of a page."""

import re

import pytest
from book_files import HTML, ROOT
from playwright.sync_api import expect
from pypdf import PdfReader
from test_pages import NARROW, built, faults_of, read

pytestmark = pytest.mark.book
CHAPTER = HTML / "book" / "05_masks.html"
ICONS = ROOT / "website/offline/scripts/fontawesome.js"
STYLES = {"solid", "lg", "regular", "brands"}


@pytest.fixture(scope="module")
def phone(browser):
    """A tab of a telephone, whose pages are touched."""
    context = browser.new_context(
        viewport={"width": NARROW, "height": 850}, is_mobile=True, has_touch=True
    )
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def chapter(phone):
    read(phone, built(CHAPTER).as_uri())
    return phone


# -- On a telephone --------------------------------------------------------------------


def test_the_bar_above_a_page_has_few_buttons_with_names_large_enough_for_a_thumb(
    chapter,
):
    bar = chapter.locator(".bd-header-article")
    buttons = bar.locator("button:visible").all()
    assert len(buttons) == 4  # menu, theme, search, contents
    for button in buttons:
        box = button.bounding_box()
        assert min(box["width"], box["height"]) >= 40
    for name in ("Chapters", "On this page", "Theme: as the system has it"):
        bar.get_by_role("button", name=name).first.tap()
        chapter.wait_for_timeout(400)
        assert chapter.locator(".tooltip:visible").count() == 0
        chapter.keyboard.press("Escape")
        chapter.wait_for_timeout(400)


def test_the_button_to_the_top_covers_no_control(chapter):
    for place, is_hidden in (("#summary", False), (".control", True)):
        chapter.locator(place).first.scroll_into_view_if_needed()
        chapter.wait_for_function(
            "hidden => document.body.classList.contains('at-control') === hidden",
            arg=is_hidden,
        )
    expect(chapter.locator("#pst-back-to-top")).to_be_hidden()


def test_below_a_figure_a_word_says_that_it_can_be_enlarged_where_nothing_hovers(
    chapter,
):
    figure = chapter.locator(".picture:visible").first
    button = figure.get_by_role("button", name="Enlarge figure")
    assert button.inner_text() == "Enlarge"
    drawn, box = figure.locator("svg").first.bounding_box(), button.bounding_box()
    assert box["y"] >= drawn["y"] + drawn["height"] - 1
    button.tap()
    chapter.get_by_role("dialog", name="Figure, large").wait_for()


PLAYED = "01_text_to_tensors", "02_positions", "03_attention", "04_many_heads"
PLAYED += "05_masks", "10_training", "12_decoding", "13_cache", "16_inside_attention"
TARGETS = """all => all
  .map((each) => (each.closest('label') ?? each).getBoundingClientRect())
  .filter(({width}) => width > 0).map(({width, height}) => Math.min(width, height))"""


@pytest.mark.parametrize("name", PLAYED)
def test_a_control_needs_one_and_a_half_screens_and_has_targets_of_24_px(phone, name):
    read(phone, (HTML / "book" / f"{name}.html").as_uri())
    for control in phone.locator(".control").all():
        control.scroll_into_view_if_needed()
        assert control.bounding_box()["height"] <= 1.5 * 850
        sizes = control.locator("button, input, select, summary").evaluate_all(TARGETS)
        if name != "04_many_heads":  # its columns are as narrow as 12 in a row must be
            assert min(sizes) >= 24


# -- Code, icons and paper -------------------------------------------------------------

CODE = "article .cell_input div.highlight pre:visible"
# Where the first line of a long and indented one begins, and where the next ones do.
STARTS = """pre => [...pre.querySelectorAll(".hanging")]
  .filter((line) => /^ {4}\\S/.test(line.textContent) && line.getClientRects().length
    && line.offsetHeight > 2 * parseFloat(getComputedStyle(line).lineHeight) - 2)
  .map((line) => {
    const range = document.createRange();
    range.selectNodeContents(line);
    const rects = [...range.getClientRects()].filter(({ width }) => width > 1);
    const first = Math.min(...rects.map(({ top }) => top));
    return [true, false].map((isFirst) => Math.min(...rects
      .filter(({ top }) => (top < first + 8) === isFirst).map(({ left }) => left)));
  })"""


def test_icons_are_drawings_and_a_long_line_of_code_goes_on_further_in(tab):
    asked, modes = [], set()
    tab.on("request", lambda request: asked.append(request.url))
    read(tab, built(CHAPTER).as_uri())
    assert tab.locator(":is(i, span)[class*='fa-']").count() == 0
    for icon in tab.locator(".icon:visible").all():
        box = icon.bounding_box()
        assert 10 < box["height"] < 30
        assert box["width"] == pytest.approx(box["height"], rel=0.1)
    for _ in range(3):  # the button for the theme shows its mode
        button = tab.locator(".theme-switch-button:visible")
        (icon,) = button.locator(".icon:visible").all()
        modes.add(icon.get_attribute("data-mode"))
        button.click()
    assert modes == {"auto", "light", "dark"}
    before = tab.locator(CODE).all_text_contents()
    tab.set_viewport_size({"width": NARROW, "height": 800})
    tab.wait_for_selector(".hanging", state="attached")
    assert tab.locator(CODE).all_text_contents() == before  # what is copied
    starts = []
    for pre in tab.locator(CODE).all():
        assert pre.evaluate("pre => pre.scrollWidth <= pre.clientWidth")
        starts += pre.evaluate(STARTS)
    assert starts
    assert all(after > first + 20 for first, after in starts)
    assert [url for url in asked if "webfont" in url] == []


def test_each_icon_of_a_page_is_drawn_by_our_script_instead_of_the_themes():
    script = ICONS.read_text("utf-8")
    assert built(HTML / "_static/scripts" / ICONS.name).read_text("utf-8") == script
    drawn = set(re.findall(r'^  "?([a-z-]+)"?: "M', script, re.MULTILINE))

    def undrawn(page):
        for classes in re.findall(
            r'class="([^"]*\bfa-[^"]*)"', page.read_text("utf-8")
        ):
            yield from set(re.findall(r"\bfa-([\w-]+)", classes)) - STYLES - drawn

    assert faults_of(undrawn) == {}


def test_the_set_up_stays_folded_on_paper(tab, tmp_path):
    read(tab, built(HTML / "book" / "03_attention.html").as_uri())
    tab.pdf(path=tmp_path / "page.pdf", format="A4", page_ranges="1-2")
    pages = PdfReader(tmp_path / "page.pdf").pages
    begins = "".join(page.extract_text() for page in pages)
    assert "use_book_style()" not in begins
    assert "Fig. 3.1" in begins  # below the first control
