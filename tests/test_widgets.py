"""From scores to weights, in a browser, and what all controls look like."""

import pytest
import torch
from operating import says

from pages.attention.softmax import softmax_control
from pages.masks.masks import mask_control

WORDS, SCORES = ["the", "cat", "reads"], [1.0, 3.0, 2.0]


def column(control, number):
    cells = control.locator(f".c-bars td:nth-of-type({number})").all_inner_texts()
    return [float(text) for text in cells if text]


def weights(control):
    return column(control, 3)


FILL = "e => getComputedStyle(e).backgroundColor"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_an_empty_box_is_not_filled_and_a_ticked_one_is(show, tab, theme):
    control = show(softmax_control(WORDS, SCORES))
    tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    box = control.get_by_role("checkbox")
    assert box.evaluate("e => getComputedStyle(e).appearance") == "none"
    assert box.evaluate(FILL) == "rgba(0, 0, 0, 0)"
    box.check()
    accent = control.evaluate("e => getComputedStyle(e).getPropertyValue('--accent')")
    red, green, blue = (int(accent.strip()[i : i + 2], 16) for i in (1, 3, 5))
    assert box.evaluate(FILL) == f"rgb({red}, {green}, {blue})"


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
    jacobian = torch.func.jacrev(lambda s: s.softmax(0))(torch.tensor(SCORES))
    assert f"at most {jacobian.max():.4f} times as much" in says(control)
    control.get_by_label("Temperature").press("Home")  # 0.1: ten times as far apart
    assert weights(control) == [0, 1, 0]


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
    slider.fill("2")  # both: 2, 6 and 4, divided by 4
    assert weights(control) == [0.186, 0.506, 0.307]


def test_scores_may_be_separated_and_signed_as_people_write_them(show):
    control = show(softmax_control(WORDS, SCORES, d_k=1))
    box = control.get_by_label("Scores")
    for text in ("2 1 0 ", "2; 1; 0;", "2, 1, 0,", "0 −1 −2", ".5 -0.5 -1.5"):
        box.fill(text)
        assert weights(control) == [0.665, 0.245, 0.090]
        assert control.get_by_role("alert").inner_text() == ""
    box.fill("0 0, 0 0")
    assert weights(control) == [0.25] * 4
    rows = control.locator("th[scope=row]").all_inner_texts()
    assert rows == [*WORDS, "word 4"]


def test_what_is_not_a_few_numbers_changes_nothing_and_says_so(show):
    control = show(softmax_control(WORDS, SCORES, d_k=1))
    box, alert = control.get_by_label("Scores"), control.get_by_role("alert")
    few, comma = "Type up to 16 numbers", "Is 2,3,4 one number?"
    for text in ("", "0 zero", "1e999", "-1001", "1 " * 17, "1 2,3,4"):
        box.fill(text)
        assert (comma if "," in text else few) in alert.inner_text()
        assert weights(control) == [0.090, 0.665, 0.245]
    box.fill("1000 -1000 0")
    assert alert.inner_text() == ""
    assert weights(control) == [1, 0, 0]
