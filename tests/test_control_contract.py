"""What every control promises, whatever it shows."""

import functools
import html
import re

import pytest
import torch
from axe import COLOURS, findings
from book_files import ROOT
from test_widget_beam import STEPS, pieces
from test_widget_learning import table

from bookkit.controls.beam import beam_control
from bookkit.controls.translator import EXAMPLES, translator_control
from pages.attention.arrows import arrows_control
from pages.attention.softmax import softmax_control
from pages.cache.race import race_control
from pages.encoder.context import context_control
from pages.fewer_pairs.window import window_control
from pages.heads.split import split_control
from pages.inside.heads import heads_control
from pages.inside.switches import switches_control
from pages.masks.leak import leak_control
from pages.masks.masks import mask_control
from pages.positions.positions import positions_control
from pages.text.merges import merges_control
from pages.training.learning import learning_control
from transformer_lib.translation import Translator

ENGLISH, GERMAN = "the cat reads a red book", "die Katze liest ein rotes Buch"
ODD = "</script>", "&lt;b"  # words that are no markup
WORDS = [*ODD, "cat"]


@functools.cache
def translator():
    return Translator.load(ROOT / "models/grammar-en-de")


def leak():
    model = translator().model
    return leak_control(model, model, translator().tokenizer, ENGLISH, GERMAN)


def context():
    exchanges = {"a": [], "cat": ["dog"], "reads": ["sees"]}
    return context_control(translator(), "a cat reads", exchanges)


def heads():
    layers = [f"encoder.layers.{i}.self_attention" for i in range(2)]
    maps = {name: torch.eye(2).repeat(1, 2, 1, 1) for name in layers}
    return heads_control(maps, [[*ODD]], [["c", "d", "e"]])


def split():
    return split_control(WORDS, torch.ones(3, 4), *[torch.eye(4)] * 4, 2)


MAKERS = {
    "softmax": lambda: softmax_control(WORDS, [1.0, 3.0, 2.0]),
    "leak": leak,
    "beam": lambda: beam_control(STEPS, pieces, title="A <b>beam</b>"),
    "race": lambda: race_control(translator(), [ENGLISH]),
    "context": context,
    "heads": heads,
    "learning": lambda: learning_control(table("learning"), table("learning_words")),
    "merges": lambda: merges_control(translator().tokenizer, [*ODD]),
    "switches": lambda: switches_control(translator(), [ENGLISH] * 2),
    "masks": lambda: mask_control([" ".join(ODD), "c"], ["d e", "f"]),
    "positions": positions_control,
    "translator": lambda: translator_control([EXAMPLES[0], *ODD]),
    "window": window_control,
    "split": split,
    "arrows": lambda: arrows_control(WORDS, (2, 1), [(0, 0)] * 3, [(1, 0)] * 3),
}
TAKES_WORDS = {"arrows", "heads", "masks", "merges", "softmax", "split", "translator"}
ASKING = {"arrows", "context", "learning", "leak", "race", "split", "switches"}
LOSES_KEYS = """all => all.filter(e => !e.hasAttribute("data-lm-suppress-shortcuts"))
  .map(e => e.outerHTML)"""


def all_controls():
    return [make() for make in MAKERS.values()]


@pytest.fixture(scope="module", params=MAKERS)
def made(request):
    return MAKERS[request.param]()


# Set everything to what it can be last, and press every button.
MOVE = """control => {
  const visible = (selector) => [...control.querySelectorAll(selector)]
    .filter((part) => part.checkVisibility());
  const set = (part, name, value) => {
    part[name] = value;
    for (const kind of ["input", "change"]) {
      part.dispatchEvent(new Event(kind, { bubbles: true }));
    }
  };
  for (const part of visible("[type=radio]:enabled, summary")) part.click();
  for (const box of visible("[type=checkbox]:not(:checked)")) box.click();
  if (control.dataset.control !== "translator") { // which needs a page of the book
    for (const list of visible("select")) set(list, "selectedIndex", list.length - 1);
    for (const button of visible("button:not([aria-disabled=true])")) button.click();
    visible("button").find((button) => button.textContent === "Pause")?.click();
  }
  for (const slider of visible("[type=range]")) set(slider, "value", slider.max);
}"""


def test_its_words_stand_where_no_script_runs(made):
    page = made._repr_html_()
    assert made.words
    assert (made.html or html.escape(made.words)) in page
    assert page.count(html.escape(made.title)) == 2  # shown, and read aloud
    assert repr(made) == f"{made.title}\n{made.words}"
    assert page.count("</script>") == 2  # data that holds one does not end it


# What a control shows, and what its lines, boxes and radio buttons hold.
STATE = """control => [control.querySelector(".c-body").innerText,
  ...[...control.querySelectorAll("input")].map((e) => `${e.value} ${e.checked}`),
].join("\\n")"""


def test_it_works_twice_on_one_page_without_a_network(show, tab, made):
    before = tab.evaluate("Object.keys(window)")
    control = show(made)
    assert tab.evaluate("Object.keys(window)") == before
    for word in ODD if made.name in TAKES_WORDS else ():
        assert word in control.evaluate(STATE)
    other = tab.locator(".control").first
    unmoved = other.evaluate(STATE)
    tab.emulate_media(reduced_motion="reduce")
    for _ in range(3):
        parts = control.locator("input, select, button, summary, [tabindex]")
        assert parts.count() > 1
        assert parts.evaluate_all(LOSES_KEYS) == []
        assert "click" not in control.evaluate(STATE).lower()
        control.evaluate(MOVE)
    assert other.evaluate(STATE) == unmoved


