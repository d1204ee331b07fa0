import warnings

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch
from refusals import assert_refused, over

from bookkit.drawing import Drawing
from bookkit.plotting import (
    MAY_ATTEND,
    plot_attention,
    plot_heads,
    plot_layer,
    plot_lines,
    plot_mask,
    plot_numbers,
    plot_signed,
    plot_tree,
    use_book_style,
)

matplotlib.use("Agg")
T, S = 3, 5
QUERIES, KEYS = list("abc"), list("vwxyz")
TREE = {("a", "b"): 0.3, ("a", "c"): 0.7, ("a", "c", "d"): 0.6, ("a", "c", "e"): 0.1}
BLOCKS = {"low": ["one", "+"], "high": ["two", "+", "three"]}


@pytest.fixture(autouse=True)
def book_style():
    with warnings.catch_warnings(), matplotlib.rc_context():
        use_book_style()
        yield
    plt.close("all")


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def words(ax):
    return [text for text in ax.texts if text.get_text()]


def test_attention_is_drawn_from_zero_to_one_with_queries_as_rows():
    weights = torch.full((T, S), 0.2, requires_grad=True, dtype=torch.bfloat16)
    ax = plot_attention(weights, QUERIES, KEYS)
    (image,) = ax.images
    assert image.get_clim() == (0, 1)
    assert (labels(ax.yaxis), labels(ax.xaxis)) == (QUERIES, KEYS)
    assert image.get_array().shape == (T, S)


def test_heads_stand_in_a_row_on_one_scale_of_at_most_eight_inches():
    axes = plot_heads(torch.rand(4, T, S), QUERIES, KEYS)
    assert [ax.get_xlabel() for ax in axes] == [f"head {h}" for h in range(4)]
    assert {ax.images[0].get_clim() for ax in axes} == {(0, 1)}
    named = [ax.yaxis.get_tick_params()["labelleft"] for ax in axes]
    assert named == [True, False, False, False]
    assert axes[0].figure.get_figwidth() == 8


def test_signed_values_are_symmetric_about_zero_and_a_chapter_names_the_colours():
    images = [
        plot_signed(torch.tensor([[-3.0, 1.0]]), label="score").images[0],
        plot_signed(torch.eye(2), label="score", limit=5).images[0],
        plot_attention(torch.rand(T, S), QUERIES, KEYS, label="share").images[0],
        plot_attention(torch.rand(T, S), QUERIES, KEYS).images[0],
    ]
    assert [image.get_clim() for image in images] == [(-3, 3), (-5, 5), (0, 1), (0, 1)]
    names = [image.colorbar.ax.get_ylabel() for image in images]
    assert names == ["score", "score", "share", "weight"]


def test_a_mask_has_two_colours_and_one_legend():
    _, (left, right) = plt.subplots(1, 2)
    plot_mask(torch.ones(T, S).tril().bool(), QUERIES, KEYS, left)
    plot_mask(torch.ones(T, S).bool(), QUERIES, KEYS, right)
    assert {ax.images[0].get_clim() for ax in (left, right)} == {(0, 1)}
    (legend,) = left.figure.legends
    assert [text.get_text() for text in legend.texts] == ["may attend", "hidden"]


def test_a_table_writes_each_number_in_its_cell_in_ink_that_can_be_read():
    ax = plot_numbers(torch.tensor([[0, 1.5], [3, 0.25], [2, 1]]), QUERIES, ["p", "q"])
    assert ax.images[0].get_clim() == (0, 3)
    seen = {
        text.get_position(): (text.get_text(), text.get_color()) for text in words(ax)
    }
    assert seen[0, 1] == ("3.00", "white")
    assert seen[1, 1] == ("0.25", "black")
    assert len(seen) == 6
    ax = plot_numbers(torch.eye(2), "ab", "cd", limit=5)
    assert ax.images[0].get_clim() == (0, 5)


