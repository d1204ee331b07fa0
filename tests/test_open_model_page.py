"""The page of the open model in a browser: what it shows, says and keeps."""

import base64
import gzip
import json
import re
from urllib.parse import quote, urlencode

import numpy as np
import pytest
import torch
from axe import findings
from book_files import ROOT
from playwright.sync_api import expect
from test_javascript import NASTY

from pages.look_inside.open_model import open_model_control
from pages.look_inside.overview import box_of, boxes
from pages.look_inside.recording import record
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.translation import Translator

ENGLISH, GERMAN = "the cat reads a red book", "die Katze liest ein rotes Buch"
CAPTION = "A man is riding a bike."
OTHER, DOOR = "she opens the door", "sie macht die Tür auf"
HEAD = {"kind": "head", "node": "decoder.1.cross_attention", "head": 1}
HALF = 2.0**-10  # how far a float16 is off, relatively


@pytest.fixture(scope="module")
def small():
    return Translator.load(ROOT / "models" / "grammar-en-de")


@pytest.fixture(scope="module")
def made(small):
    torch.set_default_dtype(torch.float32)
    large = Translator.load(ROOT / "models" / "multi30k-en-de").model.config
    return open_model_control(small, (ENGLISH, OTHER), large, (CAPTION,))


@pytest.fixture(scope="module")
def page(made, tmp_path_factory):
    file = tmp_path_factory.mktemp("page") / "open.html"
    head = "<meta charset=utf-8><meta name=viewport content='width=device-width'>"
    start = f"<!doctype html><html lang=en>{head}<title>Open</title><body>"
    file.write_text(f"{start}<main>{made._repr_html_()}</main>", "utf-8")
    return file.as_uri()


@pytest.fixture
def opened(tab, page):
    """Open the page at an address, and check at the end that nothing went wrong."""

    def opened(wait=True, **parts):
        tab.goto("about:blank")
        tab.goto(page + address(**parts))
        control = tab.locator(".control")
        if wait:
            expect(control).to_have_attribute("data-ready", "true")
        return control

    yield opened
    assert tab.faults == []


@pytest.fixture(scope="module")
def values(small):
    torch.set_default_dtype(torch.float32)
    exact = from_script(to_script(small))
    src = [*exact.tokenizer.encode(ENGLISH), exact.tokenizer.eos_id]
    tgt = [exact.tokenizer.bos_id, *exact.tokenizer.encode(GERMAN)]
    return record(exact.model, torch.tensor([src]), torch.tensor([tgt]))


def address(**parts):
    return "#" * bool(parts) + urlencode(parts, quote_via=quote)


def follow(control, hash):
    control.page.evaluate("(hash) => { location.hash = hash; }", hash)


def change(*changes):
    return json.dumps(changes)


def written(control):
    return " ".join(control.locator(".o-target > *").all_inner_texts())


def say(control, text):
    line = control.get_by_label("English", exact=True)
    line.fill(text)
    line.press("Enter")


def card(control):
    """Read the value of the card, and what its last sum gives."""
    value = control.locator(".o-value b").inner_text()
    last = control.locator(".o-products tr").last.locator("td").last.inner_text()
    return value.replace("−", "-"), last.replace("−", "-")


def press(control, name):
    control.get_by_role("button", name=name, exact=True).click()


# -- The first screen ------------------------------------------------------------------


def test_where_no_script_runs_every_box_leads_to_a_step_in_words(made):
    names = [node["name"] for node in made.data["graph"]]
    assert all(f"({name})" in made.html for name in names)
    assert {ENGLISH, GERMAN} <= set(re.findall("[A-Za-zü ]{20,}", made.html))
    assert {box_of(name, 2) for name in names} == {box["name"] for box in boxes(2)}
    links = re.findall(r'href="#([^"]+)"', made.html)
    assert sorted(links) == sorted(re.findall(r'id="(node[^"]+)"', made.html))
    assert len(links) == len(boxes(2))


