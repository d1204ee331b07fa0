"""Stepping through a listing and into its calls, and its pictures, in a browser."""

import re

import pytest
import torch
from axe import AXE
from book_files import HTML
from playwright.sync_api import expect
from walked import guarded, inner, middle, outer, walk_attend, walk_escaped

from bookkit.listing import walk
from bookkit.listing.pictures import draw
from transformer_lib.model import Transformer, TransformerConfig

B, H, S, T, D_MODEL = 2, 3, 7, 5, 12
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 400, "height": 800}
COLOUR = "e => getComputedStyle(e).color"
SIDEWAYS = "document.documentElement.scrollWidth - window.innerWidth"


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


@pytest.fixture(scope="module")
def encoded():
    sizes = {"d_model": D_MODEL, "num_heads": H, "d_ff": 48, "num_layers": 2}
    sizes |= {"src_vocab_size": 5, "tgt_vocab_size": 5}
    model = Transformer(TransformerConfig(**sizes)).eval()
    x, mask = torch.randn(B, S, D_MODEL), (torch.arange(S) < 5).expand(B, 1, 1, S)
    dims = {"B": B, "S": S, "d_model": D_MODEL}
    return walk(model.encoder, x, mask, depth=4, dims=dims)


@pytest.fixture(scope="module")
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
    back = button(listing, "Back")
    back.click(force=True)  # there is nothing before, and the button keeps the focus
    expect(back).to_be_focused()
    assert back.get_attribute("aria-disabled") == "true"
    assert names(listing) == ["query", "key", "mask"]
    words = "query (H, T, d_k) 2 × 5 × 4 0 to 0.97"
    assert value(listing, "query") == (words, "argument")
    said = text(listing, "output")
    assert said.startswith("The call begins: query, shape (H, T, d_k) 2 × 5 × 4, 0 to")
    step_to(listing, "scores = query")
    assert names(listing, ".w-new") == ["scores"]
    assert value(listing, "scores")[1] == "this line"
    assert text(listing, "output").endswith(", 0 to 0.97, made")
    step_to(listing, "scores = scores.masked_fill")
    assert value(listing, "scores")[0].startswith("scores changed (H, T, S) 2 × 5 × 7")
    assert "scores changed, shape (H, T, S)" in text(listing, "output")
    step_to(listing, "weights")
    assert value(listing, "scores")[1].startswith("line ")
    back.click()
    back.click()
    assert "−∞" not in value(listing, "scores")[0]
    assert "weights" not in names(listing)


def test_an_exception_and_the_note_stand_on_the_step(show):
    listing = step_to(show(walk_escaped()), "raise")
    assert "raised KeyError: ('<script>" in text(listing, ".w-when")
    assert button(listing, "Next").get_attribute("aria-disabled") == "true"
    assert listing.locator(".w-why").inner_text() == "bold & link"
    assert listing.locator(".w-made:visible, .w-note:visible").count() == 0


def test_a_loop_says_how_often_and_a_value_is_not_shown_as_it_was_when_a_part_is_new(
    show,
):
    listing = step_to(show(walk_loop(dims={"n": 3})), "found, pair")
    assert {"found", "pair[0]", "pair[1]"} < set(names(listing))
    step_to(listing, "total = torch")  # lines to come are pale, without their outcome
    first, *_, last = listing.locator(".w-row code").all()
    assert first.evaluate(COLOUR) != last.evaluate(COLOUR)
    assert not listing.get_by_text("3 passes", exact=True).first.is_visible()
    step_to(listing, "for i, word")
    assert ", 3 passes: " in text(listing, "output")
    assert value(listing, "word") == ("word 'reads'", "this line")
    assert value(listing, "total")[1] == "before the loop"
    assert value(listing, "n")[1] == "argument"
    step_to(listing, "found.append")
    assert value(listing, "found[0]")[0] == "found[0] 'cat'"
    assert value(listing, "found") == ("found []", "until this line")
    step_to(listing, "total[i]")
    said = text(listing, "output")
    assert ", 3 times, shown is the last: total changed in place" in said
    step_to(listing, "pair = ")
    assert "pair" in names(listing)
    assert not {"pair[0]", "pair[1]"} & set(names(listing))
    step_to(listing, "if n < 0")  # what did not run is no step
    assert value(listing, "total")[1].startswith("line ")
    assert text(listing, "output").endswith(", not taken: nothing new")
    button(listing, "Next").click()
    assert current(listing).startswith("return")
    assert step(listing) == "11 of 11"


