"""Stepping through a listing, by keyboard and mouse, in a browser without the book."""

import re

import pytest
import torch
from book_files import ROOT

from bookkit.listing import walk
from transformer_lib.checks import require_positive
from transformer_lib.model import scaled_dot_product_attention

B, H, T, S, D_K = 2, 3, 5, 7, 11
AXE = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 400, "height": 800}
DIMS = {"B": B, "H": H, "T": T, "S": S, "d_k": D_K}


@pytest.fixture
def attended():
    query, key = torch.randn(B, H, T, D_K), torch.randn(B, H, S, D_K)
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 5:] = False
    return walk(scaled_dot_product_attention, query, key, key, mask=mask, dims=DIMS)


@pytest.fixture
def show(tab):
    """Show a listing twice on a page of its own, and give the second."""

    def show(walked, theme="light"):
        html = walked._repr_html_()
        start = f'<!doctype html><html lang="en" data-theme="{theme}"><title>A</title>'
        tab.set_content(f"{start}<body><p>before</p>{html}{html}<p>after</p></body>")
        return tab.locator(".walk").last

    yield show
    assert tab.faults == []


def step_to(listing, line):
    """Step forward until the current line begins like this."""
    button = listing.get_by_role("button", name="Step through")
    if button.count():
        button.click()
    forward = listing.get_by_role("button", name="Next")
    for _ in range(listing.locator(".w-row").count()):
        if current(listing).startswith(line):
            return
        forward.click()
    pytest.fail(f"no step leads to {line}")


def current(listing):
    code = listing.locator("[aria-current='step'] code").first
    return code.inner_text().strip() if code.count() else ""


def names(listing, which=""):
    return listing.locator(f".w-exists li{which} b").all_inner_texts()


def value(listing, name):
    """The words of a value in the panel, and where it comes from."""
    items = listing.locator(".w-exists li")
    item = items.filter(has=listing.page.get_by_text(name, exact=True)).first
    words = " ".join(item.inner_text().split())
    return words, item.get_attribute("data-source")


def says(listing):
    return listing.locator("output").text_content()


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


def test_the_panel_begins_with_the_arguments(show, attended):
    listing = show(attended)
    assert not listing.locator(".w-panel").is_visible()
    listing.get_by_role("button", name="Step through").click()
    assert current(listing).startswith("def scaled_dot_product_attention")
    assert names(listing) == ["query", "key", "value", "mask", "dropout"]
    assert value(listing, "query")[1] == "argument"
    assert "(B, H, T, d_k) 2 × 3 × 5 × 11" in value(listing, "query")[0]
    assert says(listing).startswith("The call begins: query, shape (B, H, T, d_k) 2 ×")


def test_each_step_adds_what_the_line_made_and_marks_it(show, attended):
    listing = show(attended)
    step_to(listing, "1 argument check")
    assert names(listing, ".w-new") == []
    assert says(listing) == "After line 46, 1 argument check: nothing new"
    step_to(listing, "scores = query")
    assert names(listing, ".w-new") == ["scores"]
    assert value(listing, "scores")[1] == "this line"
    assert "scores, shape (B, H, T, S) 2 × 3 × 5 × 7, " in says(listing)
    assert says(listing).endswith(", made")
    assert listing.locator(".w-new svg").count() == 1
    assert "weights" not in names(listing)
    step_to(listing, "if mask")
    assert names(listing, ".w-new") == []
    assert value(listing, "scores")[1].startswith("line ")
    assert says(listing).endswith(", taken: nothing new")


def test_what_is_made_again_is_marked_as_changed_and_stands_there_once(show, attended):
    listing = show(attended)
    step_to(listing, "scores = scores.masked_fill")
    assert names(listing).count("scores") == 1
    assert "scores changed (B, H, T, S)" in value(listing, "scores")[0]
    assert "30 × −∞" in value(listing, "scores")[0]
    assert "scores changed, shape (B, H, T, S) 2 × 3 × 5 × 7, 30 × −∞" in says(listing)
    listing.get_by_role("button", name="Back").click()
    assert "−∞" not in value(listing, "scores")[0]


