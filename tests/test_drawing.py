import re

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from matplotlib.colors import to_hex
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Rectangle

from bookkit.colours import COLOURS, EDGES, SERIES, style_sheet, variables
from bookkit.drawing import Drawing

matplotlib.use("Agg")


@pytest.fixture
def drawing():
    yield Drawing(10, 6)
    plt.close("all")


def drawn(drawing, kind):
    return [patch for patch in drawing.ax.patches if isinstance(patch, kind)]


def colours(patch):
    return to_hex(patch.get_facecolor()), to_hex(patch.get_edgecolor())


def words(drawing):
    return {text.get_text(): text for text in drawing.ax.texts}


def test_a_box_has_the_colours_of_what_it_is_and_knows_its_sides(drawing):
    for kind in EDGES:
        box = drawing.box(3, 2, "words", kind=kind, width=2, height=1)
        patch = drawn(drawing, FancyBboxPatch)[-1]
        assert colours(patch) == (COLOURS[kind][0], EDGES[kind][0])
    assert words(drawing)["words"].get_position() == box.centre == (3, 2)
    assert (box.left, box.right) == ((2, 2), (4, 2))
    assert (box.bottom, box.top) == ((3, 1.5), (3, 2.5))


def test_an_arrow_leads_from_the_side_that_faces_the_other_box(drawing):
    boxes = [drawing.box(x, y) for x, y in [(2, 2), (2, 4), (8, 4)]]
    drawing.arrow(boxes[0], boxes[1])
    drawing.arrow(boxes[1], boxes[2])
    drawing.arrow(boxes[1], boxes[0])
    drawing.arrow(boxes[2], (0, 4))
    ends = [arrow._posA_posB for arrow in drawn(drawing, FancyArrowPatch)]
    assert ends == [
        [boxes[0].top, boxes[1].bottom],
        [boxes[1].right, boxes[2].left],
        [boxes[1].bottom, boxes[0].top],
        [boxes[2].left, (0, 4)],
    ]


def test_the_words_of_an_arrow_stand_on_it_bent_or_not(drawing):
    drawing.arrow((1, 1), (5, 1), "straight")
    drawing.arrow((1, 3), (5, 3), "bent", bend=0.5)
    assert words(drawing)["straight"].get_position() == (3, 1)
    drawing.ax.figure.draw_without_rendering()
    (_, curve) = drawn(drawing, FancyArrowPatch)
    start, control, end = curve.get_path().vertices[:3]
    middle = pytest.approx((start + 2 * control + end) / 4, abs=0.1)
    assert words(drawing)["bent"].get_position() == middle


def test_a_path_goes_round_corners(drawing):
    drawing.path([(0, 0), (0, 3), (3, 3)])
    (line,) = drawing.ax.lines
    assert line.get_xydata().tolist() == [[0, 0], [0, 3]]
    (tip,) = drawn(drawing, FancyArrowPatch)
    assert tip._posA_posB == [(0, 3), (3, 3)]
    drawing.path([(0, 0), (1, 0)], arrow=False)
    assert len(drawn(drawing, FancyArrowPatch)) == 1


def test_cells_hold_their_values_the_first_row_at_the_top(drawing):
    values = [[torch.tensor(-0.5), 2], ["x", 1.0]]
    box = drawing.cells(1, 1, values, rows=["a", "b"], columns=["p", "q"], height=1)
    places = {text: words(drawing)[text].get_position() for text in words(drawing)}
    assert places.keys() == {"\N{MINUS SIGN}0.50", "2", "x", "1.00", *"abpq"}
    assert places["2"][1] > places["x"][1]
    assert places["2"][0] > places["x"][0]
    assert places["a"][1] == places["2"][1]
    assert places["p"][0] == places["x"][0]
    assert (box.left, box.top) == ((1, 2), (1.8, 3))


def test_a_shade_is_the_line_of_the_kind_and_still_lets_ink_be_read(drawing):
    shade = torch.tensor([[0, 0.5, 1]])
    drawing.cells(1, 1, [["a", "b", "c"]], kind="cache", shade=shade)
    faces = [cell.get_facecolor() for cell in drawn(drawing, Rectangle)]
    assert {to_hex(face) for face in faces} == {EDGES["cache"][0]}
    assert [face[3] for face in faces] == pytest.approx([0, 0.3, 0.6])


def test_a_frame_has_a_name_and_leaves_a_box_some_air(drawing):
    box = drawing.box(3, 2)
    frame = drawing.frame(box, "encoder")
    assert frame.left[0] < box.left[0] < box.right[0] < frame.right[0]
    assert words(drawing)["encoder"].get_position()[1] > frame.top[1]
    frame = drawing.frame((1, 2, 5, 4))
    assert (frame.left, frame.top) == ((1, 3), (3, 4))


# -- Colours -------------------------------------------------------------------------


def test_a_colour_of_the_light_theme_has_one_of_the_dark():
    pairs = set(variables().values())
    assert len({light for light, _ in pairs}) == len(pairs)
    for both in pairs:
        assert all(re.fullmatch("#[0-9a-f]{6}", colour) for colour in both)


def luminance(colour):
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (
        c / 12.92 if c < 0.04 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    )
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one, other):
    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


def test_ink_can_be_read_on_every_box_and_its_outline_be_seen_on_the_paper():
    for theme in (0, 1):
        ink, quiet, paper = (COLOURS[name][theme] for name in ("ink", "quiet", "paper"))
        for kind in EDGES:
            assert contrast(ink, COLOURS[kind][theme]) > 7, kind
            assert contrast(EDGES[kind][theme], paper) > 3, kind
        assert contrast(ink, paper) > contrast(quiet, paper) > 4.5
        # The pink line is pale on white; its style tells it apart as well.
        assert min(contrast(both[theme], paper) for both in SERIES) > 2.7


def test_a_style_sheet_holds_every_colour_of_both_themes_and_none_of_a_heat_map():
    sheet = style_sheet(".light", ".dark")
    light, dark = sheet.split("@media screen")
    shades = {
        to_hex(shade)
        for name in ("Blues", "RdBu_r")
        for shade in matplotlib.colormaps[name](range(256))
    }
    for name, both in variables().items():
        assert f"{name}: {both[0]};" in light
        assert f"{name}: {both[1]};" in dark
        assert both[0] not in shades
    assert sheet.startswith(".light {")
    assert "{ .dark {" in dark
