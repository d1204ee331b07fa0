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
from test_pages import PAGES, built, loaded, read

from website.search import search_index

pytestmark = pytest.mark.book
# Written before the ranking was, and nothing in it is made for them.
QUERIES = Path(__file__).parent / "search_queries.csv"
ASK = """query => Search._performSearch(...Search._parseQuery(query)).reverse()
  .map(([page, title, anchor]) => [page, title, anchor])"""
MARKED = "[...CSS.highlights.get('searched') ?? []].map(range => range.toString())"


def result(tab, root, query, page):
    """Search, and return the result that is this page as a whole."""
    read(tab, f"{root}/search.html?q={quote(query)}")
    link = tab.locator(f"#search-results a[href*='{page}']:not([href*='#'])").first
    link.wait_for()
    return link


def test_a_result_leads_to_the_section_that_is_about_the_words(tab, server):
    for root in (HTML.as_uri(), server):
        result(tab, root, "label smoothing", "11_training_well").click()
        tab.wait_for_url("**/11_training_well.html*")
        heading = tab.locator("article :is(h2, h3)", has_text="Label smoothing").first
        top = heading.evaluate("part => part.getBoundingClientRect().top")
        assert 0 <= top < 200, root
        marked = {text.lower() for text in tab.evaluate(MARKED)}
        assert marked == {"label smoothing"}
        assert tab.faults == []


def test_the_chapter_that_explains_the_words_is_the_first_chapter_listed(tab, server):
    with QUERIES.open(encoding="utf-8", newline="") as file:
        homes = {row["query"]: row["home"] for row in csv.DictReader(file)}
    chapters = {f"book/{path.stem}" for path in CHAPTERS}
    assert len(homes) == 31
    assert set(homes.values()) == chapters
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/search.html?q=")
        found = {}
        for query in homes:
            pages = [page for page, *_ in tab.evaluate(ASK, query) if page in chapters]
            found[query] = pages[0] if pages else None
        others = {query for query in homes if found[query] != homes[query]}
        assert len(others) <= 3, others


def test_a_term_comes_first_with_its_name_and_its_definition(tab, server):
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/search.html?q=Causal+masks")
        entry = tab.locator("#search-results li").first
        expect(entry.locator("a")).to_have_text("causal mask")
        expect(entry.locator(".context")).to_contain_text("mask that hides the future")
        entry.locator("a").click()
        tab.wait_for_url("**/glossary.html#term-causal-mask")
        assert tab.faults == []


def test_a_heading_with_the_words_comes_before_a_page_that_mentions_them(tab):
    read(tab, f"{HTML.as_uri()}/search.html?q=")
    found = tab.evaluate(ASK, "length penalty")
    headings = [n for n, (_, title, _) in enumerate(found) if "The length pen" in title]
    mentions = [n for n, (*_, anchor) in enumerate(found) if not anchor]
    assert headings == [2]  # after the glossary, and the chapter that has the heading
    assert mentions[0] == 1
    assert mentions[1] > 2


def test_american_spelling_plural_and_a_beginning_find_the_same(tab):
    read(tab, f"{HTML.as_uri()}/search.html?q=")
    for query, same in (
        ("quantization", "quantisation"),
        ("Layer Normalization", "layer norm"),
        ("positional encodings", "positional encoding"),
    ):
        assert tab.evaluate(ASK, query)[:2] == tab.evaluate(ASK, same)[:2]


QUESTIONS = [
    ("why divide by sqrt d_k", "03_attention.html#why-divide-by-the-root"),
    ("why divide by the square root", "03_attention.html#why-divide-by-the-root"),
    ("Why do we divide by the root?", "03_attention.html#why-divide-by-the-root"),
]


@pytest.mark.parametrize(("question", "answer"), QUESTIONS)
def test_a_question_finds_the_section_that_answers_it(tab, question, answer):
    read(tab, f"{HTML.as_uri()}/search.html?q={quote(question)}")
    expect(tab.locator(".search-summary")).to_contain_text("found")
    links = tab.locator("#search-results li > a").all()
    assert f"book/{answer}" in [link.get_attribute("href") for link in links[:3]]


