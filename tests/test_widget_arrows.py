"""The arrows of chapter 3, pulled in a browser; their numbers are torch's."""

import math
import re
from itertools import pairwise

import pytest
import torch
from book_files import ROOT
from operating import answers, asks, draw, on_a_phone, status

from pages.attention.arrows import arrows_control
from transformer_lib.model import scaled_dot_product_attention

SCRIPT = (ROOT / "pages/attention/arrows.js").read_text("utf-8")
WORDS = "the", "red", "cat"
QUERY = (2.0, 1.0)
KEY = ((0.0, 0.0), (0.0, 1.0), (1.0, 0.0))
VALUE = ((0.0, 0.0), (2.0, 0.0), (0.0, 2.0))
SCREEN = 790  # pixels of a phone of 850, below the bar of the page
# A hundredth or a percent is the last digit that the page shows.
SHOWN = {"rtol": 0, "atol": 0.005 + 1e-12}


@pytest.fixture
def control(show):
    return show(arrows_control(WORDS, QUERY, KEY, VALUE))


def expected(query=QUERY, key=KEY, value=VALUE, scale=1.0, root=False, hide=False):
    """Compute scores, weights and blend with torch and with the library."""
    query, key, value = (torch.tensor(rows) for rows in (query, key, value))
    query = scale * query[None]
    scores = query @ key.T / (math.sqrt(2) if root else 1)
    mask = torch.tensor([[True, True, not hide]])
    scores = scores.masked_fill(~mask, -math.inf)
    weights = scores.softmax(dim=-1)
    factor = 1 if root else math.sqrt(2)  # the library always divides
    blend, same = scaled_dot_product_attention(factor * query, key, value, mask)
    torch.testing.assert_close(weights, same)
    return scores[0], weights[0], blend[0]


def number(text):
    return float(text.replace("−", "-").replace("∞", "inf").removesuffix("\xa0%"))


def shown(control):
    """Read scores, weights and blend from the page."""
    cells = control.locator(".c-bars tr:has(th[scope=row])").evaluate_all(
        "rows => rows.map(row => [...row.querySelectorAll('td')].map("
        "cell => cell.textContent).slice(1, 3))"
    )
    scores, weights = zip(*cells, strict=True)
    tip = control.locator(".c-blend .c-head").get_attribute("d")
    x, y = map(float, re.match(r"M([-\d.e]+) ([-\d.e]+)L", tip).groups())
    blend = torch.tensor([x / 60 - 2, 3 - y / 60])
    return (
        torch.tensor([*map(number, scores)]),
        torch.tensor([*map(number, weights)]) / 100,
        blend,
    )


def check(control, **state):
    for found, right in zip(shown(control), expected(**state), strict=True):
        torch.testing.assert_close(found, right, **SHOWN)


def tip(control, name):
    return control.get_by_role("slider", name=name)


def place(control, name, point):
    """Find the spot of a point on the screen, in the plane of a tip."""
    box = tip(control, name).locator("xpath=ancestor::*[local-name()='svg']")
    box.scroll_into_view_if_needed()
    box = box.bounding_box()
    unit = box["width"] / 6
    return box["x"] + (point[0] + 2) * unit, box["y"] + (3 - point[1]) * unit


def pull(tab, control, name, start, *points):
    control.locator(".c-planes").scroll_into_view_if_needed()
    tab.mouse.move(*place(control, name, start))
    tab.mouse.down()
    for point in points:
        tab.mouse.move(*place(control, name, point))


def press(control, name, keys):
    for key in keys:
        tip(control, name).press(key)


def test_the_page_computes_what_torch_computes(tab):
    cases = torch.randint(-20, 31, (20, 7, 2)) / 10
    for case, hide in zip(cases, [False, True] * 10, strict=True):
        points = {"query": case[0], "key": case[1:4], "value": case[4:]}
        points = {name: rows.tolist() for name, rows in points.items()}
        state = {"scale": 4, "root": math.sqrt(2), "hidden": 2 if hide else -1}
        found = tab.evaluate(
            f"([points, state]) => {{ {SCRIPT}\nreturn attend(points, state); }}",
            [points, state],
        )
        _, *right = expected(**points, scale=4, root=True, hide=hide)
        for name, rows in zip(("weights", "blend"), right, strict=True):
            # Scores up to 72 are off by a few of their roundings; weights are, too.
            torch.testing.assert_close(
                torch.tensor(found[name]), rows, rtol=0, atol=1e-12
            )


