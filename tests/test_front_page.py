"""The front page shows the book as it is; each page says where in it it stands."""

import json
import re
from types import SimpleNamespace

import pytest
import yaml
from axe import findings
from book_files import BOOK, HTML, ROOT, read_notebook, source
from docutils import nodes
from playwright.sync_api import expect
from test_pages import (
    NARROW,
    PAGES,
    WIDE,
    built,
    faults_of,
    kept_open,
    read,
    soup,
)

from website.front import sharing

pytestmark = pytest.mark.book
FRONT = HTML / "book" / "intro.html"
CHAPTER = HTML / "book" / "05_masks.html"
PARTS = {
    part["caption"]: [item["file"].partition("/")[2] for item in part["chapters"]]
    for part in yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
}
CHAPTERS = [name for part in list(PARTS)[1:6] for name in PARTS[part]]


def minutes_of(name):
    opening = source(read_notebook(BOOK / f"{name}.ipynb")["cells"][0])
    return int(re.search(r"\*\*Time\*\* (\d+) minutes", opening)[1])


# -- What the front page says ----------------------------------------------------------


def test_the_front_page_lists_the_chapters_of_each_part_with_minutes_and_controls():
    listed = {
        part.h3.find(string=True): [
            item.a["href"].partition(".")[0] for item in part.select("li")
        ]
        for part in soup(built(FRONT)).select("#the-chapters > section")
    }
    wanted = {part: PARTS[part] for part in PARTS if part[0] in "IVA"}
    assert listed == wanted
    starts = [part["start"] for part in soup(FRONT).select("#the-chapters ol[start]")]
    assert starts == ["7", "10", "17", "23"]
    for item in soup(FRONT).select("#the-chapters li"):
        name = item.a["href"].partition(".")[0]
        assert item.select_one(".minutes").text == f"{minutes_of(name)} min", name
        has_control = bool(soup(HTML / "book" / f"{name}.html").select(".control"))
        assert bool(item.select(".with-control")) == has_control, name


def chapters_in(text):
    """List the chapters that a text names, as numbers or as links with numbers."""
    text = re.sub(r"\{ref\}`(\d+) <[\w-]+>`", r"\1", text)
    numbers = []
    for first, last in re.findall(r"(\d+)(?: to (\d+))?", text):
        numbers += range(int(first), int(last or first) + 1)
    return numbers


def hours_of(names):
    return round(2 * sum(map(minutes_of, names)) / 60) / 2


def words_of(path):
    return " ".join(path.read_text("utf-8").split())


def test_a_path_takes_as_long_as_its_chapters_and_so_says_the_page_for_teachers():
    paths = re.findall(
        r"\*\* Chapters (.*?)\. They take (\S+) hours", words_of(BOOK / "intro.md")
    )
    for (named, hours), count in zip(paths, (6, 16, 28), strict=True):
        numbers = chapters_in(named)
        assert len(numbers) == count
        names = [CHAPTERS[number - 1] for number in numbers]
        if "appendices" in named:
            names += PARTS["Appendices"]
        assert float(hours.replace("½", ".5")) == hours_of(names), named
    *said, everything = re.search(
        r"The core, chapters ([^a-z]+and \d+), takes (\S+) hours.*?"
        r"chapters (\d+ to \d+), take (\S+) hours.*?everything takes (\S+) hours",
        words_of(BOOK / "teaching.md"),
    ).groups()
    for (named, hours), other, their in zip(paths, said[::2], said[1::2], strict=False):
        assert (chapters_in(other), their) == (chapters_in(named), hours)
    assert everything == paths[-1][1]


def test_what_is_said_of_the_translator_stands_on_its_card():
    text = words_of(BOOK / "intro.md")
    card = words_of(ROOT / "models/multi30k-en-de/README.md")
    parameters = int(re.search(r"([\d,]+) parameters", card)[1].replace(",", ""))
    assert f"has {parameters / 1e6:.1f} million parameters" in text
    for said, on_card in {
        r"from ([\d,]+) captions": r"the ([\d,]+) training pairs",
        r"in (\d+) minutes on one H100": r"(\d+) minutes beside the five others on one",
        r"trained (five) more models": r"minutes beside the (five) others",
        r"it reaches ([\d.]+) \{term\}`BLEU`": r"test 2016 \| [\d.]+ \| ([\d.]+) \|",
    }.items():
        assert re.search(said, text)[1] == re.search(on_card, card)[1], said


def test_a_box_of_the_drawing_and_a_link_of_a_path_lead_to_the_chapter_of_the_number():
    boxes = soup(built(FRONT)).select("svg.map a")
    boxes = {int(box.select_one(".n").text): box for box in boxes}
    assert set(boxes) == {*range(1, 10), 12}
    links = soup(FRONT).select(".paths a[href^='0'], .paths a[href^='1']")
    for number, link in [*boxes.items(), *((int(link.text), link) for link in links)]:
        assert link["href"].partition(".")[0] == CHAPTERS[number - 1]


# -- What a reader sees of it ----------------------------------------------------------


front = kept_open("book/intro.html")


