"""The built pages, as a reader's browser gets them. They come from `make book`."""

import ast
import functools
import gc
import gzip
import os
import re
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

pytestmark = pytest.mark.book
CORE = [
    "model.masks",
    "model.attention",
    "model.positions",
    "model.embedding",
    "model.feed_forward",
    "model.residual",
    "model.encoder",
    "model.decoder",
    "model.config",
    "model.transformer",
    "model.parts",
    "training.loss",
    "training.schedule",
    "training.step",
    "training.loop",
    "model.cache",
    "decoding.prefixes",
    "decoding.greedy",
    "decoding.sampling",
    "decoding.beam",
    "training.run",
    "faster.flash_attention",  # and triton_attention where there is Triton
    "faster.fast_decoder",
    "faster.pruning",
    "faster.distillation",
    "faster.quantization",
    "faster.training_at_scale",
    "faster.distributed",
    "faster.scaling",
    "variants.attention.window",
    "variants.attention.blocks",
    "variants.attention.lsh",
    "variants.attention.linear",
    "variants.attention.performer",
    "variants.attention.nystrom",
    "variants.one_stack.encoder_alone",
    "variants.one_stack.decoder_alone",
    "variants.one_stack.masked_tokens",
    "variants.modalities.patches",
    "variants.modalities.classifier",
    "variants.modalities.graphs",
    "variants.modern.norm",
    "variants.modern.gated",
    "variants.modern.rotary",
    "variants.attention.alibi",
    "variants.modern.grouped",
    "variants.modern.no_positions",
    "variants.modern.transformer",
]
# What a chapter uses without a listing: a line or two, numbers, refusals, or plumbing.
PLAIN = {
    "transformer_lib.variants.attention.window": ("WindowAttention.__post_init__",),
    "transformer_lib.variants.attention.blocks": ("BlockAttention.__post_init__",),
    "transformer_lib.variants.attention.linear": (
        "LinearAttention.weigh",
        "elu_features",
        "not_zero",
        "without_hidden",
    ),
    "transformer_lib.variants.attention.nystrom": (
        "NystromAttention.__post_init__",
        "NystromAttention.weigh",
    ),
    "transformer_lib.variants.attention.performer": (
        "PerformerAttention.__post_init__",
        "PerformerAttention.features",
    ),
    "transformer_lib.variants.one_stack.decoder_alone": ("DecoderAlone.new_cache",),
    "transformer_lib.faster.training_at_scale": (
        "ScaleConfig.__post_init__",
        "train_at_scale",
        "ScaleRun.__init__",
        "ScaleRun.keep",
        "ScaleRun._state",
        "ScaleRun._restore",
    ),
    "transformer_lib.faster.distributed": (
        "world_size",
        "rank",
        "is_main",
        "wait_for_main",
        "_is_joined",
        "_is_launched",
        "_is_first",
        "_told_to_end",
        "_stay_on_this_computer",
    ),
    "transformer_lib.faster.scaling": (
        "Machine.__post_init__",
        "Machine.h100",
        "ModelSize.__post_init__",
        "ModelSize.base",
        "ModelSize.llama_2_70b",
        "Split.__post_init__",
        "Split.workers",
        "ring_share",
        "training_operations",
    ),
    "transformer_lib.variants.attention.lsh": (
        "LSHAttention.__post_init__",
        "LSHAttention.mask",
        "are_near",
        "reordered",
    ),
    "transformer_lib.variants.modern.norm": ("RMSNorm.__init__",),
    "transformer_lib.variants.modern.gated": ("GatedFeedForward.__init__",),
    "transformer_lib.variants.modern.rotary": (
        "RotaryAttention.__init__",
        "RotaryAttention._rows",
    ),
    "transformer_lib.variants.attention.alibi": (
        "AlibiAttention.__post_init__",
        "AlibiAttention.compute",
        "AlibiAttention.weigh",
    ),
    "transformer_lib.variants.modern.no_positions": (
        "NoPositions.__init__",
        "NoPositions.forward",
    ),
    "transformer_lib.variants.modern.transformer": (
        "ModernConfig.__post_init__",
        "ModernParts.target_mask",
    ),
}
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


def test_no_cell_left_a_warning_or_a_traceback():
    outputs = ".output.stderr, .output.traceback"
    assert faults_of(lambda page: soup(page).select(outputs)) == {}


def test_sphinx_left_no_problem_on_a_page():
    problems = ".problematic, .system-message"
    assert faults_of(lambda page: soup(page).select(problems)) == {}


def test_a_role_became_a_link_wherever_it_stands():
    roles = r"\{(?:ref|term|numref|cite:[pt])\}"  # the note of a listing knows none
    assert faults_of(lambda page: re.findall(roles, page.read_text("utf-8"))) == {}


