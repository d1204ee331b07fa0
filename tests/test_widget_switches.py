"""The heads as switches, in a browser; what is left of a translation is PyTorch's."""

import random
import re
from copy import deepcopy

import pytest
import torch
from book_files import ROOT
from operating import press, says
from playwright.sync_api import expect

from pages.inside.switches import attention_layers, switches_control
from transformer_lib.decoding import greedy_decode
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.translation import Translator

SENTENCES = "the cat reads a red book", "she opens the door"
CAT, DOOR = "die Katze liest ein rotes Buch", "sie macht die Tür auf"
LOOKS_AHEAD = "Cross-attention, layer 1, head 1"
HEADS, H = 24, 4
# The browser rounds every vector to float32, and a probability is at most 1. The same
# products in PyTorch, in double precision, differ by less than this.
TOLERANCE = 5e-5


@pytest.fixture(scope="module")
def small():
    return Translator.load(ROOT / "models" / "grammar-en-de")


@pytest.fixture(scope="module")
def exact(small):
    """A translator with the weights of the page, in double precision."""
    theirs = from_script(to_script(small))
    theirs.model.double()
    return theirs


@pytest.fixture(scope="module")
def made(small):
    return switches_control(small, SENTENCES)


@pytest.fixture
def control(show, made):
    return show(made)


@torch.no_grad()
def without(exact, heads):
    """Set the columns of w_o to zero that read these heads."""
    model = deepcopy(exact.model)
    layers = [layer for _, layer in attention_layers(model)]
    columns = [block for layer in layers for block in layer.w_o.weight.chunk(H, dim=1)]
    for head in heads:
        columns[head].zero_()
    return model


@torch.no_grad()
def share(model, exact, src, target):
    """The probability of a translation, which ends with EOS."""
    logits = model(src, torch.tensor([[exact.tokenizer.bos_id, *target[:-1]]]))[0]
    logits[:, exact.tokenizer.pad_id] = -torch.inf
    shares = logits.softmax(-1)[torch.arange(len(target)), torch.tensor(target)]
    return shares.prod().item()


def first(exact, english):
    """What a sentence is for the model, and what all heads make of it."""
    eos_id = exact.tokenizer.eos_id
    src = torch.tensor([[*exact.tokenizer.encode(english), eos_id]])
    return src, [*greedy_decode(exact.model, src)[0], eos_id]


def agrees(control, exact, english):
    """Check what the page shows against PyTorch without the heads that are off."""
    model, (src, target) = without(exact, off(control)), first(exact, english)
    [found] = greedy_decode(model, src, max_len=2 * len(target))
    assert now(control) == exact.tokenizer.decode(found)
    style = control.locator(".c-left .c-track i").first.get_attribute("style")
    bar = float(re.search(r"width: ([\d.e-]+)%", style)[1]) / 100
    assert bar == pytest.approx(share(model, exact, src, target), abs=TOLERANCE)


def head(control, name):
    return control.get_by_role("switch", name=name, exact=True)


def off(control):
    switches = control.get_by_role("switch")
    states = switches.evaluate_all("all => all.map((each) => each.ariaChecked)")
    return [i for i, state in enumerate(states) if state == "false"]


def now(control):
    return control.locator(".c-german").last.inner_text().removesuffix("…").strip()


def test_heads_that_are_off_cost_what_their_columns_of_w_o_cost(control, exact):
    switches = control.get_by_role("switch").all()
    assert (len(switches), now(control)) == (HEADS, CAT)
    agrees(control, exact, SENTENCES[0])
    for number in (2, 9, 14, 21):  # each kind, and the head that costs most
        name = switches[number].get_attribute("aria-label")
        switches[number].click()
        says(control, f"^{name} is off")
        agrees(control, exact, SENTENCES[0])
        switches[number].click()
        says(control, f"^{name} is on")
    agrees(control, exact, SENTENCES[0])  # a factor of 1 changes nothing
    order = random.Random(4).sample(range(HEADS), 8)
    for count in (3, 8):  # the last of several quick presses is answered
        for number in order[:count]:
            if number not in off(control):
                switches[number].click()
        says(control, f"; {count} are off")
        assert off(control) == sorted(order[:count])
        agrees(control, exact, SENTENCES[0])
    control.get_by_label("Sentence").select_option(SENTENCES[1])
    says(control, "Another sentence")
    assert off(control) == sorted(order)
    assert control.locator(".c-german").first.inner_text() == DOOR
    agrees(control, exact, SENTENCES[1])