@pytest.mark.parametrize(("width", "height"), [(WIDE, 900), (NARROW, 800)])
def test_the_first_screen_says_and_shows_what_the_book_is_and_below_it_steps(
    front, width, height
):
    front.set_viewport_size({"width": width, "height": height})
    front.evaluate("scrollTo(0, 0)")
    start, inside, other = front.locator(".front-start a").all()
    assert start.get_attribute("href").startswith("01_text_to_tensors.html")
    assert inside.get_attribute("href").startswith("open_model.html")
    german = front.locator(".front .c-german")
    assert german.inner_text() == "Ein brauner Hund rennt über den Strand."
    for part in (front.locator(".front-lead > p"), start, inside, other, german):
        expect(part).to_be_in_viewport(ratio=1)
    other.click()
    front.wait_for_function("scrollY > 0")
    drawing = front.locator("svg.map").bounding_box()
    assert drawing["width"] < width
    assert drawing["height"] < height
    walk = front.locator(".front-listing .walk")
    assert "query @ key" in walk.locator("[aria-current]").inner_text()
    before = walk.locator(".w-count").inner_text()
    walk.get_by_role("button", name="Next").click()
    assert walk.locator(".w-count").inner_text() != before
    walk.locator("button[value='-1']").click()
    for part in walk.locator(".w-rows, .w-exists").all():  # only the page scrolls
        assert part.evaluate("part => part.scrollHeight - part.clientHeight") <= 1


def test_the_translator_on_the_front_page_translates(front):
    front.get_by_role("button", name="Translate", exact=True).click()
    says = front.locator("[data-control=translator] .c-says")
    expect(says).to_contain_text("By a beam of 5: 9 tokens")
    expect(front.locator(".c-german")).to_contain_text("Ein brauner Hund")


def test_the_box_of_the_drawing_that_has_the_focus_is_seen(front):
    box = front.locator("svg.map a").first
    width = "box => getComputedStyle(box.querySelector('rect')).strokeWidth"
    before = box.evaluate(width)
    front.keyboard.press("Tab")  # otherwise the browser does not show the focus
    box.focus()
    assert box.evaluate(width) == "3px" != before


def test_on_a_phone_an_example_shows_its_translation_on_the_screen(browser):
    size = {"width": NARROW, "height": 800}
    context = browser.new_context(viewport=size, is_mobile=True, has_touch=True)
    phone = context.new_page()
    read(phone, built(FRONT).as_uri())
    phone.get_by_role("button", name="A man with a guitar").tap()
    german = phone.locator(".c-german", has_text="Gitarre")
    expect(german).to_be_in_viewport(ratio=1)
    context.close()


def test_a_fresh_front_page_is_at_its_top_and_the_first_tab_key_leads_there(tab):
    read(tab, built(FRONT).as_uri())
    assert tab.evaluate("scrollY") == 0
    assert tab.evaluate("document.activeElement === document.body")
    tab.keyboard.press("Tab")
    assert tab.evaluate("document.activeElement.textContent") == "Skip to main content"


# -- Where a page is, and what was read ------------------------------------------------


def test_each_chapter_says_where_it_is_and_its_facts_but_not_how_to_run_it():
    for number, name in enumerate(CHAPTERS, 1):
        page = soup(built(HTML / "book" / f"{name}.html"))
        part = next(part for part in PARTS if name in PARTS[part]).split()[0]
        said = f"Part {part} · chapter {number} of {len(CHAPTERS)}"
        assert [line.text for line in page.select("article .place")] == [said]
        (box,) = page.select(".facts")
        words = [line.strong.text for line in box.select("p")]
        assert words[:3] == ["Paper", "Library", "Time"], name
        assert words[3:] in ([], ["Try"]), name
        bold = page.select("article p > strong")
        assert "Run" not in [part.text for part in bold], name
    (line,) = soup(built(HTML / "book/api_data.html")).select("article .place")
    assert line.text == "Reference"
    assert not line.has_attr("data-chapter")


def test_the_contents_show_the_open_page_wherever_they_were_left(tab, server):
    read(tab, f"{server}/book/01_text_to_tensors.html")
    read(tab, f"{server}/book/28_beyond_text.html")
    tab.wait_for_load_state("load")
    link = tab.locator(".bd-sidebar-primary nav .current > a").last
    expect(link).to_contain_text("28.")
    expect(link).to_be_in_viewport(ratio=1)


def marked(tab):
    links = tab.locator(".bd-docs-nav a.read").all()
    return [link.get_attribute("href") for link in links]


