"""The heads as switches, in a browser; what is left of a translation is PyTorch's."""

import random
import re

import pytest
import torch
from axe import AXE, findings
from book_files import ROOT
from playwright.sync_api import expect

from pages.inside.switches import attention_layers, switches_control
from transformer_lib.decoding import greedy_decode
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.translation import Translator

SENTENCES = "the cat reads a red book", "she opens the door"
CAT, DOOR = "die Katze liest ein rotes Buch", "sie macht die Tür auf"
LOOKS_AHEAD = "Cross-attention, layer 1, head 1"
HEADS, H = 24, 4
SCREEN = 790  # pixels of a phone of 850, below the bar of the page
# The browser rounds every vector to float32, and a probability is at most 1. The same
# products in PyTorch, in double precision, differ by less than this.
TOLERANCE = 5e-5


@pytest.fixture(scope="module")
def small():
    return Translator.load(ROOT / "models" / "grammar-en-de")


@pytest.fixture(scope="module")
def made(small):
    return switches_control(small, SENTENCES)


@pytest.fixture
def control(show, made):
    return show(made)


@torch.no_grad()
def without(small, off, english):
    """Set the columns of w_o to zero that read these heads; translate and measure."""
    theirs = from_script(to_script(small))
    model, tokenizer = theirs.model.double(), theirs.tokenizer
    src = torch.tensor([[*tokenizer.encode(english), tokenizer.eos_id]])
    [ids] = greedy_decode(model, src)
    target = [*ids, tokenizer.eos_id]
    columns = [
        block
        for _, layer in attention_layers(model)
        for block in layer.w_o.weight.chunk(H, dim=1)
    ]
    for head in off:
        columns[head].zero_()
    [found] = greedy_decode(model, src, max_len=2 * len(target))
    logits = model(src, torch.tensor([[tokenizer.bos_id, *ids]]))[0]
    logits[:, tokenizer.pad_id] = -torch.inf
    shares = logits.softmax(-1)[torch.arange(len(target)), torch.tensor(target)]
    return tokenizer.decode(found), shares.prod().item()


def head(control, name):
    return control.get_by_role("switch", name=name, exact=True)


def off(control):
    states = control.get_by_role("switch").evaluate_all(
        "all => all.map((each) => each.getAttribute('aria-checked'))"
    )
    assert set(states) <= {"true", "false"}
    return [i for i, state in enumerate(states) if state == "false"]


def says(control, pattern):
    expect(control.locator(".c-says")).to_have_text(re.compile(pattern))
    return control.locator(".c-says").inner_text()


def now(control):
    return control.locator(".c-german").last.inner_text().removesuffix("…").strip()


def bar(control):
    style = control.locator(".c-left .c-track i").first.get_attribute("style")
    return float(re.search(r"width: ([\d.e-]+)%", style)[1]) / 100


def agrees(control, small, english):
    german, share = without(small, off(control), english)
    assert now(control) == german
    assert bar(control) == pytest.approx(share, abs=TOLERANCE)


# -- The numbers -----------------------------------------------------------------------


def test_with_all_heads_on_the_page_shows_what_pytorch_writes(control, small):
    assert control.get_by_role("switch").count() == HEADS
    assert now(control) == CAT
    agrees(control, small, SENTENCES[0])


def test_each_head_that_is_off_costs_what_its_columns_of_w_o_cost(control, small):
    switches = control.get_by_role("switch").all()
    for number in random.Random(3).sample(range(HEADS), 8):
        name = switches[number].get_attribute("aria-label")
        switches[number].click()
        says(control, f"^{name} is off")
        agrees(control, small, SENTENCES[0])
        switches[number].click()
        says(control, f"^{name} is on")
    agrees(control, small, SENTENCES[0])  # a factor of 1 changes nothing


def test_several_heads_add_up_to_what_pytorch_does_without_all_of_them(control, small):
    order = random.Random(4).sample(range(HEADS), 12)
    switches = control.get_by_role("switch").all()
    for count in range(1, 5):
        for number in order[3 * count - 3 : 3 * count]:
            switches[number].click()
        says(control, f"; {3 * count} are off")
        assert off(control) == sorted(order[: 3 * count])
        agrees(control, small, SENTENCES[0])


def test_another_sentence_is_translated_without_the_same_heads(control, small):
    head(control, "Decoder, layer 1, head 0").click()
    says(control, "is off")
    control.get_by_label("Sentence").select_option(SENTENCES[1])
    says(control, "Another sentence")
    assert off(control) == [12]
    assert control.locator(".c-german").first.inner_text() == DOOR
    agrees(control, small, SENTENCES[1])


