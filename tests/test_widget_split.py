"""One attention in heads, in a browser; its numbers are those of PyTorch."""

import pytest
import torch
from operating import press, says

from pages.heads.split import split_control
from transformer_lib.model import scaled_dot_product_attention

WORDS = ["the", "cat", "reads"]
T, D_MODEL, H = 3, 12, 3
STAGES = ["input", "values", "heads’ results", "output"]
KINDS = ["queries", "keys", "values"]


@pytest.fixture(scope="module")
def made():
    torch.manual_seed(4)
    torch.set_default_dtype(torch.float64)
    matrices = [torch.randn(D_MODEL, D_MODEL) / D_MODEL**0.5 for _ in range(4)]
    return split_control(WORDS, torch.randn(T, D_MODEL), *matrices, H)


@pytest.fixture
def control(show, made):
    return show(made)


def compute(data, kind="values", change=None):
    """All stages as one table, with 1 added to a (row, column) of this table."""
    x, w_q, w_k, w_v, w_o = (
        torch.tensor(data[name]) for name in ("x", "w_q", "w_k", "w_v", "w_o")
    )
    adds = torch.zeros(4, T, D_MODEL)
    if change:
        adds.view(-1, D_MODEL)[change] = 1.0
    x = x + adds[0]
    projected = dict(zip(KINDS, (x @ w_q, x @ w_k, x @ w_v), strict=True))
    projected[kind] = projected[kind] + adds[1]
    heads = (projected[name].unflatten(-1, (H, -1)).transpose(0, 1) for name in KINDS)
    merged = scaled_dot_product_attention(*heads)[0].transpose(0, 1).flatten(1)
    merged = merged + adds[2]
    return torch.cat([x, projected[kind], merged, merged @ w_o + adds[3]])


def cell(control, row, column, kind="values"):
    stage = STAGES[row // T].replace("values", kind)
    name = f"{stage}, {WORDS[row % T]}, feature {column}:"
    return control.get_by_role("button", name=name)


def numbers(control):
    cells = control.locator(".c-split button")
    shown = cells.all_inner_texts()
    said = cells.evaluate_all("all => all.map((cell) => cell.ariaLabel)")
    assert all(f": {text}" in label for text, label in zip(shown, said, strict=True))
    numbers = [float(text.replace("−", "-")) for text in shown]
    return torch.tensor(numbers).view(-1, D_MODEL)


def framed(control):
    """Which numbers are framed, and said to have changed."""
    marks = control.locator(".c-split button").evaluate_all(
        """all => all.map((cell) =>
          [/changed/.test(cell.ariaLabel), cell.matches(".c-reached")])"""
    )
    is_said, is_framed = torch.tensor(marks).unbind(-1)
    assert torch.equal(is_said, is_framed)
    return is_framed.view(-1, D_MODEL)


def show_the(control, kind):
    control.get_by_label(kind, exact=True).check()


def answers(control):
    return control.locator(".c-answers > span").inner_text()


@pytest.mark.parametrize("kind", KINDS)
def test_the_numbers_are_pytorchs_and_framed_is_what_changes_there(control, made, kind):
    show_the(control, kind)
    before = compute(made.data, kind)
    torch.testing.assert_close(numbers(control), before, rtol=0, atol=0.0501)
    assert not framed(control).any()
    for change in [(1, 5), (3, 0), (4, 5), (7, 10), (11, 11)]:
        cell(control, *change, kind).click()
        now = compute(made.data, kind, change)
        torch.testing.assert_close(numbers(control), now, rtol=0, atol=0.0501)
        assert torch.equal(framed(control), (now - before).abs() > 1e-9)


def test_the_words_say_which_heads_and_words_a_number_reaches(control):
    cell(control, 1, 5).click()
    assert says(control) == (
        "1 is added to feature 5 of “cat” in the input. In the heads’ results, all 12 "
        "features of every word change: all heads. In the output, all 12 features of "
        "3 words change."
    )
    cell(control, 4, 5).click()
    assert "feature 5 of every word change: head 1." in says(control)
    show_the(control, "queries")
    assert says(control).startswith("Press any number")  # another table
    cell(control, 4, 9, "queries").click()
    assert "features 8, 9, 10 and 11 of “cat” alone change: head 2." in says(control)
    assert says(control).endswith("all 12 features of 1 word change.")
    cell(control, 9, 3).click()
    assert says(control).endswith("Nothing comes after it.")


def test_all_heads_read_a_number_of_the_input(control):
    assert answers(control) == "Choose your guess, then press a number of the input."
    cell(control, 4, 5).click()
    assert answers(control) == "This number is not in the input."
    control.get_by_label("1 head").check()
    assert answers(control) == "Now press a number of the input."
    cell(control, 2, 0).click()
    assert answers(control).startswith("You guessed 1 head. All 3:")
    assert control.locator(".c-guess :disabled").count() == 2  # it cannot be changed


def test_who_looks_first_has_to_answer_and_then_finds_that_a_query_is_private(control):
    cell(control, 0, 0).click()
    assert answers(control) == "Now you have seen it: choose the answer."
    assert control.get_by_role("button", name="Next question").count() == 0
    control.get_by_label("3 heads").check()
    assert answers(control).startswith("✓ All 3: each head’s")
    press(control, "Next question")
    assert not framed(control).any()
    cell(control, 0, 0).click()
    assert answers(control) == "Press a number of the queries, keys or values."
    for kind in ("values", "keys"):
        show_the(control, kind)
        cell(control, 4, 5, kind).click()
        assert answers(control) == "It changes the result of 3 words."
    show_the(control, "queries")
    cell(control, 4, 5, "queries").click()
    assert answers(control).startswith("✓ A query is used by its own word alone.")
    cell(control, 0, 0).click()
    assert answers(control).startswith("✓")  # the reader may go on playing


def test_arrow_keys_move_through_all_tables_and_a_press_is_taken_back(control, tab):
    before = numbers(control)
    cell(control, 0, 0).focus()
    for key in (*4 * ["ArrowDown"], *5 * ["ArrowRight"], "Enter"):
        tab.keyboard.press(key)
    assert "feature 5 of “cat” in the values" in says(control)
    assert cell(control, 4, 5).get_attribute("aria-pressed") == "true"
    press(control, "Undo")
    assert torch.equal(numbers(control), before)
    assert not framed(control).any()
    cell(control, 4, 5).focus()
    for key in ("End", "ArrowRight", *9 * ["ArrowDown"], " "):
        tab.keyboard.press(key)
    assert "feature 11 of “reads” in the output" in says(control)
    assert control.locator(".c-split button[tabindex='0']").count() == 1
    tab.keyboard.press(" ")
    assert torch.equal(numbers(control), before)


def test_on_a_phone_no_number_is_cut_off_and_nothing_below_moves(control, tab):
    tab.set_viewport_size({"width": 400, "height": 900})
    control.get_by_label("1 head").check()
    heights = set()
    for row in range(0, 4 * T, 3):
        cell(control, row, row).click()
        heights.add(round(control.bounding_box()["height"]))
    assert len(heights) == 1
    cut = "all => all.filter(cell => cell.scrollWidth > cell.clientWidth)"
    assert control.locator(".c-split button").evaluate_all(cut) == []