def test_a_loop_says_how_often_and_passes_over_what_the_run_passed_over(show):
    listing = show(walk(accumulate, 3, ["the", "cat", "reads"], dims={"n": 3}))
    step_to(listing, "for i, word")
    assert ", 3 passes: " in says(listing)
    assert value(listing, "word") == ("word 'reads'", "this line")
    assert value(listing, "total")[1] == "before the loop"
    assert value(listing, "n")[1] == "argument"
    step_to(listing, "total[i]")
    assert ", 3 times, shown is the last: total changed in place" in says(listing)
    assert value(listing, "total")[0].startswith("total changed in place")
    step_to(listing, "if n < 0")
    assert value(listing, "total")[1].startswith("line ")
    listing.get_by_role("button", name="Next").click()
    assert current(listing).startswith("return")
    count, rows = listing.locator(".w-count"), listing.locator(".w-row").count()
    assert count.inner_text() == f"step {rows - 1} of {rows - 1}"


def test_a_value_is_not_shown_as_it_was_when_a_part_of_it_is_new(show):
    listing = show(walk(accumulate, 3, ["the", "cat", "reads"]))
    step_to(listing, "found, pair")
    assert {"found", "pair[0]", "pair[1]"} < set(names(listing))
    step_to(listing, "found.append")
    assert value(listing, "found[0]")[0] == "found[0] 'cat'"
    assert value(listing, "found") == ("found []", "until this line")
    step_to(listing, "pair = ")
    assert "pair" in names(listing)
    assert not {"pair[0]", "pair[1]"} & set(names(listing))


def test_an_exception_stands_on_its_step(show):
    def fail(x):
        y = x + 1
        raise ValueError(f"got {y} <b>")

    listing = show(walk(fail, 2, raises=ValueError))
    step_to(listing, "raise")
    assert "raised ValueError: got 3 <b>" in says(listing)
    assert "raised ValueError: got 3 <b>" in listing.locator(".w-when").inner_text()
    assert names(listing) == ["x", "y"]


def test_the_note_of_the_line_stands_in_the_panel(show):
    def f(x):
        return x

    notes = {"def": "A *number* and `x`.", "return": "End."}
    listing = show(walk(f, 3, notes=notes))
    listing.get_by_role("button", name="Step through").click()
    why = listing.locator(".w-why")
    assert why.inner_text() == "A number and x."
    assert why.locator("em, code").count() == 2
    assert not listing.locator(".w-note").first.is_visible()


@pytest.mark.parametrize("on", ["button", "row"])
def test_the_keyboard_steps_from_the_button_and_from_a_line(show, attended, on):
    listing = show(attended)
    keyboard = listing.page.keyboard
    button, count = listing.locator(".w-step"), listing.locator(".w-count")
    forward = listing.get_by_role("button", name="Next")
    button.focus()
    keyboard.press("Enter")
    if on == "row":
        listing.locator(".w-row[tabindex='0']").focus()
    place = "e => document.activeElement === e"
    for key, expected in [
        ("ArrowDown", 2),
        ("ArrowRight", 3),
        ("ArrowUp", 2),
        ("ArrowLeft", 1),
        ("ArrowUp", 1),
        ("End", 10),
        ("ArrowDown", 10),
        ("Home", 1),
    ]:
        keyboard.press(key)
        assert count.inner_text() == f"step {expected} of 10", key
        row = listing.locator("[aria-current='step']")
        assert (row if on == "row" else forward).evaluate(place), key
    keyboard.press("Escape")
    assert not listing.locator(".w-panel").is_visible()
    assert button.inner_text() == "Step through"


def test_the_mouse_steps_to_any_line_that_ran(show, attended):
    listing = show(attended)
    listing.get_by_role("button", name="Step through").click()
    listing.locator(".w-row:visible").nth(2).click()
    assert listing.locator(".w-count").inner_text() == "step 3 of 10"
    assert names(listing, ".w-new") == ["scores"]


def test_a_line_that_did_not_run_is_no_step(show):
    listing = show(walk(accumulate, 3, ["the", "cat", "reads"]))
    step_to(listing, "if n < 0")
    listing.locator(".w-pale").click()
    assert current(listing).startswith("if n < 0")


def test_leaving_from_the_panel_gives_the_focus_to_the_button(show, attended):
    listing = show(attended)
    step_to(listing, "weights = scores")
    listing.locator(".w-exists").focus()
    listing.page.keyboard.press("Escape")
    assert listing.locator(".w-step").evaluate("e => document.activeElement === e")
    assert current(listing).startswith("weights = scores")  # and stepping goes on there
    listing.get_by_role("button", name="Step through").click()
    assert current(listing).startswith("weights = scores")