def test_steps_go_through_all_functions_each_with_its_own_values(show):
    notes = {"def middle": "Both.", "def inner": "Other.", "return doubled": "End."}
    listing = show(walk(middle, 1, also=[inner], notes=notes))
    button(listing, "Step through").click()
    seen = []
    for _ in range(5):
        why = re.sub(r"\d+", "n", text(listing, ".w-why"))
        seen.append((why, current(listing).partition("(")[0], names(listing)))
        listing.page.keyboard.press("ArrowDown")
    assert seen == [
        ("Lines n to n. Both.", "def middle", ["x"]),
        ("Lines n to n. Both.", "z = inner", ["x", "z"]),
        ("Lines n to n. Both.", "return z + 1", ["x", "z", "returned"]),
        ("Lines n and n. Other.", "def inner", ["x"]),
        ("Lines n and n. Other.", "doubled = 2 * x  # ", ["x", "doubled"]),
    ]
    assert value(listing, "x")[1] == "argument"


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_the_line_and_what_it_made_are_in_sight_and_the_box_keeps_its_height(
    show, size
):
    notes = {"def": "A.", "found, pair": "word " * 60, "for": "C.", "return": "D."}
    listing = show(walk_loop(notes=notes))
    listing.page.set_viewport_size(size)
    note, lines = (listing.locator(c).first for c in (".w-note", ".w-part ol"))
    is_above = note.bounding_box()["y"] < lines.bounding_box()["y"]
    assert is_above == (size is NARROW)  # otherwise beside them
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


# -- Keys, mouse and focus -------------------------------------------------------------


@pytest.mark.parametrize("on", ["button", "row"])
def test_the_keyboard_steps_from_the_button_and_from_a_line(show, on):
    listing = show(walk_attend())
    keyboard = listing.page.keyboard
    opens, forward = button(listing, "Step through"), button(listing, "Next")
    opens.press("Enter")
    expect(forward).to_be_focused()
    if on == "row":
        listing.locator(".w-row[tabindex='0']").focus()
    keys = "ArrowDown ArrowRight ArrowUp ArrowLeft ArrowUp End ArrowDown Home"
    for key, expected in zip(keys.split(), [2, 3, 2, 1, 1, 5, 5, 1], strict=True):
        keyboard.press(key)
        assert step(listing) == f"{expected} of 5", key
        row = listing.locator("[aria-current='step']")
        expect(row if on == "row" else forward).to_be_focused()
    listing.locator(".w-row:visible").nth(2).click()
    listing.locator(".w-exists").focus()
    keyboard.press("Escape")
    assert not is_stepping(listing)
    expect(opens).to_be_focused()
    keyboard.press("Enter")  # and stepping goes on there
    assert step(listing) == "3 of 5"


def test_listings_are_apart_from_each_other_however_often_the_script_runs(show):
    attended = walk_attend()
    listing = show(attended, attended)
    script = text(listing, "script")
    listing.page.add_script_tag(content=script)
    other = listing.page.locator(".walk").first
    step_to(listing, "scores = query")
    assert not is_stepping(other)
    step_to(other, "weights = scores")
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
    seen = "e => e.checkVisibility({contentVisibilityAuto: true}) && e.offsetHeight"
    for walked, lines in ((folded, ()), (encoded, ATTENTION)):
        listing = enter(show(walked), *lines)
        listing.page.emulate_media(media="print")
        hidden = ".w-panel:visible, button:visible, .w-frame:visible, .w-stack:visible"
        assert listing.locator(hidden).count() == 0
        codes = listing.locator(".w-part").first.locator(".w-row code").all()
        assert all(code.evaluate(seen) > 10 for code in codes)  # also those of a fold
        assert listing.locator(".w-made").first.is_visible()
        assert codes[0].evaluate(COLOUR) == codes[-1].evaluate(COLOUR)
        listing.page.emulate_media(media="screen")


