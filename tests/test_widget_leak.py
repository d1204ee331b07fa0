"""The mask that readers paint, in a browser; its probabilities are those of PyTorch."""

import random
import re

import pytest
import torch
from book_files import ROOT
from operating import asks, draw, on_a_phone, says
from playwright.sync_api import expect

from pages.masks.leak import leak_control
from transformer_lib.data import Tokenizer
from transformer_lib.faster.quantization import dequantize, quantize_rows
from transformer_lib.model import causal_mask, padding_mask
from transformer_lib.training import load_model

ENGLISH, GERMAN = "the cat reads a red book", "die Katze liest ein rotes Buch"
READS = ["BOS", *GERMAN.split()]
SAYS = [*GERMAN.split(), "EOS"]
SIZE = len(READS)
PEEKING, MASKED = "while it could peek", "with the causal mask"
FILES = {PEEKING: "peeking", MASKED: "masked"}
# The browser rounds every vector to float32: at most 2^-24 of a value, and no value on
# the way exceeds 100. A probability moves by at most a quarter of what its score moves.
# That is far below one per cent, the last digit of the page; a share within this
# distance of a half may be rounded the other way.
TOLERANCE = 5e-5


def load(name):
    return load_model(ROOT / "models" / "peeking" / f"{FILES[name]}.safetensors")


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load(ROOT / "models" / "grammar-en-de" / "tokenizer.json")


@pytest.fixture(scope="module")
def made(tokenizer):
    return leak_control(load(PEEKING), load(MASKED), tokenizer, ENGLISH, GERMAN)


@pytest.fixture
def control(show, made):
    control = show(made)
    expect(control.locator(".c-next b").last).to_contain_text("%")
    return control


@torch.no_grad()
def probabilities(name, tokenizer, mask):
    """Compute in double precision, from the same weights, under a (T, T) mask."""
    model = load(name).double()
    src = torch.tensor([[*tokenizer.encode(ENGLISH), tokenizer.eos_id]])
    ids = [tokenizer.bos_id, *tokenizer.encode(GERMAN), tokenizer.eos_id]
    x = model.tgt_positions(model.tgt_embedding(torch.tensor([ids[:-1]])))
    hidden = padding_mask(src, tokenizer.pad_id)
    x = model.decoder(x, model.encode(src), torch.as_tensor(mask)[None, None], hidden)
    return model.output(x)[0].softmax(-1)[torch.arange(SIZE), torch.tensor(ids[1:])]


def cell(control, row, column):
    future = " (the future)" if column > row else ""
    name = f"row {READS[row]}, column {READS[column]}{future}"
    return control.get_by_role("button", name=name, exact=True)


def mask_on_the_page(control):
    pressed = (
        control.get_by_role("grid")
        .locator("button")
        .evaluate_all("all => all.map((cell) => cell.getAttribute('aria-pressed'))")
    )
    assert set(pressed) <= {"true", "false"}
    return torch.tensor([state == "true" for state in pressed]).view(SIZE, SIZE)


def bars(control):
    """The width of every bar, which is the probability with all its digits."""
    styles = control.locator(".c-next .c-track i").evaluate_all(
        "all => all.map((bar) => parseFloat(bar.style.width) / 100)"
    )
    return torch.tensor(styles)


def percents(control):
    return control.locator(".c-next b").all_inner_texts()


def agrees(control, name, tokenizer):
    expected = probabilities(name, tokenizer, mask_on_the_page(control))
    torch.testing.assert_close(bars(control), expected, rtol=0, atol=TOLERANCE)
    for text, share in zip(percents(control), expected.tolist(), strict=True):
        told = 0 if text == "< 1 %" else float(text.removesuffix(" %")) / 100
        assert abs(told - share) <= 0.005 + TOLERANCE


def triangle():
    return causal_mask(SIZE)[0, 0]


# -- The numbers -----------------------------------------------------------------------


def test_packing_the_weights_loses_nothing():
    for weight in [*load(PEEKING).parameters(), *load(MASKED).parameters()]:
        if weight.dim() == 2:
            again = dequantize(*quantize_rows(weight))
            torch.testing.assert_close(again, weight.float(), rtol=1e-6, atol=0)


@pytest.mark.parametrize("name", [PEEKING, MASKED])
def test_the_bars_are_the_probabilities_of_pytorch_under_any_mask(
    control, tokenizer, name
):
    control.get_by_label(name).check()
    draw = random.Random(5)
    for _ in range(3):
        agrees(control, name, tokenizer)
        for _ in range(9):
            cell(control, draw.randrange(SIZE), draw.randrange(SIZE)).click()
    assert mask_on_the_page(control).sum() != triangle().sum()
    control.get_by_role("button", name="all open").click()
    agrees(control, name, tokenizer)  # here a share is 2 %


