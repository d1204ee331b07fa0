"""The glossary: where its terms lead, and the cards that pages show of them."""

import re
from types import SimpleNamespace

import pytest
from axe import COLOURS, findings
from book_files import HTML, NOTEBOOKS
from docutils import nodes
from docutils.utils import new_document
from playwright.sync_api import expect
from sphinx import addnodes
from test_pages import NARROW, PAGES, built, kept_open, read, soup, turn

from website.terms import terms

GLOSSARY = HTML / "book" / "glossary.html"
TERM = "article a[href$='#term-tensor']"  # explained in another chapter


# -- What the build makes ------------------------------------------------------------


def glossary(word, *last):
    """A glossary of one entry, whose definition ends with these nodes."""
    text = nodes.paragraph("", "", nodes.Text("What it is."))
    definition = nodes.definition("", text, nodes.paragraph("", "", *last))
    term = nodes.term("", word, ids=[f"term-{word}"])
    item = nodes.definition_list_item("", term, definition)
    document = new_document("")
    document += addnodes.glossary("", nodes.definition_list("", item))
    return document


def link(text, **to):
    return nodes.reference("", "", nodes.inline("", text), **to)


@pytest.mark.parametrize(
    "last",
    [
        [nodes.Text("See "), link("Attention", refuri="03_x.html")],
        [link("another term", refid="term-other")],
        [link("no page", refuri="04_gone.html")],
    ],
)
def test_a_definition_without_a_chapter_fails_the_build(monkeypatch, last):
    said = []
    warn = lambda text, word, location: said.append(text % word)  # noqa: E731
    monkeypatch.setattr(terms.logger, "warning", warn)
    env = SimpleNamespace(found_docs={"book/glossary", "book/03_x"})
    builder = SimpleNamespace(get_relative_uri=lambda _, to: f"{to[5:]}.html")
    app = SimpleNamespace(env=env, builder=builder)
    terms.name_homes(app, glossary("key", *last), terms.GLOSSARY)
    assert said == [
        "the definition of 'key' does not end with a reference to its chapter"
    ]


def test_what_a_definition_says_cannot_become_a_tag():
    code = nodes.literal("", "a < b")
    formula = nodes.math("", "e^x < -\\infty")
    text = nodes.paragraph("", "", nodes.Text("<b> & "), code, nodes.Text(" "), formula)
    assert terms.html_of(text) == (
        "&lt;b&gt; &amp; <code>a &lt; b</code> <i>e<sup>x</sup> &lt; −∞</i>"
    )


@pytest.mark.book
def test_each_term_of_the_glossary_leads_to_a_chapter():
    page = soup(built(GLOSSARY))
    entries = page.select("dl.glossary > dt")
    chapters = {f"{path.stem}.html" for path in NOTEBOOKS}
    for term in entries:
        home = term.find_next_sibling("dd").select_one("p:last-child.home > a")
        assert home["href"].partition("#")[0] in chapters, term
        assert re.match(r"Chapter \d+: \w", home.text), term
    letters = [entry["id"][5].upper() for entry in entries]
    linked = [letter.text for letter in page.select(".letters a")]
    assert linked == sorted(set(letters))


@pytest.mark.book
def test_a_page_loads_the_terms_if_it_uses_some():
    known = (HTML / "_static/made/terms.js").read_text("utf-8")
    assert "\\" not in known  # no command of a formula is left
    assert '"book/03_attention":"Chapter 3: Attention"' in known
    for path in PAGES:
        page = soup(built(HTML / path))
        used = page.select("a:has(> .std-term)")
        assert len(page.select("script[src*='/cards.js']")) == bool(used), path
        for term in used:
            assert f'"{term["href"].partition("#")[2]}":["' in known, term


# -- What a reader gets --------------------------------------------------------------


page = kept_open("book/05_masks.html")


def shown(tab):
    return tab.locator(".term-card:popover-open")


@pytest.fixture
def term(page):
    """A term that another chapter explains; the mouse and the focus are elsewhere."""
    page.mouse.move(5, 5)
    page.evaluate("document.activeElement.blur()")
    expect(shown(page)).to_have_count(0)
    term = page.locator(TERM).first
    term.scroll_into_view_if_needed()
    return term


