"""The race of two decoders, in a browser; its counts are those of the model."""

import re

import pytest
from book_files import ROOT
from operating import press, says
from playwright.sync_api import expect

from pages.cache.race import race_control
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
    begin(asking, 50)
    choose(asking, 0)
    return asking


def begin(control, guess):
    control.get_by_label("Your guess").fill(str(guess))
    press(control, "Play")
    scrub(control, ALL[1])


def choose(control, race):
    control.get_by_role("radio", name=f"{SIZES[race]} tokens").check()


def counts(control):
    found = control.locator(".c-race-count b").all_inner_texts()
    return [int(text) for text in found]


def texts(control):
    return control.locator(".c-race-text").all_inner_texts()


def cells(control, lane):
    """The cells of a lane as (step, position): kind."""
    found = control.get_by_role("img").nth(lane).locator("i")
    rows = found.evaluate_all(
        "all => all.map(cell => [cell.style.cssText, cell.classList[0] ?? ''])"
    )
    return {tuple(map(int, re.findall(r"\d+", place))): kind for place, kind in rows}


def status(control):
    return control.get_by_role("status").inner_text()


def scrub(control, at):
    control.get_by_role("slider").fill(str(at))


def test_the_record_is_what_the_model_writes_and_computes(made, translator):
    assert tuple(translator.translate(ENGLISH)) == GERMAN
    for race, german, size in zip(made.data["races"], GERMAN, SIZES, strict=True):
        assert race["german"] == german
        assert race["computed"] == [list(range(1, size + 1)), [1] * size]


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
    assert len(without) == ALL[0]
    for (step, position), kind in without.items():
        assert kind == ("c-first" if position == step else "c-again")
        assert cached[step, position] == kind.replace("again", "kept")
    assert texts(control) == [f"{GERMAN[0]} EOS"] * 2
    assert "saves 21." in says(control)


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


def test_a_guess_is_the_only_way_to_start_and_is_answered_at_the_finish(asking, tab):
    tab.clock.install()
    page = asking.locator(".c-body").inner_html()
    assert "78" not in re.sub(r'name="pick0\.\d+"', "", page)  # a random name
    assert status(asking) == ""
    for role in ("slider", "radio"):
        expect(asking.get_by_role(role)).to_have_count(0)
    asking.get_by_role("button").press("ArrowRight")  # the only one
    guess = asking.get_by_label("Your guess")
    for text in ("", "7.5", "-3", "<b>7"):
        guess.fill(text)
        press(asking, "Play")
        assert says(asking) == "First write your guess, as one whole number."
        assert counts(asking) == [0, 0]
        expect(guess).to_be_focused()
    guess.fill("78")
    guess.press("Enter")
    expect(asking.get_by_role("button", name="Pause")).to_be_focused()
    expect(guess).to_be_hidden()
    assert "uess" not in says(asking)
    assert "✓" not in says(asking)
    expect(asking.get_by_role("radio")).to_have_count(0)  # no other sentence yet
    tab.clock.run_for(10_000)
    assert says(asking).startswith(
        "✓ Each step computes all earlier ones again: 1 + 2 + ... + 12 = 78."
    )
    assert status(asking) == says(asking)
    expect(asking.get_by_role("radio", name="12 tokens")).to_be_checked()


@pytest.mark.parametrize(
    ("guess", "answer"),
    [
        (12, "That is with the cache. Each"),
        (144, "But step 1 has one position, and only step 12 has 12."),
        (50, "Each step"),
    ],
)
def test_a_wrong_guess_is_answered_by_where_it_comes_from(asking, guess, answer):
    begin(asking, guess)
    assert says(asking).startswith(f"You guessed {guess}. {answer}")


def test_buttons_and_keys_step_and_stop_at_both_ends(control, tab):
    press(control, "Next")
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):  # the button has the focus
        tab.keyboard.press(key)
    assert counts(control) == [2, 2]
    back, following = (control.get_by_role("button", name=n) for n in ("Back", "Next"))
    for _ in range(3):
        back.press("Enter")
    assert counts(control) == [0, 0]
    assert back.get_attribute("aria-disabled") == "true"
    slider = control.get_by_role("slider")
    slider.press("End")
    following.press("Enter")
    assert counts(control) == [28, 7]
    slider.press("ArrowLeft")
    assert counts(control) == [27, 7]


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


def test_nothing_below_moves_while_it_runs_and_a_phone_has_both_lanes(control, tab):
    choose(control, 1)
    tab.set_viewport_size({"width": 400, "height": 900})
    heights = set()
    for at in range(0, 79, 6):
        scrub(control, at)
        heights.add(round(control.bounding_box()["height"]))
    assert len(heights) == 1
    left, right = [lane.bounding_box() for lane in control.get_by_role("img").all()]
    assert left["y"] == right["y"]  # side by side


def test_it_says_where_it_is_after_an_action_and_not_while_it_is_moved(control):
    before = status(control)
    slider = control.get_by_role("slider")
    slider.evaluate("slider => { slider.value = 7; }")
    slider.dispatch_event("input")
    assert counts(control) == [7, 7]
    assert status(control) == before
    slider.dispatch_event("change")
    assert status(control) == says(control) != ""


def test_reduced_motion_lights_without_moving(control, tab):
    scrub(control, 3)
    animation = "cell => getComputedStyle(cell).animationName"
    for motion, name in {"no-preference": "c-lit", "reduce": "none"}.items():
        tab.emulate_media(reduced_motion=motion)
        assert control.locator(".c-now").first.evaluate(animation) == name


def test_where_no_script_runs_the_question_is_asked_and_not_answered(made):
    assert "“the cat reads a red book” becomes “die Katze" in made.words
    assert made.words.endswith("without the cache compute for 12 tokens?")
    assert not re.search(r"\b(28|78)\b", made.words)
