"""The positions in the page, operated in a browser; its numbers are torch's."""

import pytest
import torch
from operating import move, says

from pages.positions.positions import positions_control
from transformer_lib.model import sinusoidal_table

CLOSE = {"rtol": 0, "atol": 1e-6}


@pytest.fixture
def control(show):
    return show(positions_control(d_model=32, max_len=64, positions=(4, 11)))


def numbers(control):
    """The rows of t and s and their product, shape (3, d_model)."""
    rows = control.locator(".c-numbers tbody tr").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')]"
        ".map(cell => Number(cell.textContent)))"
    )
    return torch.tensor(rows, dtype=torch.float64).T


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_numbers_are_those_of_two_rows_of_the_librarys_table(control, layout):
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


def test_a_mouse_drags_the_nearer_row_of_the_table(control, tab):
    control.locator("canvas").scroll_into_view_if_needed()
    box = control.locator("canvas").bounding_box()
    x, row = box["x"] + box["width"] / 2, box["height"] / 64
    tab.mouse.move(x, box["y"] + 12.5 * row)
    tab.mouse.down()
    tab.mouse.move(x, box["y"] + 2.5 * row)  # past the other: still the one it took
    assert "Rows 4 and 2: " in says(control)
    tab.mouse.move(x, box["y"] + 60.5 * row)  # the slider's end holds it
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
    picture = control.get_by_role("img", name="The dot product")
    curve = picture.locator(".c-sine").get_attribute("d")
    heights = [-float(point.split()[1]) for point in curve[1:].split("L")]
    table = sinusoidal_table(64, 32).double()
    expected = (table @ table[0]).tolist()
    assert heights == pytest.approx(expected, abs=1e-5)
    assert heights[0] == 16
    mark = picture.locator(".c-here").get_attribute("d").removesuffix("h0")
    x, y = map(float, mark[1:].split())
    assert (x, -y) == pytest.approx((7, heights[7]))


@pytest.mark.parametrize("positions", [(9, 9), (9, 10), (10, 9), (0, 31)])
def test_the_names_of_two_positions_never_lie_over_each_other(control, positions):
    for name, position in zip("ts", positions, strict=True):
        move(control, f"Position {name}", position)
    clock = control.get_by_role("img", name="Pair").locator("text")
    for names in (control.locator(".c-table b"), clock):
        assert names.all_text_contents() == ["t", "s"]
        boxes = [name.bounding_box() for name in names.all()]
        assert any(
            one[start] + one[size] <= other[start]
            for one, other in (boxes, boxes[::-1])
            for start, size in (("x", "width"), ("y", "height"))
        )


def test_where_no_script_runs_the_dot_product_is_said():
    assert "4 and 11, 7 apart, have the dot product 11.427" in positions_control().words