@pytest.mark.parametrize(
    ("worker", "says"),
    [
        ("class { postMessage() {} }", "There is no answer yet. Reload the page"),
        ("undefined", "This browser does not let the page compute"),
    ],
)
def test_a_browser_that_does_not_compute_shows_the_recording_and_says_so(
    tab, page, worker, says
):
    soon = "(f, after) => later(f, after === 30000 ? 0 : after)"  # not after 30 seconds
    tab.add_init_script(f"{{ const later = setTimeout; window.setTimeout = {soon}; }}")
    tab.add_init_script(f"window.Worker = {worker};")
    tab.goto(page)
    control = tab.locator(".control")
    expect(control.locator("h3").first).to_have_text("A sentence becomes numbers")
    assert control.locator(".o-ids span").first.inner_text().split() == ["the", "266"]
    assert written(control) == f"{GERMAN} EOS"
    control.get_by_text("Explore", exact=True).click()
    say(control, OTHER)
    expect(control.locator(".o-status")).to_contain_text(says)
    assert tab.faults == []


def test_the_recording_is_what_pytorch_computes_and_the_page_is_light(made, values):
    for name, held in made.data["recording"].items():
        got = np.frombuffer(base64.b64decode(held["data"]), "<f2")
        got, wanted = got.reshape(held["shape"]), values[name].numpy()
        np.testing.assert_allclose(got, wanted, rtol=HALF, atol=1e-7)
    assert len(gzip.compress(made._repr_html_().encode())) < 395_000


# -- The drawing -----------------------------------------------------------------------


def test_boxes_tabs_and_words_are_chosen_by_pointer_or_keys(opened, tab, made):
    control = opened()
    title = control.locator(".o-stage h3")
    control.get_by_role("link", name="decoder layer 1, cross-attention").click()
    expect(title).to_have_text("Weights")
    assert control.get_by_role("radio", name="Explore").is_checked()
    box = control.locator(".o-map [aria-current]").get_attribute("data-box")
    assert box == "decoder.1.cross_attention"
    tabs = control.get_by_role("group", name="Steps of this box").get_by_role("button")
    names = [node["name"] for node in made.data["graph"]]
    own = [name for name in names if box_of(name, 2) == box]
    assert tabs.count() == len(own)
    tabs.nth(5).click()
    assert tabs.nth(5).get_attribute("aria-pressed") == "true"
    scrub = control.get_by_label("Step of the pass")
    assert scrub.input_value() == str(names.index(own[5]))
    assert control.locator("a[tabindex='0']").count() == 1
    control.get_by_role("link", name="memory").focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        tab.keyboard.press(key)
    expect(control.locator(".o-where")).to_have_text("Encoder, layer 1, self-attention")
    control.locator(".o-target [tabindex='0']").focus()
    for key in ("ArrowRight", "End", "ArrowRight", "ArrowLeft", "Enter"):
        tab.keyboard.press(key)
    assert control.locator(".o-target [aria-pressed='true']").inner_text() == "Buch"


PIXELS = """(link) => new Promise((drawn) => {
  const image = new Image(), canvas = document.createElement("canvas");
  image.onload = () => {
    [canvas.width, canvas.height] = [image.width, image.height];
    const pen = canvas.getContext("2d");
    pen.drawImage(image, 0, 0);
    const { data } = pen.getImageData(0, 0, image.width, image.height);
    drawn([image.width, image.height, [...data]]);
  };
  image.src = link.querySelector("image").getAttribute("href");
})"""


def test_a_box_shows_its_tensor_and_rows_to_come_are_pale(opened, values):
    control = opened(node="src.ids", step=3)
    for box in ("encoder.1.self_attention", "decoder.0.cross_attention"):
        link = control.locator(f"[data-box='{box}']")
        width, height, data = link.evaluate(PIXELS)
        weights = values[f"{box}.weights"].numpy()
        heads, rows, columns = weights.shape
        assert (width, height) == (heads * (columns + 1) - 1, rows)
        pixels = np.array(data).reshape(rows, width, 4)
        order = np.argsort(weights[2, :3].ravel())  # the larger, the less red
        red = pixels[:3, 2 * columns + 2 : 3 * columns + 2, 0].ravel()[order]
        assert (np.diff(red) <= 0).all()
        assert (pixels[:, columns, 3] == 0).all()  # the gap beside a head
        is_pale = pixels[:, 0, 3] < 255
        assert is_pale.tolist() == [box[0] == "d" and row > 3 for row in range(rows)]


