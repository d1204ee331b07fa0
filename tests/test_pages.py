"""The built pages, as a reader's browser gets them. They come from `make book`."""

import ast
import functools
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from book_files import HTML, ROOT
from bs4 import BeautifulSoup

CORE = [
    "masks",
    "attention",
    "positions",
    "embedding",
    "feed_forward",
    "residual",
    "encoder",
    "decoder",
    "model",
    "loss",
    "schedule",
    "cache",
    "decoding",
]
WIDE, NARROW = 1400, 400
PAGES = sorted(ROOT.glob("book/*.ipynb")) + sorted(ROOT.glob("book/*.md"))


@functools.cache
def soup(path):
    return BeautifulSoup(path.read_text(encoding="utf-8"), "html.parser")


def built(path):
    if not path.is_file():
        shown = path.relative_to(ROOT)
        pytest.fail(f"{shown} is missing: run `make book`, which builds the pages")
    return path


@pytest.fixture(params=PAGES, ids=lambda path: path.stem)
def page(request):
    return built(HTML / "book" / f"{request.param.stem}.html")


# -- What is written in them ---------------------------------------------------------


def test_no_cell_left_a_warning_or_a_traceback(page):
    assert soup(page).select(".output.stderr, .output.traceback") == []


def test_sphinx_left_no_problem_on_a_page(page):
    assert soup(page).select(".problematic, .system-message") == []


def test_every_picture_says_what_it_shows(page):
    names = ("png", "svg", "jpg", "jpeg", "webp", "gif")
    for image in soup(page).select("article img"):
        alt = image.get("alt", "")
        assert len(alt.split()) >= 5, image
        assert not alt.lower().endswith(names), image


def test_a_page_names_no_folder_of_the_computer_that_built_it(page):
    assert str(ROOT) not in page.read_text(encoding="utf-8")


def local_targets(path):
    """List the files, with their anchors, that a page links to or loads."""
    for element in soup(path).find_all(["a", "link", "script", "img"]):
        address = urlsplit(element.get("href") or element.get("src") or "")
        if address.scheme or address.netloc:
            continue
        file = path.parent / unquote(address.path) if address.path else path
        yield file.resolve(), unquote(address.fragment)


def has_anchor(path, anchor):
    return soup(path).find(attrs={"id": anchor}) or soup(path).find(
        attrs={"name": anchor}
    )


def test_every_link_within_the_book_leads_somewhere(page):
    for file, anchor in local_targets(page):
        assert file.is_file(), file
        if anchor and file.suffix == ".html":
            assert has_anchor(file, anchor), f"{file.name}#{anchor}"


def test_the_front_door_leads_to_the_introduction():
    text = built(HTML / "index.html").read_text(encoding="utf-8")
    assert "book/intro.html" in text


# -- What is walked through ----------------------------------------------------------


def functions_of(source, module):
    """List the functions and methods that a module defines, by their full names.

    Those with a ``yield`` are left out: `walk` follows one call from its first line to
    its last, and they stop in between.
    """

    def stops(node):
        return any(isinstance(part, ast.Yield) for part in ast.walk(node))

    def within(body, prefix):
        for node in body:
            if isinstance(node, ast.ClassDef):
                yield from within(node.body, f"{prefix}.{node.name}")
            elif isinstance(node, ast.FunctionDef) and not stops(node):
                yield f"{prefix}.{node.name}"

    return set(within(ast.parse(source).body, module))


def walked_in(pages):
    """List what the listings on these pages walk through."""
    return {
        listing["data-walk"] for page in pages for listing in page.select("[data-walk]")
    }


def test_every_core_function_is_walked_by_a_chapter():
    defined = set()
    for name in CORE:
        module = f"transformer_lib.{name}"
        path = Path(find_spec(module).origin)
        defined |= functions_of(path.read_text(encoding="utf-8"), module)
    chapters = [built(HTML / "book" / f"{path.stem}.html") for path in PAGES]
    missing = defined - walked_in(map(soup, chapters))
    assert not missing, "no chapter walks through " + ", ".join(sorted(missing))


def test_a_function_that_no_chapter_walks_through_is_found():
    source = (
        "def one(): return lambda: None\n"
        "def stops(): yield 1\n"
        "class Layer:\n"
        "    def __init__(self): ...\n"
        "    def _split(self): ...\n"
        "    @property\n"
        "    def width(self): ...\n"
        "    @classmethod\n"
        "    def base(cls): ...\n"
    )
    listing = '<section data-walk="m.one"></section><p data-walk="m.Layer.width"></p>'
    missing = functions_of(source, "m") - walked_in(
        [BeautifulSoup(listing, "html.parser")]
    )
    assert missing == {"m.Layer.__init__", "m.Layer._split", "m.Layer.base"}


# -- What a browser makes of them ----------------------------------------------------


def read(tab, url):
    """Open a page and wait until its formulas are set."""
    tab.goto(url)
    tab.evaluate("async () => { await window.MathJax?.startup?.promise }")


def test_a_page_needs_no_network_and_makes_no_error(page, tab, server):
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/book/{page.name}")
        assert tab.faults == []


def test_every_formula_is_set(page, tab):
    read(tab, page.as_uri())
    assert tab.locator("mjx-merror").count() == 0
    raw = tab.evaluate(
        "[...document.querySelectorAll('.math, .tex2jax_process')]"
        ".map(e => e.innerText).filter(t => /\\\\\\(|\\\\\\[|\\$/.test(t))"
    )
    assert raw == []


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_a_page_does_not_scroll_sideways(page, tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    read(tab, page.as_uri())
    hidden = "document.documentElement.scrollWidth - window.innerWidth"
    assert tab.evaluate(hidden) <= 0


def test_a_request_to_another_host_and_an_error_are_noticed(tab, tmp_path):
    picture, broken = "https://example.org/x.png", "<script>throw Error('no')</script>"
    path = tmp_path / "page.html"
    path.write_text(f"<img src='{picture}'>{broken}", encoding="utf-8")
    read(tab, path.as_uri())
    assert picture in tab.faults
    assert "no" in tab.faults


def test_the_arrow_keys_move_through_a_listing_line_by_line(tab):
    read(tab, built(HTML / "book" / "03_attention.html").as_uri())
    listing = tab.locator("[data-walk]").first
    rows, current = listing.locator(".w-row"), listing.locator("[aria-current='step']")
    assert current.count() == 0
    rows.first.focus()
    for key, expected in [
        ("ArrowDown", 1),
        ("ArrowDown", 2),
        ("ArrowUp", 1),
        ("End", rows.count() - 1),
        ("Home", 0),
    ]:
        tab.keyboard.press(key)
        assert current.count() == 1
        here = rows.nth(expected)
        assert here.get_attribute("aria-current") == "step", key
        assert here.evaluate("row => row === document.activeElement"), key
    rows.nth(3).click()
    assert rows.nth(3).get_attribute("aria-current") == "step"
    inside = "walk => walk.contains(document.activeElement)"
    for _ in range(1 + listing.locator("mjx-container").count()):  # formulas take Tab
        tab.keyboard.press("Tab")
    assert not listing.evaluate(inside)  # nothing holds the keyboard in