def test_it_begins_with_the_numbers_of_the_chapter(control):
    check(control)
    assert answers(control) == "“cat” gets 67\xa0%."
    products = control.locator(".c-product").all_inner_texts()
    assert products == ["2·0 + 1·0", "2·0 + 1·1", "2·1 + 1·0"]


def test_a_mouse_pulls_a_tip_and_all_follows_before_it_is_let_go(control, tab):
    pull(tab, control, "Query", QUERY, (9, 9))  # it stays in its plane
    check(control, query=(3.9, 2.9))
    tab.mouse.move(*place(control, "Query", (-9, -9)))
    check(control, query=(-1.9, -0.9))
    assert control.locator(".c-product").last.inner_text() == "−1.9·1 − 0.9·0"
    tab.mouse.move(*place(control, "Query", (-1.5, 2)))
    check(control, query=(-1.5, 2))
    tab.mouse.up()
    tab.mouse.move(*place(control, "Query", (3, 2)))
    check(control, query=(-1.5, 2))
    pull(tab, control, "Key of “red”", (0, 1), (1.2, 1.3))
    key = (KEY[0], (1.2, 1.3), KEY[2])
    check(control, query=(-1.5, 2), key=key)
    tab.mouse.up()
    pull(tab, control, "Value of “cat”", (0, 2), (-0.4, 0.6))
    value = (*VALUE[:2], (-0.4, 0.6))
    check(control, query=(-1.5, 2), key=key, value=value)


def test_a_finger_pulls_a_tip_and_the_page_does_not_scroll(browser):
    with on_a_phone(browser, arrows_control(WORDS, QUERY, KEY, VALUE)) as control:
        place(control, "Query", QUERY)
        before = control.page.evaluate("scrollY")
        path = QUERY, (2, 0.5), (2, 0), (3, -0.5)
        draw(control, [place(control, "Query", at) for at in path], is_lifted=False)
        check(control, query=(3, -0.5))
        assert control.page.evaluate("scrollY") == before
        asks, reply, *planes = (
            each.bounding_box()
            for each in control.locator(".c-asks, .c-answers, svg").all()
        )
        assert asks["y"] < reply["y"] < min(plane["y"] for plane in planes)
        bottom = max(plane["y"] + plane["height"] for plane in planes)
        assert bottom - asks["y"] <= SCREEN
        control.get_by_label("query × 4").check()  # a long reply moves nothing below
        assert answers(control).startswith("✓")
        tops = [control.locator(e).last.bounding_box()["y"] for e in ("svg", ".c-asks")]
        assert tops[0] - tops[1] == planes[-1]["y"] - asks["y"]
        sizes = control.locator(".c-target").evaluate_all(
            "all => all.map(e => e.getBoundingClientRect().width)"
        )
        assert min(sizes) >= 24


def test_the_arrow_keys_move_a_tip(control):
    press(control, "Query", ["ArrowRight", "ArrowRight", "ArrowDown"])
    check(control, query=(2.2, 0.9))
    press(control, "Query", ["Shift+ArrowLeft", "ArrowUp"])
    press(control, "Value of “the”", ["Shift+ArrowUp"])
    press(control, "Query", ["Tab", "Enter", "a"])  # which move nothing
    check(control, query=(1.7, 1.0), value=((0, 0.5), *VALUE[1:]))
    told = tip(control, "Query").get_attribute("aria-valuetext")
    assert told == "noun 1.7, adjective 1"


def test_of_two_tips_in_one_place_the_last_chosen_is_taken_or_the_other(control, tab):
    pull(tab, control, "Query", QUERY, KEY[2])
    tab.mouse.up()
    front = control.locator(".c-front").first
    assert "c-query" in front.get_attribute("class").split()
    told = "The query of “the” lies on the key of “cat”. Press without pulling to take"
    assert told in control.locator(".c-pull").inner_text()
    assert told in status(control)
    tab.mouse.click(*place(control, "Query", (1, 0)))
    assert tab.locator(":focus").get_attribute("aria-label") == "Key of “cat”"
    assert "c-word" in front.get_attribute("class").split()
    pull(tab, control, "Query", (1, 0), (2, 2))
    tab.mouse.up()
    check(control, query=(1, 0), key=(*KEY[:2], (2, 2)))
    assert "lies on" not in control.locator(".c-pull").inner_text()
    pull(tab, control, "Key of “cat”", (2, 2), (1, 0))
    tab.mouse.up()
    pull(tab, control, "Key of “cat”", (1, 0), (1.1, 0))  # the last chosen one
    tab.mouse.up()
    pull(tab, control, "Key of “cat”", (1.15, 0), (2, 1))  # of two the nearest
    tab.mouse.up()
    check(control, query=(1, 0), key=(*KEY[:2], (2, 1)))


