"""The race of two decoders, in a browser; its counts are those of the model."""

import math
import re

import pytest
import torch
from axe import findings
from book_files import ROOT
from playwright.sync_api import expect

from pages.cache.race import race_control
from transformer_lib.model import padding_mask
from transformer_lib.translation import Translator

ENGLISH = (
    "the cat reads a red book",
    "today the woman helps the red bears under the big chair",
)
GERMAN = (
    "die Katze liest ein rotes Buch",
    "heute hilft die Frau den roten Bären unter dem großen Stuhl",
)
SIZES = 7, 12  # tokens, EOS included
ALL = 28, 78


@pytest.fixture(scope="module")
def translator():
    return Translator.load(ROOT / "models/grammar-en-de")


@pytest.fixture(scope="module")
def made(translator):
    return race_control(translator, ENGLISH)


@pytest.fixture
def asking(show, made):
    return show(made)


@pytest.fixture
def control(asking):
    """After the question: the race is over once, and the short sentence is chosen."""
    begin(asking)
    return asking


def begin(control, guess=50):
    control.get_by_label("Your guess").fill(str(guess))
    press(control, "Play")
    scrub(control, ALL[1])
    control.get_by_role("radio", name="7 tokens").check()


def counts(control):
    found = control.locator(".c-race-count b").all_inner_texts()
    return [int(text) for text in found]


def texts(control):
    return control.locator(".c-race-text").all_inner_texts()


def cells(control, lane):
    """The cells of a lane as (step, position): kind."""
    found = control.locator(f".c-race > div:nth-of-type({lane + 1}) i")
    rows = found.evaluate_all(
        "all => all.map(cell => [cell.style.getPropertyValue('--row'),"
        " cell.style.getPropertyValue('--column'), cell.className.split(' ')[0]])"
    )
    return {(int(t) - 1, int(s) - 1): kind for t, s, kind in rows}


def says(control):
    return control.locator(".c-says").inner_text()


def status(control):
    return control.get_by_role("status").inner_text()


def scrub(control, at):
    control.get_by_role("slider").fill(str(at))


def press(control, name):
    control.get_by_role("button", name=name, exact=True).click()


# -- The numbers -----------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize("race", [0, 1])
def test_the_record_is_what_two_loops_over_the_model_do(made, translator, race):
    model, tokenizer = translator.model, translator.tokenizer
    src = torch.tensor([[*tokenizer.encode(ENGLISH[race]), tokenizer.eos_id]])
    memory, mask = model.encode(src), padding_mask(src, tokenizer.pad_id)
    for computed, cache in zip(
        made.data["races"][race]["computed"], (None, model.new_cache()), strict=True
    ):
        counts, tokens = [], [tokenizer.bos_id]
        while tokens[-1] != tokenizer.eos_id:
            given = tokens if cache is None else tokens[-1:]
            counts.append(len(given))
            logits = model.decode(torch.tensor([given]), memory, mask, cache)
            tokens.append(logits[0, -1].argmax().item())
        assert computed == counts
        assert tokenizer.decode(tokens[1:-1]) == GERMAN[race]
    assert len(counts) == SIZES[race]
    assert ALL[race] == math.comb(SIZES[race] + 1, 2)


@pytest.mark.parametrize("race", [0, 1])
def test_both_write_the_sentence_and_compute_what_the_model_computed(control, race):
    control.get_by_role("radio", name=f"{SIZES[race]} tokens").check()
    scrub(control, ALL[race])
    assert counts(control) == [ALL[race], SIZES[race]]
    assert texts(control) == [f"{GERMAN[race]} EOS"] * 2
    assert f"saves {ALL[race] - SIZES[race]}." in says(control)


def test_each_computed_cell_lights_up_once(control):
    lit = []
    for at in range(ALL[0] + 1):
        scrub(control, at)
        now = control.locator(".c-now")
        assert now.count() == (0 if at == 0 else 2 if at <= SIZES[0] else 1)
        lit += now.evaluate_all("all => all.map(cell => cell.style.cssText)")
        assert counts(control) == [at, min(at, SIZES[0])]
    assert len(lit) == ALL[0] + SIZES[0]
    without, cached = cells(control, 0), cells(control, 1)
    for (step, position), kind in without.items():
        assert kind == ("c-first" if position == step else "c-again")
    for (step, position), kind in cached.items():
        assert kind == ("c-first" if position == step else "c-kept")


