"""Stepping through a listing and into its calls, and its pictures, in a browser."""

import re
from types import SimpleNamespace

import pytest
import torch
from book_files import HTML, ROOT
from docutils import nodes
from playwright.sync_api import expect
from torch import nn
from walked import Pair, guarded, inner, middle, outer, walk_attend, walk_escaped

from bookkit.listing import walk
from bookkit.listing.pictures import DIGITS, STEPS, draw
from transformer_lib.model import (
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
)
from website.listings import listings

B, H, S, T, D_MODEL = 2, 3, 7, 5, 12
AXE = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 400, "height": 800}
HAS_FOCUS = "e => document.activeElement === e"
SIDEWAYS = "document.documentElement.scrollWidth - window.innerWidth"
both_sizes = pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])


def accumulate(n, words):
    found, pair = [], (torch.zeros(n), torch.ones(n))
    total = torch.zeros(n, n)
    for i, word in enumerate(words):
        if i % 2:
            found.append(word)
        total[i] = i
        total = total + 1
    pair = total.sum()
    if n < 0:
        total = None
    return pair, found


def walk_loop(**more):
    return walk(accumulate, 3, ["the", "cat", "reads"], **more)


def new_encoder():
    def layer():
        return EncoderLayer(
            MultiHeadAttention(D_MODEL, H),
            FeedForward(D_MODEL, 4 * D_MODEL),
            lambda: Residual(nn.LayerNorm(D_MODEL)),
        )

    return Encoder([layer(), layer()]).eval()


@pytest.fixture
def encoded():
    x, mask = torch.randn(B, S, D_MODEL), (torch.arange(S) < 5).expand(B, 1, 1, S)
    dims = {"B": B, "S": S, "d_model": D_MODEL}
    return walk(new_encoder(), x, mask, depth=4, dims=dims)


@pytest.fixture
def folded():
    notes = {"def": "Two *numbers*.", "if x >": "Not too large.", "y =": "Their sum."}
    return walk(guarded, 3, notes=notes)


@pytest.fixture
def show(tab, tmp_path):
    """Show listings on a page with an address, and give the last."""

    def show(*shown, theme="light", address=""):
        html = "".join(listing._repr_html_() for listing in shown)
        start = f'<!doctype html><html lang="en" data-theme="{theme}"><title>A</title>'
        page = tmp_path / "page.html"
        text = f'{start}<meta charset="utf-8"><body>{html}<p>after</p></body>'
        page.write_text(text, encoding="utf-8")
        tab.goto("about:blank")
        tab.goto(page.as_uri() + address)
        return tab.locator(".walk").last

    yield show
    assert tab.faults == []


def button(listing, name):
    return listing.get_by_role("button", name=name)


def step_to(listing, line):
    """Step forward until the current line begins like this."""
    if button(listing, "Step through").count():
        button(listing, "Step through").click()
    for _ in range(30):
        if current(listing).startswith(line):
            return listing
        button(listing, "Next").click()
    return pytest.fail(f"no step leads to {line}")


def enter(listing, *lines):
    """Step into the first call of each line, one in the other."""
    for line in lines:
        step_to(listing, line)
        button(listing, "Step into").click()
    return listing


def current(listing):
    code = listing.locator("[aria-current='step'] code").first
    return code.inner_text().strip() if code.count() else ""


def names(listing, which=""):
    return listing.locator(f".w-exists li{which} b").all_inner_texts()


def value(listing, name):
    """The words of a value in the panel, and where it comes from."""
    named = listing.page.get_by_text(name, exact=True)
    item = listing.locator(".w-exists li").filter(has=named).first
    return " ".join(item.inner_text().split()), item.get_attribute("data-source")


def text(listing, part):
    return listing.locator(part).first.text_content()


def step(listing):
    return text(listing, ".w-count").removeprefix("step ")


def stack(listing):
    return listing.locator(".w-stack :is(button, b)").all_inner_texts()


def is_stepping(listing):
    return listing.locator(".w-panel").is_visible()


# -- What a step shows -----------------------------------------------------------------