def test_a_fold_is_one_step_and_the_arrow_keys_go_through_an_open_one(show, folded):
    listing = show(folded)
    keyboard, summary = listing.page.keyboard, listing.locator("summary").first
    listing.locator(".w-row").first.focus()
    for key, line in (("Down", "5 arg"), ("Down", "y ="), ("Up", "5 arg")):
        keyboard.press(f"Arrow{key}")
        assert current(listing).startswith(line)
    expect(summary).to_be_focused()
    assert not listing.get_by_text("Not too large.").is_visible()
    keyboard.press("Enter")
    assert listing.get_by_text("Not too large.").is_visible()
    for line in ("require_positive(x=x)", "if x > 5:", "double ="):
        keyboard.press("ArrowDown")
        assert current(listing).startswith(line)
    keyboard.press("Shift+Tab")  # a fold is always in the tab order
    expect(summary).to_be_focused()
    button(listing, "Step through").click()
    first = guarded.__code__.co_firstlineno
    lines = f"After lines {first + 1} to {first + 12}"
    assert text(listing, "output") == f"{lines}, 5 argument checks: nothing new"
    listing.get_by_text("require_positive(x=x)").click()  # is no step
    assert step(listing) == "2 of 5"
    button(listing, "Next").click()
    assert current(listing) == "y = x + 1"


@pytest.mark.parametrize(("theme", "size"), [("light", WIDE), ("dark", NARROW)])
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
    places = listing.locator("[value='1'], [value=i], summary, [tabindex]")
    keeps_keys = "all => all.every(e => e.dataset.lmSuppressShortcuts)"  # JupyterLab's
    assert places.evaluate_all(keeps_keys)


# -- Calls -----------------------------------------------------------------------------

ATTENTION = ("x = layer", "x = self.self_attention_residual", "return self.norm")
CLASSES = "Encoder", "EncoderLayer", "Residual", "MultiHeadAttention"
NAMES = [f"{name}.forward" for name in CLASSES]


@pytest.mark.parametrize("by", ["keyboard", "mouse"])
def test_a_step_enters_a_call_and_leaves_it_again(show, encoded, by):
    listing = step_to(show(encoded), "x = layer")
    buttons = {"i": "Step into", "o": "Step out", "ArrowDown": "Next"}
    buttons["ArrowUp"] = "Back"
    if by == "keyboard":
        listing.locator("[aria-current='step']").focus()

    def use(key):
        if by == "keyboard":
            listing.page.keyboard.press(key)
            expect(listing.locator("[aria-current='step']")).to_be_focused()
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
    use("i")
    assert use("ArrowUp") == (1, "x = layer(x,")  # both ends of a call lead back
    use("i")
    assert [use("ArrowDown")[0] for _ in range(3)] == [2, 2, 1]
    assert use("ArrowDown") == (1, "return x if ")  # stepped over
    assert button(listing, "Step into").get_attribute("aria-disabled") == "true"
    assert use("o") == (1, "return x if ")  # there is no caller


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
    expect(button(listing, "Step into")).to_be_focused()
    listing.page.keyboard.press("Escape")  # leaves the panel and all calls
    assert not is_stepping(listing)
    assert listing.locator(".w-frame").count() == 0
    assert current(listing).startswith("x = layer")


def test_of_several_calls_of_a_line_each_can_be_entered_by_key_or_button(show):
    listing = step_to(show(walk(outer, 1, also=[inner], depth=2)), "return both")
    seen = []
    for key in "ioioi":
        listing.page.keyboard.press(key)
        seen.append(stack(listing)[-1])
    assert seen == ["inner", "outer", "Square.__post_init__", "outer", "inner"]
    listing.page.keyboard.press("o")
    button(listing, "Step into Square").click()
    assert stack(listing) == ["outer", "Square.__post_init__"]
    expect(listing.locator(".w-calls button").first).to_be_focused()