# -- Cells and their sums --------------------------------------------------------------


def test_every_sum_gives_the_number_in_its_cell(opened, made):
    control = opened(node="src.ids")
    for node in made.data["graph"]:
        if node["how"] == "given":
            continue
        follow(control, f"node={node['name']}&token=3&step=4&head=2&cell=3")
        expect(control.locator(".o-stage h3")).to_have_text(node["label"])
        value, last = card(control)
        if node["how"] not in ("mask", "chances"):
            assert float(value) == pytest.approx(float(last), abs=0.011), node["name"]


def test_a_cell_is_chosen_by_pointer_or_keys(opened, tab, values):
    control = opened(node="encoder.1.self_attention.weights", head=1)
    value, board = control.locator(".o-value"), control.locator(".o-board")
    box = board.bounding_box()
    board.click(position={"x": box["width"] * 3.5 / 7, "y": box["height"] * 4.5 / 7})
    weight = values["encoder.1.self_attention.weights"][1, 4, 3]
    assert value.inner_text().replace("\xa0", " ").split() == (
        f"red → a, head 1 {weight:.2f}".split()
    )
    assert control.locator(".o-source [aria-pressed='true']").inner_text() == "red"
    board.focus()
    for key in ("Home", "ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft"):
        tab.keyboard.press(key)
    expect(value).to_contain_text("book → cat")
    expect(control.locator(".o-spoken")).to_contain_text("book → cat, head 1:")
    tab.keyboard.press("End")
    tab.keyboard.press("ArrowRight")  # there is no further cell
    expect(value).to_contain_text("book → EOS")
    expect(board).to_be_focused()


def test_a_card_leads_back_to_what_it_was_made_from_and_on(opened):
    control = opened(node="memory", cell=0)
    for layer in range(2):
        for label in ("Keys", "Values"):
            name = f"{label} (decoder, layer {layer}, cross-attention)"
            expect(control.get_by_role("button", name=name)).to_have_count(1)
    line = "return x if self.norm is None else self.norm(x)"
    assert control.locator(".o-onward code").inner_text() == line
    link = control.locator(".o-onward a")
    assert link.get_attribute("href") == "07_encoder.html"
    press(control, "Residual stream (encoder, layer 1, feed-forward)")
    expect(control.locator(".o-where")).to_have_text("Encoder, layer 1, feed-forward")


def test_lines_stand_for_three_quarters_of_each_row(opened, values):
    name = "encoder.0.self_attention.weights"
    control = opened(node=name, head=2, token=3)
    sums = values[name][2].sort(descending=True).values.cumsum(-1)
    lines = ((sums < 0.75).sum(-1) + 1).tolist()
    assert control.locator(".o-looks path").count() == sum(lines)
    assert control.locator(".o-looks path.o-on").count() == lines[3]


# -- Steps -----------------------------------------------------------------------------


def test_next_goes_on_to_the_next_word_until_the_last(opened):
    control = opened(node="probabilities", step=2)
    scrub = control.get_by_label("Step of the pass")
    assert scrub.input_value() == scrub.get_attribute("max")
    control.locator(".o-target button").last.click()
    expect(control.get_by_role("button", name="Next")).to_be_disabled()
    control.locator(".o-target button").nth(2).click()
    press(control, "Next")
    expect(control.locator(".o-stage h3")).to_have_text("Target tokens")
    assert control.locator(".o-target [aria-pressed='true']").inner_text() == "ein"
    press(control, "Back")
    expect(control.locator(".o-stage h3")).to_have_text("Memory")


