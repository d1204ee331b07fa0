"""The positions in the page, operated in a browser; its numbers are torch's."""

import pytest
import torch
from book_files import ROOT

from pages.positions.positions import positions_control
from transformer_lib.model import sinusoidal_table

SCRIPT = (ROOT / "pages/positions/positions.js").read_text("utf-8")
CLOSE = {"rtol": 0, "atol": 1e-6}


@pytest.fixture
def control(show):
    return show(positions_control(d_model=32, max_len=64, positions=(4, 11)))


def move(control, name, value):
    control.get_by_role("slider", name=name).fill(str(value))


def says(control):
    return control.locator(".c-says").inner_text()


def numbers(control):
    """The rows of t and s and their product, shape (3, d_model)."""
    rows = control.locator(".c-numbers tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')]"
        ".map(cell => Number(cell.textContent)))"
    )
    return torch.tensor(rows, dtype=torch.float64).T


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize("d_model", [2, 32, 512])
def test_the_page_computes_the_table_of_the_library(tab, layout, d_model):
    rows = tab.evaluate(
        f"([layout, width]) => {{ {SCRIPT}\n"
        "return upTo(64).map((t) => encode(t, layout, width)); }",
        [layout, d_model],
    )
    table = sinusoidal_table(64, d_model, layout).double()
    torch.testing.assert_close(torch.tensor(rows), table, **CLOSE)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_numbers_it_shows_are_those_of_the_two_rows(control, layout):
    control.get_by_label("Layout").select_option(label=layout)
    table = sinusoidal_table(64, 32, layout).double()
    for t, s, k in ((0, 0, 0), (4, 31, 0), (17, 3, 32)):
        for name, value in {"Position t": t, "Position s": s, "Move both": k}.items():
            move(control, name, value)
        first, second = table[t + k], table[s + k]
        expected = torch.stack([first, second, first * second])
        torch.testing.assert_close(numbers(control), expected, **CLOSE)
        said = f"Rows {t + k} and {s + k}: dot product {first @ second:.3f}."
        assert said in says(control)


def test_moving_both_on_leaves_the_dot_product_as_it_was(control):
    slider = control.get_by_role("slider", name="Move both")
    before = says(control).split("dot product")[1]
    for key in ("ArrowRight", "PageUp", "End"):
        slider.press(key)
        assert says(control).split("dot product")[1] == before
    assert "Rows 36 and 43: " in says(control)
    product, by_distance = before.split(". By the distance 7 alone: ")
    assert product.strip() + "." == by_distance


def test_the_arrow_keys_move_a_position(control):
    control.get_by_role("slider", name="Position t").press("ArrowRight")
    control.get_by_role("slider", name="Position s").press("ArrowLeft")
    assert "Rows 5 and 10: " in says(control)


def test_a_mouse_drags_the_nearer_row_of_the_table(control, tab):
    control.locator("canvas").scroll_into_view_if_needed()
    box = control.locator("canvas").bounding_box()
    x, row = box["x"] + box["width"] / 2, box["height"] / 64
    tab.mouse.move(x, box["y"] + 12.5 * row)
    tab.mouse.down()
    tab.mouse.move(x, box["y"] + 2.5 * row)  # past the other: still the one it took
    assert "Rows 4 and 2: " in says(control)
    tab.mouse.move(x, box["y"] + 60.5 * row)  # the slider's end holds it
    assert "Rows 4 and 31: " in says(control)
    tab.mouse.up()
    tab.mouse.move(x, box["y"] + 20.5 * row)
    assert "Rows 4 and 31: " in says(control)
    assert control.get_by_role("slider", name="Position s").input_value() == "31"


def test_each_pair_has_its_wavelength_and_its_columns_in_both_layouts(control):
    move(control, "Pair", 0)
    assert says(control).startswith(
        "Pair 0, features 0 and 1: timescale 1.00, wavelength 6.3 positions."
    )
    move(control, "Pair", 15)
    assert "features 30 and 31: timescale 5623.41," in says(control)
    control.get_by_label("Layout").select_option(label="concatenated")
    assert "features 15 and 31: timescale 10000.00," in says(control)
    frames = control.locator(".c-table i").evaluate_all(
        "all => all.slice(0, 2).map(frame => parseFloat(frame.style.left))"
    )
    assert frames == [100 * 15 / 32, 100 * 31 / 32]


def test_the_curve_begins_at_half_the_width_and_holds_the_marked_distance(control):
    curve, mark = (
        control.get_by_role("img", name="The dot product")
        .locator(kind)
        .get_attribute("d")
        for kind in (".c-sine", ".c-here")
    )
    points = [point.split() for point in curve[1:].split("L")]
    table = sinusoidal_table(64, 32).double()
    heights = torch.tensor([-float(y) for _, y in points])
    torch.testing.assert_close(heights, table @ table[0], rtol=0, atol=1e-5)
    assert heights[0] == 16
    x, y = mark[1:].removesuffix("h0").split()
    assert x == "7"
    assert abs(float(y) + heights[7]) < 1e-9


def overlap(first, second):
    """Whether two elements cover a common spot."""
    a, b = first.bounding_box(), second.bounding_box()
    return (
        a["x"] < b["x"] + b["width"]
        and b["x"] < a["x"] + a["width"]
        and a["y"] < b["y"] + b["height"]
        and b["y"] < a["y"] + a["height"]
    )


@pytest.mark.parametrize("positions", [(9, 9), (9, 10), (10, 9), (0, 31)])
def test_the_names_of_two_positions_never_lie_over_each_other(control, positions):
    for name, value in zip(("Position t", "Position s"), positions, strict=True):
        move(control, name, value)
    clock = control.get_by_role("img", name="Pair").locator("text")
    for names in (control.locator(".c-table b"), clock):
        assert names.all_text_contents() == ["t", "s"]
        assert not overlap(names.first, names.last)


def test_where_both_positions_are_equal_the_dot_of_one_is_a_ring_around_the_other(
    control,
):
    wave = control.get_by_role("img", name="Sine and cosine")
    width = "dot => parseFloat(getComputedStyle(dot).strokeWidth)"
    t, s = wave.locator(".c-t").evaluate(width), wave.locator(".c-s").evaluate(width)
    assert t > s + 2


def test_a_dot_at_an_end_is_not_cut_and_no_curve_leaves_its_box(control):
    for name in ("Sine and cosine", "The dot product"):
        picture = control.get_by_role("img", name=name)
        assert picture.evaluate("e => getComputedStyle(e).overflow") == "visible"
        for pair in (0, 4, 15):
            move(control, "Pair", pair)
            box = picture.bounding_box()
            for path in picture.locator("path").all():
                inner = path.bounding_box()
                assert inner["x"] >= box["x"] - 8
                assert inner["x"] + inner["width"] <= box["x"] + box["width"] + 8


def test_where_no_script_runs_the_dot_product_is_said():
    assert "4 and 11, 7 apart, have the dot product 11.427" in positions_control().words


def test_positions_outside_the_first_half_are_refused():
    with pytest.raises(ValueError, match="first half of 64, got 4 and 32"):
        positions_control(positions=(4, 32))
    with pytest.raises(ValueError, match="d_model must be even"):
        positions_control(d_model=7)
