"""Stepping into calls, the address of a step, and the pictures of listings."""

import dataclasses
import gzip
import re
from types import SimpleNamespace

import pytest
import torch
from book_files import HTML, ROOT
from docutils import nodes
from playwright.sync_api import expect
from torch import nn

from bookkit.listing import walk
from bookkit.listing.pictures import DIGITS, STEPS, draw
from bookkit.listing.tracing import trace
from transformer_lib.checks import require_positive
from transformer_lib.model import (
    Encoder,
    EncoderLayer,
    FeedForward,
    MultiHeadAttention,
    Residual,
    Transformer,
    TransformerConfig,
    scaled_dot_product_attention,
)
from website.listings import listings

B, H, S, T, D_K = 2, 3, 7, 5, 4
D_MODEL, LAYERS = H * D_K, 2
AXE = ROOT / "tests" / "vendor" / "axe-core" / "axe.min.js"
WIDE, NARROW = {"width": 1400, "height": 900}, {"width": 400, "height": 800}


# -- What is recorded ------------------------------------------------------------------


def outer(x):
    require_positive(x=x)
    check_small(x)
    for i in range(3):
        y = middle(x + i)
    both = inner(y), inner(2 * y), max(y, 1)
    return both, [inner(z) for z in range(2)], Point(x)


def middle(x):
    z = inner(x)
    return z + 1


def inner(x):
    doubled = 2 * x
    return doubled


def check_small(x):
    if x > 9:
        raise ValueError


@dataclasses.dataclass
class Point:
    x: int


def calls(part, line=""):
    """The calls of the lines of a function that begin so."""
    found = zip(part.statements, part.records, strict=True)
    return [
        call
        for statement, record in found
        if statement.key.startswith(line)
        for call in record.calls.values()
    ]


def made(part):
    return {v.name: v.text for record in part.records for v in record.made}


def tree(part):
    return {call.function.__name__: tree(call) for call in calls(part)}


def test_calls_are_recorded_as_deep_as_was_asked():
    assert tree(trace(outer, 1)) == {}
    assert tree(trace(outer, 1, depth=1)) == {"middle": {}, "inner": {}}
    assert tree(trace(outer, 1, depth=2)) == {"middle": {"inner": {}}, "inner": {}}
    assert tree(trace(outer, 1, depth=9)) == {"middle": {"inner": {}}, "inner": {}}


def test_the_last_call_of_a_line_is_the_one_whose_values_the_line_shows():
    run = trace(outer, 1, depth=2)
    (call,) = calls(run, "y =")
    assert made(call) == {"x": "3", "z": "6", "returned": "7"}
    assert made(calls(call)[0]) == {"x": "3", "doubled": "6", "returned": "6"}
    assert [made(c)["x"] for c in calls(run, "both =")] == ["14"]
    assert [made(c)["x"] for c in calls(run, "return")] == ["1"]


def test_checks_other_packages_and_generated_functions_are_stepped_over():
    run = trace(outer, 1, depth=9)
    assert calls(run, "require_positive") == calls(run, "check_small") == []
    assert "max" not in tree(run)
    assert "__init__" not in tree(run)


def test_a_line_that_called_in_an_earlier_pass_only_shows_no_call():
    def f(n):
        for i in range(n):
            y = inner(i) if i == 0 else i
        return y

    assert calls(trace(f, 1, depth=1), "y =") != []
    assert calls(trace(f, 2, depth=1), "y =") == []


def test_the_iterable_of_a_loop_is_called_once_and_stays():
    def numbers(x):
        return [x, x]

    def f(x):
        for y in numbers(x):
            x = x + y
        return x

    assert [c.function.__name__ for c in calls(trace(f, 3, depth=1), "for")] == [
        "numbers"
    ]


def test_a_function_that_the_listing_shows_is_one_and_the_same():
    run = trace(outer, 1, also=[inner], depth=2)
    first = trace(middle, 1, also=[inner], depth=1)
    assert calls(first, "z =") == first.also
    assert run.also[0] not in calls(run, "both =")  # it was another call, the first


def test_an_exception_in_a_call_is_seen_in_it():
    def fails(x):
        raise ValueError(f"got {x}")

    def f(x):
        y = fails(x)
        return y

    run = trace(f, 3, depth=1, raises=ValueError)
    assert calls(run, "y =")[0].records[1].raised == "ValueError: got 3"


