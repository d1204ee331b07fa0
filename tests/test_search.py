"""The search of the built pages: what comes first, what it says, where it leads."""

import csv
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import quote

import pytest
from axe import findings
from book_files import CHAPTERS, HTML
from playwright.sync_api import expect
from sphinx.search import js_index
from test_pages import built, kept_open, read, turn

from website.search import search_index

pytestmark = pytest.mark.book
search = kept_open("search.html")
PAGE = HTML / "book" / "02_positions.html"
# Written before the ranking was, and nothing in it is made for them.
QUERIES = Path(__file__).parent / "search_queries.csv"
ASK = """query => Search._performSearch(...Search._parseQuery(query)).reverse()
  .map(([page, title, anchor]) => [page, title, anchor])"""
SHOW = """query => {
  document.querySelector("#search-results").replaceChildren();
  Search.performSearch(query);
}"""
MARKED = "[...CSS.highlights.get('searched') ?? []].map(range => range.toString())"


@pytest.fixture
def ask(search):
    """Search, and give the page, title and anchor of each result."""
    search.wait_for_function("Search.hasIndex()")
    return lambda query: search.evaluate(ASK, query)


@pytest.fixture
def show(search):
    """Search, and give the list of results on the page."""

    def show(query):
        search.evaluate(SHOW, query)
        title = search.locator("#search-results > h2")
        expect(title).to_have_text("Search Results")
        return search.locator("#search-results li")

    return show


def addresses(results):
    return [link.get_attribute("href") for link in results.locator("> a").all()]


def lower(texts):
    return {text.lower() for text in texts}


# -- What is found, and in what order --------------------------------------------------


def test_the_chapter_that_explains_the_words_is_the_first_chapter_listed(ask, search):
    with QUERIES.open(encoding="utf-8", newline="") as file:
        homes = {row["query"]: row["home"] for row in csv.DictReader(file)}
    chapters = {f"book/{path.stem}" for path in CHAPTERS}
    assert set(homes.values()) == chapters
    others = set()
    for query in (*homes, "MultiHeadAttention", "quantiz", "Llama", "zqzq"):
        first = next((page for page, *_ in ask(query) if page in chapters), None)
        if first != homes.get(query, first):
            others.add(query)
        assert search.evaluate("searched") == query  # what the book knows stays
    assert len(others) <= 3, others


def test_a_heading_with_the_words_comes_before_a_page_that_mentions_them(ask):
    found = ask("length penalty")
    headings = [n for n, (_, title, _) in enumerate(found) if "The length pen" in title]
    mentions = [n for n, (*_, anchor) in enumerate(found) if not anchor]
    assert headings == [2]  # after the glossary, and the chapter that has the heading
    assert mentions[0] == 1
    assert mentions[1] > 2


def test_other_spellings_and_a_question_find_the_same(ask):
    for query, same in (
        ("quantization", "quantisation"),
        ("Layer Normalization", "layer norm"),
        ("positional encodings", "positional encoding"),
    ):
        assert ask(query)[:2] == ask(same)[:2]
    for question in ("why divide by sqrt d_k", "Why do we divide by the square root?"):
        found = [[page, anchor] for page, _, anchor in ask(question)[:3]]
        assert ["book/03_attention", "#why-divide-by-the-root"] in found


def test_a_misspelt_word_finds_what_is_meant_and_says_so(show, ask, search):
    for typed, meant, home in [
        ("sofmax", "softmax", "03_attention"),
        ("labl smoothng", "label smoothing", "11_training_well"),
    ]:
        found = show(typed)
        expect(search.locator(".search-meant")).to_have_text(
            f"No page contains “{typed}”. Here are the results for {meant}."
        )
        pages = [address for address in addresses(found) if "glossary" not in address]
        assert any(home in address for address in pages[:4])
        assert found.locator("mark").count() > 0
        assert ask(typed) == ask(meant)