def test_what_was_read_is_marked_and_the_front_page_goes_on_until_it_is_forgotten(
    browser, server
):
    context = browser.new_context(viewport={"width": WIDE, "height": 900})
    tab = context.new_page()
    front = f"{server}/book/intro.html"
    read(tab, f"{server}/book/{built(CHAPTER).name}")
    assert marked(tab) == []
    tab.locator(".prev-next-footer").scroll_into_view_if_needed()
    tab.wait_for_function("document.querySelector('.bd-docs-nav a.read')")
    read(tab, front)
    assert marked(tab) == ["05_masks.html"]
    named = tab.get_by_role("link", name="Masks: who may look at whom (read)")
    assert named.count() == 2
    offered = tab.locator(".front-start a").first
    assert offered.inner_text().startswith("Continue: 6. ")
    assert offered.get_attribute("href") == "06_sublayers.html"
    assert findings(tab) == []

    read(tab, f"{server}/book/03_attention.html")
    place = tab.evaluate(
        """() => {
          const headings = document.querySelectorAll("article section[id] > h2");
          headings[2].scrollIntoView();
          return headings[2].parentElement.id;
        }"""
    )
    read(tab, front)
    assert offered.inner_text() == "Continue: 3. Attention"
    assert offered.get_attribute("href") == f"03_attention.html#{place}"

    tab.get_by_role("button", name="Forget it").click()
    assert marked(tab) == []
    assert tab.get_by_text("Forgotten.").is_visible()
    assert tab.locator(".front-start a").count() == 3
    read(tab, front)
    assert tab.locator(".front-start a").count() == 3
    assert tab.evaluate("localStorage.getItem(PROGRESS)") is None
    context.close()


REFUSED = """Storage.prototype.getItem = Storage.prototype.setItem =
  Storage.prototype.removeItem = function () {
    if (new Error().stack.includes("progress.js")) throw new DOMException("no");
    return null;
  };"""


def test_a_browser_that_remembers_nothing_shows_the_pages_all_the_same(tab):
    tab.add_init_script(REFUSED)
    read(tab, built(CHAPTER).as_uri())
    tab.locator(".prev-next-footer").scroll_into_view_if_needed()
    tab.wait_for_timeout(200)
    read(tab, built(FRONT).as_uri())
    tab.get_by_role("button", name="Forget it").click()
    assert marked(tab) == []
    assert tab.locator(".front-start a").count() == 3
    assert tab.faults == []


def test_what_others_left_in_the_memory_of_the_browser_does_no_harm(tab):
    read(tab, built(FRONT).as_uri())
    for kept in [
        "{",
        {"read": "05_masks", "last": 3},
        {"read": [None], "last": {"page": "javascript:alert(1)//", "title": "x"}},
        {"last": {"page": "05_masks", "title": "x", "place": '"><script>'}},
    ]:
        text = kept if isinstance(kept, str) else json.dumps(kept)
        tab.evaluate("text => localStorage.setItem(PROGRESS, text)", text)
        tab.reload()
        assert marked(tab) == []
        assert tab.locator(".front-start a").count() == 3, kept
    assert tab.faults == []


# -- What others see of a page ---------------------------------------------------------


def test_each_page_describes_itself_in_a_sentence_or_two_of_its_own():
    def undescribed(page):
        (tag,) = soup(page).select("meta[name=description]") or [{"content": ""}]
        if not 30 < len(tag["content"]) <= sharing.LONGEST + 2:
            yield tag["content"]
        (shared,) = soup(page).select("meta[property='og:description']")
        assert shared["content"] == tag["content"]

    pages = [page for page in PAGES if page.startswith("book/")]
    assert faults_of(undescribed, pages) == {}
    said = [soup(HTML / page).select("meta[name=description]")[0] for page in pages]
    assert len({tag["content"] for tag in said}) == len(pages)


def test_a_preview_has_a_picture_if_the_book_has_an_address():
    tree = nodes.section("", nodes.paragraph("", 'One word "asks" five <others> here.'))
    for base in ("", "https://example.org/book/"):
        config = SimpleNamespace(html_title="The <book>", html_baseurl=base)
        app, context = (
            SimpleNamespace(config=config),
            {"title": "1. A &amp; <em>B</em>"},
        )
        sharing.add_tags(app, "book/one", "page.html", context, tree)
        tags = context["metatags"]
        assert 'property="og:title" content="1. A &amp; B"' in tags
        assert "&quot;asks&quot; five &lt;others&gt;" in tags
        for path in (sharing.PICTURE, "book/one.html"):
            assert (f'content="https://example.org/book/{path}"' in tags) == bool(base)
    assert (HTML / sharing.PICTURE).is_file()


# -- Where there is no page ------------------------------------------------------------


def test_a_page_that_is_missing_leads_back_into_the_book(tab, server):
    page = built(HTML / "404.html").read_text("utf-8")
    tab.route("**/*", lambda route: route.fulfill(body=page, content_type="text/html"))
    for address, root in [
        ("/book/gone.html", "/"),
        ("/some/place/", "/some/place/"),
        ("/some/place/book/gone/deep.html", "/some/place/"),
        ("/some/place/_modules/transformer_lib/gone.html", "/some/place/"),
    ]:
        tab.goto(f"{server}{address}")
        links = tab.evaluate("[...document.links].map(link => link.pathname)")
        names = ("index", "search", "genindex")
        assert links == [f"{root}{name}.html" for name in names]
    assert all((HTML / link.removeprefix(root)).is_file() for link in links)
    for scheme in ("light", "dark"):
        tab.emulate_media(color_scheme=scheme)
        assert findings(tab) == []