def test_each_step_adds_what_the_line_made_and_marks_it(show):
    listing = show(walk_attend())
    assert not is_stepping(listing)
    button(listing, "Step through").click()
    assert names(listing) == ["query", "key", "mask"]
    assert value(listing, "query") == (
        "query (H, T, d_k) 2 × 5 × 4 0 to 0.97",
        "argument",
    )
    said = text(listing, "output")
    assert said.startswith("The call begins: query, shape (H, T, d_k) 2 × 5 × 4, 0 to")
    step_to(listing, "scores = query")
    assert names(listing, ".w-new") == ["scores"]
    assert value(listing, "scores")[1] == "this line"
    assert text(listing, "output").endswith(", 0 to 0.97, made")
    assert listing.locator(".w-new svg").count() == 1
    step_to(listing, "scores = scores.masked_fill")
    assert names(listing).count("scores") == 1
    assert value(listing, "scores")[0].startswith(
        "scores changed (H, T, S) 2 × 5 × 7 10"
    )
    assert "scores changed, shape (H, T, S)" in text(listing, "output")
    step_to(listing, "weights")
    assert value(listing, "scores")[1].startswith("line ")
    button(listing, "Back").click()
    button(listing, "Back").click()
    assert "−∞" not in value(listing, "scores")[0]
    assert "weights" not in names(listing)


def test_a_loop_says_how_often_and_what_did_not_run_is_no_step(show):
    listing = step_to(show(walk_loop(dims={"n": 3})), "for i, word")
    assert ", 3 passes: " in text(listing, "output")
    assert value(listing, "word") == ("word 'reads'", "this line")
    assert value(listing, "total")[1] == "before the loop"
    assert value(listing, "n")[1] == "argument"
    step_to(listing, "total[i]")
    said = text(listing, "output")
    assert ", 3 times, shown is the last: total changed in place" in said
    step_to(listing, "if n < 0")
    assert value(listing, "total")[1].startswith("line ")
    assert text(listing, "output").endswith(", not taken: nothing new")
    listing.locator(".w-pale").click()
    assert current(listing).startswith("if n < 0")
    button(listing, "Next").click()
    assert current(listing).startswith("return")
    assert step(listing) == "11 of 11"


def test_a_value_is_not_shown_as_it_was_when_a_part_of_it_is_new(show):
    listing = step_to(show(walk_loop()), "found, pair")
    assert {"found", "pair[0]", "pair[1]"} < set(names(listing))
    step_to(listing, "found.append")
    assert value(listing, "found[0]")[0] == "found[0] 'cat'"
    assert value(listing, "found") == ("found []", "until this line")
    step_to(listing, "pair = ")
    assert "pair" in names(listing)
    assert not {"pair[0]", "pair[1]"} & set(names(listing))


def test_an_exception_and_the_note_stand_on_the_step(show):
    listing = step_to(show(walk_escaped()), "raise")
    for part in ("output", ".w-when"):
        assert "raised KeyError: ('<script>" in text(listing, part)
    assert listing.locator(".w-why").inner_text() == "bold & link"
    assert listing.locator(".w-why :is(strong, a)").count() == 2
    assert listing.locator(".w-made:visible, .w-note:visible").count() == 0


def test_steps_go_through_all_functions_each_with_its_own_values(show):
    pair = Pair(3)
    notes = {"def both": "Both.", "def other": "Other."}
    listing = show(walk(pair.both, 2, also=[pair.other], notes=notes))
    button(listing, "Step through").click()
    seen = []
    for _ in range(5):
        why = re.sub(r"\d+", "n", text(listing, ".w-why"))
        seen.append((why, current(listing).partition("(")[0], names(listing)))
        listing.page.keyboard.press("ArrowDown")
    assert seen == [
        ("Lines n and n. Both.", "def both", ["x"]),
        ("Lines n and n. Both.", "return self.one", ["x", "returned"]),
        ("Lines n to n. Other.", "def other", ["x"]),
        ("Lines n to n. Other.", "y = x - 1", ["x", "y"]),
        ("Lines n to n. Other.", "return y", ["x", "y", "returned"]),
    ]
    assert value(listing, "x")[1] == "argument"


def test_lines_to_come_are_pale_and_keep_their_outcome_to_themselves(show):
    listing = step_to(show(walk_loop()), "total = torch")
    colour = "row => getComputedStyle(row.querySelector('code')).color"
    rows, here = listing.locator(".w-row"), listing.locator("[aria-current='step']")
    assert rows.first.evaluate(colour) == here.evaluate(colour)
    assert here.evaluate(colour) != rows.last.evaluate(colour)
    assert not listing.get_by_text("3 passes", exact=True).first.is_visible()