def test_recording_calls_changes_neither_the_result_nor_the_random_numbers():
    encoder, x = new_encoder().train(), torch.randn(B, S, D_MODEL)
    torch.manual_seed(1)
    expected, after = encoder(x), torch.rand(3)
    torch.manual_seed(1)
    run = trace(encoder, x, depth=5)
    assert torch.equal(run.result, expected)
    assert torch.equal(torch.rand(3), after)


# -- Shapes ----------------------------------------------------------------------------


def new_encoder():
    def layer():
        return EncoderLayer(
            MultiHeadAttention(D_MODEL, H),
            FeedForward(D_MODEL, 4 * D_MODEL),
            lambda: Residual(nn.LayerNorm(D_MODEL)),
        )

    return Encoder([layer() for _ in range(LAYERS)]).eval()


def row(part, start):
    (found,) = [r for r in part.rows if r.statement.key.startswith(start)]
    return found


def test_a_call_has_letters_of_its_own_from_its_own_comments():
    dims = {"B": B, "S": S, "d_model": D_MODEL}
    walked = walk(new_encoder(), torch.randn(B, S, D_MODEL), depth=3, dims=dims)
    layer = row(walked.parts[0], "x = layer").calls[0]
    residual = row(layer, "x = self.self_attention_residual").calls[0]
    assert [r.made[-1].letters for r in (walked.rows[-1], layer.rows[-1])] == [
        "(B, S, d_model)"
    ] * 2
    assert residual.rows[-1].made[-1].letters == "(B, T, d_model)"
    assert residual.rows[0].made[0].letters == "(B, T, d_model)"  # x, an argument
    assert walked.dims == dims


def test_a_wrong_comment_in_a_call_is_refused():
    def wrong(x):
        y = x.T  # (n, n)
        return y

    def f(x):
        return wrong(x)

    with pytest.raises(ValueError, match=r"the comment says # \(n, n\)"):
        walk(f, torch.zeros(2, 3), depth=1)


def test_without_its_script_a_listing_with_calls_is_as_it_was():
    encoder, x = new_encoder(), torch.randn(B, S, D_MODEL)
    plain, deep = (walk(encoder, x, depth=d)._repr_html_() for d in (0, 4))
    deep = re.sub(r"<template.*</template>", "", deep, flags=re.DOTALL)
    deep = re.sub(
        r'<nav.*?</nav>|<div class="w-bar w-calls">.*?</div>\n',
        "",
        deep,
        flags=re.DOTALL,
    )
    deep = re.sub(r"; <kbd>i</kbd>.*?</kbd> out of it", "", deep)
    assert deep == plain
    assert repr(walk(encoder, x, depth=4)) == repr(walk(encoder, x))


# -- In a browser ----------------------------------------------------------------------


@pytest.fixture
def encoder():
    return new_encoder()


@pytest.fixture
def walked(encoder):
    x = torch.randn(B, S, D_MODEL)
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 5:] = False
    dims = {"B": B, "S": S, "d_model": D_MODEL}
    return walk(encoder, x, mask, depth=4, dims=dims)


@pytest.fixture
def show(tab, tmp_path):
    """Show listings on a page with an address, and give the last."""

    def show(*listings, theme="light", address=""):
        html = "".join(listing._repr_html_() for listing in listings)
        start = f'<!doctype html><html lang="en" data-theme="{theme}"><title>A</title>'
        page = tmp_path / "page.html"
        page.write_text(
            f'{start}<meta charset="utf-8"><body>{html}</body>', encoding="utf-8"
        )
        tab.goto("about:blank")
        tab.goto(page.as_uri() + address)
        return tab.locator(".walk").last

    yield show
    assert tab.faults == []


def stack(listing):
    return listing.locator(".w-stack :is(button, b)").all_inner_texts()


def current(listing):
    return listing.locator("[aria-current='step'] code").first.inner_text().strip()


def step_to(listing, line):
    if listing.get_by_role("button", name="Step through").count():
        listing.get_by_role("button", name="Step through").click()
    forward = listing.get_by_role("button", name="Next")
    for _ in range(20):
        if current(listing).startswith(line):
            return
        forward.click()
    pytest.fail(f"no step leads to {line}")


def enter(listing, *lines):
    """Step into the first call of each line, one in the other."""
    for line in lines:
        step_to(listing, line)
        listing.get_by_role("button", name="Step into").click()


