"""Merges step by step, in a browser; the tokens at the end are those of the library."""

import json
import re
from itertools import pairwise

import pytest
from axe import AXE, findings
from book_files import ROOT
from playwright.sync_api import expect

from pages.text.merges import merges_control
from transformer_lib.data import Tokenizer

TEXTS = "raincoats", "a snowman"


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.load(ROOT / "models" / "multi30k-en-de" / "tokenizer.json")


@pytest.fixture(scope="module")
def made(tokenizer):
    return merges_control(tokenizer, TEXTS)


@pytest.fixture
def control(show, made):
    return ready(show(made))


def ready(control):
    """Wait until the page has read the merges."""
    expect(control.locator(".c-merges bdi").first).to_be_visible()
    return control


def press(control, name):
    control.get_by_role("button", name=name, exact=True).click()


def write(control, text):
    control.get_by_label("Your text").fill(text)


def pieces(control):
    return control.locator(".c-merges bdi").all_inner_texts()


def ids(control):
    return [int(text) for text in control.locator(".c-merges small").all_inner_texts()]


def says(control):
    return control.locator(".c-says").inner_text()


# -- The tokens ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "raincoats",
        "A man's 12 raincoats, and Schneeschuhe!",
        "  two   spaces\t",
        "stra\u00dfe Stra\u0308nde",
        "\U0001f415 \u2603",
        "aaaaaaa ana nana banana",
        "<b>&lt;script&gt;</b> </s>",
    ],
)
def test_all_merges_leave_the_ids_of_the_library(control, tokenizer, text):
    write(control, text)
    press(control, "All merges")
    assert ids(control) == tokenizer.encode(text)
    told = ", ".join(map(str, tokenizer.encode(text)))
    assert f"No known pair is left: {len(ids(control))} tokens, ids {told}." in says(
        control
    )
    whole = [piece for piece in tokenizer.pieces(ids(control)) if "\ufffd" not in piece]
    assert set(whole) <= set(pieces(control))


def test_each_step_joins_the_known_pair_that_was_learned_first(control, tokenizer):
    merges = json.loads(tokenizer.to_json())["model"]["merges"]
    ranks = {
        (left.replace("Ġ", "▁"), right.replace("Ġ", "▁")): rank
        for rank, (left, right) in enumerate(merges)
    }
    assert pieces(control) == list("▁raincoats")
    numbers = []
    while True:
        now = pieces(control)
        known = [ranks[p] for p in pairwise(now) if p in ranks]
        framed = control.locator(".c-pair").all_inner_texts()
        if not known:
            break
        assert len(framed) == 1
        press(control, "Next merge")
        said = says(control).splitlines()[0]
        left, right, number = re.search(r"“(.+)” and “(.+)”.* (\d+) of", said).groups()
        assert ranks[left, right] == int(number) - 1 == min(known)
        assert left + right in pieces(control)
        numbers.append(int(number))
    assert framed == []
    assert len(numbers) == 7
    assert numbers == sorted(numbers)


def test_a_pair_is_joined_in_all_words_at_once(control):
    write(control, "in rain inn")
    before = pieces(control)
    framed = control.locator(".c-pair")
    assert framed.count() == 3
    press(control, "Next merge")
    assert len(pieces(control)) == len(before) - 3


# -- The guess -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "guess", "verdict"),
    [
        ("raincoats", "3", "right"),
        ("raincoats", "2", "not quite"),
        ("one two three four five six", "5 or more", "right"),
    ],
)
def test_a_guess_is_answered_at_the_end_and_no_earlier(control, text, guess, verdict):
    write(control, text)
    control.get_by_label(guess, exact=True).check()
    assert says(control) == f"Your guess: {guess}. Now merge."
    press(control, "Next merge")
    assert "guess" not in says(control)
    press(control, "All merges")
    assert f"Your guess was {guess}: {verdict}." in says(control)


