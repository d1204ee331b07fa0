"""The controls, operated in a browser by keyboard and mouse, without the book."""

import pytest

from transformer_lib.widgets.control import Control
from transformer_lib.widgets.softmax import softmax_control

WORDS, SCORES = ["the", "cat", "reads"], [1.0, 3.0, 2.0]


@pytest.fixture
def show(tab):
    """Show a control on a page of its own, twice, and give the second."""

    def show(control):
        html = control._repr_html_()
        tab.set_content(f"<!doctype html><html lang='en'><body>{html}{html}</body>")
        return tab.locator(".control").last

    yield show
    assert tab.faults == []


def bars(control):
    return [
        float(text)
        for text in control.locator(".c-bar > span:last-child").all_inner_texts()
    ]


def test_nothing_in_the_data_becomes_markup():
    text = "</script><script>alert(1)</script>"
    html = Control("softmax", text, {"words": [text]}, text)._repr_html_()
    assert "<script>alert" not in html


def test_a_control_shows_its_words_where_no_script_runs():
    control = softmax_control(WORDS, SCORES)
    assert repr(control) == f"{control.title}\n{control.words}"
    assert control.words in control._repr_html_()


def test_scores_become_weights_and_a_low_temperature_sharpens_them(show):
    control = show(softmax_control(WORDS, SCORES))
    assert bars(control) == [0.090, 0.665, 0.245]
    slider = control.get_by_label("Temperature")
    slider.focus()
    slider.press("Home")  # 0.1: the scores are ten times as far apart
    assert bars(control) == [0, 1, 0]
    assert slider.get_attribute("aria-valuetext") == "0.1"


def test_the_root_of_d_k_divides_the_scores(show):
    control = show(softmax_control(WORDS, SCORES, d_k=4))
    control.get_by_label("divide by").check()
    assert bars(control) == [0.186, 0.506, 0.307]
    assert "divided by 2.00" in control.locator(".c-says").inner_text()


def test_the_reader_types_other_scores(show):
    control = show(softmax_control(WORDS, SCORES))
    box = control.get_by_label("Scores")
    box.fill("0 0, 0 0")
    assert bars(control) == [0.25] * 4
    box.fill("0 zero")
    assert "Type numbers" in control.get_by_role("alert").inner_text()
    assert bars(control) == [0.25] * 4


def test_a_word_for_every_score():
    with pytest.raises(ValueError, match="as many, got 2 and 3"):
        softmax_control(["a", "b"], SCORES)