ATTENTION = ("x = layer", "x = self.self_attention_residual", "return self.norm")
NAMES = [
    "Encoder.forward",
    "EncoderLayer.forward",
    "Residual.forward",
    "MultiHeadAttention.forward",
]


@pytest.mark.parametrize("by", ["keyboard", "mouse"])
def test_a_step_enters_a_call_and_leaves_it_again(show, walked, by):
    listing = show(walked)
    page = listing.page
    buttons = {
        "i": listing.get_by_role("button", name="Step into"),
        "o": listing.get_by_role("button", name="Step out"),
        "ArrowDown": listing.get_by_role("button", name="Next"),
    }

    def use(key):
        if by == "keyboard":
            page.keyboard.press(key)
        else:
            buttons[key].click(force=True)  # also where there is nothing to do

    step_to(listing, "x = layer")
    assert buttons["i"].inner_text() == "Step into EncoderLayer.forward"
    assert stack(listing) == NAMES[:1]
    use("i")
    assert stack(listing) == NAMES[:2]
    assert current(listing).startswith("def forward")
    assert listing.locator(".w-count").inner_text() == "step 1 of 3"
    use("ArrowDown")
    assert current(listing).startswith("x = self.self_attention_residual")
    use("o")
    assert stack(listing) == NAMES[:1]
    assert current(listing).startswith("x = layer")
    use("ArrowDown")
    assert current(listing).startswith("return x if")  # stepped over
    assert buttons["i"].get_attribute("aria-disabled") == "true"
    use("o")  # there is no caller
    assert current(listing).startswith("return x if")


def test_touch_steps_into_a_call(browser, walked, tmp_path):
    path = tmp_path / "page.html"
    path.write_text(f"<!doctype html>{walked._repr_html_()}", encoding="utf-8")
    with browser.new_context(has_touch=True, viewport=NARROW) as context:
        page = context.new_page()
        page.goto(path.as_uri())
        listing = page.locator(".walk")
        for name in ("Step through", "Next", "Next", "Step into"):
            listing.get_by_role("button", name=name).tap()
        assert stack(listing) == NAMES[:2]
        listing.locator(".w-exists svg").first.tap()
        assert page.locator("dialog[open]").count() == 1
        output = page.locator("dialog output")
        before = output.inner_text()
        page.locator("dialog svg").tap(position={"x": 40, "y": 30})
        assert output.inner_text() != before
        page.get_by_role("button", name="Close").tap()
        expect(page.locator("dialog")).to_have_count(0)
        listing.locator(".w-stack button").tap()
        assert stack(listing) == NAMES[:1]


def test_the_stack_is_in_sight_and_leads_back_to_any_caller(show, walked):
    listing = show(walked)
    enter(listing, *ATTENTION)
    assert stack(listing) == NAMES
    assert listing.locator(".w-stack span").inner_text().endswith("attention.py")
    listing.page.set_viewport_size(NARROW)
    listing.page.keyboard.press("ArrowDown")
    here, line = (listing.locator(c).bounding_box() for c in (".w-stack b", ".w-stack"))
    assert here["x"] >= line["x"]
    assert here["x"] + here["width"] <= line["x"] + line["width"]
    listing.get_by_role("button", name=NAMES[1], exact=True).click()
    assert stack(listing) == NAMES[:2]
    assert current(listing).startswith("x = self.self_attention_residual")
    into = listing.get_by_role("button", name="Step into")
    assert into.evaluate("e => document.activeElement === e")


def test_the_values_in_a_call_are_those_of_pytorch(show, encoder):
    layers = encoder.layers[-1]
    theirs = nn.MultiheadAttention(D_MODEL, H, batch_first=True)
    ours = layers.self_attention
    projections = ours.w_q, ours.w_k, ours.w_v
    with torch.no_grad():
        theirs.in_proj_weight.copy_(torch.cat([w.weight for w in projections]))
        theirs.in_proj_bias.copy_(torch.cat([w.bias for w in projections]))
        theirs.out_proj.load_state_dict(ours.w_o.state_dict())
    x = torch.randn(B, S, D_MODEL)
    before = encoder.layers[0](x)
    expected = theirs(before, before, before)[0][-1]
    listing = show(walk(encoder, x, depth=4))
    enter(listing, *ATTENTION)
    listing.page.keyboard.press("End")
    listing.locator(".w-new svg").click()
    dialog, keyboard = listing.locator("dialog"), listing.page.keyboard
    for _ in range(max(S, D_MODEL)):
        keyboard.press("ArrowUp")
        keyboard.press("ArrowLeft")
    for s in range(3):
        for d in range(D_MODEL):
            name, value = dialog.locator("output").inner_text().split(" = ")
            assert name == f"returned[1, {s}, {d}]"
            error = abs(float(value.replace("−", "-")) - expected[s, d])
            assert error < 0.0051 * max(1, expected.abs().max())
            keyboard.press("ArrowRight")
        for _ in range(D_MODEL):
            keyboard.press("ArrowLeft")
        keyboard.press("ArrowDown")