def test_the_code_of_a_listing_keeps_its_indentation():
    def shifted(page):
        line = r'"w-line"[^>]*--indent:(\d+)">( *)'
        for indent, spaces in re.findall(line, page.read_text("utf-8")):
            if len(spaces) != int(indent):
                yield indent, spaces

    assert faults_of(shifted) == {}


def test_every_picture_has_a_text_that_describes_it():
    def undescribed(page):
        for image in soup(page).select("article img"):
            alt = image.get("alt", "")
            is_file_name = alt.lower().endswith(
                ("png", "svg", "jpg", "jpeg", "webp", "gif")
            )
            if len(alt.split()) < 5 or is_file_name:
                yield image

    assert faults_of(undescribed) == {}


def test_a_page_names_no_folder_of_the_computer_that_built_it():
    root = rf"(?<![\w.]){re.escape(str(ROOT))}"  # not of ../book, if that is its name
    assert faults_of(lambda page: re.findall(root, page.read_text("utf-8"))) == {}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_each_fold_of_a_chapter_is_a_closed_one_on_its_page(path):
    found = headings_over(read_notebook(path)["cells"])
    wanted = [over[-1] for cell, over in found if cell is None and is_fold(over[-1])]
    page = soup(built(HTML / "book" / f"{path.stem}.html"))
    folds = page.select("section > details.fold")
    assert len(folds) == len(wanted)
    assert not [fold for fold in folds if fold.has_attr("open")]
    assert all(fold.select("summary > :is(h2, h3, h4, h5)") for fold in folds)


def test_no_page_shows_or_carries_what_only_a_kernel_can_move():
    moved = r"VBox\(children|jupyter\.widget"
    assert faults_of(lambda page: re.findall(moved, page.read_text("utf-8"))) == {}


def test_a_panel_adds_less_than_20_kb_to_its_page():
    panels = soup(built(HTML / "book" / "b_laboratory.html")).select(".c-still")
    assert panels
    for panel in panels:
        assert not panel.select(".c-wrong"), "it could not even start"
        assert len(gzip.compress(str(panel).encode(), 6)) < 20_000, panel["aria-label"]
        assert len(panel.select("style")) <= len(panel.select("[data-walk], .control"))


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
        if not exists(file) or (
            name and file.suffix == ".html" and name not in links_and_names(file)[1]
        ):
            yield link


@functools.cache
def exists(file):
    return file.is_file()


def test_every_link_within_the_book_leads_somewhere():
    assert faults_of(dead_links) == {}


def test_every_link_of_the_pages_with_the_source_leads_somewhere():
    pages = sorted((HTML / CODE).rglob("*.html"))
    assert faults_of(dead_links, [page.relative_to(HTML) for page in pages]) == {}


@pytest.mark.parametrize(
    ("link", "is_dead"),
    [
        ("#here", False),
        ("#gone", True),
        ("other.html#there", False),
        ("./below/../other.html", False),
        ("other.html#gone", True),
        ("gone.html", True),
        ("gone.png", True),
        ("https://example.org/gone", False),
    ],
)
def test_a_dead_link_is_found(tmp_path, link, is_dead):
    kind = "img src" if link.endswith("png") else "a href"
    page = tmp_path / "page.html"
    page.write_text(f"<h1 id='here'>A page</h1><{kind}='{link}'>")
    (tmp_path / "other.html").write_text("<a name='there'>Another</a>")
    assert list(dead_links(page)) == [link] * is_dead


def test_the_front_door_leads_to_the_introduction():
    text = built(HTML / FRONT).read_text(encoding="utf-8")
    assert "book/intro.html" in text


# -- What a page weighs --------------------------------------------------------------


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


def test_a_page_with_its_own_pictures_weighs_less_than_a_megabyte():
    def heavy(page):
        own = {file for file in loaded(page) if not is_shared(file)}
        if (total := sum(map(weight, own | {page}))) >= MB:
            yield total

    assert faults_of(heavy) == {}


def test_the_large_files_that_pages_share_are_listed_with_their_weight():
    said = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = dict(re.findall(r"^\| `(\S+)`.*\| (\d+) kB \|$", said, re.MULTILINE))
    files = set((HTML / "_static" / "vendor").rglob("*.css"))  # book.css imports them
    for path in BUILT:
        files |= {file for file in loaded(HTML / path) if is_shared(file)}
    large = {file.name: weight(file) / 1000 for file in files if weight(file) > 20_000}
    assert listed.keys() == large.keys()
    for name, size in large.items():
        assert int(listed[name]) == pytest.approx(size, rel=0.2), name


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
    """List what the listings on these pages walk through, in sight or in a fold.

    Each part of a listing of several functions goes by its own name.
    """
    return {
        listing["data-walk"] for page in pages for listing in page.select("[data-walk]")
    }