def test_below_each_result_stands_a_sentence_with_the_words(tab, server):
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/search.html?q=label+smoothing")
        expect(tab.locator(".search-summary")).to_contain_text("found")
        items = tab.locator("#search-results li").all()
        assert tab.locator(".search-summary").inner_text() == (
            f"Results found: {len(items)}"
        )
        for item in items[:5]:
            quoted = item.locator(".context")
            assert len(quoted.inner_text()) > 20
            assert "chapter 11 of 28" not in quoted.inner_text()
            if "glossary.html#" not in item.locator("a").first.get_attribute("href"):
                marked = {
                    text.lower() for text in quoted.locator("mark").all_inner_texts()
                }
                assert marked & {"label", "labels", "smoothing"}
        assert tab.faults == []


MISSPELT = [
    ("sofmax", "softmax", "03_attention"),
    ("atention mask", "attention mask", "05_masks"),
    ("positonal", "positional", "02_positions"),
    ("labl smoothng", "label smoothing", "11_training_well"),
    ("beem search", "beam search", "12_decoding"),
]


@pytest.mark.parametrize(("typed", "meant", "home"), MISSPELT)
def test_a_misspelt_word_finds_what_is_meant_and_says_so(tab, typed, meant, home):
    read(tab, f"{HTML.as_uri()}/search.html?q={quote(typed)}")
    line = tab.locator(".search-meant")
    expect(line).to_have_text(
        f"No page contains “{typed}”. Here are the results for {meant}."
    )
    links = tab.locator("#search-results li > a[href*='book/']").all()[:4]
    assert any(home in link.get_attribute("href") for link in links)
    assert tab.locator("#search-results li mark").count() > 0
    assert tab.evaluate(ASK, typed) == tab.evaluate(ASK, meant)


def test_a_query_that_the_book_knows_is_not_changed(tab):
    read(tab, f"{HTML.as_uri()}/search.html?q=")
    with QUERIES.open(encoding="utf-8", newline="") as file:
        known = [row["query"] for row in csv.DictReader(file)]
    for query in (*known, "MultiHeadAttention", "quantiz", "Llama", "zqzq"):
        tab.evaluate(ASK, query)
        assert tab.evaluate("searched") == query


NUMBERS = [
    ("13.1", ["control-race", "fig-cache-triangle", ""]),
    ("control 13.1", ["control-race", ""]),
    ("figure 3.2", ["fig-attention-shelf", ""]),
    ("Fig. 3.2", ["fig-attention-shelf", ""]),
    ("a.1", ["control-javascript", ""]),
    ("chapter 9", ["", "fig-architecture"]),
]


@pytest.mark.parametrize(("query", "anchors"), NUMBERS)
def test_a_number_finds_the_figure_the_control_or_the_chapter(tab, query, anchors):
    read(tab, f"{HTML.as_uri()}/search.html?q={quote(query)}")
    expect(tab.locator(".search-summary")).to_contain_text("found")
    links = tab.locator("#search-results li > a").all()
    found = [link.get_attribute("href").partition("#")[2] for link in links]
    assert found[: len(anchors)] == anchors
    first = tab.locator("#search-results li").first
    assert len(first.locator(".context").inner_text()) > 20
    first.locator("a").click()
    if anchors[0]:
        expect(tab.locator(f"[id='{anchors[0]}']")).to_be_in_viewport()
    assert tab.faults == []


def test_captions_have_their_anchor_their_number_and_their_text():
    html = """<article><figure class="x" id="a"><img></figure><figure id="b">
      <figcaption><p><span class="caption-number">Fig. 1.2 </span>
      <span class="caption-text">Rows of <em>cells</em>, \\(e^{q \\cdot k}\\).</span>
      <a class="headerlink" href="#b">#</a></p></figcaption></figure></article>"""
    assert search_index.captions_of(html) == [
        ["b", "Fig. 1.2", "Rows of cells, e^(q · k)."]
    ]


def test_the_dialog_offers_terms_and_chapters_while_one_types(tab, server):
    for root in (HTML.as_uri(), server):
        read(tab, f"{root}/book/13_cache.html")
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
        dialog.locator("input").fill("zqzq")
        expect(dialog.get_by_role("status")).to_have_text(
            "No quick links. Enter searches the whole text."
        )
        dialog.locator("input").fill("padding m")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("ArrowUp")
        tab.keyboard.press("ArrowDown")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**/05_masks.html?highlight=padding+mask")
        tab.keyboard.press("Control+k")
        tab.keyboard.type("padding")
        tab.keyboard.press("Enter")
        tab.wait_for_url("**/search.html?q=padding")
        assert tab.faults == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_dialog_is_open_to_everyone(tab, theme):
    tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
    read(tab, f"{HTML.as_uri()}/book/05_masks.html")
    tab.keyboard.press("Control+k")
    tab.keyboard.type("mask")
    expect(tab.locator(".offers a").first).to_be_visible()
    assert findings(tab) == []


