import warnings

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from transformer_lib.plotting import (
    plot_attention,
    plot_heads,
    plot_lines,
    plot_mask,
    plot_signed,
    use_book_style,
)

matplotlib.use("Agg")
T, S = 3, 5
QUERIES, KEYS = list("abc"), list("vwxyz")


@pytest.fixture(autouse=True)
def book_style():
    with warnings.catch_warnings(), matplotlib.rc_context():
        use_book_style()
        yield
    plt.close("all")


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def test_attention_is_drawn_from_zero_to_one_with_queries_as_rows():
    ax = plot_attention(torch.full((T, S), 0.2, requires_grad=True), QUERIES, KEYS)
    (image,) = ax.images
    assert image.get_clim() == (0, 1)
    assert (labels(ax.yaxis), labels(ax.xaxis)) == (QUERIES, KEYS)
    assert image.get_array().shape == (T, S)


def test_heads_stand_in_a_row_on_one_scale():
    axes = plot_heads(torch.rand(4, T, S), QUERIES, KEYS)
    assert [ax.get_xlabel() for ax in axes] == [f"head {h}" for h in range(4)]
    assert {ax.images[0].get_clim() for ax in axes} == {(0, 1)}


def test_a_mask_has_two_colours_and_one_legend():
    _, (left, right) = plt.subplots(1, 2)
    plot_mask(torch.ones(T, S).tril().bool(), QUERIES, KEYS, left)
    plot_mask(torch.ones(T, S).bool(), QUERIES, KEYS, right)
    (legend,) = left.figure.legends
    assert [text.get_text() for text in legend.texts] == ["may attend", "hidden"]


def test_signed_values_are_symmetric_about_zero():
    ax = plot_signed(torch.tensor([[-3.0, 1.0]]))
    assert ax.images[0].get_clim() == (-3, 3)
    assert plot_signed(torch.eye(2), limit=5).images[0].get_clim() == (-5, 5)


def test_lines_differ_in_colour_and_in_style():
    ax = plot_lines([0, 1], {name: torch.rand(2) for name in "abcd"})
    assert len({line.get_linestyle() for line in ax.lines}) == 4
    assert len({line.get_color() for line in ax.lines}) == 4


def test_half_precision_can_be_drawn():
    plot_attention(torch.zeros(T, S, dtype=torch.bfloat16), QUERIES, KEYS)


def test_no_helper_shows_or_closes_and_each_draws_where_it_is_told():
    figure, ax = plt.subplots()
    assert plot_signed(torch.eye(2), ax=ax) is ax
    assert plt.fignum_exists(figure.number)


def test_labels_must_fit():
    with pytest.raises(ValueError, match="rows must have a label each, got 2 and 3"):
        plot_attention(torch.zeros(T, S), QUERIES[:2], KEYS)
    with pytest.raises(ValueError, match="columns must have a label each, got 3 and 5"):
        plot_mask(torch.zeros(T, S), QUERIES, QUERIES)


def test_more_than_four_lines_are_refused():
    with pytest.raises(ValueError, match="at most 4 lines, got 5"):
        plot_lines([0], {str(i): [0] for i in range(5)})


def test_a_warning_stops_a_chapter():
    with pytest.raises(UserWarning, match="mind"):
        warnings.warn("mind", stacklevel=1)


def test_a_warning_of_the_kernel_itself_does_not_stop_a_chapter():
    where = {"filename": "kernelbase.py", "lineno": 1}
    warnings.warn_explicit("old", UserWarning, module="ipykernel.kernelbase", **where)
    with pytest.raises(UserWarning, match="old"):
        warnings.warn_explicit("old", UserWarning, module="a_chapter", **where)