def test_scale_root_and_mask_do_what_they_say(control):
    for name, state in (
        ("query × 4", {"scale": 4}),
        ("divide by √2", {"root": True}),
        ("hide “cat”", {"hide": True}),
    ):
        box = control.get_by_label(name)
        box.check()
        check(control, **state)
        box.uncheck()
        check(control)
    for name in ("query × 4", "divide by √2", "hide “cat”"):
        control.get_by_label(name).check()
    check(control, scale=4, root=True, hide=True)
    control.get_by_role("button", name="Reset").click()
    check(control)
    assert control.get_by_role("checkbox", checked=True).count() == 0


def test_the_blend_is_its_parts_tip_to_tail_each_as_thick_as_its_weight(control):
    press(control, "Value of “the”", ["Shift+ArrowRight", "Shift+ArrowDown"])
    value = torch.tensor([(0.5, -0.5), *VALUE[1:]])
    _, weights, blend = expected(value=value.tolist())
    parts = control.locator(".c-part")
    thickness = parts.evaluate_all(
        "all => all.map(e => Number(e.getAttribute('stroke-width')))"
    )
    torch.testing.assert_close(torch.tensor(thickness), 1.5 + 9 * weights)
    lines = [
        [float(part) / 60 for part in re.split("[ L]", path[1:])]
        for path in parts.evaluate_all("all => all.map(e => e.getAttribute('d'))")
    ]
    for (*_, x0, y0), (x1, y1, *_) in pairwise(lines):
        assert (x0, y0) == (x1, y1)
    steps = torch.tensor([[x1 - x0, y0 - y1] for x0, y0, x1, y1 in lines])
    torch.testing.assert_close(steps, weights[:, None] * value)
    torch.testing.assert_close(steps.sum(dim=0), blend)


# -- The questions ---------------------------------------------------------------------


def follow(control):
    control.get_by_role("button", name="Next question").click()


def test_the_first_question_is_answered_by_the_query_alone(control):
    following = control.get_by_role("button", name="Next question")
    assert "Question 1 of 4. Where must the query point" in asks(control)
    press(control, "Key of “cat”", ["Shift+ArrowRight"] * 3)
    assert expected(key=(*KEY[:2], (2.5, 0.0)))[1][2] > 0.9
    assert answers(control) == "A key has moved. “Reset” puts it back."
    assert not following.is_visible()
    control.get_by_role("button", name="Reset").click()
    press(control, "Query", ["Shift+ArrowDown"] * 2)
    assert answers(control) == (
        "“cat” gets 79\xa0%. Nearly. Does the length of the query matter?"
    )
    assert not following.is_visible()
    press(control, "Query", ["Shift+ArrowRight"] * 2)
    assert answers(control).startswith(
        "✓ “cat” gets 91\xa0%. Its score is 3 above the next"
    )
    assert following.is_visible()


def test_the_second_question_has_two_answers(control):
    control.get_by_label("query × 4").check()  # one answer to the first
    assert answers(control).startswith("✓ “cat” gets 98\xa0%.")
    follow(control)
    assert control.locator(".c-asks").evaluate("e => e === document.activeElement")
    check(control)
    press(control, "Query", ["ArrowUp"])
    assert answers(control) == "The query has moved. “Reset” puts it back."
    press(control, "Query", ["ArrowDown"])
    assert "Question 2 of 4. Leave the query alone" in asks(control)
    control.get_by_label("hide “cat”").check()
    assert answers(control).startswith(
        "✓ “red” gets 73\xa0%. A hidden word gets 0\xa0%"
    )
    assert answers(control).endswith("find the other way.")
    _, (the, red, _), _ = expected()
    _, (the_then, red_then, _), _ = expected(hide=True)
    torch.testing.assert_close(red / the, red_then / the_then)  # the old ratio
    control.get_by_label("hide “cat”").uncheck()
    assert answers(control) == "“red” gets 24\xa0%, “cat” 67\xa0%."
    press(control, "Key of “red”", ["Shift+ArrowRight", "Shift+ArrowRight"])
    assert answers(control).endswith(
        "A key decides how its word is found. You have found both ways."
    )
    press(control, "Query", ["ArrowUp"])  # the reader may go on playing
    assert answers(control).startswith("✓ Answered. “red” gets ")