def test_the_one_with_the_cache_is_ahead_after_as_many_positions(control):
    scrub(control, 7)
    assert texts(control) == ["die Katze liest", f"{GERMAN[0]} EOS"]
    assert says(control) == (
        "With the cache, all 7 tokens are written after 7 positions. "
        "Without it, 3 are written after 7."
    )
    scrub(control, 4)
    assert "After 4 positions each: 2 of 7 tokens without the cache, 4 with it." in (
        says(control)
    )
    assert set(cells(control, 1).values()) == {"c-first", "c-kept", ""}


# -- The question ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("guess", "begins"),
    [
        ("78", "✓ Each"),
        ("12", "You guessed 12. That is with the cache. Each"),
        (
            "144",
            "You guessed 144. But step 1 has one position, and only step 12 has 12.",
        ),
        ("50", "You guessed 50. Each"),
    ],
)
def test_the_guess_is_answered_at_the_finish_only(asking, tab, guess, begins):
    tab.clock.install()
    page = asking.locator(".c-body").inner_html()
    assert "78" not in re.sub(r'name="pick0\.\d+"', "", page)  # a random name
    asking.get_by_label("Your guess").fill(guess)
    asking.get_by_label("Your guess").press("Enter")
    assert "uess" not in says(asking)
    assert "✓" not in says(asking)
    expect(asking.get_by_role("radio")).to_have_count(0)  # no other sentence yet
    tab.clock.run_for(10_000)
    assert says(asking).startswith(begins)
    assert "Each step computes all earlier ones again: 1 + 2 + ... + 12 = 78." in (
        says(asking)
    )
    assert status(asking) == says(asking)
    expect(asking.get_by_role("radio", name="12 tokens")).to_be_checked()


def test_a_guess_and_play_is_the_only_way_to_start(asking, tab):
    assert status(asking) == ""
    for role in ("slider", "radio"):
        expect(asking.get_by_role(role)).to_have_count(0)
    expect(asking.get_by_role("button")).to_have_count(1)
    asking.get_by_role("button").focus()
    tab.keyboard.press("ArrowRight")
    assert counts(asking) == [0, 0]
    asking.get_by_label("Your guess").fill("9")
    press(asking, "Play")
    expect(asking.get_by_role("button", name="Pause")).to_be_focused()
    expect(asking.get_by_label("Your guess")).to_be_hidden()


@pytest.mark.parametrize("text", ["", "many", "7.5", "-3", "<b>7"])
def test_a_guess_that_is_no_number_is_refused(asking, text):
    asking.get_by_label("Your guess").fill(text)
    press(asking, "Play")
    assert says(asking) == "First write your guess, as one whole number."
    assert counts(asking) == [0, 0]
    expect(asking.get_by_label("Your guess")).to_be_focused()


# -- Mouse, touch and keys -------------------------------------------------------------


def test_buttons_step_and_stop_at_both_ends(control):
    press(control, "Next")
    press(control, "Next")
    assert counts(control) == [2, 2]
    press(control, "Back")
    assert counts(control) == [1, 1]
    for _ in range(2):
        control.get_by_role("button", name="Back").click(force=True)
    assert counts(control) == [0, 0]
    assert control.get_by_role("button", name="Back").get_attribute("aria-disabled")
    scrub(control, 28)
    control.get_by_role("button", name="Next").click(force=True)
    assert counts(control) == [28, 7]


def test_it_plays_pauses_and_begins_again(control, tab):
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    press(control, "Play")
    tab.clock.run_for(6000 / 28 * 3 + 20)
    assert counts(control) == [3, 3]
    press(control, "Pause")
    tab.clock.run_for(5000)
    assert counts(control) == [3, 3]
    press(control, "Play")
    tab.clock.run_for(8000)
    assert counts(control) == [28, 7]
    press(control, "Play")
    assert counts(control) == [0, 0]
    press(control, "Next")  # the reader takes over
    tab.clock.run_for(5000)
    assert counts(control) == [1, 1]