# -- Mouse, touch and keys -------------------------------------------------------------


def test_the_slider_goes_through_the_merges_by_keys_and_the_buttons_move_it(control):
    slider = control.get_by_role("slider", name="Merges")
    slider.focus()
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


def test_an_example_replaces_the_text(control):
    press(control, "a snowman")
    assert control.get_by_label("Your text").input_value() == "a snowman"
    assert pieces(control) == list("▁a▁snowman")


def test_a_finger_merges_and_a_phone_has_room(browser, made):
    view = {"width": 400, "height": 800}
    context = browser.new_context(viewport=view, has_touch=True)
    page = context.new_page()
    meta = "<meta name=viewport content='width=device-width'>"
    page.set_content(f"<!doctype html><html lang='en'>{meta}{made._repr_html_()}")
    control = ready(page.locator(".control"))
    write(control, "Donaudampfschifffahrtsgesellschaft" + 13 * "\u00df")
    control.get_by_role("button", name="Next merge").tap()
    assert says(control).startswith("Merge 1 of ")
    assert page.evaluate("document.documentElement.scrollWidth") <= view["width"]
    context.close()


# -- What is refused -------------------------------------------------------------------


def test_a_text_that_is_too_long_is_refused_kindly(control):
    write(control, "a" * 61)
    alert = control.get_by_role("alert").inner_text()
    assert alert.startswith("That is 61 characters, and here is room for 60.")
    assert pieces(control) == list("▁raincoats")
    write(control, "\U0001f415" * 60)  # characters, not their halves
    assert control.get_by_role("alert").inner_text() == ""
    assert len(pieces(control)) == 1 + 4 * 60


@pytest.mark.parametrize("text", ["", "  \t "])
def test_without_a_text_the_last_one_stays(control, text):
    write(control, text)
    assert "Type a word" in control.get_by_role("alert").inner_text()
    assert pieces(control) == list("▁raincoats")


def test_a_single_byte_needs_no_merge(control, tokenizer):
    write(control, "\u0001")  # its space and itself are never joined
    press(control, "All merges")
    assert ids(control) == tokenizer.encode("\u0001")
    assert control.get_by_role("slider").count() == 0


def test_the_vocabulary_must_be_in_the_order_of_the_merges(tokenizer):
    data = json.loads(tokenizer.to_json())
    vocab = data["model"]["vocab"]
    first, last = list(vocab)[300], list(vocab)[-1]
    vocab[first], vocab[last] = vocab[last], vocab[first]
    swapped = Tokenizer.from_json(json.dumps(data))
    with pytest.raises(ValueError, match="in the order of the merges"):
        merges_control(swapped, TEXTS)
    with pytest.raises(ValueError, match="at least 1 text, got 0"):
        merges_control(tokenizer, [])


# -- For everybody ---------------------------------------------------------------------


def test_changes_are_announced(control):
    assert control.get_by_role("status").filter(has_text="Each box").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(tab, made, theme):
    page = f"<!doctype html><html lang=en data-theme={theme}><title>Merges</title>"
    tab.set_content(f"{page}<main>{made._repr_html_()}</main>")
    press(ready(tab), "Next merge")
    tab.add_script_tag(path=AXE)
    assert findings(tab) == []


def test_it_works_from_a_file(tab, made, tmp_path):
    file = tmp_path / "merges.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{made._repr_html_()}", "utf-8")
    tab.goto(file.as_uri())
    press(ready(tab), "All merges")
    assert pieces(tab) == ["▁rain", "co", "ats"]
    assert tab.faults == []


def test_where_no_script_runs_every_merge_is_written_out(made, tokenizer):
    lines = made.words.splitlines()
    assert lines[1] == "▁ r a i n c o a t s"
    assert lines[-2].split() == tokenizer.pieces(tokenizer.encode("raincoats"))
    assert lines[-1] == "Ids: 2277 2098 2339"