@pytest.mark.book
def test_a_card_opens_where_the_mouse_rests_and_stays_while_it_is_on_it(page, term):
    term.hover()
    expect(shown(page)).to_contain_text("Numbers arranged along any number of axes")
    shown(page).hover()
    page.wait_for_timeout(500)
    expect(shown(page)).to_have_count(1)
    link, card = term.bounding_box(), shown(page).bounding_box()
    below = card["y"] >= link["y"] + link["height"]
    assert below or card["y"] + card["height"] <= link["y"]
    chapter = shown(page).get_by_role("link", name="Chapter 1: From text to tensors")
    assert chapter.evaluate("link => link.href").endswith("/01_text_to_tensors.html")
    page.mouse.move(5, 5)
    expect(shown(page)).to_have_count(0)
    page.locator("article a[href$='#term-broadcasting']").first.hover()
    expect(shown(page)).to_contain_text("Explained in this chapter")
    expect(shown(page).get_by_role("link")).to_have_text(["Glossary"])


@pytest.mark.book
def test_the_keyboard_opens_a_card_that_all_can_read_goes_into_it_and_on(page, term):
    chapter = shown(page).get_by_role("link").first
    page.keyboard.press("Tab")  # otherwise the browser does not show the focus
    term.focus()
    expect(shown(page).locator("b")).to_have_text("tensor")
    for theme in ("dark", "light"):
        turn(page, theme)
        assert findings(page, COLOURS if theme == "dark" else ()) == []
    page.emulate_media(media="print")
    expect(shown(page)).to_be_hidden()
    page.emulate_media(media="null")
    page.keyboard.press("Tab")
    expect(chapter).to_be_focused()
    page.keyboard.press("Escape")
    expect(shown(page)).to_have_count(0)
    expect(term).to_be_focused()
    page.keyboard.press("Shift+Tab")
    term.focus()
    page.keyboard.press("Tab")
    expect(chapter).to_be_focused()
    page.keyboard.press("Tab")
    assert not page.evaluate("document.activeElement.closest('.term-card')")
    expect(shown(page).locator("b", has_text="tensor")).to_have_count(0)
    # A screen reader gets the definition with the term.
    expect(page.locator(TERM).first).to_have_accessible_description(
        re.compile("^Numbers arranged along any number of axes: .* three\\.$")
    )
    named = page.locator("article a:has(> .std-term)")
    assert named.count() > 5
    assert named.and_(page.locator(":not([aria-describedby])")).count() == 0


@pytest.mark.book
def test_the_first_tap_opens_a_card_and_its_links_lead_on(browser):
    size = {"width": NARROW, "height": 800}
    context = browser.new_context(viewport=size, has_touch=True, is_mobile=True)
    tab = context.new_page()
    read(tab, built(HTML / "book" / "05_masks.html").as_uri())
    term = tab.locator(TERM).first
    term.tap()
    expect(shown(tab)).to_have_count(1)
    assert "glossary" not in tab.url
    box = shown(tab).bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= NARROW
    tab.locator("article h1").first.tap(position={"x": 9, "y": 9})
    expect(shown(tab)).to_have_count(0)
    term.tap()
    shown(tab).get_by_role("link", name="Glossary").tap()
    tab.wait_for_url("**/glossary.html#term-tensor")
    context.close()


@pytest.mark.book
def test_a_letter_leads_to_its_first_term_and_stays_in_sight(tab):
    read(tab, built(GLOSSARY).as_uri())
    letters = tab.locator(".letters")
    letters.get_by_role("link", name="T", exact=True).click()
    term = tab.locator("#term-teacher")
    expect(term).to_be_in_viewport()
    box, at = letters.bounding_box(), term.bounding_box()
    assert box["y"] + box["height"] <= at["y"] or box["x"] >= at["x"] + at["width"]
    letters.get_by_role("link", name="A", exact=True).click(trial=True)  # uncovered