def test_play_shows_the_main_steps_and_pauses(opened, tab):
    tab.clock.install(time=0)
    control = opened(node="src.ids", wait=False)
    tab.clock.pause_at(100_000)  # later than any computer needs
    tab.clock.run_for(1000)
    title = control.locator(".o-stage h3")
    press(control, "Play")
    seen = [title.inner_text()]
    for _ in range(6):
        tab.clock.run_for(1200)
        seen.append(title.inner_text())
    assert seen[:4] == ["Source tokens", "Embeddings", "Positions", seen[3]]
    assert seen[4:] == ["Weights", "Active features", "Weights"]
    box = control.locator("[data-box='encoder.1.feed_forward']")
    expect(box).to_have_class("o-empty")  # not yet computed
    press(control, "Pause")
    tab.clock.run_for(5000)
    assert title.inner_text() == "Weights"
    expect(box).not_to_have_class("o-empty")


def test_a_german_word_is_a_decoding_step_forwards_and_backwards(opened, values, small):
    control = opened(node="memory", token=5, step=0)
    for step, now in ((4, "rotes"), (1, "Katze"), (6, "EOS")):
        control.locator(".o-target button").nth(step).click()
        expect(control.locator(".o-stage h3")).to_have_text("Probabilities")
        expect(control.locator(".o-where")).to_contain_text(f"it writes {now}")
        before = ["BOS", *GERMAN.split()][step]
        expect(control.locator(".o-now")).to_have_text(["book", before, now])
        best = values["probabilities"][step].topk(5)
        *words, others = control.locator(".o-bars th").all_inner_texts()
        pieces = small.tokenizer.pieces(best.indices.tolist())
        assert words == [{"</s>": "EOS"}.get(p, p.lstrip("▁")) for p in pieces]
        assert others == "995 other words"
        first, *_, rest = control.locator(".o-bars td:nth-child(2)").all_inner_texts()
        assert first == f"{100 * best.values[0]:.1f} %"
        left = 100 * (1 - best.values.sum().item())
        assert rest == ("< 0.1 %" if left < 0.1 else f"{left:.1f} %")


# -- A sentence of the reader's --------------------------------------------------------


def test_what_cannot_be_translated_is_refused_and_new_words_are_named(opened):
    control = opened(node="memory")
    status, new = control.locator(".o-status"), control.locator(".o-new")
    for text, says in {
        "   ": "type an English sentence",
        "the cat " * 60: "121 tokens",
    }.items():
        say(control, text)
        expect(status).to_contain_text(says)
        assert written(control) == f"{GERMAN} EOS"
    for text, says in {
        "the pizza, she sees a zebra": "reads them in pieces: pizza, zebra.",
        "the dog, the cat sees a red pizza": "reads it in pieces: pizza.",
    }.items():
        say(control, text)
        expect(new).to_contain_text(says)
    for text in ("the cat sleeps", "the dog sees a house", OTHER):  # the last counts
        control.get_by_label("English", exact=True).fill(text)
        press(control, "Translate")
    expect(new).to_be_empty()
    expect(status).to_have_text(f"It writes: {DOOR} EOS.")
    assert control.locator(".o-source button").count() == 5


def test_strange_text_is_shown_as_text_and_does_no_harm(opened, tab):
    tab.on("dialog", lambda dialog: tab.faults.append(dialog.message))
    tab.set_viewport_size({"width": 390, "height": 800})
    control = opened(node="encoder.0.self_attention.weights", cell=0)
    image = "<img src=x onerror=alert(1)> & \"'`</script>"
    said = re.compile("It writes: |type an English|tokens, too many")
    for text in (*NASTY[2:10], image, "輩Ǆ🏨a>💶ǘ🌮 \u202eab", OTHER):
        say(control, text)
        expect(control.locator(".o-status")).to_have_text(said)
        assert control.locator("img").count() == 0
        expect(control.locator(".o-new")).not_to_contain_text("\ufffd")
        assert tab.evaluate("document.documentElement.scrollWidth") <= 390
    assert written(control) == f"{DOOR} EOS"


# -- What if? --------------------------------------------------------------------------


