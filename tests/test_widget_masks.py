"""The mask laboratory, operated in a browser; its masks are the library's."""

import re

import pytest
import torch
from operating import says

from pages.masks.masks import mask_control
from transformer_lib.model import causal_mask, padding_mask

SRC = ["the cat reads a red book", "a dog sleeps"]
TGT = ["die Katze liest ein rotes Buch", "ein Hund schläft"]
ATTENTIONS = ["encoder self-attention", "decoder self-attention", "cross-attention"]
ENCODER, DECODER, CROSS = ATTENTIONS


@pytest.fixture
def first(show):
    """The laboratory as a reader finds it."""
    return show(mask_control(SRC, TGT))


@pytest.fixture
def lab(first):
    """The laboratory with right code, an encoder, and its fold open."""
    choose(first, ENCODER, "is right")
    first.locator("summary").click()
    return first


def choose(lab, attention=None, code=None):
    if attention:
        lab.get_by_role("combobox", name="Attention").select_option(label=attention)
    if code:
        lab.get_by_label("The code").select_option(label=code)


def mask_on_the_page(lab, caption):
    """Both sentences' grids of one name, shape (B, T, S), and the shape they name."""
    name = re.compile(rf"^Sentence [12], {re.escape(caption)}( \(|$)")
    regions = lab.get_by_role("region", name=name)
    tables = regions.locator("table").evaluate_all(
        "all => all.map(table => [...table.rows].slice(1).map(row =>"
        " [...row.querySelectorAll('td')].map(cell => cell.textContent)))"
    )
    assert {
        text.removeprefix("✗") for table in tables for row in table for text in row
    } <= {"may attend", "hidden"}
    shape = regions.first.get_attribute("aria-label").partition("\n")[2]
    return torch.tensor(
        [[[t.endswith("may attend") for t in row] for row in table] for table in tables]
    ), shape


def tokens(lengths, at_left=False):
    """Ones for words and zeros for padding, shape (B, S)."""
    longest = max(lengths)
    rows = [[1] * n + [0] * (longest - n) for n in lengths]
    return torch.tensor([row[::-1] if at_left else row for row in rows])


def library_masks(at_left=False):
    src, tgt = tokens([6, 3], at_left), tokens([7, 5], at_left)
    causal = causal_mask(7)
    return {
        ENCODER: {"padding": padding_mask(src, 0)},
        DECODER: {
            "padding": padding_mask(tgt, 0),
            "causal": causal,
            "padding & causal": padding_mask(tgt, 0) & causal,
        },
        CROSS: {"padding": padding_mask(src, 0)},
    }


@pytest.mark.parametrize("attention", ATTENTIONS)
def test_the_masks_on_the_page_are_those_of_the_library(lab, attention):
    choose(lab, attention)
    for at_left in (False, True):
        lab.get_by_label("pad on the left").set_checked(at_left)
        for caption, mask in library_masks(at_left)[attention].items():
            shown, shape = mask_on_the_page(lab, caption)
            right = mask.expand(2, 1, *shown.shape[1:])[:, 0]
            assert torch.equal(shown, right)
            assert shape == str(tuple(mask.shape))
        seen, _ = mask_on_the_page(lab, "what attention sees")
        assert torch.equal(seen, right)  # the last mask is the one to use
        assert says(lab) == "No row of a word goes wrong."
    choose(lab, code="takes True for hidden")
    assert torch.equal(mask_on_the_page(lab, "what attention sees")[0], ~right)
    assert "Sentence 2, looking at padding: " in says(lab)


def test_it_opens_on_code_that_forgets_the_future_and_marks_what_it_sees(first):
    marked = first.locator("th .c-wrong").all_inner_texts()
    assert marked == [
        *[f"✗ {word}" for word in "BOS die Katze liest ein rotes".split()],
        *[f"✗ {word}" for word in "BOS ein Hund schläft".split()],
    ]
    crosses = first.locator("td", has_text="✗")
    assert crosses.count() == 7 * 6 / 2 + 5 * 4 / 2
    assert says(first).splitlines() == [
        "Sentence 1, looking at a later word: BOS, die, Katze, liest, ein, rotes.",
        "Sentence 2, looking at a later word: BOS, ein, Hund, schläft.",
    ]
    assert first.get_by_role("region").count() == 2  # the factors are in the fold
    first.locator("summary").click()
    assert first.get_by_role("region").count() == 8