@both_sizes
def test_the_line_and_what_it_made_are_in_sight_and_the_box_keeps_its_height(
    show, size
):
    notes = {"def": "A.", "found, pair": "word " * 60, "for": "C.", "return": "D."}
    listing = show(walk_loop(notes=notes))
    listing.page.set_viewport_size(size)
    button(listing, "Step through").click()
    heights = set()
    for _ in range(10):
        listing.page.keyboard.press("ArrowDown")
        heights.add(round(listing.bounding_box()["height"]))
        for part in listing.locator("[aria-current='step'], .w-new:first-child").all():
            box = part.bounding_box()
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= size["height"]
    assert len(heights) == 1
    code, panel = (listing.locator(c).bounding_box() for c in (".w-rows", ".w-panel"))
    axis, length = ("x", "width") if size is WIDE else ("y", "height")
    assert panel[axis] >= code[axis] + code[length]
    assert listing.page.evaluate(SIDEWAYS) <= 0


@both_sizes
def test_a_note_stands_along_the_lines_that_it_is_for(show, folded, size):
    listing = show(folded)
    listing.page.set_viewport_size(size)
    assert listing.locator(".w-part > .w-group").count() == 2
    for group in listing.locator(".w-part > .w-group").all():
        note = group.locator("> .w-note").bounding_box()
        lines = group.locator("> .w-lines").bounding_box()
        if size is WIDE:
            assert note["x"] >= lines["x"] + lines["width"]
            assert note["height"] == pytest.approx(lines["height"], abs=16)
        else:
            assert note["y"] + note["height"] <= lines["y"]


# -- Keys, mouse and focus -------------------------------------------------------------


@pytest.mark.parametrize("on", ["button", "row"])
def test_the_keyboard_steps_from_the_button_and_from_a_line(show, on):
    listing = show(walk_attend())
    keyboard = listing.page.keyboard
    opens, forward = listing.locator(".w-step"), button(listing, "Next")
    opens.focus()
    keyboard.press("Enter")
    assert forward.evaluate(HAS_FOCUS)
    if on == "row":
        listing.locator(".w-row[tabindex='0']").focus()
    keys = "ArrowDown ArrowRight ArrowUp ArrowLeft ArrowUp End ArrowDown Home"
    for key, expected in zip(keys.split(), [2, 3, 2, 1, 1, 5, 5, 1], strict=True):
        keyboard.press(key)
        assert step(listing) == f"{expected} of 5", key
        row = listing.locator("[aria-current='step']")
        assert (row if on == "row" else forward).evaluate(HAS_FOCUS), key
    listing.locator(".w-row:visible").nth(2).click()
    assert step(listing) == "3 of 5"
    listing.locator(".w-exists").focus()
    keyboard.press("Escape")
    assert not is_stepping(listing)
    assert opens.evaluate(HAS_FOCUS)
    assert opens.inner_text() == "Step through"
    keyboard.press("Enter")  # and stepping goes on there
    assert step(listing) == "3 of 5"


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_the_buttons_say_where_the_run_begins_and_ends_and_keep_the_focus(show, by):
    listing = show(walk_attend())
    button(listing, "Step through").click()
    back, forward = button(listing, "Back"), button(listing, "Next")

    def use(pressed):
        if by == "mouse":
            pressed.click(force=True)  # a click that a disabled button takes as well
        else:
            pressed.focus()
            listing.page.keyboard.press("Enter")
        assert pressed.evaluate(HAS_FOCUS)
        ends = [b.get_attribute("aria-disabled") for b in (back, forward)]
        return step(listing), *ends

    assert use(back) == ("1 of 5", "true", "false")
    assert use(forward) == ("2 of 5", "false", "false")
    assert [use(forward) for _ in range(4)][-1] == ("5 of 5", "false", "true")