def test_every_core_function_is_walked_by_a_chapter():
    defined = set()
    for name in CORE:
        module = f"transformer_lib.{name}"
        path = Path(find_spec(module).origin)
        found = functions_of(path.read_text(encoding="utf-8"), module)
        plain = {f"{module}.{function}" for function in PLAIN.get(module, ())}
        assert plain <= found
        defined |= found - plain
    missing = defined - walked_in(soup(built(HTML / path)) for path in SOURCES)
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
    listing = (
        '<section data-walk="m.one"><div data-walk="m.Layer.base"></div></section>'
        '<details><section data-walk="m.Layer.width"></section></details>'
    )
    missing = functions_of(source, "m") - walked_in(
        [BeautifulSoup(listing, "html.parser")]
    )
    assert missing == {"m.Layer.__init__", "m.Layer._split"}


# -- What a browser makes of them ----------------------------------------------------


def read(tab, url):
    """Open a page and wait until its formulas are set."""
    tab.goto(url)
    tab.evaluate("async () => { await window.MathJax?.startup?.promise }")


def open_folds(tab):
    """Bring all of a page in sight."""
    opened = "for (const fold of document.querySelectorAll('.fold')) fold.open = true"
    tab.evaluate(opened)


LOOK = r"""() => {
  const all = (selector) => [...document.querySelectorAll(selector)];
  return {
    "refused formulas": all("mjx-merror").length,
    "raw formulas": all(".math, .tex2jax_process").map((e) => e.innerText)
      .filter((text) => /\\\(|\\\[|\$/.test(text)),
    "scrolls sideways": document.documentElement.scrollWidth > window.innerWidth,
  };
}"""
READABLE = 8.9  # pixels
SMALL_WORDS = """(least) => {
  const closed = [...document.querySelectorAll("details:not([open])")];
  for (const part of closed) part.open = true;
  const small = [...document.querySelectorAll(".picture text")].filter((text) => {
    const svg = text.closest("svg");
    const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
    return scale && scale * parseFloat(getComputedStyle(text).fontSize) < least;
  });
  for (const part of closed) part.open = false;
  return small.map((text) => text.textContent);
}"""


def look_at(tab, url, width):
    """Open a page and all its folds; return what is there to see."""
    tab.set_viewport_size({"width": width, "height": 900})
    tab.emulate_media(reduced_motion="reduce")  # no colour on its way to another
    read(tab, url)
    open_folds(tab)
    found = tab.evaluate(LOOK)
    found["small words"] = tab.evaluate(SMALL_WORDS, READABLE)
    return found


SOUND = {"refused formulas": 0, "raw formulas": [], "scrolls sideways": False}
SOUND |= {"small words": [], "errors and requests": []}


@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_sound_and_open_to_everyone_in_either_theme(tab, path):
    """In a wide window, from a folder, as axe-core finds it in light and dark.

    Light and dark are the same elements in other colours, so only the rules about
    colours are checked twice. Two words with the same tags and classes all the way up
    get their colours from the same rules, so the first of them stands for both.
    """
    found = look_at(tab, built(HTML / path).as_uri(), WIDE)
    found["errors and requests"] = tab.faults
    assert found == SOUND
    assert findings(tab, without=COLOURS) == []
    tab.evaluate(DROP_TWINS)
    assert findings(tab, COLOURS) == []
    tab.emulate_media(color_scheme="dark")
    tab.wait_for_function("document.documentElement.dataset.theme === 'dark'")
    assert findings(tab, COLOURS) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_sound_on_a_telephone_and_from_a_server(tab, server, path):
    found = look_at(tab, f"{server}/{built(HTML / path).relative_to(HTML)}", NARROW)
    found["errors and requests"] = tab.faults
    assert found == SOUND


def test_a_word_typed_into_the_search_is_found(tab, server):
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/book/intro.html")
        tab.keyboard.press("Control+k")
        tab.keyboard.type("softmax")
        tab.keyboard.press("Enter")
        found = tab.locator("#search-results li a").first
        found.wait_for()
        found.click()
        tab.wait_for_url("**/book/*.html*")
        assert "softmax" in tab.locator("article").inner_text().lower()
        assert tab.faults == []


