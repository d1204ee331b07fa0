"""Merges step by step, in a browser; the tokens at the end are those of the library."""

import json
import re
from itertools import pairwise

import pytest
from book_files import ROOT
from operating import press, says
from playwright.sync_api import expect

from pages.text.merges import merges_control
from transformer_lib.data import Tokenizer

TEXTS = "raincoats", "a snowman"
HARD = [
    "A man's 12 raincoats, and Schneeschuhe!",
    "  two   spaces\t",
    "stra\u00dfe Stra\u0308nde \U0001f415 \u2603",
    "aaaaaaa ana nana banana",
    "<b>&lt;script&gt;</b> </s>",
    "\u0001",  # its space and itself are never joined
]


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load(ROOT / "models" / "multi30k-en-de" / "tokenizer.json")


@pytest.fixture(scope="module")
def made(tokenizer):
    return merges_control(tokenizer, TEXTS)


@pytest.fixture
def control(show, made):
    """As soon as the page has read the merges."""
    shown = show(made)
    expect(shown.locator(".c-merges bdi").first).to_be_visible()
    return shown


def write(control, text):
    control.get_by_label("Your text").fill(text)


def pieces(control):
    return control.locator(".c-merges bdi").all_inner_texts()


def test_all_merges_leave_the_ids_of_the_library(control, tokenizer):
    for text in HARD:
        write(control, text)
        press(control, "All merges")
        ids = tokenizer.encode(text)
        told = ", ".join(map(str, ids))
        assert f"No known pair is left: {len(ids)} tokens, ids {told}." in says(control)
        assert control.locator(".c-merges small").all_inner_texts() == told.split(", ")
        whole = [piece for piece in tokenizer.pieces(ids) if "\ufffd" not in piece]
        assert set(whole) <= set(pieces(control))
    assert control.get_by_role("slider").count() == 0  # there was nothing to merge


def test_each_step_joins_the_known_pair_that_was_learned_first(control, tokenizer):
    merges = json.loads(tokenizer.to_json())["model"]["merges"]
    ranks = {
        (left.replace("Ġ", "▁"), right.replace("Ġ", "▁")): rank
        for rank, (left, right) in enumerate(merges)
    }
    write(control, "raincoats in rain inn")
    assert pieces(control) == list("▁raincoats▁in▁rain▁inn")
    framed, numbers = control.locator(".c-pair"), []
    while known := [ranks[p] for p in pairwise(pieces(control)) if p in ranks]:
        assert framed.count() == known.count(min(known))  # in all words at once
        press(control, "Next merge")
        said = says(control).splitlines()[0]
        left, right, number = re.search(r"“(.+)” and “(.+)”.* (\d+) of", said).groups()
        assert ranks[left, right] == int(number) - 1 == min(known)
        assert left + right in pieces(control)
        numbers.append(int(number))
    assert framed.count() == 0
    assert numbers == sorted(set(numbers))


def test_a_guess_is_answered_at_the_end_and_no_earlier(control):
    for text, guess, verdict in [
        ("raincoats", "3", "right"),
        ("raincoats ", "2", "not quite"),
        ("one two three four five six", "5 or more", "right"),
    ]:
        write(control, text)
        control.get_by_label(guess, exact=True).check()
        assert says(control) == f"Your guess: {guess}. Now merge."
        press(control, "Next merge")
        assert "guess" not in says(control)
        press(control, "All merges")
        assert f"Your guess was {guess}: {verdict}." in says(control)


def test_the_slider_goes_through_the_merges_and_the_buttons_move_it(control):
    slider = control.get_by_role("slider", name="Merges")
    slider.press("ArrowRight")
    assert says(control).startswith("Merge 1 of 7 joined “i” and “n”")
    slider.press("End")
    assert pieces(control) == ["▁rain", "co", "ats"]
    following = control.get_by_role("button", name="Next merge")
    assert following.get_attribute("aria-disabled") == "true"
    following.press("Enter")
    assert slider.input_value() == "7"
    press(control, "Back to bytes")
    assert slider.input_value() == "0"
    assert says(control).startswith("Bytes, before any merge.")
    press(control, "Next merge")
    assert slider.get_attribute("aria-valuetext") == "1 of 7"
    press(control, "a snowman")  # an example replaces the text
    assert control.get_by_label("Your text").input_value() == "a snowman"
    assert pieces(control) == list("▁a▁snowman")


def test_a_text_that_is_too_long_or_empty_is_refused_kindly(control, tab):
    alert = control.get_by_role("alert")
    for text, words in {
        "a" * 61: "That is 61 characters",
        " \t ": "Type a word",
    }.items():
        write(control, text)
        assert alert.inner_text().startswith(words)
        assert pieces(control) == list("▁raincoats")
    write(control, "\U0001f415" * 60)  # characters, not their halves
    assert alert.inner_text() == ""
    assert len(pieces(control)) == 1 + 4 * 60
    tab.set_viewport_size({"width": 400, "height": 800})
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400


def test_where_no_script_runs_every_merge_is_written_out(made, tokenizer):
    lines = made.words.splitlines()
    assert lines[1] == "▁ r a i n c o a t s"
    assert lines[-2].split() == tokenizer.pieces(tokenizer.encode("raincoats"))
    assert lines[-1] == "Ids: 2277 2098 2339"