def test_listings_are_apart_from_each_other_however_often_the_script_runs(show):
    attended = walk_attend()
    listing = show(attended, attended)
    script = text(listing, "script")
    listing.page.add_script_tag(content=script)
    other = listing.page.locator(".walk").first
    step_to(listing, "scores = query")
    assert not is_stepping(other)
    step_to(other, "weights = scores")
    assert current(listing).startswith("scores = query")
    button(listing, "Next").click()
    assert current(listing).startswith("scores = scores.masked")
    assert "weights" in names(other)
    listing.evaluate("(walk, html) => walk.outerHTML = html", attended._repr_html_())
    listing.page.add_script_tag(content=script)  # as for a cell that ran again
    step_to(listing.page.locator(".walk").last, "scores = query")


def test_without_its_script_a_listing_has_no_button_and_its_folds_open(tab, folded):
    tab.set_content(folded._repr_html_().rpartition("<script>")[0])
    rows = tab.locator(".w-row:visible").count()
    for key in ("Tab", "Tab", "Enter"):
        tab.keyboard.press(key)
    assert tab.locator(".w-row:visible").count() > rows
    assert tab.locator(".walk button:visible, .w-panel:visible").count() == 0


def test_print_shows_the_full_listing_whatever_the_screen_shows(show, folded, encoded):
    colour = "e => getComputedStyle(e).color"
    seen = "e => e.checkVisibility({contentVisibilityAuto: true}) && e.offsetHeight"
    for walked, lines in ((folded, ()), (encoded, ATTENTION)):
        listing = enter(show(walked), *lines)
        listing.page.emulate_media(media="print")
        hidden = ".w-panel:visible, button:visible, .w-frame:visible, .w-stack:visible"
        assert listing.locator(hidden).count() == 0
        rows = listing.locator(".w-part").first.locator(".w-row").all()
        assert all(row.evaluate(seen) > 10 for row in rows)  # also those of a fold
        assert listing.locator(".w-made").first.is_visible()
        codes = listing.locator(".w-part").first.locator(".w-row code")
        assert codes.first.evaluate(colour) == codes.last.evaluate(colour)
        listing.page.emulate_media(media="screen")


def test_a_fold_is_one_step_open_or_not(show, folded):
    listing = step_to(show(folded), "5 argument checks")
    first = guarded.__code__.co_firstlineno
    lines = f"After lines {first + 1} to {first + 12}"
    assert text(listing, "output") == f"{lines}, 5 argument checks: nothing new"
    assert re.fullmatch(r"Lines \d+ to \d+\. Two numbers\.", text(listing, ".w-why"))
    assert step(listing) == "2 of 5"
    listing.locator("summary").first.click()
    listing.get_by_text("require_positive(x=x)").click()  # is no step
    assert step(listing) == "2 of 5"
    button(listing, "Next").click()
    assert current(listing) == "y = x + 1"


def test_the_arrow_keys_pass_over_a_closed_fold_and_through_an_open_one(show, folded):
    listing = show(folded)
    keyboard, summary = listing.page.keyboard, listing.locator("summary").first
    listing.locator(".w-row").first.focus()
    for key, line in (("Down", "5 arg"), ("Down", "y ="), ("Up", "5 arg")):
        keyboard.press(f"Arrow{key}")
        assert current(listing).startswith(line)
    assert summary.evaluate(HAS_FOCUS)
    assert not listing.get_by_text("Not too large.").is_visible()
    keyboard.press("Enter")
    assert listing.get_by_text("Not too large.").is_visible()
    for line in ("require_positive(x=x)", "if x > 5:", "double ="):
        keyboard.press("ArrowDown")
        assert current(listing).startswith(line)
    keyboard.press("Shift+Tab")  # a fold is always in the tab order
    assert summary.evaluate(HAS_FOCUS)


def test_a_fold_opens_for_what_is_searched_in_the_page(show, folded):
    listing = show(folded, address="#:~:text=check_small(y)")
    listing.locator("details[open]").wait_for()
    assert listing.get_by_text("check_small(y)").is_visible()
    assert listing.locator("details[open]").count() == 1


def test_what_takes_the_focus_has_a_name_and_keeps_its_keys_from_jupyterlab(
    show, folded
):
    listing = show(folded)
    button(listing, "Step through").click()
    for name in ("Full listing", "Back", "Next"):
        assert listing.get_by_role("button", name=name, exact=True).is_visible()
    assert listing.get_by_role("status").count() == 1
    exists = listing.get_by_role("list", name="What exists")
    assert exists.get_attribute("tabindex") == "0"
    open_to_jupyterlab = "all => all.filter(e => !e.dataset.lmSuppressShortcuts).length"
    places = listing.locator("button, summary, [tabindex]")
    assert places.count() > 10
    assert places.evaluate_all(open_to_jupyterlab) == 0


