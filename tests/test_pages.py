"""The built pages, as a reader's browser gets them. They come from `make book`."""

import ast
import functools
import gc
import gzip
import os
import pkgutil
import re
from collections import Counter
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import lxml.html
import pytest
from axe import COLOURS, DROP_TWINS, findings
from book_files import (
    BOOK,
    HTML,
    NOTEBOOKS,
    ROOT,
    headings_over,
    is_fold,
    read_notebook,
)
from bs4 import BeautifulSoup
from conftest import open_tab

import transformer_lib

pytestmark = pytest.mark.book
# The packages that chapters walk through, and the modules in them that are plumbing.
CORE = tuple(
    f"transformer_lib.{name}."
    for name in ("model", "training", "decoding", "faster", "variants")
)
PLUMBING = """model.inference model.recording training.checkpoint faster.known_parts
faster.precision faster.triton_attention variants.families variants.attention.full
variants.attention.install variants.attention.variant""".split()
# What a chapter uses without a listing, besides refusals: a line or two, or numbers.
PLAIN = """LinearAttention.weigh elu_features not_zero without_hidden
NystromAttention.weigh PerformerAttention.features DecoderAlone.new_cache
train_at_scale ScaleRun.__init__ ScaleRun.keep ScaleRun._state ScaleRun._restore
world_size rank is_main wait_for_main _is_joined _is_launched _is_first _told_to_end
_stay_on_this_computer Machine.h100 ModelSize.base ModelSize.llama_2_70b Split.workers
ring_share training_operations LSHAttention.mask are_near reordered RMSNorm.__init__
GatedFeedForward.__init__ RotaryAttention.__init__ RotaryAttention._rows
AlibiAttention.compute AlibiAttention.weigh NoPositions.__init__ NoPositions.forward
ModernParts.target_mask""".split()
WIDE, NARROW = 1400, 400
SOURCES = [f"book/{path.stem}.html" for path in [*NOTEBOOKS, *BOOK.glob("*.md")]]
FRONT = "index.html"  # sends the reader to the introduction at once
GONE = "404.html"  # has no looks of the theme: see test_front_page.py
CODE = "_modules"  # the library's source as pages, all made alike: two stand for them
BUILT = [
    path.relative_to(HTML).as_posix()
    for path in HTML.rglob("*.html")
    if not {"_static", CODE}.intersection(path.parts)
]
BUILT += [f"{CODE}/index.html", f"{CODE}/transformer_lib/model/attention.html"]
PAGES = sorted({*SOURCES, *BUILT} - {FRONT, GONE})
MB = 1_000_000


@functools.cache
def soup(path):
    gc.disable()  # it would look at everything parsed so far, again and again
    try:
        return BeautifulSoup(path.read_text(encoding="utf-8"), "lxml")
    finally:
        gc.freeze()
        gc.enable()


def built(path):
    if not path.is_file():
        shown = path.relative_to(ROOT)
        pytest.fail(f"{shown} is missing: run `make book`, which builds the pages")
    return path


def faults_of(find, paths=PAGES):
    """Look at each page; list what is wrong with it by the page's name."""
    found = {path: list(find(built(HTML / path))) for path in paths}
    assert len(found) > len(NOTEBOOKS)
    return {path: faults for path, faults in found.items() if faults}


# -- What is written in them ---------------------------------------------------------

UNWANTED = {  # as selectors
    "a warning or a traceback of a cell": ".output.stderr, .output.traceback",
    "a problem that Sphinx had": ".problematic, .system-message",
    "a figure that is not part of the page": "article .cell_output img",
    "a figure that is no image": ".picture svg:not([role=img])",
    "a figure that paints the page": ".picture svg style",
    "a panel that could not start": ".c-still .c-wrong",
}
UNWRITTEN = {  # as regular expressions
    "a role that became no link": r"\{(?:ref|term|numref|cite:[pt])\}",
    # Not of ../book, if that is the name of the project's folder.
    "a folder of the computer that built it": rf"(?<![\w.]){re.escape(str(ROOT))}",
    "what only a kernel can move": r"VBox\(children|jupyter\.widget",
}


