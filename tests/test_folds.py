"""Folds: what a heading says is folded, ends where it should, and opens when needed."""

import copy
import shutil
from types import SimpleNamespace

import pytest
from book_files import HTML, ROOT
from bs4 import BeautifulSoup
from pypdf import PdfReader
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace
from test_pages import built, soup

PAGE = """# A page

Before.

## First

On the path.

(label)=
### Going deeper: all is `well`

The zebra is in sight.

#### Within

:::{figure} picture.png
:name: fig-picture

A picture.
:::

### The rest of the module

Think.

### The rest of the module: 42

Done.

## Again

On the path again: {ref}`label`, {numref}`fig-picture`, [a link](#fig-picture).

## Last

The end.
"""
WORDS = ["Going deeper", "The rest of the module"]
OTHERS = ["Going deepers", "Going", "The rest of the module-book", "going deeper"]
PAGES = {
    "words": "".join(f"## {w}\n\nOne.\n\n## {w}: or\n\nTwo.\n\n" for w in WORDS),
    "emphasis": "## *Going deeper*: think\n\nOne.\n\n## Going *deeper*: think\n\nTwo.",
    "others": "".join(f"## {word}\n\n{word} is here.\n\n" for word in OTHERS),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """All these pages, and what Sphinx complained of."""
    folder = tmp_path_factory.mktemp("folds")
    source, static = folder / "source", folder / "source" / "static"
    static.mkdir(parents=True)
    for name, text in PAGES.items():
        page = f"---\norphan: true\n---\n# Going deeper\n\n{text}\n"
        (source / f"{name}.md").write_text(page, encoding="utf-8")
    (source / "index.md").write_text(PAGE, encoding="utf-8")
    shutil.copy(ROOT / "website/front/readme-page.png", source / "picture.png")
    for name in ("folds.css", "folds.js"):
        shutil.copy(ROOT / "website/folds" / name, static)
    config = {
        "extensions": ["myst_parser", "website.folds.folds"],
        "myst_enable_extensions": ["colon_fence"],
        "numfig": True,
        "html_theme": "basic",
        "html_sidebars": {"**": ["localtoc.html"]},
        "html_static_path": ["static"],
        "html_css_files": ["folds.css"],
        "html_js_files": ["folds.js"],
    }
    html = {}
    with docutils_namespace():
        folders = source, None, folder / "html", folder / "trees"
        Sphinx(*folders, "html", config, status=None, warningiserror=True).build()
    for path in (folder / "html").glob("*.html"):
        text = path.read_text("utf-8")
        text = text.replace('<div class="body"', '<div class="body bd-article"')
        path.write_text(text, encoding="utf-8")
        html[path.stem] = BeautifulSoup(text, "html.parser")
    return SimpleNamespace(folder=folder, html=html)


@pytest.fixture
def index(made):
    return made.html["index"]


def folds(page):
    """List the folds of a page by the lines that one clicks on."""
    found = page.select("details.fold")
    assert not [fold for fold in found if fold.has_attr("open")]
    return {fold.summary.text.strip("\n¶"): fold for fold in found}


def path(page):
    """Return what stands outside of all folds."""
    page = copy.copy(page.select_one(".body"))
    for fold in page.select("details"):
        fold.decompose()
    return page.text


def paragraphs(part):
    return [p.text for p in part.select("p")]


# -- What is folded, and where it ends -------------------------------------------------


def test_a_section_with_a_word_for_a_fold_and_no_other_becomes_a_closed_one(made):
    found = folds(made.html["words"])
    assert list(found) == [line for word in WORDS for line in (word, f"{word}: or")]
    for word in WORDS:
        for line, text in ((word, "One."), (f"{word}: or", "Two.")):
            assert found[line].select_one("summary > h2").text.startswith(line)
            assert paragraphs(found[line]) == [text]
    emphasised = made.html["emphasis"].select("details.fold")
    assert [fold.p.text for fold in emphasised] == ["One.", "Two."]
    others = made.html["others"]
    assert folds(others) == {}
    assert all(f"{word} is here." in path(others) for word in OTHERS)


def test_a_fold_holds_its_section_and_those_below_it_up_to_its_end(index):
    checks = folds(index)["Going deeper: all is well"]
    assert "The zebra" in checks.text
    assert checks.select_one("section h4").text == "Within¶"
    assert paragraphs(folds(index)["The rest of the module: 42"]) == ["Done."]
    for text in ("Before.", "First", "On the path.", "On the path again", "Last"):
        assert text in path(index)
    for text in ("zebra", "Within", "Think.", "Done."):
        assert text not in path(index)


# -- What else Sphinx makes of the page ------------------------------------------------


def test_the_search_has_what_is_in_a_fold_and_the_contents_have_not(made, index):
    links = index.select(".sphinxsidebar a")
    assert {link["href"] for link in links} == {"#", "#first", "#again", "#last"}
    assert not [part for part in index.select("ul") if not part.select("li")]
    assert '"zebra"' in (made.folder / "html/searchindex.js").read_text("utf-8")


def test_the_names_of_a_fold_and_of_a_figure_in_it_can_be_linked_to(index):
    again = next(p.text for p in index.select("p") if "again" in p.text)
    assert "again: Going deeper: all is well, Fig. 1, a link" in again
    section = index.find(id="going-deeper-all-is-well")
    assert section.find("details", recursive=False)
    assert section.find(id="label")
    assert folds(index)["Going deeper: all is well"].find(id="fig-picture")


# -- What a browser makes of it --------------------------------------------------------


OPEN = """[...document.querySelectorAll('details[open] > summary > :first-child')]
  .map(e => e.innerText.replace(/[:¶].*/, "").trim())"""
IN_SIGHT = """id => {
  const place = document.getElementById(id), { top } = place.getBoundingClientRect();
  return place.checkVisibility() && top > -1 && top < innerHeight;
}"""


@pytest.fixture
def low(tab, made):
    """The page in a low window, in which nothing is in sight by chance."""
    tab.set_viewport_size({"width": 800, "height": 150})
    tab.goto((made.folder / "html/index.html").as_uri())
    assert tab.evaluate(OPEN) == []
    yield tab
    assert tab.faults == []


def test_an_address_opens_the_fold_that_it_leads_to(low):
    page = low.url
    for anchor, opened in [
        ("going-deeper-all-is-well", ["Going deeper"]),
        ("label", ["Going deeper"]),
        ("fig-picture", ["Going deeper"]),
        ("the-rest-of-the-module-42", ["The rest of the module"]),
        ("first", []),
        ("%E0%A4%A", []),
    ]:
        low.goto("about:blank")
        low.goto(f"{page}#{anchor}")
        assert low.evaluate(OPEN) == opened, anchor
        if opened:
            assert low.evaluate(IN_SIGHT, anchor)


def test_a_link_on_the_page_opens_the_fold_each_time(low):
    fold = low.locator("details").first
    for name in ("a link", "a link", "Going deeper: all is well"):
        link = low.locator("p > a", has_text=name)
        link.click()
        low.wait_for_function("document.querySelector('details').open")
        assert low.evaluate(IN_SIGHT, link.get_attribute("href").removeprefix("#"))
        fold.evaluate("fold => { fold.open = false; }")


def test_the_keyboard_and_the_whole_line_open_a_fold_and_paper_has_all(low, tmp_path):
    low.set_viewport_size({"width": 800, "height": 900})
    line = low.locator("details.fold > summary").nth(1)
    box = line.bounding_box()
    low.mouse.click(box["x"] + box["width"] - 5, box["y"] + box["height"] / 2)
    assert low.evaluate(OPEN) == ["The rest of the module"]
    assert line.bounding_box() == box  # opened without a jump
    low.keyboard.press("Enter")
    assert low.evaluate(OPEN) == []
    # A heading stays a heading for those who hear the page.
    assert low.get_by_role(
        "heading", name="Going deeper: all is well", level=3
    ).is_visible()
    low.pdf(path=tmp_path / "page.pdf")
    paper = "".join(p.extract_text() for p in PdfReader(tmp_path / "page.pdf").pages)
    assert "The zebra is in sight." in paper
    assert "Think." in paper
    assert low.evaluate(OPEN) == []


@pytest.mark.book
def test_set_up_and_checks_are_cells_that_their_first_line_opens():
    page = soup(built(HTML / "book" / "02_positions.html"))
    folded = {cell.summary.get_text(" ", strip=True): cell for cell in cells(page)}
    assert "import itertools" in folded["Set-up Set-up"].text
    assert len(folded["Set-up Set-up"].select("a.library-link")) > 2
    assert [name for name in folded if name.startswith("Checks: ")]
    hint = page.select_one("details.fold:has(> summary:-soup-contains(Hint))")
    assert paragraphs(hint)


def cells(page):
    return page.select("div.cell details.hide")
