"""The window in the page, operated in a browser; its pairs are the library's."""

import re

import pytest
import torch
from operating import move, press, says
from playwright.sync_api import expect
from watching import largest_tensor

from pages.fewer_pairs.window import window_control
from transformer_lib.variants import WindowAttention, window_mask

PICTURES = "With a mask", "In chunks"
CHOICES = [(12, 3, False), (13, 5, False), (32, 7, True), (5, 5, True)]


@pytest.fixture
def control(show):
    return show(window_control())


def choose(control, length, width, both, layers=2):
    for name, value in {"Length": length, "Window": width, "Layers": layers}.items():
        move(control, name, value)
    control.get_by_label("to both sides").set_checked(both)


def cells(control, picture, kind):
    """The rows and columns of one colour, those below 0 too."""
    path = control.get_by_role("img", name=picture).locator(f".c-{kind}")
    starts = re.findall(r"M(\S+) (\S+?)h", path.get_attribute("d"))
    return {(round(float(y) - 0.05), round(float(x) - 0.05)) for x, y in starts}


def counts(control, picture):
    label = control.get_by_role("img", name=picture).get_attribute("aria-label")
    return [int(number) for number in re.findall(r"(\d+) (?:scores|used)", label)]


@pytest.mark.parametrize(("length", "width", "both"), CHOICES)
def test_pairs_and_reach_are_those_of_the_librarys_masks(control, length, width, both):
    choose(control, length, width, both)
    mask = window_mask(length, length, width, causal=not both)[0, 0]
    expected = {tuple(pair) for pair in mask.nonzero().tolist()}
    chunks = WindowAttention(width, causal=not both)
    largest = largest_tensor(chunks, *torch.randn(3, 1, 1, length, 1))
    for picture, scores in zip(PICTURES, (length**2, largest), strict=True):
        used = cells(control, picture, "used")
        assert used == expected
        assert len(used | cells(control, picture, "wasted")) == scores
        assert counts(control, picture) == [scores, len(expected)]
    for position, layers in ((length - 1, 8), (length // 2, 3), (0, 1)):
        move(control, "Layers", layers)
        move(control, "Position", position)
        reached = torch.eye(length)[position].double()
        expected = {(0, position)}
        for layer in range(1, layers + 1):
            reached = (reached @ mask.double() > 0).double()
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
    window = control.get_by_role("slider", name="Window")
    assert window.input_value() == "4"
    window.press("Home")
    assert "depends on 1 of 9 positions: 1 alone." in says(control)


def row(control, picture, position):
    """The middle of a row of a picture, on the screen."""
    svg = control.get_by_role("img", name=picture)
    svg.scroll_into_view_if_needed()
    box, high = svg.bounding_box(), svg.evaluate("svg => svg.viewBox.baseVal.height")
    at = box["height"] * (position + 0.6) / high  # 0.1 is above the first row
    return box["x"] + box["width"] / 2, box["y"] + at


def chosen(control):
    """The query: by its slider, by both frames, and by both pictures."""
    queries = control.get_by_role("slider", name="Query").all()
    numbers = [control.get_by_role("slider", name="Position").input_value()]
    numbers += [rows.get_attribute("aria-valuenow") for rows in queries]
    numbers += [frame.get_attribute("y") for frame in control.locator("rect").all()]
    assert len(numbers) == 5
    (number,) = set(map(int, numbers))
    assert f"position {number} depends on" in says(control)
    return number


def test_a_press_on_a_row_chooses_the_query_and_a_mouse_drags_it(control, tab):
    choose(control, 13, 5, both=False)
    for picture in PICTURES:
        for position in (4, 0, 12):
            tab.mouse.click(*row(control, picture, position))
            assert chosen(control) == position
        tab.mouse.move(*row(control, picture, 12))
        tab.mouse.down()
        tab.mouse.move(*row(control, picture, 7), steps=5)
        tab.mouse.up()
        tab.mouse.move(*row(control, picture, 2))
        assert chosen(control) == 7
    tab.mouse.click(*row(control, "In chunks", 14))  # after the text: its last position
    assert chosen(control) == 12


def test_the_arrow_keys_choose_a_row_and_keep_the_focus(control, tab):
    rows = control.get_by_role("slider", name="Query, with a mask")
    rows.focus()
    keys = "ArrowUp ArrowLeft ArrowDown Home ArrowUp ArrowRight End".split()
    for key, position in zip(keys, (10, 9, 10, 0, 0, 1, 11), strict=True):
        tab.keyboard.press(key)
        assert chosen(control) == position
    expect(rows).to_be_focused()


def test_the_picture_tests_a_guess_and_only_then_shows_the_answer(control):
    assert "position 11 depends on 3 of 12 positions: 9 to 11." in says(control)
    box = control.get_by_label("Your guess")
    for guess in ("", "9", "0", "1.5", "<b>"):
        box.fill(guess)
        press(control, "Test")
        assert says(control) == "Write your guess as one whole number, 1 to 8."
        assert control.get_by_role("slider", name="Layers").input_value() == "1"
    mask = window_mask(12, 12, 3, causal=True)[0, 0].double()
    for guess, verdict in {
        5: "Not yet: position 0 is 1 away from these.",
        6: "Your guess, 6, is right: each layer adds 2.",
        8: "8 layers are enough, but fewer would do.",
    }.items():
        choose(control, 20, 7, both=True, layers=3)
        box.fill(f" {guess} ")
        box.press("Enter")
        reached = torch.linalg.matrix_power(mask, guess)[-1].count_nonzero()
        start = f"After {guess} layers, position 11 depends on {reached} of 12"
        assert says(control).startswith(start)
        assert says(control).endswith(verdict)
        assert not control.get_by_label("to both sides").is_checked()
        assert counts(control, "In chunks") == [60, 33]


def test_a_screen_reader_hears_the_end_of_a_movement_only(control):
    live = control.locator(".c-unseen")
    layers = control.get_by_role("slider", name="Layers")
    layers.evaluate("e => { e.value = 4; e.dispatchEvent(new Event('input')); }")
    assert live.inner_text() == ""
    layers.press("ArrowRight")
    assert live.inner_text() == says(control)


def test_where_no_script_runs_the_pairs_and_the_reach_are_said():
    words = window_control(12, 3, 2).words
    assert "144 scores are computed with a mask, and 33 are used" in words
    assert "After 2 layers, the last position depends on 5 positions" in words