def test_lines_to_come_are_pale_and_keep_their_outcome_to_themselves(show, attended):
    listing = show(attended)
    colour = "row => getComputedStyle(row.querySelector('code')).color"
    rows = listing.locator(".w-row")
    step_to(listing, "scores = query")
    here, last = listing.locator("[aria-current='step']"), rows.last
    assert rows.first.evaluate(colour) == here.evaluate(colour) != last.evaluate(colour)
    assert not listing.get_by_text("taken", exact=True).first.is_visible()


def test_listings_are_stepped_through_apart_from_each_other(show, attended):
    listing = show(attended)
    other = listing.page.locator(".walk").first
    step_to(listing, "scores = query")
    assert not other.locator(".w-panel").is_visible()
    step_to(other, "weights = scores")
    assert current(listing).startswith("scores = query")
    assert "weights" not in names(listing)
    listing.get_by_role("button", name="Next").click()
    assert current(listing).startswith("scores = scores / ")
    assert current(other).startswith("weights = scores")


def test_running_the_script_again_changes_nothing(show, attended):
    listing = show(attended)
    script = listing.locator("script").text_content()
    for _ in range(2):
        listing.page.add_script_tag(content=script)
    listing.get_by_role("button", name="Step through").click()
    assert listing.locator(".w-panel").is_visible()
    listing.get_by_role("button", name="Next").click()
    assert listing.locator(".w-count").inner_text() == "step 2 of 10"


def test_a_listing_that_comes_later_can_be_stepped_through(show, attended):
    listing = show(attended)
    listing.evaluate(
        """(walk, html) => {
            walk.outerHTML = html;
            const script = document.createElement("script");
            script.textContent = document.querySelector(".walk script").textContent;
            document.body.append(script);
        }""",
        attended._repr_html_(),
    )
    step_to(listing, "scores = query")
    assert names(listing, ".w-new") == ["scores"]


def test_without_its_script_a_listing_has_no_button(tab, attended):
    tab.set_content(attended._repr_html_().rpartition("<script>")[0])
    assert tab.locator(".w-row:visible").count() == 10
    tab.keyboard.press("Tab")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")  # the fold opens all the same
    assert tab.locator(".w-row:visible").count() == 11
    assert not tab.locator(".walk button").first.is_visible()
    assert not tab.locator(".w-panel").is_visible()


def test_print_shows_the_full_listing_whatever_the_screen_shows(show, attended):
    listing = show(attended)
    step_to(listing, "scores = query")
    listing.page.emulate_media(media="print")
    hidden = listing.locator(".w-panel, button")
    assert not any(item.is_visible() for item in hidden.all())
    made, colour = listing.locator(".w-made"), "e => getComputedStyle(e).color"
    assert all(item.is_visible() for item in made.all())
    codes = listing.locator(".w-row code")
    assert codes.first.evaluate(colour) == codes.last.evaluate(colour)


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_line_and_what_it_made_are_in_sight_together(show, attended, size):
    listing = show(attended)
    listing.page.set_viewport_size(size)
    listing.get_by_role("button", name="Step through").click()
    for _ in range(9):
        listing.page.keyboard.press("ArrowDown")
        new = listing.locator(".w-new")
        boxes = [listing.locator("[aria-current='step']").bounding_box()]
        boxes += [new.first.bounding_box()] if new.count() else []
        for box in boxes:
            assert box["y"] >= 0
            assert box["y"] + box["height"] <= size["height"]
    code, panel = (listing.locator(c).bounding_box() for c in (".w-rows", ".w-panel"))
    if size is WIDE:
        assert panel["x"] >= code["x"] + code["width"]
    else:
        assert panel["y"] >= code["y"] + code["height"]
    sideways = "document.documentElement.scrollWidth - window.innerWidth"
    assert listing.page.evaluate(sideways) <= 0