# The numbers of the parts that Tab should reach, of a group of radio buttons one.
STOPS = """control => {
  const known = new Set();
  const takers = "input, select, button, summary, [tabindex]";
  const parts = [...control.querySelectorAll(takers)].filter((e) =>
    e.checkVisibility() && !e.disabled
    && (e.tabIndex >= 0 || e.matches("input, select, summary")));
  const stops = parts.filter((e) => {
    if (e.type !== "radio") return true;
    const picked = parts.find((other) => other.name === e.name && other.checked);
    const isStop = picked ? e === picked : !known.has(e.name);
    known.add(e.name);
    return isStop;
  });
  stops.forEach((e, i) => { e.dataset.stop = i; });
  stops[0].focus();
  return stops.length;
}"""
LOOK = """e => [e, e.closest("label"), ...e.querySelectorAll("*")].map((part) => {
  const { outline, stroke } = part ? getComputedStyle(part) : {};
  return [outline, stroke];
})"""


def test_tab_reaches_every_part_in_order_and_shows_where_it_is(show, tab, made):
    control = show(made)
    for i in range(control.evaluate(STOPS)):
        part = control.locator(f"[data-stop='{i}']")
        assert part.evaluate("e => e === document.activeElement")
        focused = part.evaluate(LOOK)
        tab.keyboard.press("Tab")
        assert part.evaluate(LOOK) != focused
    assert control.locator(":focus").count() == 0


def assert_announced(control):
    """What a control says must be heard."""
    heard = control.locator("output, [role=status], [aria-live]").all_inner_texts()
    assert heard
    for says in control.locator(".c-says").all_inner_texts():
        assert says in " ".join(heard)


def test_keys_move_every_part_and_what_it_says_is_announced(show, made):
    control = show(made)
    for slider in control.locator("[type=range]:visible").all():
        number = slider.locator("xpath=following-sibling::output")
        slider.press("Home")
        assert slider.input_value() == slider.get_attribute("min")
        slider.press("ArrowRight")
        assert slider.input_value() != slider.get_attribute("min")
        assert slider.get_attribute("aria-valuetext").startswith(number.inner_text())
        assert_announced(control)
    for box in control.locator("[type=checkbox]:visible").all():
        before = box.is_checked()
        box.press(" ")
        assert box.is_checked() != before
        assert_announced(control)
    for choice in control.locator("select:visible").all()[::-1]:
        last = choice.evaluate("e => e.length - 1")
        for key, chosen in (("Home", 0), ("End", last)):
            choice.press(key)
            assert choice.evaluate("e => e.selectedIndex") == chosen
        assert_announced(control)
    for group in control.locator(".c-pick:visible:has(:checked)").all():
        radios = group.locator("[type=radio]")
        before = radios.evaluate_all("all => all.map(e => e.checked)")
        group.locator(":checked").press("ArrowUp")
        assert radios.evaluate_all("all => all.map(e => e.checked)") != before
        assert_announced(control)


def test_axe_finds_nothing(tab, made):
    tab.emulate_media(reduced_motion="reduce")
    page = "<!doctype html><html lang=en data-theme=light><title>A control</title>"
    tab.set_content(f"{page}<main>{made._repr_html_()}</main>")
    assert findings(tab) == []
    tab.locator(".control").evaluate(MOVE)
    assert findings(tab, only=COLOURS) == []
    tab.evaluate("document.documentElement.dataset.theme = 'dark'")
    assert findings(tab) == []
    assert tab.faults == []


@pytest.fixture(scope="module")
def phone(browser):
    context = browser.new_context(
        viewport={"width": 400, "height": 850},
        has_touch=True,
        is_mobile=True,
        reduced_motion="reduce",
    )
    yield context.new_page()
    context.close()


SMALLEST = """(control, selector) => Math.min(...[...control.querySelectorAll(selector)]
  .filter((e) => e.checkVisibility()).flatMap((e) => [e.offsetWidth, e.offsetHeight]),
  999)"""
# Of all text in pixels, also in drawings; the positions are named within small circles.
LETTERS = """control => Math.min(...[...control.querySelectorAll("*")].filter((e) =>
  e.checkVisibility() && !e.matches("script, style, .c-waves text")
  && [...e.childNodes].some((node) => node.nodeType === 3 && node.data.trim()))
  .map((e) => parseFloat(getComputedStyle(e).fontSize)
    * (e.ownerSVGElement ? e.getScreenCTM().a : 1)))"""
TOPS = """all => all.map((each) => Math.round(each.getBoundingClientRect().top))"""


def test_on_a_phone_it_fits_and_fingers_find_its_parts(phone, made):
    head = "<meta name=viewport content='width=device-width'><body style='margin: 8px'>"
    phone.set_content(f"<!doctype html><html lang=en>{head}{made._repr_html_()}")
    control = phone.locator(".control")
    if made.name in ASKING:
        first = control.locator(".c-body > *").first
        assert re.match(r"Question 1 of \d\. ", first.inner_text())
        assert first.locator("strong").inner_text().startswith("Question 1 of")
    for _ in range(3):
        assert phone.evaluate("document.documentElement.scrollWidth") <= 400
        fingers = ".c-inputs .c-pick label, .c-tick, select"
        assert control.evaluate(SMALLEST, fingers) >= 40
        assert control.evaluate(SMALLEST, "button") >= 22
        assert control.evaluate(LETTERS) >= 12
        for pick in control.locator(".c-inputs .c-pick:visible").all():
            assert len(set(pick.locator("label").evaluate_all(TOPS))) == 1  # one line
        control.evaluate(MOVE)