def test_the_third_question_draws_a_ring_and_the_fourth_asks_for_a_tick(control):
    assert control.locator(".c-ring").count() == 0
    control.get_by_label("query × 4").check()
    follow(control)
    press(control, "Key of “red”", ["Shift+ArrowRight", "Shift+ArrowRight"])
    assert "other way" in answers(control)
    control.get_by_role("button", name="Reset").click()
    control.get_by_label("hide “cat”").check()
    assert "You have found both ways." in answers(control)
    follow(control)
    assert "Question 3 of 4. Bring the blend into the ring" in asks(control)
    ring = control.locator(".c-ring")
    assert [ring.get_attribute(name) for name in ("cx", "cy")] == ["180", "120"]
    assert answers(control) == "The blend is at (0.49, 1.33)."
    press(control, "Query", ["Shift+ArrowUp", *["ArrowUp"] * 3])
    assert answers(control) == "The blend is at (0.84, 1.02)."  # 0.16 from the middle
    press(control, "Query", ["ArrowUp"])
    assert answers(control).startswith("✓ The blend adds 44\xa0% of the value of “red”")
    press(control, "Value of “red”", ["Shift+ArrowUp"])
    assert answers(control).startswith("✓ Answered. The blend is at (0.89, ")
    follow(control)
    assert control.locator(".c-ring").count() == 0
    assert "Question 4 of 4. Pull nothing. Which tick" in asks(control)
    assert answers(control) == "“cat” gets 67\xa0%, “red” 24\xa0%."
    control.get_by_label("query × 4").check()
    assert answers(control) == "“cat” gets 98\xa0%, “red” 2\xa0%."
    control.get_by_label("divide by √2").check()  # both are not one alone
    assert answers(control) == "“cat” gets 94\xa0%, “red” 6\xa0%."
    control.get_by_label("query × 4").uncheck()
    assert answers(control).startswith("✓ “query × 4” gives “cat” 98\xa0%: every gap")
    assert "“divide by √2” gives it 58\xa0%" in answers(control)
    assert answers(control).endswith("That was the last question. Pull what you like.")
    assert not control.get_by_role("button", name="Next question").is_visible()


def note(control):
    return control.locator(".c-note").inner_text()


def test_a_pull_of_a_value_or_of_the_blend_is_answered(control, tab):
    assert note(control) == ""
    press(control, "Value of “red”", ["ArrowUp"])
    assert note(control) == "A value changes no weight, only the blend."
    assert note(control) in status(control)
    press(control, "Query", ["ArrowUp"])
    assert note(control) == ""
    control.get_by_role("button", name="Reset").click()
    blend = expected()[2].tolist()
    tab.mouse.click(*place(control, "Value of “red”", (blend[0] + 0.1, blend[1])))
    assert note(control).startswith("The blend cannot be pulled: it follows from")
    check(control)
    control.get_by_role("button", name="Reset").click()
    tab.mouse.click(*place(control, "Value of “red”", (2.5, 2.5)))  # nothing is there
    assert note(control) == ""


# -- Everybody -------------------------------------------------------------------------


def test_a_screen_reader_hears_what_came_out_when_a_tip_is_let_go(control, tab):
    assert status(control) == ""
    pull(tab, control, "Query", QUERY, (3, 1), (3, 0))
    assert status(control) == ""
    tab.mouse.up()
    assert status(control).replace("\xa0", " ") == (
        "Weights: the 5 %, red 5 %, cat 91 %. Blend: red 0.09, feminine 1.82. "
        + answers(control).replace("\xa0", " ")
    )
    tab.keyboard.press("ArrowLeft")  # the tip that was pulled has the focus
    assert "cat 90 %" in status(control).replace("\xa0", " ")
    control.get_by_label("hide “cat”").check()
    assert "cat 0 %" in status(control).replace("\xa0", " ")


def test_without_a_script_the_numbers_are_there():
    words = arrows_control(WORDS, QUERY, KEY, VALUE).words
    assert "“cat”: key (1, 0), score 2, weight 67 %, value (0, 2)" in words
    assert "The blend of the values is (0.49, 1.33)." in words