@pytest.mark.parametrize("name", ["03_attention", "intro"])
def test_a_page_does_not_jump_while_it_loads(tab, name):
    read(tab, built(HTML / "book" / f"{name}.html").as_uri())
    tab.wait_for_timeout(500)
    jumped = tab.evaluate(
        """() => new Promise(resolve => {
          let sum = 0;
          const add = shift => { sum += shift.value; };
          new PerformanceObserver(list => list.getEntries().forEach(add))
            .observe({type: "layout-shift", buffered: true});
          setTimeout(() => resolve(sum), 100);
        })"""
    )
    assert jumped < 0.1  # what browsers call good


def test_the_box_that_has_the_focus_is_seen(tab):
    read(tab, built(HTML / "book" / "intro.html").as_uri())
    box = tab.locator("svg.map a").first
    width = "box => getComputedStyle(box.querySelector('rect')).strokeWidth"
    before = box.evaluate(width)
    tab.keyboard.press("Tab")  # otherwise the browser does not show the focus
    box.focus()
    assert box.evaluate(width) == "3px" != before


def test_a_request_to_another_host_and_an_error_are_noticed(tab, tmp_path):
    picture, broken = "https://example.org/x.png", "<script>throw Error('no')</script>"
    path = tmp_path / "page.html"
    path.write_text(f"<img src='{picture}'>{broken}", encoding="utf-8")
    read(tab, path.as_uri())
    assert picture in tab.faults
    assert "no" in tab.faults


def test_the_arrow_keys_move_through_a_listing_line_by_line(tab):
    read(tab, built(HTML / "book" / "03_attention.html").as_uri())
    listing = tab.locator("[data-walk]:visible").first
    rows, current = (
        listing.locator(".w-row:visible"),
        listing.locator("[aria-current='step']"),
    )
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
    for _ in range(1 + listing.locator("mjx-container, summary").count()):  # take Tab
        tab.keyboard.press("Tab")
    assert not listing.evaluate(inside)  # nothing holds the keyboard in


# -- The theme's own buttons ---------------------------------------------------------

CHAPTER = HTML / "book" / "03_attention.html"
HAS_FOCUS = "e => e.contains(document.activeElement)"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("width", "side"),
    [(400, "primary"), (820, "primary"), (400, "secondary"), (820, "secondary")],
)
def test_the_menu_and_the_contents_open_over_a_narrow_page_and_close(tab, width, side):
    tab.set_viewport_size({"width": width, "height": 900})
    read(tab, built(CHAPTER).as_uri())
    button = tab.locator(f".{side}-toggle:visible")
    part = tab.locator(f".bd-sidebar-{side}")
    assert button.count() == 1
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
    tab.set_viewport_size({"width": WIDE, "height": 900})
    read(tab, built(CHAPTER).as_uri())
    button = tab.locator(".primary-toggle:visible")
    menu = tab.locator(".bd-sidebar-primary")
    button.focus()
    for state in ("hidden", "visible"):
        tab.keyboard.press("Enter")  # without looking for the button again
        menu.wait_for(state=state)
    button.click()
    menu.wait_for(state="hidden")
    assert tab.locator(".secondary-toggle:visible").count() == 0
    assert tab.locator(".bd-sidebar-secondary").is_visible()


def test_the_contents_mark_the_section_that_a_reader_jumped_to(tab):
    tab.set_viewport_size({"width": WIDE, "height": 900})
    read(tab, built(CHAPTER).as_uri())
    links = tab.locator("#pst-page-toc-nav a")
    for number in (4, 9, links.count() - 1, 2):
        name = links.nth(number).get_attribute("href")
        tab.evaluate(
            "name => scrollTo(0, document.querySelector(name).offsetTop)", name
        )
        marked = tab.locator(f"#pst-page-toc-nav a.active[href='{name}'][aria-current]")
        marked.wait_for()
        assert tab.locator("#pst-page-toc-nav a.active").count() == 1


# -- Links in tables, and paper ------------------------------------------------------


def test_a_link_in_a_table_has_the_colour_of_any_other(tab):
    read(tab, built(CHAPTER).as_uri())
    colours = tab.evaluate(
        """() => ["<p>X</p>", "<table class=table><tr><td>X</table>"].map(around => {
          const html = around.replace("X", "<a href=x>x</a>");
          const section = document.querySelector("article section");
          section.insertAdjacentHTML("beforeend", html);
          return getComputedStyle(section.lastElementChild.querySelector("a")).color;
        })"""
    )
    assert colours[0] == colours[1]


def test_a_printed_chapter_begins_with_its_number(tab):
    read(tab, built(CHAPTER).as_uri())
    title = tab.locator("article h1")
    assert re.match(r"\d+\. ", title.inner_text())
    tab.emulate_media(media="print")
    assert title.is_visible()
    assert tab.locator("h1:visible").count() == 1