def test_a_choice_switches_a_head_off_and_changed_words_are_marked(opened):
    control = opened()
    control.get_by_text("What if?").click()
    attention = control.get_by_label("Attention", exact=True)
    attention.select_option("decoder 1 cross-attention")
    expect(control.locator(".o-stage h3")).to_have_text("Weights")
    control.locator("select[aria-label=Head]").select_option("head 1")
    assert control.get_by_role("switch", name="Switch off").is_checked()
    assert control.get_by_role("radio", name="head 1").is_checked()
    expect(control.locator(".o-two mark")).to_have_text(["eine", "roten"])
    expect(control.locator(".o-two s")).to_have_text(["ein", "rotes"])
    assert written(control) == "die Katze liest eine roten Buch EOS"
    control.get_by_text("as trained", exact=True).last.click()
    assert written(control) == f"{GERMAN} EOS"
    control.get_by_role("switch", name="Switch off").uncheck()
    expect(control.locator(".o-two mark")).to_have_count(0)


def test_the_switches_begin_where_the_reader_is_and_a_step_offers_its_words(
    opened, values, small
):
    control = opened(node="memory", step=4, token=1)
    control.get_by_text("What if?", exact=True).click()
    assert control.get_by_label("Step of the look").input_value() == "4"
    assert control.get_by_label("Source word").input_value() == "1"
    control.get_by_label("Step of the word").select_option("4: ein")
    second = values["probabilities"][3].topk(2).indices[1].item()
    [piece] = small.tokenizer.pieces([second])
    chosen = control.get_by_label("Word to write").locator("option:checked")
    expect(chosen).to_contain_text(piece.lstrip("▁"))
    expect(control.locator(".o-two mark").first).to_have_text(piece.lstrip("▁"))


def test_boxes_are_marked_that_have_other_numbers_at_this_word(opened):
    control = opened(what=change(HEAD), step=3)
    marked = control.locator(".o-differs")
    found = marked.evaluate_all("(all) => all.map((each) => each.dataset.box)")
    after = ["decoder.1.cross_attention", "decoder.1.feed_forward"]
    # What comes before has read the same words.
    assert found == [*after, "decoder.output", "logits", "probabilities"]
    control.locator(".o-target button").nth(4).click()
    assert marked.count() == 11  # all of the decoder: it has read another word
    control.get_by_text("as trained", exact=True).last.click()
    assert marked.count() == 0


def test_every_switch_is_set_by_its_address_and_writes_again(opened, small):
    [unlikely] = small.tokenizer.encode("Hund")
    look = {"kind": "look", "layer": 1, "step": 4, "source": 1}  # at the cat
    control = opened(node="memory")
    for one, words in (
        ({"kind": "token", "step": 3, "id": 398}, "die Katze liest das rote Buch"),
        ({"kind": "token", "step": 1, "id": unlikely}, "die Hund liest ein rotes Buch"),
        (look, "die Katze liest ein Katze"),
        ({"kind": "positions", "side": "src"}, "eine rote Katze liest das rote Buch"),
        ({"kind": "mask"}, "die rotes Buch"),
    ):
        follow(control, address(what=change(one)))
        status = control.locator(".o-status")
        expect(status).to_have_text(f"It now writes: {words} EOS.")
        assert written(control) == f"{words} EOS"
        assert control.locator(".o-changes :checked[type=checkbox]").count() == 1
        if one.get("id") == unlikely:  # no choice otherwise
            options = control.get_by_label("Word to write").locator("option")
            expect(options).to_have_count(6)
    follow(control, address(what=change(HEAD | {"head": 0})))
    expect(control.locator(".o-outcome")).to_have_text("No word changed.")
    control.get_by_text("Explore", exact=True).click()
    press(control, "Switch the change off")  # in any mode
    expect(control.locator(".o-runs")).to_be_hidden()


def test_a_shorter_sentence_keeps_the_step_for_later(opened):
    control = opened(what=change({"kind": "mask"}), node="decoder.output", step=5)
    expect(control.locator(".o-outcome")).to_contain_text("its last step is shown")
    assert control.locator(".o-target [aria-pressed='true']").inner_text() == "EOS"
    control.get_by_role("switch", name="Invert").uncheck()
    expect(control.locator(".o-two")).to_contain_text("Switch on a change below.")
    assert control.locator(".o-target [aria-pressed='true']").inner_text() == "Buch"