def test_a_number_finds_the_figure_the_control_or_the_chapter(show):
    for query, anchors in [
        ("13.1", ["control-race", "fig-cache-triangle", ""]),
        ("control 13.1", ["control-race", ""]),
        ("Fig. 3.2", ["fig-attention-shelf", ""]),
        ("a.1", ["control-javascript", ""]),
        ("chapter 9", ["", "fig-architecture"]),
    ]:
        found = show(query)
        places = [address.partition("#")[2] for address in addresses(found)]
        assert places[: len(anchors)] == anchors
        assert len(found.first.locator(".context").inner_text()) > 20


def test_a_word_that_every_object_of_javascript_has_is_searched_like_any_other(show):
    show("__proto__ valueOf")
    assert show("attention -constructor").first.is_visible()


def test_a_term_comes_first_with_its_name_and_its_definition(show):
    entry = show("Causal masks").first
    assert addresses(entry) == ["book/glossary.html#term-causal-mask"]
    expect(entry.locator("a")).to_have_text("causal mask")
    expect(entry.locator(".context")).to_contain_text("mask that hides the future")


# -- What stands below a result --------------------------------------------------------


def test_below_each_result_stands_a_sentence_with_the_words_for_everyone(show, search):
    items = show("label smoothing").all()
    summary = search.locator(".search-summary")
    expect(summary).to_have_text(f"Results found: {len(items)}")
    for theme in ("light", "dark"):
        turn(search, theme)
        assert findings(search) == []
    for item in items[:5]:
        quoted = item.locator(".context")
        assert len(quoted.inner_text()) > 20
        assert "chapter 11 of 28" not in quoted.inner_text()
        if "glossary.html#" not in addresses(item)[0]:
            marked = lower(quoted.locator("mark").all_inner_texts())
            assert marked & {"label", "labels", "smoothing"}
    page = "xpath=self::*[a[contains(@href, '/02_positions.html?')]]"
    text = show("timescale").locator(page).locator(".context").inner_text()
    assert "t divided by the timescale" in text
    assert not {"\\", "{", "$"} & set(text)


def test_a_name_with_tags_is_shown_and_not_obeyed(show, search):
    search.evaluate(
        """() => {
          GLOSSARY.terms["term-x"] = ["xyxy <b>x</b>", "What x is.", "book/05_masks"];
          Search._index.alltitles["xyxy <i>y</i>"] = [[0, "y"]];
        }"""
    )
    links = show("xyxy").locator("> a")
    expect(links.filter(has_text="xyxy <b>x</b>")).to_have_count(1)
    expect(links.filter(has_text="xyxy <i>y</i>")).to_have_count(1)
    expect(links.locator("b, i")).to_have_count(0)


# -- Where a result leads --------------------------------------------------------------


def test_a_result_leads_to_the_section_that_is_about_the_words(tab, server):
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/search.html?q={quote('label smoothing')}")
        page = "a[href*='11_training_well']:not([href*='#'])"
        tab.locator(f"#search-results {page}").first.click()
        tab.wait_for_url("**/11_training_well.html*")
        heading = tab.locator("article :is(h2, h3)", has_text="Label smoothing").first
        top = heading.evaluate("part => part.getBoundingClientRect().top")
        assert 0 <= top < 200, root
        assert lower(tab.evaluate(MARKED)) == {"label smoothing"}
        assert tab.faults == []


def test_words_that_are_only_folded_open_the_fold_and_no_query_does_harm(tab):
    fold = tab.locator("details.hide", has_text="Set-up")
    read(tab, f"{built(PAGE).as_uri()}?highlight=use_book_style")
    assert fold.evaluate("fold => fold.open")
    assert tab.evaluate(MARKED) == ["use_book_style"]
    read(tab, f"{PAGE.as_uri()}?highlight=matplotlib+attention")
    assert not fold.evaluate("fold => fold.open")  # one of them is in sight
    assert {"matplotlib", "attention"} <= lower(tab.evaluate(MARKED))
    read(tab, f"{PAGE.as_uri()}?highlight=bbox_to_anchor")
    assert tab.locator("details.hide[open]").count() == 1
    for query in ["highlight=a+(b|", "highlight=%5C", "highlight=zqzq", "q=mask"]:
        tab.goto(f"{PAGE.as_uri()}?{query}")
    assert tab.evaluate("scrollY") == 0
    tab.goto(f"{PAGE.as_uri()}?highlight=sine#summary")  # has a place of its own
    summary = tab.locator("#summary > h2")
    assert 0 <= summary.evaluate("part => part.getBoundingClientRect().top") < 200
    assert tab.faults == []