def test_an_open_cell_of_the_future_does_what_the_page_says(tokenizer):
    falls = []
    for name in (PEEKING, MASKED):
        before = probabilities(name, tokenizer, triangle())
        for t, s in torch.ones(SIZE, SIZE).triu(1).nonzero():
            mask = triangle().clone()
            mask[t, s] = True
            moved = probabilities(name, tokenizer, mask) - before
            if name == MASKED:
                falls.append(moved[t] <= -0.02)
                assert moved[t] < 0.02
            else:
                assert (moved[t] > 0.8) == (s == t + 1)
                moved[t] = 0
                assert moved.abs().max() < 0.02
    assert sum(falls) > len(falls) / 2


def test_each_finished_mask_is_what_it_is_called_and_shows_the_answer_late(
    control, tokenizer
):
    leak = control.get_by_role("button", name="one leak")
    assert not leak.is_visible()
    assert not control.get_by_role("button", name="Start the game").is_visible()
    cell(control, 0, 0).click()
    assert "zeros from self-attention: BOS." in says(control)
    agrees(control, PEEKING, tokenizer)
    cell(control, 0, 0).click()
    before = bars(control)
    control.get_by_role("button", name="all open").click()
    assert mask_on_the_page(control).all()
    first, second = says(control).splitlines()
    assert first == "21 cells changed."
    change = (bars(control) - before).abs()  # the two that move most are named
    best = [SAYS[t] for t in change.argsort(descending=True)[:2]]
    assert re.findall("“(.*?)”", second) == best
    assert second.endswith(f"{(change >= 0.02).sum() - 2} more bars move.")
    control.get_by_label(MASKED).check()
    assert "It had to predict every word from the words so far." in says(control)
    control.get_by_label(PEEKING).check()
    control.get_by_role("button", name="causal").click()
    assert torch.equal(mask_on_the_page(control), triangle())
    leak.click()
    expected = triangle()
    expected[2, 3] = True
    assert torch.equal(mask_on_the_page(control), expected)
    assert says(control).startswith("Row Katze now sees liest, the very word")  # no ✓


# -- Mouse, touch and keys -------------------------------------------------------------


def middle(locator):
    locator.scroll_into_view_if_needed()
    box = locator.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def try_once(control):
    """Show the buttons that give the answer away."""
    cell(control, 0, 0).click()
    cell(control, 0, 0).click()


def test_a_click_flips_a_cell_and_says_what_moved(control):
    cell(control, 2, 3).click()
    assert mask_on_the_page(control)[2, 3]
    first, second = says(control).splitlines()
    assert first == "✓ Row Katze now sees liest, the very word that it must say."
    assert second.startswith("“liest”, row Katze: < 1 % → ")
    cell(control, 2, 3).click()
    assert torch.equal(mask_on_the_page(control), triangle())
    cell(control, 0, 4).click()
    first, second = says(control).splitlines()
    assert first == "Row BOS now sees ein, but it must say die."
    assert "No bar moves" in second


def test_the_mouse_paints_a_stroke_and_what_moved_is_said_at_the_end(control, tab):
    control.get_by_label(MASKED).check()
    before = percents(control)
    start, end = middle(cell(control, 0, 1)), middle(cell(control, 0, 6))
    tab.mouse.move(*start)
    tab.mouse.down()
    tab.mouse.move(*end, steps=30)
    tab.mouse.move(*start, steps=6)  # what is painted stays so
    tab.mouse.up()
    first, second, *more = says(control).splitlines()
    assert first == "6 cells changed."
    assert f"“die”, row BOS: {before[0]} → {percents(control)[0]}." in second
    assert "Other rows read it in the next layer, so their bars also move." in more[1]
    expected = triangle()
    expected[0] = True
    assert torch.equal(mask_on_the_page(control), expected)
    cell(control, 0, 6).press(" ")  # keys work after a stroke
    assert not mask_on_the_page(control)[0, 6]


def test_a_finger_taps_and_draws(browser, made):
    with on_a_phone(browser, made) as control:
        cell(control, 2, 3).tap()
        expected = triangle()
        expected[2, 3] = True
        assert torch.equal(mask_on_the_page(control), expected)
        draw(control, [middle(cell(control, 4, column)) for column in (4, 5, 6)])
        expected[4, 4:] = False  # as its first cell; the last two were hidden before
        assert torch.equal(mask_on_the_page(control), expected)
        x, y = middle(cell(control, 3, 2))
        draw(control, [(x, y), (x + 3, y - 12), (x + 5, y - 40), (x + 40, y - 80)])
        assert torch.equal(mask_on_the_page(control), expected)  # that scrolls