# -- The tour --------------------------------------------------------------------------


def test_the_tour_can_be_walked_from_the_first_step_to_the_last(opened, made):
    control = opened()
    tour, names = made.data["tour"], {node["name"] for node in made.data["graph"]}
    assert len({step["id"] for step in tour}) == len(tour)
    press(control, f"1 of {len(tour)}")
    entries = control.locator(".o-list button")
    assert entries.all_inner_texts() == [step["title"] for step in tour]
    entries.nth(13).click()
    title, answer = control.locator(".o-tour h3"), control.locator(".o-answer")
    expect(title).to_have_text(tour[13]["title"])
    press(control, f"14 of {len(tour)}")
    entries.first.click()
    for number, step in enumerate(tour, start=1):
        assert step["state"]["node"] in names
        expect(title).to_have_text(step["title"])
        expect(control.locator(".o-count-of")).to_have_text(f"{number} of {len(tour)}")
        *_, wrong, right = sorted(step["choices"], key=lambda c: c.get("right", False))
        press(control, wrong["text"])
        expect(answer).to_contain_text(f"Not quite. {wrong['says']}")
        press(control, right["text"])
        expect(answer).to_contain_text(f"Yes. {right['says']}")
        if number < len(tour):
            answer.get_by_role("button").click()
    control.locator(".o-bar").get_by_role("button", name="Explore").click()
    expect(control.get_by_label("English", exact=True)).to_be_in_viewport()


def test_what_the_tour_says_of_heads_and_numbers_is_true(made, values):
    states = {step["id"]: step["state"] for step in made.data["tour"]}
    for step, name, at, column in (
        ("weights", "encoder.1.self_attention.weights", (1, 4), 3),  # red: a
        ("heads", "encoder.1.self_attention.weights", (3, 4), 2),  # red: reads
        ("cross", "decoder.1.cross_attention.weights", (2, 4), 4),  # ein: red
        ("gender", "decoder.1.cross_attention.weights", (1, 3), 5),  # liest: book
    ):
        assert (states[step]["node"], states[step]["head"]) == (name, at[0])
        assert values[name][at].argmax() == column
    weights = values["encoder.1.self_attention.weights"][1, 4]  # of "red"
    assert [round(100 * weights[s].item()) for s in (3, 4, 5)] == [76, 17, 5]
    ein = values["probabilities"][3].topk(2).values
    assert [round(100 * ein[0].item()), round(1000 * ein[1].item())] == [92, 2]
    assert values["src.ids"][1] == 425
    active = values["encoder.1.feed_forward.active"]
    assert (active == 0).float().mean() > 0.5  # most cells are silent
    maps = [values[f"decoder.{i}.cross_attention.weights"] for i in (0, 1)]
    in_turn = (torch.cat(maps).argmax(-1) == torch.arange(7)).sum(-1)
    assert (in_turn >= 5).sum() == 6  # heads that look at nearly the same words


# -- Addresses -------------------------------------------------------------------------


def test_an_address_brings_the_same_state_back(opened, tab):
    weights = "decoder.0.cross_attention.weights"
    control = opened(s=OTHER, node=weights, step=2, head=3, cell=1)
    expect(control.locator(".o-value")).to_contain_text("macht → opens, head 3")
    tab.get_by_role("button", name="Next", exact=True).click()
    kept = tab.url
    tab.goto("about:blank")
    tab.goto(kept)
    expect(control.locator(".o-stage h3")).to_have_text("Blended values")
    expect(control.locator(".o-target")).to_have_text("".join([*DOOR.split(), "EOS"]))
    tab.evaluate("location.hash = '#tour=gender'")
    expect(control.locator(".o-tour h3")).to_have_text("Another head, another question")


NONSENSE = (
    "#node=nonsense&step=99999&head=77&token=1e9&cell=-3",
    "#what={}&node=memory",
    "#what=[1,null,{%22kind%22:%22head%22},{%22kind%22:%22__proto__%22}]",
    '#what=[{"kind":"look","layer":9,"step":-1,"source":"a"}]&tour=x',
    "#s=%E0%A4%A&node=%00&tour=%3Cimg%3E",
    "#node=__proto__&step=constructor",
    "#&&&=&node",
)


