"""The search of the built pages: its results lead to the words, and quote prose."""

from urllib.parse import quote

import pytest
from book_files import HTML
from playwright.sync_api import expect
from test_pages import built, read

pytestmark = pytest.mark.book
MARKED = "[...CSS.highlights.get('searched') ?? []].map(range => range.toString())"


def result(tab, root, query, page):
    """Search, and return the result that is this page as a whole."""
    read(tab, f"{root}/search.html?q={quote(query)}")
    link = tab.locator(f"#search-results a[href*='{page}']:not([href*='#'])").first
    link.wait_for()
    return link


def test_a_result_leads_to_the_section_that_is_about_the_words(tab, server):
    for root in (HTML.as_uri(), server):
        result(tab, root, "label smoothing", "10_training").click()
        tab.wait_for_url("**/10_training.html*")
        heading = tab.locator("article :is(h2, h3)", has_text="Label smoothing").first
        top = heading.evaluate("part => part.getBoundingClientRect().top")
        assert 0 <= top < 200, root
        marked = {text.lower() for text in tab.evaluate(MARKED)}
        assert marked == {"label smoothing"}
        assert tab.faults == []


def test_words_that_are_only_in_a_fold_open_it(tab):
    page = built(HTML / "book" / "02_positions.html")
    fold = tab.locator("details.fold-set-up")
    read(tab, f"{page.as_uri()}?highlight=use_book_style")
    assert fold.evaluate("fold => fold.open")
    assert tab.evaluate(MARKED) == ["use_book_style"]
    read(tab, f"{page.as_uri()}?highlight=matplotlib+attention")
    assert not fold.evaluate("fold => fold.open")  # one of them is in sight
    assert {"matplotlib", "attention"} <= {
        text.lower() for text in tab.evaluate(MARKED)
    }


def test_words_that_are_only_in_hidden_code_show_it(tab):
    page = built(HTML / "book" / "02_positions.html")
    read(tab, f"{page.as_uri()}?highlight=bbox_to_anchor")
    assert tab.locator("details.hide[open]").count() == 1


@pytest.mark.parametrize("query", ["(", "a+(b|", "\\", "zqzq", " ", "<b>", "%"])
def test_no_query_makes_an_error_or_moves_a_page_without_it(tab, query):
    page = built(HTML / "book" / "02_positions.html")
    read(tab, f"{page.as_uri()}?highlight={quote(query)}")
    assert tab.faults == []
    if query in ("zqzq", " "):
        assert tab.evaluate("scrollY") == 0
        assert tab.evaluate(MARKED) == []


@pytest.mark.parametrize("query", ["x", "constructor", "<b>", "("])
def test_a_page_without_a_place_for_results_does_not_search(tab, query):
    page = built(HTML / "book" / "03_attention.html")
    read(tab, f"{page.as_uri()}?q={quote(query)}")
    assert tab.faults == []
    assert tab.evaluate("scrollY") == 0


# Words that Sphinx's script finds as properties of every object.
@pytest.mark.parametrize(
    "query", ["constructor", "__proto__", "attention -constructor", "toString valueOf"]
)
def test_a_word_that_every_object_has_is_searched_like_any_other(tab, query):
    read(tab, f"{HTML.as_uri()}/search.html?q={quote(query)}")
    expect(tab.locator("#search-results > h2")).to_have_text("Search Results")
    assert tab.faults == []
    found = tab.locator("#search-results li")
    if query.startswith("attention"):
        expect(found.first).to_be_visible()


def test_an_address_with_a_place_of_its_own_leads_there(tab):
    page = built(HTML / "book" / "02_positions.html")
    read(tab, f"{page.as_uri()}?highlight=sine#summary")
    summary = tab.locator("#summary > h2")
    assert 0 <= summary.evaluate("part => part.getBoundingClientRect().top") < 200


def test_what_is_quoted_below_a_result_has_no_commands_of_formulas(tab, server):
    link = result(tab, server, "timescale", "02_positions")
    quoted = link.locator("xpath=..").locator(".context")
    quoted.wait_for()
    text = quoted.inner_text()
    assert "is the timescale of the pair" in text
    assert not {"\\", "{", "$"} & set(text)
