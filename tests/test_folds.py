"""Folds: what a heading says is folded, ends where it should, and opens when needed."""

import io
import re
import shutil

import pytest
from book_files import HTML, ROOT
from bs4 import BeautifulSoup
from pypdf import PdfReader
from sphinx.application import Sphinx
from sphinx.util.docutils import docutils_namespace
from test_pages import built, read

PAGE = """# A page

Before.

## First

On the path.

(label)=
### Checks: all is `well`

The zebra is in sight.

#### Within

:::{figure} picture.png
:name: fig-picture

A picture.
:::

### Hint

Think.

### Answer: 42

Done.

<!-- end of fold -->

On the path again: {ref}`label`, {numref}`fig-picture`, [a link](#fig-picture).

## Last

The end.
"""
WORDS = ["Checks", "Going deeper", "The rest of the module", "Hint", "Answer", "Set-up"]


class Built:
    """A page made by Sphinx with the extension, and what Sphinx complained of."""

    def __init__(self, folder, text, builder="html"):
        source, static = folder / "source", folder / "source" / "static"
        static.mkdir(parents=True)
        (source / "index.md").write_text(text, encoding="utf-8")
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
        said = io.StringIO()
        with docutils_namespace():
            app = Sphinx(
                source,
                None,
                folder / "out",
                folder / "trees",
                builder,
                config,
                status=None,
                warning=said,
            )
            app.build()
        self.out, self.warnings = folder / "out", said.getvalue()
        if builder == "html":
            self.page = self.out / "index.html"
            html = self.page.read_text("utf-8")
            html = html.replace('<div class="body"', '<div class="body bd-article"')
            self.page.write_text(html, encoding="utf-8")
            self.html = BeautifulSoup(html, "html.parser")

    def fold(self, begin):
        """Return the fold whose line begins like this."""
        (found,) = (
            fold
            for fold in self.html.select("details.fold")
            if fold.summary.text.startswith(begin)
        )
        return found

    def path(self):
        """Return what stands outside of all folds."""
        page = BeautifulSoup(str(self.html.select_one(".body")), "html.parser")
        for fold in page.select("details"):
            fold.decompose()
        return page.text


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    return Built(tmp_path_factory.mktemp("folds"), PAGE)


def test_a_page_with_folds_is_built_without_a_complaint(example):
    assert example.warnings == ""


# -- What is folded --------------------------------------------------------------------


@pytest.mark.parametrize("word", WORDS)
def test_a_section_with_a_word_for_a_fold_becomes_a_closed_one(tmp_path, word):
    text = f"# Page\n\n## {word}\n\nOne.\n\n## {word}: more, or\n\nTwo.\n"
    made = Built(tmp_path, text)
    folds = made.html.select("details")
    assert [fold.select_one("summary > h2").text for fold in folds] == [
        f"{word}¶",
        f"{word}: more, or¶",
    ]
    assert [fold.select_one("p").text for fold in folds] == ["One.", "Two."]
    kind = word.lower().replace(" ", "-")
    for fold in folds:
        assert fold["class"] == ["fold", f"fold-{kind}"]
        assert not fold.has_attr("open")
        assert fold.select_one(".fold-word").text == word
    assert made.warnings == ""


@pytest.mark.parametrize(
    "heading", ["Answering", "Check", "Hints", "Set-ups", "Answer-book", "checks", "An"]
)
def test_any_other_section_stays_open(tmp_path, heading):
    made = Built(tmp_path, f"# Answer\n\n## {heading}\n\n{heading} is here.\n")
    assert made.html.select("details") == []
    assert f"{heading} is here." in made.path()


@pytest.mark.parametrize("heading", ["*Going deeper*: think", "Going *deeper*: think"])
def test_a_fold_whose_word_is_not_in_plain_letters_is_one_as_well(tmp_path, heading):
    made = Built(tmp_path, f"# Page\n\n## {heading}\n\nText.\n")
    assert made.fold("Going deeper: think").p.text == "Text."