@both_sizes
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_folds_steps_calls_and_large_pictures(
    show, folded, encoded, theme, size
):
    listing = show(folded, encoded, theme=theme)
    page, run = listing.page, "where => axe.run(where)"
    page.set_viewport_size(size)
    for fold in page.locator("summary").all():
        fold.click()
    page.add_script_tag(path=AXE)
    found = page.evaluate(run, ".walk .w-rows")
    assert (found["violations"], len(found["passes"]) > 10) == ([], True)
    enter(listing, *ATTENTION)
    page.keyboard.press("End")
    assert page.evaluate(run, ".w-stepping")["violations"] == []
    assert page.evaluate(SIDEWAYS) <= 0
    listing.locator(".w-new svg").click()
    assert page.evaluate(run, ".w-large")["violations"] == []
    box = listing.locator(".w-large").bounding_box()
    assert 0 <= box["x"] <= box["x"] + box["width"] <= size["width"]


# -- Calls -----------------------------------------------------------------------------

ATTENTION = ("x = layer", "x = self.self_attention_residual", "return self.norm")
NAMES = [
    f"{name}.forward"
    for name in ("Encoder", "EncoderLayer", "Residual", "MultiHeadAttention")
]


@pytest.mark.parametrize("by", ["keyboard", "mouse"])
def test_a_step_enters_a_call_and_leaves_it_again(show, encoded, by):
    listing = step_to(show(encoded), "x = layer")
    buttons = {"i": "Step into", "o": "Step out", "ArrowDown": "Next"}

    def use(key):
        if by == "keyboard":
            listing.page.keyboard.press(key)
        else:  # also where there is nothing to do
            button(listing, buttons[key]).click(force=True)
        return len(stack(listing)), current(listing)[:12]

    assert button(listing, "Step into").inner_text() == f"Step into {NAMES[1]}"
    assert use("i") == (2, "def forward(")
    assert step(listing) == "1 of 3"
    assert text(listing, "output").startswith(f"{NAMES[1]}. The call begins: x")
    assert use("ArrowDown") == (2, "x = self.sel")
    assert text(listing, "output").startswith("After line")
    assert use("o") == (1, "x = layer(x,")
    assert text(listing, "output").startswith(f"{NAMES[0]}. After line")
    assert use("ArrowDown") == (1, "return x if ")  # stepped over
    assert button(listing, "Step into").get_attribute("aria-disabled") == "true"
    assert use("o") == (1, "return x if ")  # there is no caller


