"""The controls, operated in a browser by keyboard and mouse, without the book."""

import re

import pytest
import torch
from book_files import ROOT
from test_widget_beam import STEPS, pieces
from test_widget_learning import table

from bookkit.controls.beam import beam_control
from bookkit.controls.control import Control
from bookkit.controls.translator import translator_control
from pages.attention.arrows import arrows_control
from pages.attention.softmax import softmax_control
from pages.cache.race import race_control
from pages.encoder.context import context_control
from pages.fewer_pairs.window import window_control
from pages.heads.split import split_control
from pages.inside.heads import heads_control
from pages.inside.switches import switches_control
from pages.masks.leak import leak_control
from pages.masks.masks import mask_control
from pages.positions.positions import positions_control
from pages.text.merges import merges_control
from pages.training.learning import learning_control
from transformer_lib.translation import Translator

WORDS, SCORES = ["the", "cat", "reads"], [1.0, 3.0, 2.0]


def column(control, number):
    cells = control.locator(f".c-bars td:nth-of-type({number})").all_inner_texts()
    return [float(text) for text in cells if text]


def weights(control):
    return column(control, 3)


def says(control):
    return control.locator(".c-says").inner_text()


def test_nothing_in_the_data_becomes_markup():
    text = "</script><script>alert(1)</script>"
    beside = ROOT / "pages/attention/softmax.py"
    html = Control("softmax", text, {"words": [text]}, text, beside)._repr_html_()
    assert "<script>alert" not in html


def test_a_control_shows_its_words_where_no_script_runs():
    control = softmax_control(WORDS, SCORES)
    assert repr(control) == f"{control.title}\n{control.words}"
    assert control.words in control._repr_html_()


def test_a_control_leaves_nothing_on_the_page(show, tab):
    show(softmax_control(WORDS, SCORES))
    assert tab.evaluate("[typeof make, typeof draw, typeof kit]") == ["undefined"] * 3


def all_controls():
    maps = {"encoder.layers.0.self_attention": torch.eye(2)[None, None]}
    translator = Translator.load(ROOT / "models/grammar-en-de")
    both, german = [translator.model] * 2, "die Katze liest ein rotes Buch"
    return [
        softmax_control(WORDS, SCORES),
        leak_control(*both, translator.tokenizer, "the cat reads a red book", german),
        beam_control(STEPS, pieces),
        race_control(translator, ["the cat reads a red book"]),
        context_control(
            translator, "a cat reads", {"a": [], "cat": ["dog"], "reads": ["sees"]}
        ),
        heads_control(maps, [["a", "b"]], [["c", "d", "e"]]),
        learning_control(table("learning"), table("learning_words")),
        merges_control(translator.tokenizer, WORDS),
        switches_control(translator, ["the cat reads a red book"] * 2),
        mask_control(["a b", "c"], ["d e", "f"]),
        positions_control(),
        translator_control(),
        window_control(),
        split_control(["a"], torch.ones(1, 4), *[torch.eye(4)] * 4, 2),
        arrows_control(WORDS, (2, 1), [(0, 0)] * 3, [(1, 0)] * 3),
    ]


@pytest.mark.parametrize("made", all_controls(), ids=lambda control: control.name)
def test_jupyterlab_is_told_to_leave_the_keys_to_whatever_has_the_focus(show, made):
    control = show(made)
    takes_keys = control.locator("input, select, button, summary, [tabindex]")
    assert takes_keys.count() > 1
    without = takes_keys.evaluate_all(
        "all => all.filter(e => !e.hasAttribute('data-lm-suppress-shortcuts'))"
        ".map(e => e.outerHTML)"
    )
    assert without == []


ASKING = "arrows", "context", "learning", "leak", "race", "split", "switches"