INDEX = {"searchindex.js", "searchtools.js", "ranking.js"}
is_file = functools.cache(Path.is_file)


@functools.cache
def weight(path):
    """Count the bytes of a file as they go over the wire."""
    return len(gzip.compress(path.read_bytes(), 6))


def is_shared(path):
    """Whether a file serves all pages, so that it is fetched once."""
    return (HTML / "_static") in path.parents or path.parent == HTML


def loaded(path):
    """List the files that a page loads with itself."""
    for part in soup(path).select("script[src], img[src], link[rel=stylesheet]"):
        address = urlsplit(part.get("src") or part["href"])
        if not address.scheme:
            yield (path.parent / unquote(address.path)).resolve()


def written_faults(path):
    """List what is wrong with the text of a page, each with what it is."""
    page, text = soup(path), path.read_text("utf-8")
    for what, selector in UNWANTED.items():
        yield from ((what, part) for part in page.select(selector))
    for what, pattern in UNWRITTEN.items():
        yield from ((what, part) for part in re.findall(pattern, text))
    for indent, spaces in re.findall(r'"w-line"[^>]*--indent:(\d+)">( *)', text):
        if len(spaces) != int(indent):
            yield "a line of a listing that lost its indentation", spaces
    for picture in page.select("article img, .picture svg[role=img]"):
        alt = picture.get("alt") or picture.get("aria-label", "")
        if len(alt.split()) < 5:
            yield "a picture without a text that describes it", picture
    for figure in page.select(".picture svg[role=img]"):
        if not re.match("[1-9]", figure["width"]):
            yield "a figure without a width", figure["aria-label"]
    names = Counter(part["id"] for part in page.select("article [id]"))
    yield from (("two things with one name", n) for n in names if names[n] > 1)
    files = set(loaded(path))
    if (path.name == "search.html") != bool(INDEX & {f.name for f in files}):
        yield "the index of the search on a page without it, or none in it", path
    own = {file for file in files if not is_shared(file)}
    if (total := sum(map(weight, own | {path}))) >= MB:
        yield "a megabyte or more with its own pictures", total


def test_no_page_holds_what_a_page_should_not():
    assert faults_of(written_faults) == {}


def test_each_fold_of_a_chapter_is_a_closed_one_on_its_page():
    for path in NOTEBOOKS:
        over = [
            over[-1]
            for cell, over in headings_over(read_notebook(path)["cells"])
            if cell is None
        ]
        folds = soup(built(HTML / "book" / f"{path.stem}.html")).select(
            "section > details.fold:not([open]):has(> summary > :is(h2, h3, h4, h5))"
        )
        assert len(folds) == sum(map(is_fold, over)), path.stem


@functools.cache
def links_and_names(path):
    """List what a page links to or loads, and the names that a link can lead to."""
    tree = lxml.html.parse(path).getroot()
    links = tree.xpath("(//a | //link)/@href | (//script | //img)/@src")
    return links, set(tree.xpath("//@id | //@name"))


def dead_links(page):
    """List the links of a page that lead to no file, or to no place in it."""
    for link in links_and_names(page)[0]:
        address = urlsplit(link)
        if address.scheme or address.netloc:
            continue
        file = page
        if address.path:
            file = Path(os.path.normpath(page.parent / unquote(address.path)))
        name = unquote(address.fragment)
        if not is_file(file) or (
            name and file.suffix == ".html" and name not in links_and_names(file)[1]
        ):
            yield link


def test_every_link_within_the_book_leads_somewhere():
    code = [path.relative_to(HTML) for path in (HTML / CODE).rglob("*.html")]
    assert faults_of(dead_links, [*PAGES, FRONT, *code]) == {}
    assert "book/intro.html" in (HTML / FRONT).read_text("utf-8")


