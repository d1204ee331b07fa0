"""The window in the page, operated in a browser; its pairs are the library's."""

import re

import pytest
import torch
from axe import findings
from watching import largest_tensor

from pages.fewer_pairs.window import window_control
from transformer_lib.variants import WindowAttention, window_mask

CHOICES = [(12, 3, False), (12, 3, True), (13, 5, False), (32, 7, True), (5, 5, True)]


@pytest.fixture
def control(show):
    return show(window_control())


def move(control, name, value):
    control.get_by_role("slider", name=name).fill(str(value))


def choose(control, length, width, both, layers=2):
    for name, value in {"Length": length, "Window": width, "Layers": layers}.items():
        move(control, name, value)
    control.get_by_label("to both sides").set_checked(both)


def says(control):
    return control.locator(".c-says").inner_text()


def cells(control, picture, kind):
    """The rows and columns of one colour."""
    path = control.get_by_role("img", name=picture).locator(f".c-{kind}")
    found = re.findall(r"M(-?\d+)\.?\d* (-?\d+)\.?\d*h", shifted(path))
    return {(int(y), int(x)) for x, y in found}


def shifted(path):
    """A path whose cells begin at whole numbers, those below 0 too."""
    return path.evaluate(
        "path => path.getAttribute('d').replace(/M(\\S+) (\\S+?)h/g,"
        " (_, x, y) => `M${Math.floor(x)} ${Math.floor(y)}h`)"
    )


def counts(control, picture):
    label = control.get_by_role("img", name=picture).get_attribute("aria-label")
    return [int(number) for number in re.findall(r"(\d+) (?:scores|used)", label)]


@pytest.mark.parametrize(("length", "width", "both"), CHOICES)
def test_the_pairs_that_are_used_are_those_of_the_mask(control, length, width, both):
    choose(control, length, width, both)
    mask = window_mask(length, length, width, causal=not both)[0, 0]
    expected = {tuple(pair) for pair in mask.nonzero().tolist()}
    for picture in ("With a mask", "In chunks"):
        assert cells(control, picture, "used") == expected
        assert counts(control, picture)[1] == len(expected)


@pytest.mark.parametrize(("length", "width", "both"), CHOICES)
def test_it_counts_the_scores_that_the_library_computes(control, length, width, both):
    choose(control, length, width, both)
    chunks = WindowAttention(width, causal=not both)
    largest = largest_tensor(chunks, *torch.randn(3, 1, 1, length, 1))
    for picture, number in (("With a mask", length**2), ("In chunks", largest)):
        shown = cells(control, picture, "used") | cells(control, picture, "wasted")
        assert counts(control, picture)[0] == len(shown) == number


