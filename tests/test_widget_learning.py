"""The recorded training run, in a browser; its numbers are those of the tables."""

import csv
import re
from itertools import pairwise

import pytest
from book_files import ROOT
from operating import answers, asks, draw, on_a_phone, press, status

from bookkit.colours import COLOURS, EDGES
from pages.training.learning import learning_control

WITH, WITHOUT = "with warm-up", "without warm-up"
KEYS = {WITH: "yes", WITHOUT: "no"}
GOALS = {"melon": "nolem", "pleading": "gnidaelp"}
FIRST = 150  # updates, until "gnidaelp" is right
EVERY = 10
SCREEN = 790  # pixels of a phone of 850, below the bar of the page


def table(name):
    with open(ROOT / "measurements" / f"{name}.csv", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def tables():
    return table("learning"), table("learning_words")


@pytest.fixture(scope="module")
def made(tables):
    return learning_control(*tables)


@pytest.fixture
def control(show, made):
    return show(made)


def facts(control):
    return control.locator("p.c-says").inner_text()


def updates(control):
    return int(control.locator(".c-slider output").inner_text())


def scrub(control, update):
    control.get_by_role("slider").fill(str(update // EVERY))


def curve(control):
    control.locator(".c-curve").scroll_into_view_if_needed()
    return control.locator(".c-curve").bounding_box()


def place(control, update):
    """Where the point of an update lies on the page."""
    box = curve(control)
    return box["x"] + box["width"] * update / 400, box["y"] + box["height"] / 2


# -- The numbers -----------------------------------------------------------------------


@pytest.mark.parametrize(("run", "word"), [(WITH, "pleading"), (WITHOUT, "melon")])
def test_the_page_shows_what_the_tables_hold(control, tables, run, word):
    curves, words = tables
    control.get_by_label(run, exact=True).check()
    control.get_by_label(word).check()
    for update in (0, FIRST, 400):
        about = {"warmup": KEYS[run], "seed": "1", "update": str(update)}
        [measured] = [row for row in curves if about.items() <= row.items()]
        about["word"] = word
        [written] = [row for row in words if about.items() <= row.items()]
        scrub(control, update)
        tiles = control.locator(".c-written span").all_inner_texts()
        assert "".join(tiles) == written["writes"]
        assert len(tiles) == max(len(word), len(written["writes"]))
        assert f"loss {float(measured['loss']):.2f}." in facts(control)
        share = f"{float(measured['exact']):.0%}".replace("%", " %")
        assert facts(control).endswith(f" {share} are right.")
        assert_darker_where_more(control, written["weights"])
    framed = control.locator(".c-map i").evaluate_all(
        "all => all.flatMap((cell, i) => cell.matches('.c-framed') ? [i] : [])"
    )
    n = len(word)
    assert framed == [t * (n + 1) + n - 1 - t for t in range(n)]


def assert_darker_where_more(control, digits):
    """The map must be the darker the larger the weight, of two digits, in a cell."""
    weights = [int(digits[i : i + 2]) for i in range(0, len(digits), 2)]
    shades = control.locator(".c-map i").evaluate_all(
        "all => all.map(cell => cell.style.getPropertyValue('--light').match(/\\d+/g)"
        ".reduce((sum, part) => sum + Number(part), 0))"
    )
    seen = dict(sorted(set(zip(weights, shades, strict=True))))
    assert len(seen) == len(set(zip(weights, shades, strict=True)))
    assert all(one > other for one, other in pairwise(seen.values()))


LOOKS = """mark => ["backgroundColor", "borderTopColor", "borderTopStyle"]
  .map((name) => getComputedStyle(mark)[name])"""


def test_a_letter_in_its_place_is_green_and_solid_and_another_dashed(control, tab):
    scrub(control, 170)  # gniaepl
    kinds = control.locator(".c-written span").evaluate_all(
        "all => all.map(tile => tile.className)"
    )
    right, other = "c-right", "c-other"
    assert kinds == [right] * 3 + [other] * 3 + [right, "c-none"]
    assert "becomes “gniaepl”: 4 of 8 letters in place" in facts(control)
    themes = ("light", "dark")
    for theme, *colours in zip(themes, COLOURS["right"], EDGES["right"], strict=True):
        tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        for place in (".c-written span", ".c-legend i"):
            found = control.locator(f"{place}.c-right").first.evaluate(LOOKS)
            assert found == [*map(as_rgb, colours), "solid"]
            found = control.locator(f"{place}.c-other").first.evaluate(LOOKS)
            assert found[2] == "dashed"


def as_rgb(colour):
    return f"rgb({', '.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5))})"


def test_the_tables_support_what_the_control_says(tables):
    curves, words = tables
    right = [
        row["writes"] == GOALS["pleading"]
        for row in words
        if (row["warmup"], row["word"]) == ("yes", "pleading")
    ]
    assert right.index(True) == FIRST // EVERY
    assert not right[FIRST // EVERY + 1]
    assert all(right[35:])
    assert not right[34]
    ends = {
        run: [
            float(row["exact"])
            for row in curves
            if (row["warmup"], row["update"]) == (run, "400")
        ]
        for run in KEYS.values()
    }
    assert len(ends["yes"]) == len(ends["no"]) == 3
    assert min(ends["yes"]) > 0.9
    assert max(ends["no"]) < 0.05
    for update, expected in (("150", 63), ("400", 93)):
        about = {"warmup": "yes", "word": "pleading", "update": update}
        [row] = [row for row in words if about.items() <= row.items()]
        framed = [row["weights"][2 * (9 * t + 7 - t) :][:2] for t in range(8)]
        assert round(sum(map(int, framed)) / 8) == expected


# -- The questions ---------------------------------------------------------------------


def guess(control, text):
    control.locator(".c-guess").get_by_label(text, exact=True).check()


def solve_first(control):
    guess(control, "150")
    scrub(control, FIRST)


def test_nothing_plays_and_no_answer_is_shown_before_the_guess(control, tab):
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    play = control.get_by_role("button", name="Play")
    assert play.get_attribute("aria-disabled") == "true"
    play.click(force=True)
    tab.clock.run_for(10_000)
    assert updates(control) == 0
    assert status(control).endswith("Choose your guess, then press Play.")
    for update in (FIRST, 400):
        scrub(control, update)
        assert answers(control) == "Choose your guess, then press Play."
    assert "✓" not in control.locator(".c-body").inner_text()
    assert not control.get_by_role("button", name="Next question").is_visible()


def test_play_answers_the_guess(control, tab):
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    guess(control, "50")
    control.get_by_label(WITHOUT).check()  # the recording that answers is another
    control.get_by_role("button", name="Play").click()
    tab.clock.run_for(10_000)
    assert updates(control) == FIRST
    assert control.get_by_label(WITH, exact=True).is_checked()
    told = (
        "You guessed 50. It is right after 150, but wrong again after 160: an update "
        "that helps other words can spoil this one. From 350 on it stays right."
    )
    assert answers(control) == told
    assert status(control).endswith(told)
    assert control.locator(".c-guess :disabled").count() == 3  # it cannot be changed
    control.get_by_role("button", name="Play").click()
    tab.clock.run_for(10_000)
    assert updates(control) == 400
    assert answers(control) == told


def test_the_first_right_word_is_also_found_by_moving(control, tab):
    guess(control, "150")
    assert answers(control) == "Press Play, or drag the point along the curve."
    scrub(control, 140)
    assert answers(control) == "Here it writes “dniaelp”. Not yet, or no longer?"
    scrub(control, 230)
    assert answers(control) == "Here it is right. Is it the first time?"
    control.get_by_label("melon").check()
    assert answers(control) == "The question is about “pleading”, with warm-up."
    assert "“melon” becomes" in status(control)
    control.get_by_label("pleading").check()
    scrub(control, FIRST)
    assert answers(control).startswith("✓ It is right after 150")
    scrub(control, 0)
    assert answers(control).startswith("✓")  # the reader may go on playing
    press(control, "Next question")
    assert asks(control).startswith("Question 2 of 3.")
    focused = tab.evaluate("document.activeElement.className")
    assert focused == "c-asks"  # the button is gone


@pytest.mark.parametrize(
    ("guesses", "begin"),
    [
        (("60 %", "none"), ("✓ 63 % ", "✓ 0 %, against 96 %")),
        (("30 %", "half"), ("You guessed 30 %. 63 % ", "You guessed half.")),
    ],
)
def test_after_a_guess_the_map_is_measured_and_the_other_run_plays(
    control, tab, guesses, begin
):
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    solve_first(control)
    press(control, "Next question")
    assert updates(control) == FIRST
    assert answers(control) == "Choose your guess, then press Check."
    guess(control, "90 %")
    guess(control, guesses[0])  # it may be changed until it is checked
    assert answers(control) == "Press Check."
    control.get_by_role("button", name="Check").click()
    assert answers(control).startswith(begin[0])
    assert answers(control).endswith("after 400 updates it is 93 %.")
    press(control, "Next question")
    assert control.locator(".c-curve path.c-run-1").is_hidden()
    guess(control, guesses[1])
    control.get_by_role("button", name="Play").click()
    tab.clock.run_for(10 * 200 + 20)
    path = control.locator(".c-curve path.c-run-1").get_attribute("d")
    assert path.count("L") == 10
    assert answers(control) == "Press Play to see the run without warm-up."
    tab.clock.run_for(10_000)
    assert control.get_by_label(WITHOUT).is_checked()
    assert updates(control) == 400
    assert answers(control).startswith(begin[1])
    assert "Other seeds: 2 % and 0 %, against 93 % and 96 %." in answers(control)
    assert not control.get_by_role("button", name="Next question").is_visible()


# -- Mouse, touch and keys -------------------------------------------------------------


def test_the_mouse_drags_the_point(control, tab):
    tab.mouse.move(*place(control, 100))
    tab.mouse.down()
    assert updates(control) == 100
    tab.mouse.move(*place(control, FIRST), steps=5)
    assert updates(control) == FIRST
    assert status(control) == ""  # not per pixel
    tab.mouse.up()
    assert status(control).startswith(facts(control))
    box = curve(control)
    tab.mouse.move(box["x"] + 5, box["y"] + 5)
    assert updates(control) == FIRST  # let go
    tab.mouse.down()
    tab.mouse.move(0, 0)  # beyond the end
    assert updates(control) == 0


def test_a_finger_moves_the_point_on_a_phone(browser, made):
    with on_a_phone(browser, made) as control:
        asks, map_ = (control.locator(p).bounding_box() for p in (".c-asks", ".c-map"))
        assert map_["y"] + map_["height"] - asks["y"] <= SCREEN  # the slider is between
        draw(control, [place(control, update) for update in (100, 120, 140, FIRST)])
        assert updates(control) == FIRST


def test_it_plays_pauses_and_begins_again(control, tab):
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    solve_first(control)
    scrub(control, 0)
    control.get_by_role("button", name="Play").click()
    tab.clock.run_for(3 * 200 + 20)
    assert updates(control) == 30
    assert status(control) == "The training plays."
    control.get_by_role("button", name="Pause").click()
    tab.clock.run_for(2000)
    assert updates(control) == 30
    assert status(control).startswith("After 30 updates")
    control.get_by_role("button", name="Play").click()
    tab.clock.run_for(10_000)
    assert updates(control) == 400
    assert status(control).startswith("After 400 updates")
    control.get_by_role("button", name="Play").click()
    assert updates(control) == 0
    scrub(control, 50)  # the reader takes over
    tab.clock.run_for(2000)
    assert updates(control) == 50


def test_nothing_moves_below_while_the_point_moves(control, tab):
    guess(control, "300")
    for width in (740, 400):
        tab.set_viewport_size({"width": width, "height": 900})
        heights = set()
        for update in range(0, 401, 50):
            scrub(control, update)
            heights.add(round(control.bounding_box()["height"]))
        assert len(heights) == 1


def test_what_is_drawn_has_a_name_and_the_point_lies_on_the_curve(control):
    scrub(control, FIRST)
    for name in (
        "It writes “gnidaelp”: right",
        "Cross-attention: 63 % of it in the framed cells on average",
    ):
        assert control.get_by_role("img", name=name).count() == 1
    scrub(control, 200)
    box, point = curve(control), control.locator(".c-curve i").bounding_box()
    x, y = point["x"] + point["width"] / 2, point["y"] + point["height"] / 2
    assert x == pytest.approx(box["x"] + box["width"] / 2, abs=1)
    expected = box["y"] + box["height"] * (1 - 0.178 / 4)
    assert y == pytest.approx(expected, abs=1)


def test_where_no_script_runs_both_runs_are_told_in_steps_of_a_hundred(made):
    assert made.words.startswith("A model learns to write words backwards: “pleading”")
    assert "with warm-up, update 400: loss 0.02, writes “gnidaelp”" in made.words
    assert len(re.findall("update .00", made.words)) == 8


@pytest.mark.book
def test_on_a_phone_the_control_is_not_taller_than_a_screen_and_a_half(tab, server):
    tab.set_viewport_size({"width": 400, "height": 850})
    tab.goto(f"{server}/book/10_training.html")
    control = tab.locator("[data-control=learning]")
    assert control.bounding_box()["height"] <= 1275
    solve_first(control)
    assert control.bounding_box()["height"] <= 1275