def test_a_map_shows_the_weights_of_its_head_and_the_pointed_one_large(control, made):
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
        shades = [int(shade) for row in sentence["maps"][at] for shade in row]
        drawn = [0] * len(shades)
        for path in head(control, name).locator("path").all():
            for s, t in re.findall(r"M(\d+) (\d+)h1v1h-1z", path.get_attribute("d")):
                opacity = float(path.get_attribute("fill-opacity"))
                drawn[int(t) * len(columns) + int(s)] = 8 * opacity
        assert drawn == shades
        head(control, name).hover()
        expect(control.locator(".c-hint:has(+ .c-large)")).to_have_text(name)
        assert large.locator("b").all_inner_texts() == columns
        assert large.locator("span").all_inner_texts() == ["", *rows]
        share = "all => all.map((each) => 8 * each.style.getPropertyValue('--share'))"
        assert large.locator("i").evaluate_all(share) == shades
    head(control, "Encoder, layer 0, head 0").focus()
    expect(large.locator("b")).to_have_text(source)


def test_changed_words_are_marked_in_both_lines_and_told(control):
    head(control, LOOKS_AHEAD).click()
    told = says(control, "is off")
    assert "The translation is now: die Katze liest eine roten Buch." in told
    assert "Probability of the first translation: 0.9 %." in told
    assert "All heads together gave it 58 %." in told
    assert control.locator("mark").all_inner_texts() == ["eine", "roten"]
    assert control.locator(".c-german s").all_inner_texts() == ["ein", "rotes"]
    press(control, "All on")
    assert off(control) == []
    assert now(control) == CAT
    assert control.locator("mark").count() == 0


def test_a_translation_that_does_not_end_is_cut_off_and_the_page_says_so(
    show, small, exact
):
    because = "the girl opens the old door because she must work"
    control = show(switches_control(small, [because, *SENTENCES]))
    head(control, "Decoder, layer 1, head 1").click()
    assert "arbeiten muss arbeiten muss … without an end" in says(control, "is off")
    agrees(control, exact, because)


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


def test_the_worker_starts_at_the_first_press_and_an_unwanted_answer_is_dropped(
    control, tab
):
    tab.evaluate(
        """() => {
          window.answers = 0;
          window.Worker = class extends Worker {
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
    head(control, LOOKS_AHEAD).click()
    says(control, "is off")
    assert len(tab.workers) == 1


def test_the_game_is_won_by_the_head_that_costs_each_sentence_most(control):
    press(control, "Start the game")
    head(control, "Encoder, layer 0, head 3").click()
    assert "Tries: 1." in says(control, "^Not Encoder, layer 0, head 3")
    head(control, "Encoder, layer 0, head 3").click()  # again: no further try
    head(control, "Decoder, layer 1, head 1").click()
    assert "Tries: 2." in says(control, "^Not Decoder")
    assert off(control) == [13]  # one at a time
    head(control, LOOKS_AHEAD).click()
    assert "Tries: 3." in says(control, f"^Found: {LOOKS_AHEAD}")
    press(control, "Next sentence")
    says(control, "All heads are on")
    asks = control.locator(".c-asks").inner_text()
    assert asks.startswith("Sentence 2 of 2.")
    assert off(control) == []
    head(control, "Decoder, layer 1, head 0").click()
    told = says(control, "^Found: Decoder, layer 1, head 0")
    assert "Two sentences, 4 tries. Each sentence needs another head most." in told
    head(control, LOOKS_AHEAD).click()  # the game is over
    says(control, "2 are off")


def test_the_head_of_the_game_is_the_one_whose_columns_cost_most(made, exact):
    cuts = [without(exact, [number]) for number in range(HEADS)]
    for english, sentence in zip(SENTENCES, made.data["sentences"], strict=True):
        left = [share(model, exact, *first(exact, english)) for model in cuts]
        assert sentence["most"] == left.index(min(left))


def test_whatever_else_is_pressed_leaves_the_game(control):
    for name in ("All on", "Leave the game"):
        press(control, "Start the game")
        press(control, name)
        assert says(control, "All heads are on") == "All heads are on."
        expect(control.get_by_role("button", name="Start the game")).to_have_count(1)


def test_where_no_script_runs_the_question_is_asked(made):
    assert f"24 heads translate “{SENTENCES[0]}” as “{CAT}”" in made.words
    assert "58 %. Which one head matters most?" in made.words