@pytest.mark.parametrize(("length", "width", "both"), CHOICES)
def test_a_position_depends_on_what_the_masks_of_all_layers_reach(
    control, length, width, both
):
    mask = window_mask(length, length, width, causal=not both)[0, 0].double()
    for position, layers in ((length - 1, 8), (length // 2, 3), (0, 1)):
        choose(control, length, width, both, layers)
        move(control, "Position", position)
        reached = torch.eye(length)[position].double()
        expected = {(0, position)}
        for layer in range(1, layers + 1):
            reached = (reached @ mask > 0).double()
            expected |= {(layer, key) for key in reached.nonzero().flatten().tolist()}
        assert cells(control, f"Position {position} at the top", "used") == expected
        said = f"position {position} depends on {int(reached.sum())} of {length}"
        assert said in says(control)


def test_a_shorter_text_takes_the_window_and_the_last_position_with_it(control):
    choose(control, 20, 15, both=False, layers=1)
    assert "position 19 depends on 15 of 20 positions: 5 to 19." in says(control)
    move(control, "Length", 4)
    assert "position 3 depends on 4 of 4 positions: 0 to 3." in says(control)
    assert counts(control, "In chunks") == [28, 10]
    move(control, "Position", 1)
    move(control, "Length", 9)
    assert "position 1 depends on 2 of 9 positions: 0 to 1." in says(control)
    assert control.get_by_role("slider", name="Window").input_value() == "4"


def test_everything_works_from_the_keyboard(control):
    control.get_by_role("slider", name="Window").press("Home")
    assert "depends on 1 of 12 positions: 11 alone." in says(control)
    assert counts(control, "In chunks") == [12, 12]
    control.get_by_role("slider", name="Window").press("ArrowRight")
    control.get_by_role("slider", name="Layers").press("End")
    control.get_by_role("slider", name="Position").press("ArrowLeft")
    control.get_by_label("to both sides").press(" ")
    assert "After 8 layers, position 10 depends on 10 of 12" in says(control)


def row(control, picture, position):
    """The middle of a row of a picture, on the screen."""
    svg = control.get_by_role("img", name=picture)
    svg.scroll_into_view_if_needed()
    return svg.evaluate(
        """(svg, row) => {
          const m = svg.getScreenCTM(), { x, width } = svg.viewBox.baseVal;
          const at = new DOMPoint(x + width / 2, row + 0.5).matrixTransform(m);
          return [at.x, at.y];
        }""",
        position,
    )


def chosen(control):
    """The query: by its slider, by both frames, and by both pictures."""
    numbers = {int(control.get_by_role("slider", name="Position").input_value())}
    frames = control.locator(".c-pairs rect").evaluate_all(
        "all => all.map(frame => Number(frame.getAttribute('y')))"
    )
    assert len(frames) == 2
    rows = control.get_by_role("slider", name="Query").evaluate_all(
        "all => all.map(rows => Number(rows.getAttribute('aria-valuenow')))"
    )
    assert len(rows) == 2
    (number,) = numbers | set(frames) | set(rows)
    assert f"position {number} depends on" in says(control)
    return number


@pytest.mark.parametrize("picture", ["With a mask", "In chunks"])
def test_a_click_on_a_row_chooses_the_query(control, tab, picture):
    choose(control, 13, 5, both=False)
    for position in (4, 0, 12):
        tab.mouse.click(*row(control, picture, position))
        assert chosen(control) == position
    tab.mouse.move(*row(control, picture, 12))
    tab.mouse.down()
    tab.mouse.move(*row(control, picture, 7), steps=5)
    assert chosen(control) == 7
    tab.mouse.up()
    tab.mouse.move(*row(control, picture, 2))
    assert chosen(control) == 7


def test_a_row_after_the_text_means_its_last_position(control, tab):
    choose(control, 13, 5, both=False)
    move(control, "Position", 3)
    tab.mouse.click(*row(control, "In chunks", 14))
    assert chosen(control) == 12


def test_the_arrow_keys_choose_a_row_and_keep_the_focus(control, tab):
    rows = control.get_by_role("slider", name="Query, with a mask")
    rows.focus()
    for key, position in {"ArrowUp": 10, "ArrowLeft": 9, "ArrowDown": 10}.items():
        tab.keyboard.press(key)
        assert chosen(control) == position
    for key, position in {"Home": 0, "ArrowUp": 0, "ArrowRight": 1, "End": 11}.items():
        tab.keyboard.press(key)
        assert chosen(control) == position
    assert rows.evaluate("rows => rows === document.activeElement")


def test_a_finger_taps_a_row(browser):
    context = browser.new_context(
        viewport={"width": 400, "height": 800}, has_touch=True
    )
    page = context.new_page()
    html = window_control()._repr_html_()
    head = "<meta name=viewport content='width=device-width'>"
    page.set_content(f"<!doctype html><html lang=en>{head}{html}")
    control = page.locator(".control")
    page.touchscreen.tap(*row(control, "With a mask", 5))
    assert chosen(control) == 5
    context.close()


@pytest.mark.parametrize(
    ("guess", "depends_on", "verdict"),
    [
        (5, 11, "Not yet: position 0 is 1 away from these."),
        (6, 12, "Your guess, 6, is right: each layer adds 2."),
        (8, 12, "8 layers are enough, but fewer would do."),
    ],
)
def test_the_picture_tests_a_guess(control, guess, depends_on, verdict):
    choose(control, 20, 7, both=True, layers=3)
    box = control.get_by_label("Your guess")
    box.fill(f" {guess} ")
    box.press("Enter")
    start = f"After {guess} layers, position 11 depends on {depends_on} of 12 positions"
    assert says(control).startswith(start)
    assert says(control).endswith(verdict)
    assert not control.get_by_label("to both sides").is_checked()
    assert counts(control, "In chunks") == [60, 33]
    mask = window_mask(12, 12, 3, causal=True)[0, 0].double()
    assert torch.linalg.matrix_power(mask, guess)[-1].count_nonzero() == depends_on


@pytest.mark.parametrize("guess", ["", "9", "0", "six", "1.5", "<b>"])
def test_what_is_no_guess_is_not_tested(control, guess):
    control.get_by_label("Your guess").fill(guess)
    control.get_by_role("button", name="Test").click()
    assert says(control) == "Write your guess as one whole number, 1 to 8."
    assert control.get_by_role("slider", name="Layers").input_value() == "1"


def test_the_answer_is_not_shown_before_a_guess(control):
    assert "position 11 depends on 3 of 12 positions: 9 to 11." in says(control)


def test_a_screen_reader_hears_the_end_of_a_movement_only(control):
    live = control.locator(".c-unseen")
    layers = control.get_by_role("slider", name="Layers")
    layers.evaluate("e => { e.value = 4; e.dispatchEvent(new Event('input')); }")
    assert live.inner_text() == ""
    layers.press("ArrowRight")
    assert live.inner_text() == says(control)
    control.get_by_label("to both sides").check()
    assert live.inner_text() == says(control)
    control.get_by_role("slider", name="Query, in chunks").press("Home")
    assert "position 0 depends on" in live.inner_text()


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(tab, theme):
    page = f"<!doctype html><html lang=en data-theme={theme}><title>Window</title>"
    tab.set_content(f"{page}<main>{window_control()._repr_html_()}</main>")
    assert findings(tab) == []


def test_on_a_telephone_nothing_is_wider_than_the_page(control, tab):
    tab.set_viewport_size({"width": 400, "height": 900})
    choose(control, 32, 32, both=True)
    hidden = "document.documentElement.scrollWidth - window.innerWidth"
    assert tab.evaluate(hidden) <= 0


def test_what_is_used_stands_out_in_light_and_dark(control, tab):
    fill = "e => getComputedStyle(e).fill.match(/\\d+/g).map(Number)"
    paths = [control.locator(f"path.c-{kind}").first for kind in ("used", "wasted")]
    used, wasted = (sum(path.evaluate(fill)) for path in paths)
    assert used + 200 < wasted
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    used, wasted = (sum(path.evaluate(fill)) for path in paths)
    assert used > wasted + 200


def test_where_no_script_runs_the_pairs_and_the_reach_are_said():
    words = window_control(12, 3, 2).words
    assert "144 scores are computed with a mask, and 33 are used" in words
    assert "After 2 layers, the last position depends on 5 positions" in words


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ((1, 1, 1), "length must be 2 to 32, got 1"),
        ((33, 1, 1), "length must be 2 to 32, got 33"),
        ((12, 13, 1), "width must be 1 to 12, got 13"),
        ((12, 0, 1), "width must be 1 to 12, got 0"),
        ((12, 3, 9), "layers must be 1 to 8, got 9"),
    ],
)
def test_what_the_sliders_do_not_have_is_refused(choice, message):
    with pytest.raises(ValueError, match=message):
        window_control(*choice)