def test_nonsense_in_an_address_is_refused_quietly(opened, page, tab):
    opened(s="a" * 5000)
    tab.goto("about:blank")
    tab.goto(page + NONSENSE[0])
    control = tab.locator(".control")
    for address in NONSENSE[1:]:
        follow(control, address)
        expect(control.locator(".o-target > *").first).to_be_visible()
        assert control.locator("img").count() == 0


# -- For everybody ---------------------------------------------------------------------


def test_axe_finds_nothing(opened, tab):
    for theme, state in (  # the first state is in test_pages.py
        ("light", {"node": "encoder.0.self_attention.weights", "cell": 1}),
        ("dark", {"what": "[]", "tour": "without-head"}),
        ("dark", {"node": "probabilities"}),
    ):
        opened(**state)
        tab.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
        assert findings(tab) == []


def test_a_phone_has_room_for_everything_and_shows_what_is_new(browser, page):
    view = {"width": 400, "height": 800}
    context = browser.new_context(viewport=view, has_touch=True, is_mobile=True)
    tab = context.new_page()
    control, title = tab.locator(".control"), tab.locator(".o-stage h3")
    for state in ("", "#what=[]&node=memory", "#node=decoder.1.feed_forward.inner"):
        tab.goto("about:blank")
        tab.goto(page + state)
        tab.locator(".control[data-ready]").wait_for()  # then no button is replaced
        assert tab.evaluate("document.documentElement.scrollWidth") <= view["width"]
        heights = "(all) => all.map((e) => e.getBoundingClientRect().height)"
        shown = tab.locator("button:visible, select:visible")
        assert min(shown.evaluate_all(heights)) >= 24
    control.locator(".o-board").tap(position={"x": 40, "y": 40})
    control.locator(".o-onward button").last.tap()
    expect(title).to_have_text("Active features")
    expect(title).to_be_in_viewport(ratio=1)
    control.get_by_text("Guided tour").tap()
    control.locator(".o-choices button").last.scroll_into_view_if_needed()
    press(control.locator(".o-bar"), "Next")
    expect(control.locator(".o-tour h3")).to_be_in_viewport(ratio=1)
    context.close()


# -- The larger model ------------------------------------------------------------------


def test_the_captions_model_comes_on_demand_and_goes_again(opened, tab):
    script = to_script(Translator.load(ROOT / "models" / "multi30k-en-de"))
    tab.route("**/made/translator.js", lambda route: route.fulfill(body=script))
    control = opened(node="memory", s="a dog runs")
    press(control, "Load a model with more words, 2.1 MB")
    source, new = control.locator(".o-source"), control.locator(".o-new")
    expect(new).to_contain_text("4 layers of 4 heads")
    expect(source).to_have_text("adogrunsEOS")  # the reader's sentence
    control.get_by_label("Examples").select_option(CAPTION)
    expect(source).to_have_text("Amanisridingabike.EOS")
    assert control.locator(".o-map a").count() == len(boxes(4))
    control.get_by_role("link", name="decoder layer 3, cross-attention").click()
    expect(control.locator(".o-where")).to_contain_text("Decoder, layer 3")
    for node in ("src.embedded", "tgt.embedded", "logits"):  # with a shared table
        tab.evaluate(f"location.hash = 'node={node}&token=1&step=1&cell=3'")
        expect(control.locator(".o-value")).to_be_visible()
        value, last = card(control)
        assert float(value) == pytest.approx(float(last), abs=0.011), node
    press(control, "Back to the small model")
    expect(source).to_have_text("".join([*ENGLISH.split(), "EOS"]))
    assert control.locator(".o-map a").count() == len(boxes(2))


def test_if_its_weights_are_not_there_the_page_says_where_it_looked(opened, tab):
    tab.route("**/made/translator.js", lambda route: route.abort())
    control = opened(node="memory")
    press(control, "Load a model with more words, 2.1 MB")
    expect(control.locator(".o-status")).to_contain_text("The weights are not here")
    tab.faults.clear()  # the file that is not there