def test_a_map_shows_the_weights_of_its_head(control, made):
    shown = head(control, LOOKS_AHEAD).locator("path")
    drawn = {
        (int(s), int(t)): round(8 * float(path.get_attribute("fill-opacity")))
        for path in shown.all()
        for s, t in re.findall(r"M(\d+) (\d+)h1v1h-1z", path.get_attribute("d"))
    }
    rows = made.data["sentences"][0]["maps"][21]
    expected = {
        (s, t): int(shade)
        for t, row in enumerate(rows)
        for s, shade in enumerate(row)
        if shade != "0"
    }
    assert drawn == expected
    assert all(abs(sum(map(int, row)) - 8) <= 3 for row in rows)  # rounded, each cell


def test_the_head_under_the_pointer_is_shown_large_with_its_words(control, made):
    sentence = made.data["sentences"][0]
    source, target = sentence["words"]
    assert source == [*SENTENCES[0].split(), "EOS"]
    assert target == ["BOS", *CAT.split()]
    large = control.locator(".c-large")
    for name, at, rows, columns in [
        ("Encoder, layer 0, head 3", 3, source, source),
        ("Decoder, layer 0, head 1", 9, target, target),
        ("Cross-attention, layer 1, head 2", 22, target, source),
    ]:
        head(control, name).hover()
        expect(control.locator(".c-hint:has(+ .c-large)")).to_have_text(name)
        assert large.locator("b").all_inner_texts() == columns
        assert large.locator("span").all_inner_texts() == ["", *rows]
        shares = large.locator("i").evaluate_all(
            "all => all.map((each) => 8 * each.style.getPropertyValue('--share'))"
        )
        assert shares == [int(shade) for row in sentence["maps"][at] for shade in row]
    head(control, "Encoder, layer 0, head 0").focus()
    expect(large.locator("b")).to_have_text(source)


# -- What has changed, in words and marks ----------------------------------------------


def test_changed_words_are_marked_in_both_lines_and_told(control):
    head(control, LOOKS_AHEAD).click()
    told = says(control, "is off")
    assert "The translation is now: die Katze liest eine roten Buch." in told
    assert "Probability of the first translation: 0.9 %." in told
    assert "All heads together gave it 58 %." in told
    assert control.locator("mark").all_inner_texts() == ["eine", "roten"]
    assert control.locator(".c-german s").all_inner_texts() == ["ein", "rotes"]
    control.get_by_role("button", name="All on").click()
    assert off(control) == []
    assert now(control) == CAT
    assert control.locator("mark").count() == 0


def test_a_translation_that_does_not_end_is_cut_off_and_the_page_says_so(show, small):
    because = "the girl opens the old door because she must work"
    control = show(switches_control(small, [because, *SENTENCES]))
    head(control, "Decoder, layer 1, head 1").click()
    assert "arbeiten muss arbeiten muss … without an end" in says(control, "is off")
    agrees(control, small, because)


# -- Mouse, touch and keys -------------------------------------------------------------