def test_touch_steps_into_a_call(browser, encoded, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html>{encoded._repr_html_()}", encoding="utf-8")
    with browser.new_context(has_touch=True, viewport=NARROW) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        listing = page.locator(".walk")
        for name in ("Step through", "Next", "Next", "Step into"):
            button(listing, name).tap()
        assert stack(listing) == NAMES[:2]
        listing.locator(".w-exists svg").first.tap()
        before = text(page, "dialog[open] output")
        page.locator("dialog svg").tap(position={"x": 40, "y": 30})
        assert text(page, "dialog output") != before
        page.get_by_role("button", name="Close").tap()
        expect(page.locator("dialog")).to_have_count(0)
        listing.locator(".w-stack button").tap()
        assert stack(listing) == NAMES[:1]


def test_the_stack_is_in_sight_and_leads_back_to_any_caller(show, encoded):
    listing = enter(show(encoded), *ATTENTION)
    assert stack(listing) == NAMES
    assert text(listing, ".w-stack span").endswith("attention.py")
    listing.page.set_viewport_size(NARROW)
    listing.page.keyboard.press("ArrowDown")
    here, line = (listing.locator(c).bounding_box() for c in (".w-stack b", ".w-stack"))
    assert here["x"] >= line["x"]
    assert here["x"] + here["width"] <= line["x"] + line["width"]
    listing.get_by_role("button", name=NAMES[1], exact=True).click()
    assert stack(listing) == NAMES[:2]
    assert current(listing).startswith("x = self.self_attention_residual")
    assert button(listing, "Step into").evaluate(HAS_FOCUS)
    listing.page.keyboard.press("Escape")  # leaves the panel and all calls
    assert not is_stepping(listing)
    assert listing.locator(".w-frame").count() == 0
    assert current(listing).startswith("x = layer")


def test_both_ends_of_a_call_lead_back_to_its_line(show, encoded):
    listing = enter(show(encoded), "x = layer")
    depths = []
    for key in ["ArrowDown"] * 3 + ["i", "ArrowUp", "i", "End"]:
        listing.page.keyboard.press(key)
        depths.append(len(stack(listing)))
    assert depths == [2, 2, 1, 2, 1, 2, 2]


def test_of_several_calls_of_a_line_each_can_be_entered_by_key_or_button(show):
    listing = step_to(show(walk(outer, 1, also=[inner], depth=2)), "return both")
    seen, inside = [], []
    for _ in range(3):
        for key, found in (("i", stack), ("o", names)):
            listing.page.keyboard.press(key)
            (seen if key == "i" else inside).append(found(listing)[-1])
    assert seen == ["inner", "Square.__post_init__", "inner"]
    button(listing, "Step into Square").click()
    assert stack(listing) == ["outer", "Square.__post_init__"]
    assert listing.locator(".w-calls button").first.evaluate(HAS_FOCUS)
    listing = enter(show(walk(middle, 1, also=[inner], depth=1)), "z = inner")
    assert names(listing) == ["x"]  # the lines of its own listing
    assert current(listing).startswith("def inner")


def test_the_focus_stays_on_the_line_when_a_call_is_entered_from_there(show, encoded):
    listing = step_to(show(encoded), "x = layer")
    listing.locator("[aria-current='step']").focus()
    for key in "io":
        listing.page.keyboard.press(key)
        assert listing.locator("[aria-current='step']").evaluate(HAS_FOCUS), key


def test_a_listing_without_calls_says_nothing_of_them(show):
    listing = step_to(show(walk(inner, 3)), "doubled")
    assert button(listing, "Step into").count() == 0
    assert listing.locator(".w-stack").count() == 0
    listing.page.keyboard.press("i")
    listing.page.keyboard.press("o")
    assert current(listing).startswith("doubled")


def test_the_notes_of_a_call_are_taken_from_its_listing_on_the_page(show):
    noted = walk(inner, 3, notes={"def": "First.", "return": "It *ends*."})
    listing = enter(show(walk(inner, 3), noted, walk(middle, 1, depth=1)), "z = inner")
    assert text(listing, ".w-why") == ""
    listing = enter(show(noted, walk(inner, 3), walk(middle, 1, depth=1)), "z = inner")
    assert re.fullmatch(r"Lines \d+ and \d+\. First\.", text(listing, ".w-why"))
    step_to(listing, "return doubled")
    assert listing.locator(".w-why em").inner_text() == "ends"


# -- The address of a step -------------------------------------------------------------


def test_each_step_has_an_address_of_its_own_that_leads_back_to_it(show, encoded):
    listing = show(encoded, encoded)
    button(listing, "Step through").click()
    seen = []
    for key in ["ArrowDown", "ArrowDown", "i", "ArrowDown", "i", "ArrowDown"]:
        seen.append(listing.locator(".w-link").get_attribute("href"))
        listing.page.keyboard.press(key)
    step_to(enter(listing, ATTENTION[-1]), "k, v =")
    seen.append(listing.locator(".w-link").get_attribute("href"))
    assert len(set(seen)) == len(seen)
    name = r"transformer_lib\.model\.encoder\.Encoder\.forward:2"
    assert re.fullmatch(rf"#walk={name}&stack=(\d+/0,){{2}}\d+/0&line=\d+", seen[-1])
    values = text(listing, ".w-exists")
    listing = show(encoded, encoded, address=seen[-1])
    assert stack(listing) == NAMES
    assert current(listing).startswith("k, v =")
    assert text(listing, ".w-exists") == values
    assert not is_stepping(listing.page.locator(".walk").first)
    top = "e => e.getBoundingClientRect().top < innerHeight"
    assert listing.locator(".w-panel").evaluate(top)


def test_a_click_on_the_link_sets_the_address_and_a_link_within_the_page_works(show):
    listing = enter(show(walk(middle, 1, depth=1)), "z = inner")
    listing.locator(".w-link").click()
    there = listing.page.evaluate("location.hash")
    assert there.startswith("#walk=")
    listing.page.keyboard.press("Escape")
    assert not is_stepping(listing)
    listing.page.evaluate("location.hash = ''")
    listing.page.evaluate("there => location.hash = there", there)
    listing.locator(".w-panel").wait_for()
    assert stack(listing) == ["middle", "inner"]


def test_an_address_may_name_a_function_that_stands_below_another(show):
    both = walk(middle, 1, also=[inner])
    address = f"#walk=walked.inner&line={inner.__code__.co_firstlineno + 1}"
    assert current(show(both, address=address)).startswith("doubled = ")
    listing = show(both, walk(inner, 1), address=address)  # its own listing comes first
    assert current(listing).startswith("doubled = ")
    assert listing.page.locator(".walk.w-stepping").count() == 1


@pytest.mark.parametrize(
    "address",
    [
        "#walk=",
        "#walk=nothing&line=3",
        "#walk=walked.middle:9",
        "#walk=walked.middle&line=x&stack=9/9,/",
        "#walk=<img src=x onerror=fault()>&line='\"]",
        "#walk=%E0%A4%A",
    ],
)
def test_an_address_that_leads_nowhere_does_no_harm(show, address):
    listing = step_to(show(walk(middle, 1, depth=1), address=address), "z = inner")
    assert stack(listing) == ["middle"]


# -- Pictures --------------------------------------------------------------------------


def unpack(picture):
    pairs = zip(picture.numbers[::2], picture.numbers[1::2], strict=True)
    codes = [64 * DIGITS.index(a) + DIGITS.index(b) for a, b in pairs]
    special = {0: float("nan"), 1: float("-inf"), 2: float("inf")}
    steps = picture.largest / STEPS
    return torch.tensor([special.get(c, (c - 2047) * steps) for c in codes])


def test_a_picture_keeps_the_numbers_of_the_last_sentence_with_all_heads():
    close = {"rtol": 0, "atol": 1 / 3999}
    x = torch.rand(20, H, T, S) * 2 - 1
    assert torch.allclose(unpack(draw(x)), x[-1].flatten(), **close)
    assert torch.allclose(unpack(draw(x[:2])), x[:2].flatten(), **close)
    assert unpack(draw(torch.randn(3, 20, T, S))).numel() == T * S
    strange = torch.tensor([float("nan"), float("-inf"), float("inf"), -5.0, 0.0, 5.0])
    assert torch.equal(unpack(draw(strange)).nan_to_num(7), strange.nan_to_num(7))
    assert unpack(draw(torch.tensor([True, False]))).tolist() == [1, 0]


def test_the_value_under_the_pointer_is_said(show):
    weights = (attended := walk_attend()).result
    listing = show(attended)
    made = {
        name: listing.locator(".w-made li", has_text=name).last.locator("svg")
        for name in ("weights", "scores", "mask")
    }

    def point_at(name, row, column):
        place = {"x": 7 * column + 3, "y": 7 * row + 3}
        made[name].hover(position=place, force=True)
        return text(listing, ".w-tip").split(" = ")

    for row, column in [(0, 0), (2, 3), (4, 6)]:
        name, number = point_at("weights", row, column)
        assert name == f"weights[1, {row}, {column}]"
        assert float(number) == pytest.approx(weights[1, row, column].item(), abs=0.002)
    assert point_at("scores", 0, 6)[1] == "−∞"
    assert [point_at("mask", 0, column)[1] for column in (6, 0)] == ["False", "True"]
    listing.locator(".w-head b").hover()
    assert not listing.locator(".w-tip").is_visible()


def test_a_picture_names_its_axes_and_another_head_or_sentence_can_be_chosen(show):
    def f(x):
        doubled = 2 * x
        return doubled

    x = torch.randn(B, H, T, S)
    listing = show(walk(f, x, dims={"B": B, "H": H, "T": T, "S": S}))
    step_to(listing, "doubled")
    button(listing, "Enlarge doubled").focus()
    listing.page.keyboard.press("Enter")
    dialog = listing.page.get_by_role("dialog", name="doubled")
    assert f"rows: T ({T}), columns: S ({S})" in dialog.inner_text()
    large = dialog.get_by_role("img")
    assert large.evaluate(HAS_FOCUS)
    for key in ("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp"):
        listing.page.keyboard.press(key)
    for b, h in [(1, 0), (0, 2), (0, 0), (1, 2)]:
        for group, chosen in (("sentence", b), ("head", h)):
            buttons = dialog.get_by_role("group", name=group)
            buttons.get_by_role("button", name=str(chosen)).click()
            pressed = buttons.locator("[aria-pressed='true']")
            assert pressed.all_inner_texts() == [str(chosen)]
        name, number = text(dialog, "output").replace("−", "-").split(" = ")
        assert name == f"doubled[{b}, {h}, 1, 1]"
        assert float(number) == pytest.approx(2 * x[b, h, 1, 1].item(), abs=0.006)
        drawn = "paths => paths.map((path) => path.classList[0])"
        expected = draw(2 * x[b, h]).cells
        assert large.locator("path").evaluate_all(drawn) == [
            f"w-{code}" for line in expected for code in line
        ]
    listing.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert is_stepping(listing)
    assert listing.locator(".w-new svg").evaluate(HAS_FOCUS)


# -- The built pages -------------------------------------------------------------------


def test_listings_share_style_and_script_and_say_where_the_notes_are():
    html = walk(outer, 1, depth=2)._repr_html_()
    facts = {
        "book/02": {"walked": "walked.inner walked.middle"},
        "book/09": {"walked": "walked.inner"},
        "book/11": {},
        "book/13": {"walked": "walked.middle"},
    }
    titles = dict.fromkeys(facts, nodes.title("", "2. Two & more"))
    builder = SimpleNamespace(get_relative_uri=lambda page, to: f"{to[5:]}.html")
    shared = []
    app = SimpleNamespace(
        env=SimpleNamespace(metadata=facts, titles=titles),
        builder=builder,
        add_css_file=shared.append,
        add_js_file=lambda name, loading_method: shared.append(name + loading_method),
    )

    def share(page):
        context = {"body": html}
        listings.share(app, page, "", context, nodes.document(None, None))
        return context["body"]

    body = share("book/13")
    assert body.count("<style>") == body.count("<script>") == 0
    assert shared == ["made/listings.css", "made/listings.jsdefer"]
    link = 'data-home="02.html#walk=walked.inner" data-chapter="2. Two &amp; more"'
    assert f'<template data-name="walked.inner" {link} data-file' in body
    assert "data-home" not in share("book/02")


def test_the_build_notes_what_a_page_walks_through():
    document = nodes.document(None, None)
    html = walk(middle, 1, also=[inner], depth=2)._repr_html_()
    document += nodes.raw("", html, format="html")
    env = SimpleNamespace(docname="book/02", metadata={"book/02": {}})
    listings.note_listings(SimpleNamespace(env=env), document)
    assert env.metadata["book/02"]["walked"] == "walked.middle walked.inner"


@pytest.mark.book
def test_what_a_chapter_steps_into_is_walked_in_the_book_and_brings_nothing_twice():
    walked, entered = set(), set()
    for page in HTML.glob("book/[01]*_*.html"):
        html = page.read_text(encoding="utf-8")
        walked |= set(re.findall(r'data-walk="([^"]+)"', html))
        entered |= set(re.findall(r'<template data-name="([^"]+)"', html))
        if 'class="walk"' in html:
            assert html.count("_static/made/listings.css") == 1
            assert html.count("_static/made/listings.js") == 1
            assert "/* The arrow keys" not in html
    assert len(entered) > 10
    assert entered <= walked


@pytest.mark.book
def test_a_call_links_to_the_chapter_with_its_notes(tab):
    address = "#walk=transformer_lib.model.encoder.EncoderLayer.forward"
    tab.goto((HTML / "book" / "07_encoder.html").as_uri() + address)
    listing = tab.locator(".walk.w-stepping")
    enter(listing, *ATTENTION[1:])
    listing.locator(".w-why a").click()
    there = tab.locator(".walk.w-stepping")
    there.wait_for()
    assert "/04_many_heads.html#walk=" in tab.url
    assert current(there).startswith("def forward")
    assert there.locator(".w-why").inner_text()
    assert tab.faults == []