def test_the_notes_of_a_call_are_taken_from_its_listing_on_the_page(show):
    plain, calls = walk(inner, 3), walk(middle, 1, also=[inner], depth=1)
    noted = walk(inner, 3, notes={"def": "First.", "return": "It *ends*."})
    listing = enter(show(plain, noted, calls), "z = inner")
    assert text(listing, ".w-why") == ""
    assert names(listing) == ["x"]  # the lines of its own listing
    listing = enter(show(noted, plain, walk(middle, 1, depth=1)), "z = inner")
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


NOWHERE = (
    "#walk=",
    "#walk=nothing&line=3",
    "#walk=walked.middle:9",
    "#walk=walked.middle&line=x&stack=9/9,/",
    "#walk=<img src=x onerror=fault()>&line='\"]",
    "#walk=%E0%A4%A",
)


def test_a_link_within_the_page_works_and_one_that_leads_nowhere_does_no_harm(show):
    listing = enter(show(walk(middle, 1, depth=1)), "z = inner")
    listing.locator(".w-link").click()
    there = listing.page.evaluate("location.hash")
    listing.page.keyboard.press("Escape")
    assert not is_stepping(listing)
    for address in (*NOWHERE, there):
        listing.page.evaluate(
            """(address) => new Promise((told) => {
              addEventListener("hashchange", told, { once: true });
              location.hash = address;
            })""",
            address,
        )
    listing.locator(".w-panel").wait_for()
    assert stack(listing) == ["middle", "inner"]


def test_an_address_may_name_a_function_that_stands_below_another(show):
    both = walk(middle, 1, also=[inner])
    address = f"#walk=walked.inner&line={inner.__code__.co_firstlineno + 1}"
    assert current(show(both, address=address)).startswith("doubled = ")
    listing = show(both, walk(inner, 1), address=address)  # its own listing comes first
    assert current(listing).startswith("doubled = ")
    assert listing.page.locator(".walk.w-stepping").count() == 1


# -- Pictures --------------------------------------------------------------------------


def test_a_picture_keeps_the_numbers_of_the_last_sentence_with_all_heads():
    x = torch.rand(20, H, T, S)
    assert draw(x).numbers == draw(x[-1:]).numbers
    assert len(draw(x[:2]).numbers) == 2 * 2 * H * T * S  # two digits each


def test_the_value_under_the_pointer_is_said(show):
    listing = show(attended := walk_attend())

    def point_at(name, row, column):
        svg = listing.locator(".w-made li", has_text=name).last.locator("svg")
        svg.hover(position={"x": 7 * column + 3, "y": 7 * row + 3}, force=True)
        return text(listing, ".w-tip").split(" = ")

    name, number = point_at("weights", 2, 3)
    assert name == "weights[1, 2, 3]"
    assert float(number) == pytest.approx(attended.result[1, 2, 3].item(), abs=0.002)
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
    expect(large).to_be_focused()
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
    listing.page.keyboard.press("Escape")  # closes it alone
    assert is_stepping(listing)
    expect(listing.locator(".w-new svg")).to_be_focused()


# -- The built pages -------------------------------------------------------------------


@pytest.mark.book
def test_a_page_brings_nothing_twice_and_calls_lead_to_the_first_chapter_with_notes():
    walked, entered = {}, []
    for path in sorted(HTML.glob("book/[01]*_*.html")):
        html = path.read_text(encoding="utf-8")
        for name in re.findall(r'data-walk="([^"]+)"', html):
            walked.setdefault(name, []).append(path.name)
        calls = re.findall(r'<template data-name="([^"]+)"( data-home="[^"#]+)?', html)
        entered += [(path.name, *call) for call in calls]
        if 'class="walk"' in html:
            assert html.count("_static/made/listings.css") == 1
            assert html.count("_static/made/listings.js") == 1
            assert "/* The arrow keys" not in html
    assert len(entered) > 10
    for page, name, home in entered:
        first = "" if walked[name][0] == page else f' data-home="{walked[name][0]}'
        assert home == first, (page, name)


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