def test_a_fold_holds_its_section_and_those_below_it(example):
    checks = example.fold("Checks")
    assert "The zebra" in checks.text
    assert checks.select_one("section h4").text == "Within¶"
    assert "Think." not in checks.text
    path = example.path()
    for text in ("Before.", "First", "On the path.", "On the path again", "Last"):
        assert text in path
    for text in ("zebra", "Within", "Think.", "Done."):
        assert text not in path


# -- Where it ends ---------------------------------------------------------------------


def test_what_follows_the_end_of_a_fold_belongs_to_the_section_around(example):
    again = example.html.find("p", string=re.compile("again")) or next(
        p for p in example.html.select("p") if "again" in p.text
    )
    assert again.parent["id"] == "first"
    assert example.fold("Answer").select_one("p").text == "Done."
    assert "end of fold" not in str(example.html)


def test_the_end_may_stand_in_a_section_within_the_fold(tmp_path):
    made = Built(
        tmp_path,
        "# Page\n\n## Checks\n\nOne.\n\n### Within\n\nTwo.\n\n<!-- end of fold -->\n\n"
        "Three.\n\n### Beside\n\nFour.\n\n## Next\n\nFive.\n",
    )
    shown = made.fold("Checks").text
    assert "One." in shown
    assert "Two." in shown
    words = re.findall(r"One|Two|Three|Beside|Four|Five", made.path())
    assert words == ["Three", "Beside", "Four", "Five"]
    assert made.html.find("section", id="beside").parent["id"] == "page"
    assert made.warnings == ""


def test_an_end_closes_the_innermost_fold(tmp_path):
    end = "\n\n<!-- end of fold -->\n\n"
    made = Built(
        tmp_path,
        "# Page\n\n## Going deeper\n\nOne.\n\n### Checks\n\n"
        f"Two.{end}Three.{end}Four.\n",
    )
    assert made.fold("Checks").select("p")[-1].text == "Two."
    assert [p.text for p in made.fold("Going").select("p")] == [
        "One.",
        "Two.",
        "Three.",
    ]
    assert made.path().split()[-1] == "Four."
    assert made.warnings == ""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("One.\n\n<!-- end of fold -->\n\nTwo.", "no fold ends here"),
        (
            "## Hint\n\nOne.\n\n<!-- end of fold -->\n\n<!-- end of fold -->\n\nTwo.",
            "no fold ends here",
        ),
        ("## Hint\n\n* One.\n\n  <!-- end of fold -->\n\nTwo.", "no fold ends here"),
        (
            "## Hint\n\nOne.\n\n<!-- End of the fold -->\n\nTwo.",
            "alone in its paragraph",
        ),
        ("## Hint\n\nOne.\n\n<!-- end of fold --> Two.", "alone in its paragraph"),
        ("## Hint\n\n## One.\n\nTwo.", "nothing is in the fold 'Hint'"),
        ("One.\n\n## Hint\n\n<!-- end of fold -->\n\nTwo.", "nothing is in the fold"),
    ],
)
def test_sphinx_warns_of_what_cannot_be_meant(tmp_path, text, said):
    made = Built(tmp_path, f"# Page\n\n{text}\n")
    assert re.search(rf"index\.md:\d+: WARNING: {said}", made.warnings)
    assert made.warnings.count("WARNING") == 1
    shown = made.html.select_one(".body").text
    assert "One." in shown
    assert "Two." in shown or "--> Two" in str(made.html)


# -- What else Sphinx makes of the page ------------------------------------------------


def test_a_fold_and_what_is_in_it_are_not_in_the_contents_of_the_page(example):
    links = example.html.select(".sphinxsidebar a, .sphinxsidebarwrapper a")
    assert {link["href"] for link in links} == {"#", "#first", "#last"}
    assert not [part for part in example.html.select("ul") if not part.select("li")]


def test_the_names_of_a_fold_and_of_a_figure_in_it_can_be_linked_to(example):
    again = next(p for p in example.html.select("p") if "again" in p.text)
    assert "Checks: all is well" in again.text
    assert "Fig. 1" in again.text
    section = example.html.find(id="checks-all-is-well")
    assert section.name == "section"
    assert section.find("details", recursive=False)
    assert section.find(id="label")
    assert example.fold("Checks").find(id="fig-picture")


