"""Figures for attention heads: what they draw is what they were given."""

import matplotlib.pyplot as plt
import pytest
import torch

from pages.heads.head_figures import Block, draw_memory, draw_product, memory_axes


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def said(ax):
    return [text.get_text() for text in ax.texts]


@pytest.mark.parametrize(("by_rows", "size"), [(False, (4, 6)), (True, (12, 2))])
def test_a_block_is_cut_into_one_part_per_head(by_rows, size):
    cut = Block("W", 6, ["a", "b", "c"], by_rows)
    ax = draw_product(Block("x", 6), cut, Block("y", 6))
    parts = ax.patches[1:4]
    assert [(p.get_width(), p.get_height()) for p in parts] == 3 * [size]
    assert len({(p.get_xy(), p.get_facecolor()) for p in parts}) == 3
    assert [word for word in said(ax) if word in {"a", "b", "c"}] == ["a", "b", "c"]
    assert "W\n6 × 12" in said(ax)


def test_a_cell_says_its_index_and_its_owner_and_has_the_colour_of_its_head():
    ax = memory_axes(9, 4)
    words = ["the", "cat"]
    draw_memory(ax, torch.arange(8).view(2, 4), 0, 0, "all", words=words, labels=True)
    assert [int(word) for word in said(ax) if word.isdigit()] == list(range(8))
    assert said(ax).count("the") == said(ax).count("cat") == 4 + 1
    assert said(ax)[-1] == "all"
    faces = [patch.get_facecolor() for patch in ax.patches]
    assert faces[0] == faces[1] == faces[4] != faces[2] == faces[7]