@pytest.mark.parametrize(
    "made",
    [control for control in all_controls() if control.name in ASKING],
    ids=lambda control: control.name,
)
def test_questions_have_one_header_and_fingers_large_targets(browser, made):
    context = browser.new_context(
        viewport={"width": 400, "height": 850}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    head = (
        "<meta name=viewport content='width=device-width'><body style='margin: 16px'>"
    )
    page.set_content(f"<!doctype html><html lang=en>{head}{made._repr_html_()}")
    body = page.locator(".control .c-body")
    first = body.locator("> *").first
    assert re.match(r"Question 1 of \d\. ", first.inner_text())
    assert first.locator("strong").inner_text().startswith("Question 1 of")
    assert "click" not in body.inner_text().lower()
    sizes = page.locator(".c-inputs .c-pick label, .c-tick").evaluate_all(
        "all => all.filter(each => each.offsetParent)"
        ".map(each => [each.offsetWidth, each.offsetHeight])"
    )
    assert all(min(size) >= 40 for size in sizes)
    for pick in page.locator(".c-inputs .c-pick:visible").all():
        tops = pick.locator("label").evaluate_all(
            "all => all.map(each => Math.round(each.getBoundingClientRect().top))"
        )
        assert len(set(tops)) == 1  # no frame around two lines
    context.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_empty_box_is_not_filled_and_a_ticked_one_is(show, tab, theme):
    control = show(all_controls()[-1])
    tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    box = control.get_by_role("checkbox").first
    fill = "e => getComputedStyle(e).backgroundColor"
    assert box.evaluate("e => getComputedStyle(e).appearance") == "none"
    assert box.evaluate(fill) == "rgba(0, 0, 0, 0)"
    box.check()
    accent = control.evaluate("e => getComputedStyle(e).getPropertyValue('--accent')")
    red, green, blue = (int(accent.strip()[i : i + 2], 16) for i in (1, 3, 5))
    assert box.evaluate(fill) == f"rgb({red}, {green}, {blue})"


COLOUR = "e => getComputedStyle(e).backgroundColor.match(/\\d+/g).map(Number)"


def test_nothing_is_the_brightest_in_the_light_and_the_darkest_in_the_dark(show, tab):
    control = show(mask_control(["a b", "c"], ["d e", "f"]))
    control.get_by_role("combobox", name="The code").select_option(label="is right")
    seen, hidden = (
        control.get_by_role("cell", name=name, exact=True).first
        for name in ("may attend", "hidden")
    )
    assert sum(seen.evaluate(COLOUR)) < sum(hidden.evaluate(COLOUR))
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert sum(seen.evaluate(COLOUR)) > 2 * sum(hidden.evaluate(COLOUR))
    tab.emulate_media(media="print")  # paper is white
    assert sum(seen.evaluate(COLOUR)) < sum(hidden.evaluate(COLOUR))


def test_scores_become_weights_and_a_low_temperature_sharpens_them(show):
    control = show(softmax_control(WORDS, SCORES, d_k=1))
    assert weights(control) == [0.090, 0.665, 0.245]
    assert "“cat” gets a weight of 0.665" in says(control)
    slider = control.get_by_label("Temperature")
    slider.focus()
    slider.press("Home")  # 0.1: the scores are ten times as far apart
    assert weights(control) == [0, 1, 0]
    assert slider.get_attribute("aria-valuetext") == "0.1"


def test_a_wider_head_has_larger_scores_and_its_root_undoes_that(show):
    control = show(softmax_control(WORDS, SCORES))
    assert column(control, 1) == column(control, 2) == [8, 24, 16]
    assert weights(control) == [0, 1, 0]
    assert "saturated" in says(control)
    control.get_by_label("divide by").check()
    width = control.get_by_role("slider", name="d_k")
    for key in ("Home", "End", "ArrowLeft"):
        width.press(key)
        assert column(control, 2) == SCORES
        assert weights(control) == [0.090, 0.665, 0.245]
    assert width.get_attribute("aria-valuetext") == "256"
    assert "saturated" not in says(control)


def test_a_temperature_as_large_as_the_root_does_the_same(show):
    control = show(softmax_control(WORDS, SCORES, d_k=4))
    slider = control.get_by_label("Temperature")
    slider.fill("2")
    at_two = weights(control)
    slider.fill("1")
    control.get_by_label("divide by").click()
    assert weights(control) == at_two == [0.090, 0.665, 0.245]


def test_the_slope_that_is_named_is_the_largest_of_the_jacobian(show):
    control = show(softmax_control(WORDS, SCORES, d_k=1))
    jacobian = torch.func.jacrev(lambda s: s.softmax(0))(torch.tensor(SCORES))
    assert f"at most {jacobian.max():.4f} times as much" in says(control)


def test_the_reader_types_other_scores_and_the_words_stay(show):
    control = show(softmax_control(WORDS, SCORES))
    box = control.get_by_label("Scores")
    box.fill("0 0, 0 0")
    assert weights(control) == [0.25] * 4
    rows = control.locator("th[scope=row]").all_inner_texts()
    assert rows == [*WORDS, "word 4"]


@pytest.mark.parametrize(
    "text", ["", "  ", "0 zero", "<script>", "1e999", "-1001", "1 " * 17]
)
def test_what_is_not_a_few_numbers_changes_nothing_and_says_so(show, text):
    control = show(softmax_control(WORDS, SCORES))
    before = weights(control)
    control.get_by_label("Scores").fill(text)
    assert "Type up to 16 numbers" in control.get_by_role("alert").inner_text()
    assert weights(control) == before
    control.get_by_label("Scores").fill("1000 -1000 0")
    assert control.get_by_role("alert").inner_text() == ""
    assert weights(control) == [1, 0, 0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 1 0 ", [0.665, 0.245, 0.090]),
        ("2; 1; 0;", [0.665, 0.245, 0.090]),
        ("2, 1, 0,", [0.665, 0.245, 0.090]),
        ("0 −1 −2", [0.665, 0.245, 0.090]),
        (".5 0.5", [0.5, 0.5]),
    ],
)
def test_scores_may_be_separated_and_signed_as_people_write_them(show, text, expected):
    control = show(softmax_control(WORDS, SCORES, d_k=1))
    control.get_by_label("Scores").fill(text)
    assert weights(control) == expected
    assert control.get_by_role("alert").inner_text() == ""


@pytest.mark.parametrize(("text", "unclear"), [("0,5 1", "0,5"), ("1 2,3,4", "2,3,4")])
def test_a_comma_within_a_number_is_asked_about(show, text, unclear):
    control = show(softmax_control(WORDS, SCORES, d_k=1))
    before = weights(control)
    control.get_by_label("Scores").fill(text)
    assert f"Is {unclear} one number?" in control.get_by_role("alert").inner_text()
    assert weights(control) == before


def test_a_word_for_every_score():
    with pytest.raises(ValueError, match="as many, got 2 and 3"):
        softmax_control(["a", "b"], SCORES)


def test_a_width_that_the_slider_does_not_have_is_refused():
    with pytest.raises(ValueError, match="power of two up to 512, got 48"):
        softmax_control(WORDS, SCORES, d_k=48)