def test_a_layer_is_read_from_bottom_to_top_and_each_block_has_a_name_and_a_bypass():
    ax = plot_layer(BLOCKS)
    column = [text for text in words(ax) if text.get_position()[0] == 0]
    column.sort(key=lambda text: text.get_position()[1])
    steps = ["x", "one", "+", "two", "+", "three", "output"]
    assert [text.get_text() for text in column] == steps
    where = {text.get_text(): text.get_position()[1] for text in words(ax)}
    sums = [text.get_position()[1] for text in words(ax) if text.get_text() == "+"]
    (_, low), (_, high) = [line.get_ydata()[[0, -1]] for line in ax.lines]
    assert [low, high] == sums
    assert where["low"] < where["one"] < where["high"] < where["two"]


def test_what_enters_a_layer_from_the_left_stands_beside_its_step():
    ax = plot_layer(BLOCKS, {"two": ["memory", "mask"]})
    where = {text.get_text(): text.get_position() for text in words(ax)}
    assert where["two"][1] == (where["memory"][1] + where["mask"][1]) / 2
    assert where["mask"][1] < where["memory"][1] < where["two"][1] + 0.3


def test_lines_differ_in_colour_and_in_style():
    ax = plot_lines([0, 1], {name: torch.rand(2) for name in "abcd"})
    assert len({line.get_linestyle() for line in ax.lines}) == 4
    assert len({line.get_color() for line in ax.lines}) == 4


def test_no_helper_shows_or_closes_and_each_draws_where_it_is_told():
    figure, ax = plt.subplots()
    assert plot_signed(torch.eye(2), ax=ax) is ax
    assert plot_numbers(torch.eye(2), "ab", "cd", ax) is ax
    assert plot_layer(BLOCKS, ax=ax) is ax
    assert plot_tree(TREE, set(), ax) is ax
    assert plt.fignum_exists(figure.number)


def test_a_tree_grows_to_the_right_and_names_its_probabilities():
    ax = plot_tree(TREE, {("a", "c")})
    places = {text.get_text(): text.get_position() for text in ax.texts}
    assert places.keys() == {"a", "b\n0.3", "c\n0.7", "d\n0.6", "e\n0.1"}
    assert [places[word][0] for word in ("a", "b\n0.3", "e\n0.1")] == [1, 2, 3]
    heights = [places[word][1] for word in ("d\n0.6", "e\n0.1", "b\n0.3")]
    assert heights == [0, -1, -2]  # the likelier above
    assert places["c\n0.7"][1] == -0.5  # amid its children
    blue = {text.get_text() for text in ax.texts if text.get_color() == MAY_ATTEND}
    assert blue == {"a", "c\n0.7"}
    assert len(ax.lines) == len(TREE)


def test_a_warning_stops_a_chapter_unless_the_kernel_itself_warns():
    with pytest.raises(UserWarning, match="mind"):
        warnings.warn("mind", stacklevel=1)
    where = {"filename": "kernelbase.py", "lineno": 1}
    warnings.warn_explicit("old", UserWarning, module="ipykernel.kernelbase", **where)


FLAT, FIVE = torch.zeros(T, S), {str(i): [0] for i in range(5)}
LOST, NOWHERE = {**TREE, ("a", "x", "y"): 0.1}, {"one": ["a"], "six": [], "four": []}
REFUSED = {
    "rows must have a label each, got 2 and 3": lambda: plot_heads([FLAT], "ab", KEYS),
    "columns must have a label each, got 3 and 5": lambda: plot_mask(
        FLAT, "abc", "vwx"
    ),
    "at most 4 lines, got 5": lambda: plot_lines([0], FIVE),
    'must each have a "+", low has none': lambda: plot_layer({"low": ["one"]}),
    "must lead to a step, got four, six": lambda: plot_layer(BLOCKS, NOWHERE),
    "kept must be nodes, got ('a', 'x')": lambda: plot_tree(TREE, {("a", "x")}),
    "root 'a', got ('a', 'x', 'y')": lambda: plot_tree(LOST, set()),
    "'wide' needs a width of": lambda: Drawing(9, 6).box(3, 2, "wide", width=0.1),
}


@over([(ValueError, *row) for row in REFUSED.items()])
def test_what_cannot_be_drawn_is_refused(error, text, call):
    assert_refused(error, text, call)