def test_the_large_files_that_pages_share_are_listed_with_their_weight():
    said = (ROOT / "website/README.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\S+)`.*\| (\d+) kB \|$", said, re.MULTILINE))
    files = set((HTML / "_static" / "vendor").rglob("*.css"))  # book.css imports them
    for path in BUILT:
        files |= {file for file in loaded(HTML / path) if is_shared(file)}
    large = {file.name: weight(file) / 1000 for file in files if weight(file) > 20_000}
    assert listed.keys() == large.keys()
    for name, size in large.items():
        assert int(listed[name]) == pytest.approx(size, rel=0.2), name


# -- What is walked through ----------------------------------------------------------


def functions_of(source):
    """List the functions of a module and the methods of its classes.

    Those with a ``yield`` are left out: `walk` follows one call to its last line.
    """
    body = ast.parse(source).body
    classes = [node for node in body if isinstance(node, ast.ClassDef)]
    for prefix, inside in [("", body), *((f"{c.name}.", c.body) for c in classes)]:
        for node in inside:
            stops = any(isinstance(part, ast.Yield) for part in ast.walk(node))
            if isinstance(node, ast.FunctionDef) and not stops:
                yield prefix + node.name


def test_every_core_function_is_walked_by_a_chapter():
    walked = {
        listing["data-walk"]
        for path in SOURCES
        for listing in soup(built(HTML / path)).select("[data-walk]")
    }
    plain, missing = set(PLAIN), set()
    for module in pkgutil.walk_packages(transformer_lib.__path__, "transformer_lib."):
        is_core = module.name.startswith(CORE) and not module.ispkg
        if not is_core or module.name.partition(".")[2] in PLUMBING:
            continue
        source = Path(find_spec(module.name).origin).read_text(encoding="utf-8")
        found = set(functions_of(source))
        missing |= {
            f"{module.name}.{name}"
            for name in found.difference(PLAIN)
            if not name.endswith(".__post_init__")
        }
        plain -= found
    assert plain == set()
    assert missing - walked == set()


# -- What a browser makes of them ----------------------------------------------------


def read(tab, url):
    """Open a page and wait until its formulas are set."""
    tab.goto(url)
    tab.evaluate("async () => { await window.MathJax?.startup?.promise }")


def kept_open(path):
    """Make a fixture: a page that the tests of a file share, and leave as it was."""

    @pytest.fixture(scope="module")
    def page(browser):
        tab = open_tab(browser)
        read(tab, built(HTML / path).as_uri())
        yield tab
        assert tab.faults == []
        tab.close()

    return page


LOOK = r"""(least) => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  for (const fold of all(".fold")) fold.open = true;
  const found = {
    "refused formulas": all("mjx-merror").length,
    "raw formulas": all(".math, .tex2jax_process").map((e) => e.innerText)
      .filter((text) => /\\\(|\\\[|\$/.test(text)),
    "scrolls sideways": document.documentElement.scrollWidth > window.innerWidth,
  };
  const closed = all("details:not([open])");
  for (const part of closed) part.open = true;
  found["small words"] = all(".picture text").filter((text) => {
    const svg = text.closest("svg");
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    return scale && scale * parseFloat(getComputedStyle(text).fontSize) < least;
  }).map((text) => text.textContent);
  for (const part of closed) part.open = false;
  return found;
}"""
READABLE = 8.9  # pixels
SOUND = {"refused formulas": 0, "raw formulas": [], "scrolls sideways": False}
SOUND |= {"small words": [], "errors and requests": []}
# The reference is made of the same parts on each page: two pages stand for the colours.
ALIKE = [path for path in PAGES if path.startswith("book/api_")][2:]


def look_at(tab, url, width):
    """Open a page and all its folds; return what is there to see."""
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(reduced_motion="reduce")  # no colour on its way to another
    read(tab, url)
    found = tab.evaluate(LOOK, READABLE)
    return found | {"errors and requests": tab.faults}