# -- The dialog ------------------------------------------------------------------------


def test_the_dialog_offers_terms_and_chapters_while_one_types(tab):
    read(tab, f"{HTML.as_uri()}/book/13_cache.html")
    tab.keyboard.press("Control+k")
    dialog = tab.locator("#pst-search-dialog")
    for query, first in (
        ("padd", "padding"),
        ("atention", "attention"),
        ("beam", "beam search"),
        ("13", "13. The KV cache"),
    ):
        dialog.locator("input").fill(query)
        expect(dialog.locator(".offers a").first).to_contain_text(first)
        assert dialog.locator(".offers a").count() <= 5
    for theme in ("light", "dark"):
        turn(tab, theme)
        assert findings(tab) == []
    dialog.locator("input").fill("zqzq")
    expect(dialog.get_by_role("status")).to_have_text(
        "No quick links. Enter searches the whole text."
    )
    dialog.locator("input").fill("padding m")
    for key in ("ArrowDown", "ArrowUp", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    tab.wait_for_url("**/05_masks.html?highlight=padding+mask")
    tab.keyboard.press("Control+k")
    tab.keyboard.type("padding")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/search.html?q=padding")
    assert tab.faults == []


# -- What the build makes --------------------------------------------------------------


PAGES = {
    "a": """<p>One mask &amp; <b>a</b> head, \\(e^{q \\cdot k}\\)</p>
      <figure class="x" id="a"><img></figure><figure id="b">
      <figcaption><p><span class="caption-number">Fig. 1.2 </span>
      <span class="caption-text">Rows of <em>cells</em>, \\(\\sqrt{d_k}\\).</span>
      <a class="headerlink" href="#b">#</a></p></figcaption></figure>""",
    "b": "<h1>Masks</h1><p>Masked: a mask.</p><pre>mask</pre>",
    "c": """<p class="place">Part I</p><section id="a"><h1>A mask</h1><p>One mask.</p>
      <section id="answer-7"><details><h3>Answer</h3><p>No.</p></details></section>
      <section id="b"><h2>B</h2><p>Its <i>mask</i>.</p></section>
      <p>Two.</p></section>""",
}


def test_the_index_quotes_sections_without_answers_and_has_the_best_pages_first(
    tmp_path,
):
    for name, html in PAGES.items():
        text = f"<p>mask mask mask</p><article>{html}</article><p>mask mask mask</p>"
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    terms = {"mask": [0, 1, 2], "2017": [0, 1], "head": 0}
    index = {"docnames": list(PAGES), "terms": terms, "indexentries": {"x": []}}
    path = tmp_path / "searchindex.js"
    path.write_text(js_index.dumps(index), encoding="utf-8")
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(name="html"))
    for _ in range(2):  # Sphinx keeps the file if nothing changed
        search_index.improve(app, None)
        index = js_index.loads(path.read_text(encoding="utf-8"))
        assert index["terms"] == {"mask": [1, 2, 0], "head": 0}
        assert index["sections"] == [
            [["", "One mask & a head, e^(q · k)", "Fig. 1.2 Rows of cells, √d_k."]],
            [["", "Masks", "Masked: a mask."]],
            [["", "A mask", "One mask.", "Two."], ["b", "B", "Its mask."]],
        ]
        captions = [["b", "Fig. 1.2", "Rows of cells, √d_k."]]
        assert index["captions"] == [captions, [], []]
        assert index["indexentries"] == {}