def test_the_end_of_a_call_leads_back_to_its_line_and_so_does_its_beginning(
    show, walked
):
    listing = show(walked)
    enter(listing, "x = layer")
    keyboard = listing.page.keyboard
    for _ in range(3):
        assert stack(listing) == NAMES[:2]
        keyboard.press("ArrowDown")
    assert stack(listing) == NAMES[:1]
    assert current(listing).startswith("x = layer")
    keyboard.press("i")
    keyboard.press("ArrowUp")
    assert stack(listing) == NAMES[:1]
    keyboard.press("i")
    keyboard.press("End")
    assert stack(listing) == NAMES[:2]


def test_of_several_calls_of_a_line_each_can_be_entered(show):
    config = TransformerConfig(
        src_vocab_size=11,
        tgt_vocab_size=13,
        d_model=D_MODEL,
        num_heads=H,
        d_ff=16,
        num_layers=1,
    )
    model = Transformer(config).eval()
    src, tgt = torch.ones(B, S).long(), torch.ones(B, T).long()
    also = [model.encode, model.decode, model.target_mask]
    listing = show(walk(model, src, tgt, also=also, depth=2))
    step_to(listing, "return self.decode(tgt, self.encode")
    seen = []
    for _ in range(3):
        listing.page.keyboard.press("i")
        seen.append(stack(listing)[-1])
        listing.page.keyboard.press("o")
    assert seen == ["Transformer.encode", "Transformer.decode", "Transformer.encode"]
    listing.page.keyboard.press("i")
    assert current(listing).startswith("def decode")
    assert listing.locator(".w-exists li").count() == 4
    listing.page.keyboard.press("o")
    for name in ("Transformer.encode", "Transformer.decode", "Transformer.decode"):
        listing.get_by_role("button", name=f"Step into {name}").click()
        assert stack(listing)[-1] == name
        into = listing.locator(".w-calls button").first
        assert into.evaluate("e => document.activeElement === e"), name
        listing.get_by_role("button", name="Step out").click()


def test_the_focus_stays_on_the_line_when_a_call_is_entered_from_there(show, walked):
    listing = show(walked)
    step_to(listing, "x = layer")
    listing.locator("[aria-current='step']").focus()
    for key in "io":
        listing.page.keyboard.press(key)
        here = listing.locator("[aria-current='step']")
        assert here.evaluate("row => row === document.activeElement"), key


def test_a_listing_without_calls_says_nothing_of_them(show):
    listing = show(walk(inner, 3))
    step_to(listing, "doubled")
    assert listing.get_by_role("button", name="Step into").count() == 0
    assert listing.locator(".w-stack").count() == 0
    listing.page.keyboard.press("i")
    listing.page.keyboard.press("o")
    assert current(listing).startswith("doubled")


def test_what_is_said_names_the_function_when_it_is_entered_and_left(show, walked):
    listing = show(walked)
    enter(listing, "x = layer")
    said = listing.locator("output").first
    assert said.text_content().startswith("EncoderLayer.forward. The call begins: x")
    listing.page.keyboard.press("ArrowDown")
    assert said.text_content().startswith("After line")
    listing.page.keyboard.press("o")
    assert said.text_content().startswith("Encoder.forward. After line")


def test_leaving_the_panel_leaves_all_calls_and_print_shows_the_listing(show, walked):
    listing = show(walked)
    enter(listing, *ATTENTION)
    listing.page.emulate_media(media="print")
    assert listing.locator(".w-frame:visible, .w-stack:visible").count() == 0
    rows = listing.locator(".w-part").first.locator(".w-row")
    assert all(row.is_visible() for row in rows.all())
    listing.page.emulate_media(media="screen")
    listing.get_by_role("button", name="Next").focus()
    listing.page.keyboard.press("Escape")
    assert not listing.locator(".w-panel").is_visible()
    assert listing.locator(".w-frame").count() == 0
    assert current(listing).startswith("x = layer")