def turn(tab, theme):
    """Give a page the light or the dark theme."""
    tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
    tab.wait_for_function(f"document.documentElement.dataset.theme === '{theme}'")


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_sound_and_open_to_everyone_in_either_theme(tab, path):
    """In a wide window, from a folder, as axe-core finds it in light and dark.

    Light and dark are the same elements in other colours, so only the rules about
    colours are checked twice. Two words with the same tags and classes all the way up
    get their colours from the same rules, so the first of them stands for both.
    """
    assert look_at(tab, built(HTML / path).as_uri(), WIDE) == SOUND
    assert findings(tab, without=COLOURS) == []
    if path not in ALIKE:
        tab.evaluate(DROP_TWINS)
        assert findings(tab, COLOURS) == []
        turn(tab, "dark")
        assert findings(tab, COLOURS) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_sound_on_a_telephone_and_from_a_server(tab, server, path):
    address = f"{server}/{built(HTML / path).relative_to(HTML)}"
    assert look_at(tab, address, NARROW) == SOUND


@pytest.mark.parametrize("name", ["03_attention", "intro"])
def test_a_page_does_not_jump_while_it_loads(tab, name):
    read(tab, built(HTML / "book" / f"{name}.html").as_uri())
    jumped = tab.evaluate(
        """() => new Promise(resolve => {
          let sum = 0;
          const add = shift => { sum += shift.value; };
          new PerformanceObserver(list => list.getEntries().forEach(add))
            .observe({type: "layout-shift", buffered: true});
          setTimeout(() => resolve(sum), 500);
        })"""
    )
    assert jumped < 0.1  # what browsers call good


# -- A chapter in a wide window ------------------------------------------------------

CHAPTER = HTML / "book" / "03_attention.html"
HAS_FOCUS = "e => e.contains(document.activeElement)"
chapter = kept_open("book/03_attention.html")


def test_the_contents_mark_the_section_that_a_reader_jumped_to(chapter):
    links = chapter.locator("#pst-page-toc-nav a")
    for number in (4, links.count() - 1, 2):
        name = links.nth(number).get_attribute("href")
        chapter.evaluate(
            "name => scrollTo(0, document.querySelector(name).offsetTop)", name
        )
        marked = f"#pst-page-toc-nav a.active[href='{name}'][aria-current=true]"
        chapter.locator(marked).wait_for()
        assert chapter.locator("#pst-page-toc-nav a.active").count() == 1


def test_a_printed_chapter_begins_with_its_number(chapter):
    title = chapter.locator("article h1")
    assert re.match(r"\d+\. ", title.inner_text())
    chapter.emulate_media(media="print")
    assert title.is_visible()
    assert chapter.locator("h1:visible").count() == 1
    chapter.emulate_media(media="null")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "side"), [(400, "primary"), (820, "secondary")])
def test_the_menu_and_the_contents_open_over_a_narrow_page_and_close(tab, width, side):
    tab.set_viewport_size({"width": width, "height": 900})
    read(tab, built(CHAPTER).as_uri())
    button = tab.locator(f".{side}-toggle:visible")
    part = tab.locator(f".bd-sidebar-{side}")
    assert not part.is_visible()
    for key in ("Enter", "Space"):
        button.focus()
        tab.keyboard.press(key)
        part.locator("a:visible").first.wait_for()
        assert part.evaluate(HAS_FOCUS)
        tab.keyboard.press("Escape")
        part.wait_for(state="hidden")
        assert button.evaluate(HAS_FOCUS)
    button.click()
    part.locator("a:visible").first.wait_for()
    assert tab.faults == []


def test_the_menu_beside_a_wide_page_closes_and_opens_again(tab):
    read(tab, built(CHAPTER).as_uri())
    button, menu = (
        tab.locator(f".{c}:visible") for c in ("primary-toggle", "bd-sidebar-primary")
    )
    button.focus()
    for state in ("hidden", "visible"):
        tab.keyboard.press("Enter")  # without looking for the button again
        menu.wait_for(state=state)
    assert tab.locator(".secondary-toggle:visible").count() == 0
    assert tab.locator(".bd-sidebar-secondary").is_visible()