def test_arrow_keys_move_the_focus_and_the_space_bar_flips(control, tab):
    cell(control, 0, 0).focus()
    for key in [*2 * ["ArrowDown"], *3 * ["ArrowRight"], " "]:
        tab.keyboard.press(key)
    expect(cell(control, 2, 3)).to_be_focused()
    assert mask_on_the_page(control)[2, 3]
    for key in ("Home", "ArrowLeft", "ArrowUp", "ArrowUp", "ArrowUp", "Enter"):
        tab.keyboard.press(key)
    expect(cell(control, 0, 0)).to_be_focused()
    assert not mask_on_the_page(control)[0, 0]
    in_order = control.get_by_role("grid").locator("button[tabindex='0']")
    assert in_order.count() == 1


# -- The game --------------------------------------------------------------------------


def test_after_the_tick_the_second_question_is_about_the_other_model(
    control, tokenizer
):
    following = control.get_by_role("button", name="Next question")
    assert asks(control).startswith("Question 1 of 2. Source: the cat reads a red")
    assert not following.is_visible()
    cell(control, 0, 1).click()
    assert "The question is about “liest”." in says(control)
    cell(control, 2, 3).click()
    following.click()
    assert asks(control).startswith("Question 2 of 2. This model was trained with")
    assert control.get_by_label(MASKED).is_checked()
    assert torch.equal(mask_on_the_page(control), triangle())
    cell(control, 2, 3).click()
    assert says(control) == "Choose your guess first."
    assert torch.equal(mask_on_the_page(control), triangle())
    control.get_by_label("rises").check()
    cell(control, 1, 1).click()
    assert not control.get_by_role("button", name="one leak").is_visible()
    cell(control, 1, 1).click()
    control.get_by_label(PEEKING).check()
    cell(control, 2, 3).click()
    assert "The question is about the model that was trained with the" in says(control)
    cell(control, 2, 3).click()
    control.get_by_label(MASKED).check()
    cell(control, 2, 3).click()
    assert says(control).startswith("You guessed “rises”. Row Katze now sees liest")
    assert "“liest”, row Katze: 91 % → < 1 %." in says(control)
    assert control.locator(".c-guess :disabled").count() == 3
    assert control.get_by_role("button", name="one leak").is_visible()
    agrees(control, MASKED, tokenizer)


def test_only_the_guess_that_the_bar_falls_is_ticked(control):
    cell(control, 2, 3).click()
    control.get_by_role("button", name="Next question").click()
    control.get_by_label("falls").check()
    cell(control, 2, 3).click()
    assert says(control).startswith("✓ It falls. Row Katze now sees liest")


def test_the_game_is_won_by_finding_the_three_leaks(control):
    try_once(control)
    assert "a second press hides it again" in asks(control)
    control.get_by_role("button", name="Start the game").click()
    assert asks(control).startswith("Level 1 of 3. Three cells of the future are open")
    assert percents(control) == ["?"] * SIZE
    cell(control, 0, 3).click()
    assert says(control).startswith("Not this one: row BOS must say “die”, not")
    assert control.get_by_role("button", name="Go to level 3").is_visible()
    cell(control, 1, 0).click()
    assert says(control).startswith("That cell is not in the future.")
    cell(control, 3, 4).click()
    assert says(control).startswith("Found. With this cell open, “ein” had 9")
    control.get_by_role("button", name="Next level").click()
    covered = control.get_by_role("grid").locator("button[aria-pressed=mixed]")
    assert covered.count() == SIZE * (SIZE - 1) / 2
    assert bars(control)[4] > 0.8
    cell(control, 4, 5).click()
    control.get_by_role("button", name="Next level").click()
    assert control.get_by_label(MASKED).is_checked()
    shares = bars(control)
    assert shares.argmin() == 2
    cell(control, 2, 3).click()
    assert says(control).endswith("Cells found: 3. Tries: 5.")
    assert torch.equal(mask_on_the_page(control), triangle())
    assert bars(control)[2] > 0.8


def test_the_third_level_needs_no_other_and_the_game_can_be_left(control, tokenizer):
    try_once(control)
    for name in ("causal", "Leave the game", "one leak"):
        control.get_by_role("button", name="Start the game").click()
        control.get_by_role("button", name=name).click()
        agrees(control, PEEKING, tokenizer)
        cell(control, 1, 4).click()
        assert mask_on_the_page(control)[1, 4]
    control.get_by_role("button", name="Start the game").click()
    control.get_by_role("button", name="Go to level 3").click()
    assert control.get_by_label(MASKED).is_checked()
    assert asks(control).startswith("Level 3 of 3.")
    cell(control, 2, 3).click()
    assert says(control).endswith("Cells found: 1. Tries: 1.")


def test_where_no_script_runs_the_rows_are_written_out(made):
    assert "Katze may look at BOS die Katze; the next word is liest" in made.words
