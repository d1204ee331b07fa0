"""The slides: every picture of the chapters, speaker notes, and no network."""

import shutil

import pytest
from book_files import HTML, ROOT
from bs4 import BeautifulSoup

from course.slides import slides

every_chapter = pytest.mark.parametrize("name", slides.chapters())


@pytest.fixture(scope="module")
def course(tmp_path_factory):
    if not (HTML / "book").is_dir():
        pytest.fail("there are no pages: run `make book`")
    folder = tmp_path_factory.mktemp("slides") / "course"
    shutil.copytree(ROOT / "course", folder)
    slides.write(folder, HTML / "book")
    return folder


def parsed(path):
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


def test_parts_one_to_three_have_slides():
    listed = slides.chapters()
    assert [name[:2] for name in listed] == [f"{n:02}" for n in range(1, 17)]


@pytest.mark.book
@every_chapter
def test_every_visible_picture_listing_and_question_is_on_a_slide_with_notes(
    name, course
):
    page = parsed(HTML / "book" / f"{name}.html").select_one("article")
    for fold in page.select("details"):
        fold.decompose()
    deck = parsed(course / "slides" / f"{name}.html")
    labels = [
        figure.svg["aria-label"] for figure in page.select("figure[id^=fig-]:has(svg)")
    ]
    assert [each["aria-label"] for each in deck.select(".picture > svg")] == labels
    titles = {title.get_text() for title in deck.select("h2")}
    for walk in page.select("section.walk"):
        assert walk.select_one(".w-head b").get_text() in titles
    if exercises := page.select_one("section#exercises"):
        exercises.decompose()
    asked = [p for p in page.select("p") if p.get_text().startswith("Predict.")]
    assert len(deck.select(".question")) == len(asked)
    for section in deck.select("main > section"):
        assert section.select_one("aside.notes").get_text(), section.h2
    files = [each["href"] for each in deck.select("link")]
    for file in [*files, *(each["src"] for each in deck.select("script[src]"))]:
        assert (course / "slides" / file).is_file()
    assert not deck.select("a, img, iframe")


@pytest.mark.book
@every_chapter
def test_slides_fit_the_screen_and_ask_no_network(name, course, tab):
    tab.set_viewport_size({"width": 1280, "height": 720})
    tab.goto((course / "slides" / f"{name}.html").as_uri())
    tab.wait_for_function("window.MathJax?.startup?.document && Reveal.isReady()")
    too_large = tab.evaluate(
        """async () => {
          await MathJax.startup.promise;
          const found = [];
          for (let i = 0; i < Reveal.getTotalSlides(); i++) {
            Reveal.slide(i);
            const slide = Reveal.getCurrentSlide();
            const wide = [...slide.querySelectorAll("pre, p, ul, svg")].some(
              (each) => each.scrollWidth > each.clientWidth + 2 && each.clientWidth);
            if (slide.scrollHeight > 720 || wide) found.push(slide.innerText);
          }
          return found;
        }"""
    )
    assert too_large == []
    assert tab.faults == []


@pytest.mark.book
def test_the_speaker_sees_the_notes_in_a_second_window(course, tab):
    tab.goto((course / "slides" / "03_attention.html").as_uri() + "#/1")
    tab.wait_for_function("window.Reveal?.isReady()")
    with tab.expect_popup() as opened:
        tab.keyboard.press("s")
    notes = opened.value.locator(".speaker-controls-notes .value")
    notes.get_by_text("Each value is multiplied by its weight").wait_for()
    assert tab.faults == []