def test_a_result_quotes_no_answer_of_an_exercise():
    html = """<article><p class="place">Part I</p><section id="a"><h1>A</h1><p>One.</p>
      <section id="b"><h2>B</h2><p>\\(\\sqrt{d_k}\\)</p></section>
      <section id="answer-7"><details><h3>Answer</h3><p>No.</p></details></section>
      <p>Two.</p></section></article>"""
    assert search_index.sections_of(html) == [
        ["", "A", "One.", "Two."],
        ["b", "B", "√d_k"],
    ]


def test_a_name_with_tags_is_shown_and_not_obeyed(tab):
    read(tab, f"{HTML.as_uri()}/search.html?q=")
    tab.evaluate(
        """() => {
          GLOSSARY.terms["term-x"] = ["zqzq <b>x</b>", "What x is.", "book/05_masks"];
          Search._index.alltitles["zqzq <i>y</i>"] = [[0, "y"]];
          Search.performSearch("zqzq");
        }"""
    )
    links = tab.locator("#search-results li > a")
    expect(links.filter(has_text="zqzq <b>x</b>")).to_have_count(1)
    expect(links.filter(has_text="zqzq <i>y</i>")).to_have_count(1)
    expect(links.locator("b, i")).to_have_count(0)


def test_the_list_of_results_is_open_to_everyone(tab, server):
    for theme in ("light", "dark"):
        tab.emulate_media(color_scheme=theme, reduced_motion="reduce")
        read(tab, f"{server}/search.html?q=softmax")
        expect(tab.locator(".search-summary")).to_contain_text("found")
        tab.wait_for_load_state("networkidle")
        assert findings(tab) == []
    assert tab.faults == []


def test_no_page_but_the_search_loads_its_index():
    for path in PAGES:
        names = {file.name for file in loaded(built(HTML / path))}
        scripts = {"searchindex.js", "searchtools.js", "ranking.js"} & names
        assert bool(scripts) == (path == "search.html"), path


def test_the_pages_that_have_a_word_most_often_come_first(tmp_path):
    pages = {
        "a": "<p>One mask &amp; <b>a</b> head</p>",
        "b": "<h1>Masks</h1><p>Masked: a mask.</p><pre>mask</pre>",
        "c": "<p>It has \\(\\text{mask}\\) as a <i>mask</i> here.</p>",
    }
    for name, html in pages.items():
        text = f"<p>mask mask mask</p><article>{html}</article><p>mask mask mask</p>"
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
    terms = {"mask": [0, 1, 2], "2017": [0, 1], "head": 0}
    index = {"docnames": list(pages), "terms": terms, "indexentries": {"x": []}}
    path = tmp_path / "searchindex.js"
    path.write_text(js_index.dumps(index), encoding="utf-8")
    app = SimpleNamespace(outdir=tmp_path, builder=SimpleNamespace(name="html"))
    for _ in range(2):  # Sphinx keeps the file if nothing changed
        search_index.improve(app, None)
        index = js_index.loads(path.read_text(encoding="utf-8"))
        assert index["terms"] == {"mask": [1, 2, 0], "head": 0}
        assert index["sections"] == [
            [["", "One mask & a head"]],
            [["", "Masks", "Masked: a mask."]],
            [["", "It has mask as a mask here."]],
        ]
        assert index["captions"] == [[], [], []]
        assert index["indexentries"] == {}


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
    assert "t divided by the timescale" in text
    assert not {"\\", "{", "$"} & set(text)


def test_the_icon_of_the_search_leaves_room_for_the_query(tab):
    read(tab, f"{HTML.as_uri()}/search.html?q=softmax")
    field = tab.locator(".bd-search input:visible").first
    icon = tab.locator(".bd-search svg:visible").first.bounding_box()
    begins = field.bounding_box()["x"] + float(
        field.evaluate("e => parseFloat(getComputedStyle(e).paddingLeft)")
    )
    assert begins > icon["x"] + icon["width"]