def test_the_notes_of_a_call_are_taken_from_its_listing_on_the_page(show, walked):
    notes = {
        "def forward": "First.",
        "return self.feed": "It *thinks*.",
        "x =": "Look.",
    }
    layer = walk(new_encoder().layers[0], torch.randn(B, S, D_MODEL), notes=notes)
    other = walk(new_encoder().layers[0], torch.randn(B, S, D_MODEL), depth=1)
    listing = show(layer, other, walked)
    enter(listing, "x = layer")
    assert listing.locator(".w-why").inner_text() == "First."
    step_to(listing, "return self.feed_forward_residual")
    assert listing.locator(".w-why").inner_text() == "It thinks."
    assert listing.locator(".w-why em").count() == 1


# -- The address of a step -------------------------------------------------------------


def test_each_step_has_an_address_that_leads_back_to_it(show, walked):
    listing = show(walked, walked)
    enter(listing, *ATTENTION)
    step_to(listing, "k, v =")
    address = listing.locator(".w-link").get_attribute("href")
    assert re.fullmatch(
        r"#walk=transformer_lib\.model\.encoder\.Encoder\.forward:2"
        r"&stack=\d+/0,\d+/0,\d+/0&line=\d+",
        address,
    )
    values = listing.locator(".w-exists").inner_text()
    listing = show(walked, walked, address=address)
    assert stack(listing) == NAMES
    assert current(listing).startswith("k, v =")
    assert listing.locator(".w-exists").inner_text() == values
    assert not listing.page.locator(".w-panel").first.is_visible()
    assert listing.locator(".w-panel").evaluate(
        "e => e.getBoundingClientRect().top < innerHeight"
    )


def test_no_two_steps_of_a_listing_have_the_same_address(show, walked):
    listing = show(walked)
    listing.get_by_role("button", name="Step through").click()
    seen = [listing.locator(".w-link").get_attribute("href")]
    for key in ["ArrowDown", "ArrowDown", "i", "ArrowDown", "i", "ArrowDown"]:
        listing.page.keyboard.press(key)
        seen.append(listing.locator(".w-link").get_attribute("href"))
    assert len(set(seen)) == len(seen)


def test_a_click_on_the_link_sets_the_address_and_a_link_within_the_page_works(
    show, walked
):
    listing = show(walked)
    enter(listing, "x = layer")
    listing.locator(".w-link").click()
    there = listing.page.evaluate("location.hash")
    assert there.startswith("#walk=")
    listing.page.keyboard.press("Escape")
    assert not listing.locator(".w-panel").is_visible()
    listing.page.evaluate("location.hash = ''")
    listing.page.evaluate("there => location.hash = there", there)
    listing.locator(".w-panel").wait_for()
    assert stack(listing) == NAMES[:2]


def test_an_address_may_name_a_function_that_stands_below_another(show):
    both = walk(middle, 1, also=[inner])
    address = f"#walk={__name__}.inner&line={inner.__code__.co_firstlineno + 1}"
    assert current(show(both, address=address)).startswith("doubled = ")
    listing = show(both, walk(inner, 1), address=address)  # its own listing comes first
    assert current(listing).startswith("doubled = ")
    assert listing.page.locator(".walk.w-stepping").count() == 1


@pytest.mark.parametrize(
    "address",
    [
        "#walk=",
        "#walk=nothing&line=3",
        "#walk=transformer_lib.model.encoder.Encoder.forward:9",
        "#walk=transformer_lib.model.encoder.Encoder.forward&line=x&stack=9/9,/",
        "#walk=<img src=x onerror=fault()>&line='\"]",
        "#walk=%E0%A4%A",
    ],
)
def test_an_address_that_leads_nowhere_does_no_harm(show, walked, address):
    listing = show(walked, address=address)
    step_to(listing, "x = layer")
    assert stack(listing) == NAMES[:1]


# -- Pictures --------------------------------------------------------------------------


def unpack(picture):
    pairs = zip(picture.numbers[::2], picture.numbers[1::2], strict=True)
    codes = [64 * DIGITS.index(a) + DIGITS.index(b) for a, b in pairs]
    special = {0: float("nan"), 1: float("-inf"), 2: float("inf")}
    steps = picture.largest / STEPS
    return torch.tensor([special.get(c, (c - 2047) * steps) for c in codes])