def test_the_controls_have_names_and_what_a_step_made_is_said(show, attended):
    listing = show(attended)
    listing.get_by_role("button", name="Step through").click()
    for name in ("Full listing", "Back", "Next"):
        assert listing.get_by_role("button", name=name, exact=True).is_visible()
    assert listing.get_by_role("status").count() == 1
    assert (
        listing.get_by_role("list", name="What exists").get_attribute("tabindex") == "0"
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_while_stepping(show, attended, theme):
    listing = show(attended, theme)
    step_to(listing, "scores = scores.masked_fill")
    listing.page.add_script_tag(path=AXE)
    found = listing.page.evaluate("axe.run('.w-stepping')")
    assert [fault["id"] for fault in found["violations"]] == []
    assert len(found["passes"]) > 10


# -- Folds, ends and parts -------------------------------------------------------------


def guarded(x, y):
    require_positive(x=x)
    if y > 5:
        raise ValueError("y must be at most 5")
    z = x + y
    require_positive(z=z)
    return z


NOTES = {"def": "Two numbers.", "if y": "Not too large.", "z =": "Their sum."}


@pytest.fixture
def folded():
    return walk(guarded, 2, 3, notes=NOTES)


def test_a_fold_is_one_step_open_or_not(show, folded):
    listing = show(folded)
    step_to(listing, "2 argument checks")
    first = guarded.__code__.co_firstlineno
    lines = f"lines {first + 1} to {first + 3}"
    assert says(listing) == f"After {lines}, 2 argument checks: nothing new"
    why = listing.locator(".w-why").inner_text()
    assert re.fullmatch(r"Lines \d+ to \d+\. Two numbers\.", why)
    assert listing.locator(".w-count").inner_text() == "step 2 of 5"
    listing.locator("summary").first.click()
    listing.get_by_text("require_positive(x=x)").click()  # is no step
    assert listing.locator(".w-count").inner_text() == "step 2 of 5"
    listing.get_by_role("button", name="Next").click()
    assert current(listing) == "z = x + y"
    why = listing.locator(".w-why").inner_text()
    assert re.fullmatch(r"Lines \d+ (and|to) \d+\. Their sum\.", why)


def test_the_arrow_keys_pass_over_a_closed_fold_and_through_an_open_one(show, folded):
    listing = show(folded)
    keyboard = listing.page.keyboard
    listing.locator(".w-row").first.focus()
    keyboard.press("ArrowDown")
    keyboard.press("ArrowDown")
    assert current(listing) == "z = x + y"
    keyboard.press("ArrowUp")
    assert current(listing) == "2 argument checks"
    assert not listing.get_by_text("Not too large.").is_visible()
    keyboard.press("Enter")
    assert listing.get_by_text("Not too large.").is_visible()
    for line in ("require_positive(x=x)", "if y > 5:", 'raise ValueError("y'):
        keyboard.press("ArrowDown")
        assert current(listing).startswith(line)
        row = listing.locator("[aria-current='step']")
        assert row.evaluate("row => row === document.activeElement")
    keyboard.press("ArrowDown")
    assert current(listing) == "z = x + y"


def test_a_fold_is_reached_with_tab_wherever_the_arrow_keys_were(show, folded):
    listing = show(folded)
    listing.locator(".w-row").first.focus()
    for key in ("ArrowDown", "ArrowUp", "Tab"):
        listing.page.keyboard.press(key)
    summary = listing.locator("summary").first
    assert summary.evaluate("e => document.activeElement === e")


def test_a_fold_opens_by_a_click_and_in_print(show, folded):
    listing = show(folded)
    line = listing.get_by_text("require_positive(z=z)")
    assert not line.is_visible()
    listing.locator("summary").last.click()
    assert line.is_visible()
    listing.locator("summary").last.click()
    assert not line.is_visible()
    listing.page.emulate_media(media="print")
    seen = "e => e.checkVisibility({contentVisibilityAuto: true}) && e.offsetHeight"
    assert all(row.evaluate(seen) > 10 for row in listing.locator(".w-row").all())


def test_a_fold_opens_for_what_is_searched_in_the_page(tab, folded, tmp_path):
    page = tmp_path / "page.html"
    page.write_text(f"<!doctype html>{folded._repr_html_()}", encoding="utf-8")
    tab.goto(f"{page.as_uri()}#:~:text=require_positive(z%3Dz)")
    tab.locator("details[open]").wait_for()
    assert tab.get_by_text("require_positive(z=z)").is_visible()
    assert tab.locator("details[open]").count() == 1


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_the_buttons_say_where_the_run_begins_and_ends_and_keep_the_focus(
    show, folded, by
):
    listing = show(folded)
    listing.get_by_role("button", name="Step through").click()
    back, forward = (listing.get_by_role("button", name=n) for n in ("Back", "Next"))
    has_focus = "e => document.activeElement === e"

    def use(button):
        if by == "mouse":
            button.click(force=True)  # a click that a disabled button takes as well
        else:
            button.focus()
            listing.page.keyboard.press("Enter")
        assert button.evaluate(has_focus)

    def ends():
        return [b.get_attribute("aria-disabled") for b in (back, forward)]

    assert ends() == ["true", "false"]
    use(back)
    assert listing.locator(".w-count").inner_text() == "step 1 of 5"
    use(forward)
    assert ends() == ["false", "false"]
    for _ in range(4):
        use(forward)
    assert ends() == ["false", "true"]
    assert listing.locator(".w-count").inner_text() == "step 5 of 5"


def test_the_focus_goes_into_the_panel_and_back_to_the_button(show, folded):
    listing = show(folded)
    keyboard, has_focus = listing.page.keyboard, "e => document.activeElement === e"
    button = listing.locator(".w-step")
    for leave in ("Escape", "Enter"):
        button.focus()
        keyboard.press("Enter")
        assert listing.get_by_role("button", name="Next").evaluate(has_focus)
        if leave == "Enter":
            button.focus()
        keyboard.press(leave)
        assert not listing.locator(".w-panel").is_visible()
        assert button.evaluate(has_focus), leave


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_box_keeps_its_height_from_step_to_step(show, size):
    notes = {"def": "A.", "found, pair": "word " * 60, "for": "C.", "return": "D."}
    listing = show(walk(accumulate, 3, ["the", "cat", "reads"], notes=notes))
    listing.page.set_viewport_size(size)
    listing.get_by_role("button", name="Step through").click()
    forward, heights = listing.get_by_role("button", name="Next"), set()
    while forward.get_attribute("aria-disabled") == "false":
        heights.add(listing.bounding_box()["height"])
        forward.click()
    assert len(heights) == 1


def test_while_stepping_the_code_is_bare_in_wide_listings_too(show, folded):
    listing = show(folded)
    listing.page.set_viewport_size(WIDE)
    assert listing.locator(".w-made").first.is_visible()
    listing.get_by_role("button", name="Step through").click()
    assert listing.locator(".w-made:visible, .w-note:visible").count() == 0


class Pair:
    def both(self, x):
        y = self.twice(x)
        return y

    def twice(self, x):
        z = x + x
        return z


def test_steps_go_through_all_functions_each_with_its_own_values(show):
    pair = Pair()
    notes = {"def both": "Both.", "def twice": "Twice."}
    listing = show(walk(pair.both, 2, also=[pair.twice], notes=notes))
    listing.get_by_role("button", name="Step through").click()
    seen = []
    for _ in range(6):
        why = re.sub(r"\d+", "n", listing.locator(".w-why").inner_text())
        seen.append((why, current(listing).partition("(")[0], names(listing)))
        listing.page.keyboard.press("ArrowDown")
    assert seen == [
        ("Lines n to n. Both.", "def both", ["x"]),
        ("Lines n to n. Both.", "y = self.twice", ["x", "y"]),
        ("Lines n to n. Both.", "return y", ["x", "y", "returned"]),
        ("Lines n to n. Twice.", "def twice", ["x"]),
        ("Lines n to n. Twice.", "z = x + x", ["x", "z"]),
        ("Lines n to n. Twice.", "return z", ["x", "z", "returned"]),
    ]
    assert value(listing, "x")[1] == "argument"
    assert listing.locator(".w-count").inner_text() == "step 6 of 6"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_a_note_stands_along_the_lines_that_it_is_for(show, folded, size):
    listing = show(folded)
    listing.page.set_viewport_size(size)
    for number, group in enumerate(listing.locator(".w-part > .w-group").all()):
        note = group.locator("> .w-note").bounding_box()
        lines = group.locator("> .w-lines").bounding_box()
        if size is WIDE:
            assert note["x"] >= lines["x"] + lines["width"]
            assert note["y"] == pytest.approx(lines["y"], abs=8)
            assert note["height"] == pytest.approx(lines["height"], abs=16)
        else:
            assert note["y"] + note["height"] <= lines["y"], number
    assert listing.locator(".w-part > .w-group").count() == 2


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_listing_with_open_folds(show, folded, theme):
    listing = show(folded, theme)
    for fold in listing.locator("summary").all():
        fold.click()
    listing.page.add_script_tag(path=AXE)
    found = listing.page.evaluate("axe.run('.walk .w-rows')")
    assert [fault["id"] for fault in found["violations"]] == []
    assert len(found["passes"]) > 10


def test_jupyterlab_leaves_the_keys_to_whatever_takes_the_focus(attended, show):
    listing = show(attended)
    places = listing.locator("button, summary, [tabindex]")
    assert places.count() > 10
    open_to_jupyterlab = "all => all.filter(e => !e.dataset.lmSuppressShortcuts).length"
    assert places.evaluate_all(open_to_jupyterlab) == 0