def test_each_mistake_shows_what_it_does_to_the_rows(lab):
    choose(lab, ENCODER, "adds ones and zeros to the scores")
    assert mask_on_the_page(lab, "what attention sees")[0].all()
    assert says(lab) == "Sentence 2, looking at padding: a, dog, sleeps."
    choose(lab, ENCODER, "hides padding on the rows")
    seen, _ = mask_on_the_page(lab, "what attention sees")
    assert torch.equal(seen[1], tokens([6, 3])[1].bool()[:, None].expand(6, 6))
    assert says(lab) == "Sentence 2, looking at padding: a, dog, sleeps."
    choose(lab, DECODER, "leaves out the diagonal")
    assert "Sentence 1, seeing nothing: BOS." in says(lab)
    assert "Sentence 2, missing a word: ein, Hund, schläft, EOS." in says(lab)
    choose(lab, DECODER, "forgets the padding")
    assert says(lab) == "No row of a word goes wrong."
    lab.get_by_label("pad on the left").check()
    assert says(lab) == (
        "Sentence 2, looking at padding: BOS, ein, Hund, schläft, EOS."
    )


def test_the_reader_types_sentences_and_they_stay_text(lab):
    lab.get_by_label("Source 2").fill("one  two three four five six seven")
    shown, shape = mask_on_the_page(lab, "padding")
    assert torch.equal(shown[:, 0], tokens([6, 7]).bool())
    assert shape == "(2, 1, 1, 7)"
    lab.get_by_label("Source 1").fill("<script>alert(1)</script> <b>&amp;\"' 🐈 שלום")
    seen = lab.get_by_role("region", name="Sentence 1, what attention sees")
    rows = seen.locator("th[scope=row]").all_inner_texts()
    assert rows[:4] == ["<script>ale…", "<b>&amp;\"'", "🐈", "שלום"]
    assert lab.locator("script").count() == 2  # the control's own
    lab.get_by_label("Source 2").fill("")
    choose(lab, CROSS)
    assert says(lab) == (
        "Sentence 2, with nothing to look at, and zeros for an answer: "
        "BOS, ein, Hund, schläft, EOS."
    )


PALE = "all => all.filter((part) => getComputedStyle(part).opacity < 0.5).length"


def test_a_refusal_names_the_field_and_dims_the_old_result(lab):
    parts = lab.locator("> .c-body > *")
    before, _ = mask_on_the_page(lab, "padding")
    for box, words, message in (
        ("Source 2", 13, "Source 2 has 13 words; there is room for 12."),
        ("Target 1", 14, "Target 1 has 14 words; there is room for 12."),
        ("Source 2", 0, ""),
        ("Source 1", 0, "Source 1 and Source 2 are empty: type a word in one."),
    ):
        lab.get_by_label(box).fill("word " * words)
        assert lab.get_by_role("alert").inner_text() == message
        assert parts.evaluate_all(PALE) == (3 if message else 0)
        if words:
            assert torch.equal(mask_on_the_page(lab, "padding")[0], before)
            lab.get_by_label(box).fill("a dog sleeps")
            assert parts.evaluate_all(PALE) == 0
            before, _ = mask_on_the_page(lab, "padding")


def test_on_a_phone_what_attention_sees_is_next_to_the_choices(show, tab):
    tab.set_viewport_size({"width": 400, "height": 900})
    lab = show(mask_control(SRC, TGT))
    top = lab.get_by_label("The code").bounding_box()["y"]
    grid = lab.get_by_role("region", name="Sentence 1, what attention sees")
    box = grid.bounding_box()
    assert box["y"] + box["height"] - top < 900


def test_where_no_script_runs_the_padding_is_written_out():
    assert mask_control(SRC, TGT).words.endswith(
        "\nBOS die Katze liest ein rotes Buch\nBOS ein Hund schläft EOS [PAD] [PAD]"
    )
