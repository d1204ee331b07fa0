"""The recorded training run, in a browser; its numbers are those of the tables."""

import csv
import re

import pytest
from book_files import ROOT

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


def status(control):
    return control.get_by_role("status").inner_text()


def answers(control):
    return control.locator(".c-answers > span").inner_text()


def asks(control):
    return control.locator(".c-asks").inner_text()


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


def next_question(control):
    control.get_by_role("button", name="Next question").click()


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
        assert shades(control) == expected_shades(written["weights"])
    framed = control.locator(".c-map i").evaluate_all(
        "all => all.flatMap((cell, i) => cell.matches('.c-framed') ? [i] : [])"
    )
    n = len(word)
    assert framed == [t * (n + 1) + n - 1 - t for t in range(n)]


def shades(control):
    """The colour of each cell on a light page."""
    return control.locator(".c-map i").evaluate_all(
        "all => all.map(cell => cell.style.getPropertyValue('--light'))"
    )


BLUES = [(247, 251, 255), (222, 235, 247), (198, 219, 239), (158, 202, 225),
         (107, 174, 214), (66, 146, 198), (33, 113, 181), (8, 81, 156),
         (8, 48, 107)]  # fmt: skip


def expected_shades(digits):
    """The colours of matplotlib's Blues for weights of two digits each."""
    found = []
    for i in range(0, len(digits), 2):
        low, part = divmod(int(digits[i : i + 2]) * 8, 100)
        pairs = zip(BLUES[low], BLUES[low + 1], strict=True)
        mixed = [int(a + part / 100 * (b - a) + 0.5) for a, b in pairs]
        found.append(f"rgb({', '.join(map(str, mixed))})")
    return found


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_letter_in_its_place_is_green_and_solid_and_another_dashed(
    control, tab, theme
):
    tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    scrub(control, 170)  # gniaepl
    kinds = control.locator(".c-written span").evaluate_all(
        "all => all.map(tile => tile.className)"
    )
    right, other = "c-right", "c-other"
    assert kinds == [right] * 3 + [other] * 3 + [right, "c-none"]
    assert "becomes “gniaepl”: 4 of 8 letters in place" in facts(control)
    looks = """mark => ["backgroundColor", "borderTopColor", "borderTopStyle"]
      .map((name) => getComputedStyle(mark)[name])"""
    fill, line = (
        both["light dark".split().index(theme)]
        for both in (COLOURS["right"], EDGES["right"])
    )
    for place in (".c-written span", ".c-legend i"):
        found = control.locator(f"{place}.c-right").first.evaluate(looks)
        assert found == [as_rgb(fill), as_rgb(line), "solid"]
        assert control.locator(f"{place}.c-other").first.evaluate(looks)[2] == "dashed"


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


@pytest.mark.parametrize(
    ("guessed", "begins"),
    [("50", "You guessed 50. "), ("150", "✓ ")],
)
def test_play_answers_the_guess_and_ticks_only_the_right_one(
    control, tab, guessed, begins
):
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    guess(control, guessed)
    control.get_by_label(WITHOUT).check()  # the recording that answers is another
    control.get_by_role("button", name="Play").click()
    tab.clock.run_for(10_000)
    assert updates(control) == FIRST
    assert control.get_by_label(WITH, exact=True).is_checked()
    assert answers(control) == (
        f"{begins}It is right after 150, but wrong again after 160: an update that "
        "helps other words can spoil this one. From 350 on it stays right."
    )
    assert status(control).endswith(answers(control))
    assert control.locator(".c-guess :disabled").count() == 3  # it cannot be changed
    control.get_by_role("button", name="Play").click()
    tab.clock.run_for(10_000)
    assert updates(control) == 400
    assert answers(control).startswith(begins)


def test_the_first_right_word_is_also_found_by_moving(control):
    guess(control, "150")
    assert answers(control) == "Press Play, or drag the point along the curve."
    scrub(control, 140)
    assert answers(control) == "Here it writes “dniaelp”. Not yet, or no longer?"
    scrub(control, 230)
    assert answers(control) == "Here it is right. Is it the first time?"
    control.get_by_label("melon").check()
    assert answers(control) == "The question is about “pleading”, with warm-up."
    control.get_by_label("pleading").check()
    scrub(control, FIRST)
    assert answers(control).startswith("✓ It is right after 150")
    scrub(control, 0)
    assert answers(control).startswith("✓")  # the reader may go on playing


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
    next_question(control)
    assert updates(control) == FIRST
    assert answers(control) == "Choose your guess, then press Check."
    guess(control, "90 %")
    guess(control, guesses[0])  # it may be changed until it is checked
    assert answers(control) == "Press Check."
    control.get_by_role("button", name="Check").click()
    assert answers(control).startswith(begin[0])
    assert answers(control).endswith("after 400 updates it is 93 %.")
    next_question(control)
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