def test_the_keys_step_and_scrub(control, tab):
    control.get_by_role("button", name="Play").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowRight", "ArrowLeft"):
        tab.keyboard.press(key)
    assert counts(control) == [2, 2]
    slider = control.get_by_role("slider")
    slider.press("End")
    assert counts(control) == [28, 7]
    slider.press("ArrowLeft")
    assert counts(control) == [27, 7]
    assert slider.get_attribute("aria-valuetext") == "27"
    control.get_by_role("radio", name="7 tokens").press("ArrowRight")
    assert control.get_by_role("radio", name="12 tokens").is_checked()
    assert counts(control) == [0, 0]


def test_a_finger_plays_on_a_phone_and_nothing_is_wider(browser, made):
    context = browser.new_context(
        viewport={"width": 400, "height": 800}, has_touch=True
    )
    page = context.new_page()
    head = "<meta name=viewport content='width=device-width'>"
    page.set_content(f"<!doctype html><html lang=en>{head}{made._repr_html_()}")
    control = page.locator(".control")
    begin(control)
    control.locator(".c-pick label").last.tap()
    control.get_by_role("button", name="Next").tap()
    control.get_by_role("button", name="Next").tap()
    assert counts(control) == [2, 2]
    scrub(control, 78)
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    left, right = (
        control.get_by_role("img", name=name).bounding_box()
        for name in ("Without the cache", "With the cache")
    )
    assert left["y"] == right["y"]  # side by side
    context.close()


@pytest.mark.parametrize("width", [740, 400])
def test_nothing_below_moves_while_it_runs(control, tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    control.get_by_role("radio", name="12 tokens").check()
    heights = set()
    for at in range(0, 79, 6):
        scrub(control, at)
        heights.add(round(control.bounding_box()["height"]))
    assert len(heights) == 1


# -- For everybody ---------------------------------------------------------------------


def test_it_says_where_it_is_after_an_action_and_not_while_it_is_moved(control):
    before = status(control)
    slider = control.get_by_role("slider")
    slider.evaluate("slider => { slider.value = 7; }")
    slider.dispatch_event("input")
    assert counts(control) == [7, 7]
    assert status(control) == before
    slider.dispatch_event("change")
    assert status(control) == says(control) != ""
    name = "Without the cache: 7 positions computed, 3 of 7 tokens written"
    assert control.get_by_role("img", name=name).count() == 1


def test_reduced_motion_lights_without_moving(control, tab):
    scrub(control, 3)
    now = control.locator(".c-now").first
    animation = "cell => getComputedStyle(cell).animationName"
    assert now.evaluate(animation) == "c-lit"
    tab.emulate_media(reduced_motion="reduce")
    assert now.evaluate(animation) == "none"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(tab, made, theme):
    page = f"<!doctype html><html lang=en data-theme={theme}><title>Race</title>"
    tab.set_content(f"{page}<main>{made._repr_html_()}</main>")
    begin(tab)
    tab.get_by_role("slider").fill("9")
    assert findings(tab) == []


def test_it_works_from_a_file(tab, made, tmp_path):
    file = tmp_path / "race.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{made._repr_html_()}", "utf-8")
    tab.goto(file.as_uri())
    begin(tab)
    tab.get_by_role("slider").fill("28")
    assert counts(tab.locator(".control")) == [28, 7]
    assert tab.faults == []


def test_where_no_script_runs_the_question_is_asked_and_not_answered(made):
    assert "“the cat reads a red book” becomes “die Katze" in made.words
    assert made.words.endswith("without the cache compute for 12 tokens?")
    assert not re.search(r"\b(28|78)\b", made.words)


# -- Refusals --------------------------------------------------------------------------


def test_no_sentence_and_a_long_one_are_refused(translator, monkeypatch):
    with pytest.raises(ValueError, match="at least 1 sentence, got 0"):
        race_control(translator, [])
    monkeypatch.setattr("pages.cache.race.MOST", 6)
    with pytest.raises(ValueError, match="end within 6 tokens, got 6 for 'the cat"):
        race_control(translator, ENGLISH)


def test_two_decoders_that_differ_are_refused(translator, monkeypatch):
    written = iter([[5], [6]])
    monkeypatch.setattr(
        "pages.cache.race.greedy_decode", lambda *given, **named: [next(written)]
    )
    with pytest.raises(ValueError, match=r"got \[5\] without the cache and \[6\]"):
        race_control(translator, ENGLISH)