def test_arrow_keys_move_the_focus_and_the_space_bar_switches(control, tab):
    head(control, "Encoder, layer 0, head 0").focus()
    for key in (*5 * ["ArrowDown"], "ArrowRight", " "):
        tab.keyboard.press(key)
    expect(head(control, LOOKS_AHEAD)).to_be_focused()
    assert "✓ No other head costs" in says(control, f"^{LOOKS_AHEAD} is off")
    for key in ("End", "ArrowRight", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    told = says(control, "^Cross-attention, layer 1, head 3 is off; 2 are off")
    assert "✓" not in told
    tab.keyboard.press("Home")
    tab.keyboard.press("ArrowUp")
    expect(head(control, "Encoder, layer 0, head 0")).to_be_focused()
    assert control.locator("[role=switch][tabindex='0']").count() == 1


def test_the_last_of_several_quick_clicks_is_answered(control, small):
    for number in (1, 5, 13, 21):
        control.get_by_role("switch").nth(number).click()
    says(control, "; 4 are off")
    agrees(control, small, SENTENCES[0])


def test_an_answer_that_nobody_waits_for_is_dropped(control, tab):
    tab.evaluate(
        """() => {
          window.answers = 0;
          const Own = Worker;
          window.Worker = class extends Own {
            constructor(address) {
              super(address);
              this.addEventListener("message", () => { answers += 1; });
            }
          };
          const own = document.querySelectorAll(".control")[1];
          own.querySelectorAll("[role=switch]")[21].click();
          [...own.querySelectorAll("button")].find((e) => e.textContent === "All on")
            .click();
        }"""
    )
    tab.wait_for_function("answers === 1")
    assert says(control, "heads") == "All heads are on."
    assert now(control) == CAT


def test_a_finger_switches_and_a_phone_has_room(browser, made):
    view = {"width": 400, "height": 800}
    context = browser.new_context(viewport=view, has_touch=True)
    page = context.new_page()
    meta = "<meta name=viewport content='width=device-width'>"
    page.set_content(f"<!doctype html><html lang='en'>{meta}{made._repr_html_()}")
    control = page.locator(".control")
    for switch in control.get_by_role("switch").all():
        box = switch.bounding_box()
        assert min(box["width"], box["height"]) >= 24
    head(control, LOOKS_AHEAD).tap()
    says(control, "is off")
    assert off(control) == [21]
    asks, result, board = (
        control.locator(place).bounding_box()
        for place in (".c-asks", ".c-beside", ".c-switches")
    )
    assert result["y"] > asks["y"]
    assert result["y"] + result["height"] <= board["y"]
    assert board["y"] + board["height"] - asks["y"] <= SCREEN
    assert page.evaluate("document.documentElement.scrollWidth") <= view["width"]
    context.close()


# -- The game --------------------------------------------------------------------------


def test_the_game_is_won_by_the_head_that_costs_each_sentence_most(control, small):
    control.get_by_role("button", name="Start the game").click()
    head(control, "Encoder, layer 0, head 3").click()
    assert "Tries: 1." in says(control, "^Not Encoder, layer 0, head 3")
    head(control, "Encoder, layer 0, head 3").click()  # again: no further click
    head(control, "Decoder, layer 1, head 1").click()
    assert "Tries: 2." in says(control, "^Not Decoder")
    assert off(control) == [13]  # one at a time
    head(control, LOOKS_AHEAD).click()
    assert "Tries: 3." in says(control, f"^Found: {LOOKS_AHEAD}")
    control.get_by_role("button", name="Next sentence").click()
    says(control, "All heads are on")
    asks = control.locator(".c-asks").inner_text()
    assert asks.startswith("Sentence 2 of 2.")
    assert "second press" not in asks
    assert off(control) == []
    head(control, "Decoder, layer 1, head 0").click()
    told = says(control, "^Found: Decoder, layer 1, head 0")
    assert "Two sentences, 4 tries. Each sentence needs another head most." in told
    agrees(control, small, SENTENCES[1])
    head(control, LOOKS_AHEAD).click()  # the game is over
    says(control, "2 are off")


def test_the_head_of_the_game_is_the_one_whose_columns_cost_most(made, small):
    for english, sentence in zip(SENTENCES, made.data["sentences"], strict=True):
        left = [without(small, [number], english)[1] for number in range(HEADS)]
        assert sentence["most"] == left.index(min(left))


def test_whatever_else_is_pressed_leaves_the_game(control):
    for name in ("All on", "Leave the game"):
        control.get_by_role("button", name="Start the game").click()
        control.get_by_role("button", name=name).click()
        assert says(control, "All heads are on") == "All heads are on."
        expect(control.get_by_role("button", name="Start the game")).to_have_count(1)


# -- For everybody ---------------------------------------------------------------------


def test_nothing_is_computed_before_the_first_click(tab, made):
    tab.add_init_script(
        "window.made = 0; const Own = Worker;"
        "window.Worker = class extends Own { constructor(a) { super(a); made++; } };"
    )
    tab.goto("about:blank")
    tab.set_content(f"<!doctype html>{made._repr_html_()}")
    assert tab.evaluate("made") == 0
    for _ in range(2):
        tab.get_by_role("switch").first.click()
    says(tab.locator(".control"), "is on")
    assert tab.evaluate("made") == 1


def test_changes_are_announced(control):
    assert control.get_by_role("status").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_axe_finds_nothing(tab, made, theme):
    page = f"<!doctype html><html lang=en data-theme={theme}><title>Heads</title>"
    tab.set_content(f"{page}<main>{made._repr_html_()}</main>")
    tab.get_by_role("switch", name=LOOKS_AHEAD).click()
    says(tab.locator(".control"), "is off")
    tab.add_script_tag(path=AXE)
    assert findings(tab) == []


def test_it_works_from_a_file(tab, made, tmp_path):
    file = tmp_path / "switches.html"
    file.write_text(f"<!doctype html><meta charset=utf-8>{made._repr_html_()}", "utf-8")
    tab.goto(file.as_uri())
    tab.get_by_role("switch", name=LOOKS_AHEAD).click()
    says(tab.locator(".control"), "is off")
    assert tab.faults == []


def test_where_no_script_runs_the_question_is_asked(made):
    assert f"24 heads translate “{SENTENCES[0]}” as “{CAT}”" in made.words
    assert "58 %. Which one head matters most?" in made.words


def test_two_sentences_at_least(small):
    with pytest.raises(ValueError, match="at least 2, got 1"):
        switches_control(small, SENTENCES[:1])