def test_the_share_is_the_mean_of_the_recorded_weights(tables):
    _, words = tables
    for update, expected in (("150", 63), ("400", 93)):
        about = {"warmup": "yes", "word": "pleading", "update": update}
        [row] = [row for row in words if about.items() <= row.items()]
        framed = [row["weights"][2 * (9 * t + 7 - t) :][:2] for t in range(8)]
        assert round(sum(map(int, framed)) / 8) == expected


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
    tab.mouse.up()


def test_the_point_lies_on_the_curve(control, tab):
    scrub(control, 200)
    box, point = curve(control), control.locator(".c-curve i").bounding_box()
    x, y = point["x"] + point["width"] / 2, point["y"] + point["height"] / 2
    assert x == pytest.approx(box["x"] + box["width"] / 2, abs=1)
    expected = box["y"] + box["height"] * (1 - 0.178 / 4)
    assert y == pytest.approx(expected, abs=1)


def test_the_keys_move_the_slider_and_choose(control, tab):
    slider = control.get_by_role("slider")
    slider.focus()
    for key in ("End", "ArrowLeft", "ArrowLeft"):
        tab.keyboard.press(key)
    assert updates(control) == 380
    assert slider.get_attribute("aria-valuetext") == "380 updates"
    control.get_by_label(WITH, exact=True).press("ArrowRight")
    assert control.get_by_label(WITHOUT).is_checked()
    assert "without warm-up" in status(control)
    control.get_by_label(WITHOUT).press("ArrowLeft")
    control.get_by_label("50", exact=True).press("ArrowRight")
    slider.focus()
    tab.keyboard.press("Home")
    for _ in range(FIRST // EVERY):
        tab.keyboard.press("ArrowRight")
    assert answers(control).startswith("✓")
    control.get_by_role("button", name="Next question").press("Enter")
    assert asks(control).startswith("Question 2 of 3.")
    focused = tab.evaluate("document.activeElement.className")
    assert focused == "c-asks"  # the button is gone


def test_a_finger_moves_the_point_on_a_phone(browser, made):
    context = browser.new_context(
        viewport={"width": 400, "height": 900}, has_touch=True
    )
    page = context.new_page()
    head = "<meta name=viewport content='width=device-width'>"
    page.set_content(f"<!doctype html><html lang=en>{head}{made._repr_html_()}")
    control = page.locator(".control")
    box = curve(control)
    page.touchscreen.tap(box["x"] + box["width"] / 4, box["y"] + 40)
    assert updates(control) == 100
    asks, map_ = (control.locator(p).bounding_box() for p in (".c-asks", ".c-map"))
    assert map_["y"] + map_["height"] - asks["y"] <= SCREEN  # the slider is between
    finger = context.new_cdp_session(page)
    path = [place(control, update) for update in (100, 120, 140, FIRST)]
    for kind, at in [("touchStart", path[:1]), *(("touchMove", [p]) for p in path[1:]),
                     ("touchEnd", [])]:  # fmt: skip
        points = [{"x": x, "y": y} for x, y in at]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert updates(control) == FIRST
    context.close()


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


@pytest.mark.parametrize("width", [740, 400])
def test_nothing_moves_below_while_the_point_moves(control, tab, width):
    tab.set_viewport_size({"width": width, "height": 900})
    guess(control, "300")
    heights = set()
    for update in range(0, 401, 50):
        scrub(control, update)
        heights.add(round(control.bounding_box()["height"]))
    assert len(heights) == 1


# -- For everybody ---------------------------------------------------------------------


def test_a_screen_reader_hears_what_is_drawn(control):
    scrub(control, FIRST)
    for name in (
        "It writes “gnidaelp”: right",
        "Cross-attention: 63 % of it in the framed cells on average",
    ):
        assert control.get_by_role("img", name=name).count() == 1


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