def test_a_picture_keeps_its_numbers_to_a_four_thousandth_of_the_largest():
    x = torch.randn(B, H, T, S)
    picture = draw(x)
    assert torch.allclose(
        unpack(picture), x.flatten(), rtol=0, atol=x.abs().max() / 3999
    )
    strange = torch.tensor([float("nan"), float("-inf"), float("inf"), -5.0, 0.0, 5.0])
    assert torch.equal(unpack(draw(strange)).nan_to_num(7), strange.nan_to_num(7))
    assert unpack(draw(torch.tensor([True, False]))).tolist() == [1, 0]


def test_of_a_large_tensor_the_last_sentence_is_kept_with_all_heads():
    x = torch.randn(20, H, T, S)
    assert unpack(draw(x)).numel() == H * T * S
    assert torch.allclose(unpack(draw(x)), x[-1].flatten(), atol=x.abs().max() / 3999)
    assert unpack(draw(torch.randn(3, 20, T, S))).numel() == T * S


@pytest.fixture
def attended():
    query, key = torch.randn(B, H, T, D_K), torch.randn(B, H, S, D_K)
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 5:] = False
    dims = {"B": B, "H": H, "T": T, "S": S, "d_k": D_K}
    return walk(scaled_dot_product_attention, query, key, key, mask=mask, dims=dims)


def test_the_value_under_the_pointer_is_shown(show, attended):
    weights = attended.result[1]
    listing = show(attended)
    svg = listing.locator(".w-made li", has_text="weights").first.locator("svg")
    for row, column in [(0, 0), (2, 3), (T - 1, S - 1)]:
        svg.hover(position={"x": 7 * column + 3, "y": 7 * row + 3}, force=True)
        name, value = listing.locator(".w-tip").inner_text().split(" = ")
        assert name == f"weights[{B - 1}, {H - 1}, {row}, {column}]"
        assert float(value) == pytest.approx(
            weights[-1, -1, row, column].item(), abs=0.002
        )
    listing.locator(".w-head b").hover()
    assert not listing.locator(".w-tip").is_visible()


def test_a_picture_names_its_axes_and_another_head_or_sentence_can_be_chosen(
    show, attended
):
    weights = attended.result[1]
    listing = show(attended)
    step_to(listing, "weights = scores.softmax")
    listing.get_by_role("button", name="Enlarge weights").focus()
    listing.page.keyboard.press("Enter")
    dialog = listing.page.get_by_role("dialog", name="weights")
    assert f"rows: T ({T}), columns: S ({S})" in dialog.inner_text()
    large, output = dialog.get_by_role("img"), dialog.locator("output")
    assert large.evaluate("e => document.activeElement === e")
    for b, h in [(1, 0), (0, 2), (0, 0), (1, 2)]:
        for group, chosen in (("sentence", b), ("head", h)):
            buttons = dialog.get_by_role("group", name=group)
            button = buttons.get_by_role("button", name=str(chosen))
            button.click()
            assert button.get_attribute("aria-pressed") == "true"
            assert buttons.locator("[aria-pressed='true']").count() == 1
        name, value = output.inner_text().split(" = ")
        row, column = map(int, re.findall(r"\d+", name)[2:])
        assert name == f"weights[{b}, {h}, {row}, {column}]"
        assert float(value) == pytest.approx(
            weights[b, h, row, column].item(), abs=0.002
        )
        drawn = large.locator("path").evaluate_all(
            "paths => paths.map((path) => path.classList[0])"
        )
        expected = draw(weights[b, h]).cells
        assert drawn == [f"w-{code}" for line in expected for code in line]
    listing.page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    assert listing.locator(".w-panel").is_visible()
    assert listing.locator(".w-new svg").evaluate("e => document.activeElement === e")


def test_hidden_scores_and_masks_are_said_in_words(show, attended):
    listing = show(attended)
    for name, column, said in [
        ("scores", 6, "−∞"),
        ("mask", 6, "False"),
        ("mask", 0, "True"),
    ]:
        lines = listing.locator(".w-made li").filter(
            has=listing.page.get_by_text(name, exact=True)
        )
        lines.last.locator("svg").hover(
            position={"x": 7 * column + 3, "y": 3}, force=True
        )
        assert listing.locator(".w-tip").inner_text().endswith(f" = {said}")