def test_the_words_of_a_fold_can_be_searched_for(example):
    assert '"zebra"' in (example.out / "searchindex.js").read_text("utf-8")


def test_other_forms_of_the_book_have_the_text_without_folds(tmp_path):
    made = Built(tmp_path, PAGE, "text")
    text = (made.out / "index.txt").read_text("utf-8")
    assert 'Checks: all is "well"' in text
    assert "zebra" in text
    assert "details" not in text


# -- What a browser makes of it --------------------------------------------------------


OPEN = (
    "[...document.querySelectorAll('details[open] .fold-word')].map(e => e.innerText)"
)
IN_SIGHT = """id => {
  const place = document.getElementById(id), { top } = place.getBoundingClientRect();
  return place.checkVisibility() && top > -1 && top < innerHeight;
}"""


@pytest.fixture
def low(tab):
    """A low window, in which nothing is in sight by chance."""
    tab.set_viewport_size({"width": 800, "height": 150})
    return tab


def test_no_fold_is_open_at_first(example, low):
    read(low, example.page.as_uri())
    assert low.evaluate(OPEN) == []
    assert not low.get_by_text("zebra").is_visible()


@pytest.mark.parametrize(
    ("anchor", "opened"),
    [
        ("checks-all-is-well", ["Checks"]),
        ("label", ["Checks"]),
        ("fig-picture", ["Checks"]),
        ("answer-42", ["Answer"]),
        ("first", []),
        ("no-such-place", []),
        ("%E0%A4%A", []),
    ],
)
def test_an_address_opens_the_fold_that_it_leads_to(example, low, anchor, opened):
    read(low, f"{example.page.as_uri()}#{anchor}")
    assert low.evaluate(OPEN) == opened
    if opened:
        assert low.evaluate(IN_SIGHT, anchor)
    assert low.faults == []


@pytest.mark.parametrize("name", ["a link", "Checks: all is well"])
def test_a_link_on_the_page_opens_the_fold_each_time(example, low, name):
    read(low, example.page.as_uri())
    link = low.locator("p > a", has_text=name)
    anchor = link.get_attribute("href").removeprefix("#")
    fold = low.locator("details").first
    for _ in range(2):
        link.click()
        low.wait_for_function("document.querySelector('details').open")
        assert low.evaluate(IN_SIGHT, anchor)
        fold.evaluate("fold => { fold.open = false; }")


def test_the_keyboard_and_the_whole_line_open_a_fold(example, tab):
    read(tab, example.page.as_uri())
    line = tab.locator("details.fold-hint > summary")
    box = line.bounding_box()
    tab.mouse.click(box["x"] + box["width"] - 5, box["y"] + box["height"] / 2)
    assert tab.evaluate(OPEN) == ["Hint"]
    assert line.bounding_box() == box  # opened without a jump
    tab.keyboard.press("Enter")
    assert tab.evaluate(OPEN) == []


def test_a_heading_stays_a_heading_for_those_who_hear_the_page(example, tab):
    read(tab, example.page.as_uri())
    heading = tab.get_by_role("heading", name="Checks: all is well", level=3)
    assert heading.is_visible()


def test_paper_shows_what_is_folded(example, tab, tmp_path):
    read(tab, example.page.as_uri())
    tab.pdf(path=tmp_path / "page.pdf")
    text = "".join(
        page.extract_text() for page in PdfReader(tmp_path / "page.pdf").pages
    )
    assert "The zebra is in sight." in text
    assert "Think." in text
    assert tab.evaluate(OPEN) == []


# -- In the book -----------------------------------------------------------------------


def test_the_imports_of_a_chapter_are_a_fold_that_opens_at_a_link(tab):
    page = built(HTML / "book" / "02_positions.html")
    read(tab, page.as_uri())
    code = tab.locator("details.fold-set-up pre", has_text="import itertools")
    assert code.count() == 1
    assert not code.is_visible()
    contents = tab.locator(".bd-sidebar-secondary a").all_inner_texts()
    assert len(contents) > 5
    assert "Set-up" not in contents
    read(tab, f"{page.as_uri()}#set-up")
    assert code.is_visible()
    assert tab.locator("details.fold-set-up a.library-link").count() > 2
