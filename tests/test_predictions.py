"""Predictions: no page and no notebook shows the answer below its question."""

import re

import pytest
from book_files import HTML, NOTEBOOKS, read_notebook, source
from pypdf import PdfReader
from test_pages import built

from website.edition.write import FOLDER
from website.folds.predictions import QUESTION

pytestmark = pytest.mark.book
FIRST = [path.stem for path in NOTEBOOKS if path.stem[:2] in ("01", "02", "03")]
# What answers each question of a page: is it there, and is any of it in sight?
ANSWERS = """() => [...document.querySelectorAll("article p > strong:first-child")]
  .filter((word) => word.textContent === "Predict.")
  .map((word, number) => [...document.querySelectorAll(`.prediction-${number}`)]
    .map((part) => part.checkVisibility({ contentVisibilityAuto: true })
      && part.firstElementChild.checkVisibility({ contentVisibilityAuto: true })))"""


def address(name):
    return built(HTML / "book" / f"{name}.html").as_uri()


@pytest.mark.parametrize("name", FIRST)
def test_no_page_shows_the_answer_below_its_question(tab, name):
    tab.goto(address(name))
    answers = tab.evaluate(ANSWERS)
    assert len(answers) > 3
    assert all(parts and not any(parts) for parts in answers)


def test_keys_show_and_cover_an_answer_and_a_reader_hears_which(tab):
    tab.goto(address("03_attention"))
    buttons = tab.get_by_role("button", name="Show the answer")
    assert buttons.count() == len(tab.evaluate(ANSWERS))
    buttons.nth(1).focus()
    tab.keyboard.press("Enter")
    assert tab.evaluate(ANSWERS)[1] == [True, True]
    shown = tab.get_by_role("button", name="Cover the answer")
    assert shown.get_attribute("aria-expanded") == "true"
    tab.keyboard.press("Space")
    assert not any(tab.evaluate(ANSWERS)[1])


def test_a_link_a_search_and_paper_open_what_is_covered(tab, tmp_path):
    page = address("03_attention")
    tab.goto(f"{page}#fig-attention-trained")
    assert tab.evaluate(ANSWERS)[-1] == [True, True]
    tab.goto("about:blank")
    tab.goto(f"{page}?highlight=the+columns+sum+to+1")
    assert tab.evaluate(ANSWERS)[1] == [True, True]
    tab.goto("about:blank")
    tab.goto(page)
    tab.pdf(path=tmp_path / "page.pdf")
    paper = "".join(p.extract_text() for p in PdfReader(tmp_path / "page.pdf").pages)
    assert "Now the columns sum to 1" in paper.replace("\n", " ")


def test_touch_shows_an_answer_and_without_a_script_all_are_in_sight(browser):
    phone = browser.new_context(viewport={"width": 400, "height": 800}, has_touch=True)
    tab = phone.new_page()
    tab.goto(address("03_attention"))
    tab.set_default_timeout(9000)
    button = tab.get_by_role("button", name="Show the answer").first
    assert button.bounding_box()["height"] >= 40
    button.tap()
    assert all(tab.evaluate(ANSWERS)[0])
    phone.close()
    plain = browser.new_context(java_script_enabled=False)
    tab = plain.new_page()
    tab.goto(address("03_attention"))
    assert tab.get_by_text("Now the columns sum to 1").is_visible()
    assert tab.get_by_role("button", name="Show the answer").count() == 0
    plain.close()


@pytest.mark.parametrize("name", FIRST)
def test_no_notebook_of_the_edition_shows_the_answer_below_its_question(name):
    cells = read_notebook(HTML / FOLDER / f"{name}.ipynb")["cells"]
    asked = [i for i, cell in enumerate(cells) if f"\n\n{QUESTION}" in source(cell)]
    assert len(asked) > 3
    for at in asked:
        rest = cells[at + 1 :]
        shown = next(cell for cell in rest if cell.get("outputs"))
        assert shown["metadata"]["jupyter"]["outputs_hidden"], shown["id"]
        below = [c for c in rest if c["cell_type"] == "markdown" and source(c)]
        words = next(c for c in below if not re.match(r"\s*<a id", source(c)))
        assert source(words).startswith("<details>"), words["id"]