@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing_in_a_call_and_in_a_large_picture(show, walked, theme, size):
    listing = show(walked, theme=theme)
    listing.page.set_viewport_size(size)
    enter(listing, *ATTENTION)
    listing.page.keyboard.press("End")
    listing.page.add_script_tag(path=AXE)
    run = "where => axe.run(where)"
    assert listing.page.evaluate(run, ".w-stepping")["violations"] == []
    sideways = "document.documentElement.scrollWidth - window.innerWidth"
    assert listing.page.evaluate(sideways) <= 0
    listing.locator(".w-new svg").click()
    assert listing.page.evaluate(run, ".w-large")["violations"] == []
    box = listing.locator(".w-large").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size["width"]


# -- The built pages -------------------------------------------------------------------


def test_listings_share_style_and_script_and_say_where_the_notes_are(tmp_path):
    html = "<hr>".join(walk(outer, 1, depth=2)._repr_html_() for _ in range(3))
    name, home = f"{__name__}.middle", f"{__name__}.inner"
    facts = {
        "book/02": {"walked": f"{home} {name}"},
        "book/09": {"walked": home},
        "book/11": {},
        "book/13": {"walked": name},
    }
    env = SimpleNamespace(
        metadata=facts,
        titles=dict.fromkeys(facts, nodes.title("", "2. Two & more")),
    )
    builder = SimpleNamespace(get_relative_uri=lambda page, to: f"{to[5:]}.html")
    shared = []
    app, context = SimpleNamespace(env=env, builder=builder), {"body": html}
    app.add_css_file = app.add_js_file = lambda name, **how: shared.append((name, how))
    listings.share(app, "book/13", "", context, nodes.document(None, None))
    body = context["body"]
    assert body.count("<style>") == body.count("<script>") == 0
    deferred = {"loading_method": "defer"}
    assert shared == [("made/listings.css", {}), ("made/listings.js", deferred)]
    first, _, _ = body.split("<hr>")
    link = f'data-home="02.html#walk={home}" data-chapter="2. Two &amp; more"'
    assert f'<template data-name="{home}" {link} data-file' in first
    listings.share(
        app, "book/02", "", context := {"body": html}, nodes.document(None, None)
    )
    assert "data-home" not in context["body"]


def test_the_build_notes_what_a_page_walks_through():
    document = nodes.document(None, None)
    html = walk(middle, 1, also=[inner], depth=2)._repr_html_()
    document += nodes.raw("", html, format="html")
    env = SimpleNamespace(docname="book/02", metadata={"book/02": {}})
    listings.note_listings(SimpleNamespace(env=env), document)
    assert env.metadata["book/02"]["walked"].split() == [
        f"{__name__}.middle",
        f"{__name__}.inner",
    ]


@pytest.mark.book
def test_what_a_chapter_steps_into_is_walked_in_the_book():
    walked, entered = set(), set()
    for page in HTML.glob("book/[01]*_*.html"):
        html = page.read_text(encoding="utf-8")
        walked |= set(re.findall(r'data-walk="([^"]+)"', html))
        entered |= set(re.findall(r'<template data-name="([^"]+)"', html))
    assert len(entered) > 10
    assert entered <= walked


@pytest.mark.book
@pytest.mark.parametrize("name", ["04_many_heads", "07_encoder", "09_transformer"])
def test_a_page_loads_the_style_and_the_script_of_its_listings_once(name):
    html = (HTML / "book" / f"{name}.html").read_text(encoding="utf-8")
    assert html.count('class="walk"') > 2
    assert 'line by line"><style>' not in html
    assert "/* The arrow keys" not in html
    assert html.count("_static/made/listings.css") == 1
    assert html.count("_static/made/listings.js") == 1
    assert len(gzip.compress(html.encode())) < 160_000


@pytest.mark.book
def test_a_call_links_to_the_chapter_with_its_notes(tab):
    page = HTML / "book" / "07_encoder.html"
    address = "#walk=transformer_lib.model.encoder.EncoderLayer.forward"
    tab.goto(page.as_uri() + address)
    listing = tab.locator(".walk.w-stepping")
    enter(listing, "x = self.self_attention_residual", "return self.norm")
    link = listing.locator(".w-why a")
    link.click()
    there = tab.locator(".walk.w-stepping")
    there.wait_for()
    assert "/04_many_heads.html#walk=" in tab.url
    assert current(there).startswith("def forward")
    assert there.locator(".w-why").inner_text()
    assert tab.faults == []
