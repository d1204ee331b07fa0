"""The translator as a control, in a browser, from files and without a network."""

import json
import re

import pytest
import torch
from book_files import ROOT
from playwright.sync_api import expect

from bookkit.controls.control import read
from bookkit.controls.translator import EXAMPLES as EXAMPLES_OF_THE_BOOK
from bookkit.controls.translator import FIRST, translator_control
from pages.translator.record_translation import recorded
from transformer_lib.data import Tokenizer
from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.model import Transformer, TransformerConfig, record_attention
from transformer_lib.translation import Translator
from transformer_lib.translation.translator import ALPHA

EXAMPLES = "a red cat", "a dog"
TEXTS = ["a red cat", "a dog", "eine rote Katze", "ein Hund"] * 3


def untrained(deviation):
    """Pack a small model that has learned nothing, but does something."""
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_layers": 2, "max_len": 256}
    config = TransformerConfig(src_vocab_size=280, tgt_vocab_size=280, **sizes)
    model = Transformer(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=deviation)
    return to_script(Translator(model, Tokenizer.train(TEXTS, 280)))


@pytest.fixture
def script():
    return untrained(1.0)


@pytest.fixture
def book(tmp_path, script):
    """A folder like that of the built book, with the control twice on its page."""
    made = tmp_path / "_static/made/translator.js"
    made.parent.mkdir(parents=True)
    made.write_text(script, encoding="utf-8")
    html = translator_control(EXAMPLES)._repr_html_()
    (tmp_path / "book").mkdir()
    (tmp_path / "book/page.html").write_text(
        f"<!doctype html><html lang='en'><meta charset='utf-8'>{html}{html}</html>",
        encoding="utf-8",
    )
    return tmp_path


@pytest.fixture
def control(tab, book):
    tab.context.set_offline(True)
    tab.asked = []
    tab.on(
        "request",  # what a page makes for itself is fetched from nowhere
        lambda sent: sent.url.startswith("blob:") or tab.asked.append(sent.url),
    )
    tab.goto((book / "book/page.html").as_uri())
    yield tab.locator(".control").last
    assert tab.faults == []


def german(control):
    return control.locator(".c-german").inner_text()


def says(control, pattern):
    control.locator(".c-says").filter(has_text=re.compile(pattern)).wait_for()
    return control.locator(".c-says").inner_text()


def ask(control, text):
    control.get_by_label("English").fill(text)
    control.get_by_role("button", name="Translate").click()


def test_nothing_is_loaded_before_the_reader_asks(tab, control):
    assert len(tab.asked) == 1
    shipped = to_script(Translator.load(ROOT / "models/multi30k-en-de"))
    said = f"weights, {len(shipped.encode()) / 1e6:.1f} MB"
    assert said in says(control, "Nothing is loaded yet")
    control.get_by_label("English").press("Enter")
    says(control, "To write")
    assert len(tab.asked) == 2
    assert tab.asked[1].endswith("/_static/made/translator.js")


def test_the_reader_types_a_sentence_and_pytorch_writes_the_same(control, script):
    theirs = from_script(script)
    line = control.get_by_label("English")
    line.fill("a cat, a cat")
    line.press("Enter")
    assert "By a beam of 5: " in says(control, "To write")
    assert german(control) == theirs.translate(["a cat, a cat"], beam=5)[0]
    control.get_by_label("Search").select_option("greedy search")
    says(control, "By greedy")
    assert german(control) == theirs.translate(["a cat, a cat"])[0]
    control.get_by_role("button", name="a dog").click()
    says(control, "To write")
    assert german(control) == theirs.translate(["a dog"])[0]
    assert line.input_value() == "a dog"


def pass_in_torch(script, text):
    """Translate greedily; return each token's probability and the cross-attention."""
    theirs = from_script(script)
    bos_id, eos_id = theirs.tokenizer.bos_id, theirs.tokenizer.eos_id
    src = torch.tensor([[*theirs.tokenizer.encode(text), eos_id]])
    [ids] = greedy_decode(theirs.model, src)
    tgt = torch.tensor([[bos_id, *ids]])
    with torch.no_grad(), record_attention(theirs.model) as maps:
        logits = theirs.model(src, tgt)[0, : len(ids)]
    logits[:, theirs.tokenizer.pad_id] = float("-inf")
    shares = logits.softmax(-1).gather(1, torch.tensor(ids)[:, None])[:, 0]
    cross = [maps[f"decoder.layers.{i}.cross_attention"][0] for i in range(2)]
    return shares, torch.stack(cross)  # (T), (layers, H, T, S)


def numbers(locator):
    return [float(text.removesuffix(" %")) for text in locator.all_inner_texts()]


def test_probabilities_and_weights_are_those_of_pytorch(control, script):
    shares, cross = pass_in_torch(script, EXAMPLES[0])
    control.get_by_label("Search").select_option("greedy search")
    control.get_by_role("button", name="Translate").click()
    says(control, "To write")
    control.locator(".c-pick label").first.click()
    found = numbers(control.get_by_role("radiogroup").locator("small"))[: len(shares)]
    assert found == pytest.approx((100 * shares).tolist(), abs=0.51)

    def seen():
        return pytest.approx(numbers(control.locator(".c-tokens small")), abs=0.0051)

    assert cross.mean(dim=(0, 1))[0].tolist() == seen()
    control.get_by_label("Layer").select_option("layer 1")
    assert cross[1].mean(dim=0)[0].tolist() == seen()
    control.get_by_label("Head").select_option("head 0")
    assert cross[1, 0, 0].tolist() == seen()
    control.get_by_text("All tokens as a table").click()
    row = control.get_by_role("row").nth(3).locator("td")
    assert cross[1, 0, 2].tolist() == pytest.approx(numbers(row), abs=0.0051)


def test_keys_and_the_pointer_choose_the_token_that_is_explained(control):
    control.get_by_role("button", name="Translate").click()
    says(control, "To write")
    control.locator(".c-pick label").first.click()
    first = says(control, "Token 1,")
    control.get_by_label("English").hover()
    tokens = control.get_by_role("radiogroup", name="German token").get_by_role("radio")
    tokens.first.focus()
    tokens.first.press("ArrowRight")
    second = says(control, "To write")
    assert second != first
    control.locator(".c-pick label").first.hover()
    assert says(control, "To write") == first
    control.get_by_label("English").hover()
    assert says(control, "To write") == second


def test_an_empty_text_and_one_that_is_too_long_are_refused_in_words(control):
    ask(control, " \t ")
    assert "type an English sentence" in says(control, "nothing to translate")
    ask(control, "a dog")
    says(control, "To write")
    ask(control, "cat " * 5000)
    assert "this page stops at 120" in says(control, "That is [0-9]+ tokens")
    assert control.locator(".c-german").count() == 0


STRANGE = [
    "\U0001f1e9\U0001f1ea\U0001f469\u200d\U0001f692",
    "<script>alert(1)</script><img src=x onerror=alert(1)>&lt;\"'",
    "\u0000\u0001\ufeff${1} \u202e\u05e9\u05dc\u05d5\u05dd",
]


def test_strange_text_is_translated_badly_and_nothing_worse(tab, control, script):
    tab.on("dialog", lambda dialog: tab.faults.append(dialog.message))
    control.get_by_label("Search").select_option("greedy search")
    for text in STRANGE:
        ask(control, text)
        assert "expect nonsense" in says(control, "To write")
        typed = control.get_by_label("English").input_value()
        assert german(control) == from_script(script).translate([typed])[0]
    assert control.locator("img").count() == 0
    assert tab.evaluate("document.documentElement.scrollWidth") <= 1400


def test_where_the_weights_are_missing_the_control_says_how_to_make_them(
    tab, control, book
):
    (book / "_static/made/translator.js").unlink()
    control.get_by_role("button", name="Translate").click()
    assert "python -m transformer_lib.javascript" in says(
        control, "weights are not here"
    )
    assert all("ERR_FILE_NOT_FOUND" in fault for fault in tab.faults)
    tab.faults.clear()


def test_in_jupyter_the_weights_come_from_its_file_server(tab, control, book):
    (book / "files").mkdir()
    (book / "_static").rename(book / "files/_static")
    settings = f'{{"baseUrl": "{book.as_posix()}/"}}'
    tab.evaluate(
        """(textContent) => {
          const attributes = { id: "jupyter-config-data", type: "application/json" };
          const script = document.createElement("script");
          document.body.append(Object.assign(script, attributes, { textContent }));
        }""",
        settings,
    )
    control.get_by_role("button", name="Translate").click()
    says(control, "To write")


@pytest.fixture
def slow(tab):
    """Workers that wait before each of their steps, as on a slow computer."""
    tab.add_init_script(
        """const Fast = Blob;
        window.Blob = class extends Fast {
          constructor([code], options) {
            super([code, `const fast = Transformer.prototype.decode;
              Transformer.prototype.decode = function (...given) {
                for (const end = performance.now() + 30; performance.now() < end;);
                return fast.apply(this, given);
              };`], options);
          }
        };"""
    )


@pytest.mark.usefixtures("slow")
def test_the_newest_request_wins_over_one_that_runs(control, script):
    theirs = from_script(script)
    ask(control, "a red cat, a red cat, a red cat")
    control.locator(".c-german").wait_for()  # it has begun to write
    control.get_by_label("Search").select_option("greedy search")
    ask(control, "a dog")
    assert "By greedy search" in says(control, "To write")
    assert german(control) == theirs.translate(["a dog"])[0]
    pieces = control.locator(".c-tokens .c-token bdi").all_inner_texts()
    assert "".join(pieces).replace("▁", " ").strip() == "a dog</s>"


@pytest.mark.usefixtures("slow")
def test_the_page_lives_and_shows_words_while_it_computes_and_can_stop(control, tab):
    tab.evaluate(
        """() => {
          let last = window.began = performance.now();
          window.longest = 0;
          window.seen = new Set();
          setInterval(() => {
            longest = Math.max(longest, performance.now() - last);
            last = performance.now();
            seen.add(document.querySelectorAll(".c-german")[0]?.textContent ?? "");
          }, 5);
        }"""
    )
    stop = control.get_by_role("button", name="Stop")
    assert control.get_by_text("Stop", exact=True).is_hidden()
    ask(control, "a red cat and a dog " * 4)
    tab.wait_for_function("seen.size > 4")  # beginnings, each longer than the last
    assert stop.is_visible()
    # A page that computes itself would be blocked all the time.
    assert tab.evaluate("longest < (performance.now() - began) / 2")
    stop.click()
    assert says(control, "Stopped") == "Stopped."
    before = german(control)
    tab.wait_for_timeout(300)
    assert german(control) == before
    ask(control, "a dog")
    says(control, "To write")


def test_runners_up_stand_below_the_best_with_their_scores(control, script):
    theirs = from_script(script)
    control.get_by_role("button", name="Translate").click()
    says(control, "To write")
    tokenizer = theirs.tokenizer
    src = torch.tensor([[*tokenizer.encode(EXAMPLES[0]), tokenizer.eos_id]])
    [found] = beam_search(theirs.model, src, beam_size=5, alpha=ALPHA)
    scores = [f"{each.score:.2f}".replace("-", "−") for each in found]
    assert f"translation is {scores[0]}." in control.inner_text()
    shown = control.get_by_role("listitem").all_inner_texts()
    assert 1 <= len(shown) <= 2
    texts = [tokenizer.decode(each.tokens) for each in found]
    pairs = [f"{text} {score}" for text, score in zip(texts, scores, strict=True)]
    assert set(shown) <= set(pairs[1:])
    control.get_by_label("Search").select_option("greedy search")
    says(control, "By greedy")
    assert control.get_by_role("listitem").count() == 0


@pytest.fixture
def shipped(tab, tmp_path):
    """The control as the book shows it, with the weights that it loads."""
    made = tmp_path / "_static/made/translator.js"
    made.parent.mkdir(parents=True)
    made.write_text(to_script(Translator.load(ROOT / "models/multi30k-en-de")), "utf-8")
    (tmp_path / "book").mkdir()
    page = tmp_path / "book/page.html"
    page.write_text(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Page</title>"
        f"<main>{translator_control()._repr_html_()}</main>",
        encoding="utf-8",
    )
    tab.goto(page.as_uri())
    yield tab.locator(".control")
    assert tab.faults == []


def lines(control):
    """The lines from a German token to English ones, as (start, end, width)."""
    return control.locator(".c-looks").evaluate(
        """rows => {
          const frame = rows.getBoundingClientRect();
          return [...rows.querySelectorAll("path")].map((path) => {
            const ends = [0, path.getTotalLength()].map((at) =>
              path.getPointAtLength(at));
            return [...ends.flatMap(({ x, y }) => [x + frame.x, y + frame.y]),
              Number(path.getAttribute("stroke-width"))];
          });
        }"""
    )


def test_tokens_in_several_rows_have_no_lines(shipped, tab):
    assert lines(shipped)
    tab.set_viewport_size({"width": 400, "height": 900})
    rows = shipped.locator(".c-tokens .c-token").all()
    assert len({row.bounding_box()["y"] for row in rows}) > 1
    expect(shipped.locator(".c-looks path")).to_have_count(0)
    tab.set_viewport_size({"width": 1400, "height": 900})
    shipped.locator(".c-looks path").first.wait_for()


def test_lines_lead_from_the_picked_token_to_what_it_looked_at(shipped):
    shown = shipped.locator(".c-tokens .c-token")
    tokens = shipped.get_by_role("radiogroup", name="German token").locator("label")
    for t in (0, tokens.count() - 1):
        tokens.nth(t).click()
        weights = numbers(shown.locator("small"))
        drawn = lines(shipped)
        start = tokens.nth(t).bounding_box()
        boxes = [box.bounding_box() for box in shown.all()]
        middles = [box["x"] + box["width"] / 2 for box in boxes]
        for x, y, end_x, end_y, thickness in drawn:
            assert x == pytest.approx(start["x"] + start["width"] / 2, abs=1)
            assert y == pytest.approx(start["y"] + start["height"], abs=3)
            s = min(range(len(boxes)), key=lambda s: abs(middles[s] - end_x)
                    + abs(boxes[s]["y"] - end_y))  # fmt: skip
            assert (middles[s], boxes[s]["y"]) == pytest.approx((end_x, end_y), abs=1)
            assert thickness == pytest.approx(1 + 5 * weights[s], abs=0.03)
        assert 1 <= sum(weight > 0.055 for weight in weights) <= len(drawn)
        assert len(drawn) <= max(1, sum(weight >= 0.045 for weight in weights))


def everything(control):
    seen = [".c-german", "li", ".c-pick .c-token", ".c-tokens .c-token"]
    return [control.locator(part).all_inner_texts() for part in seen]


def test_it_begins_with_a_recorded_translation_which_the_page_then_computes(shipped):
    record = json.loads(read(FIRST))
    weights = torch.tensor(record["cross"]).mean(dim=(0, 1))  # (T, S)
    words = [t for t, piece in enumerate(record["target"]) if piece.startswith("▁")]
    clearest = max(words, key=lambda t: weights[t].max())
    told = says(shipped, "To write")
    assert f"Token {clearest + 1}, {record['target'][clearest]}," in told
    assert "recorded. Nothing is loaded yet" in told
    before = everything(shipped)
    assert before[0] == ["Ein brauner Hund rennt über den Strand."]
    shipped.get_by_role("button", name="Translate").click()
    says(shipped, "By a beam of 5")
    assert everything(shipped) == before
    assert "“▁” begins a word" in shipped.inner_text()


@pytest.mark.parametrize("width", [1400, 400])
def test_an_example_shows_its_translation_on_the_screen_and_hardly_anything_moves(
    shipped, tab, width
):
    tab.set_viewport_size({"width": width, "height": 700})
    shipped.scroll_into_view_if_needed()
    line = shipped.get_by_label("English").bounding_box()
    first = shipped.get_by_role("button", name="Translate").bounding_box()
    assert abs(first["y"] + first["height"] - line["y"] - line["height"]) < 4
    height = shipped.bounding_box()["height"]
    for english in EXAMPLES_OF_THE_BOOK:
        shipped.get_by_role("button", name=english).click()
        says(shipped, "By a beam of 5")
        box = shipped.locator(".c-german").bounding_box()
        assert 0 <= box["y"] < box["y"] + box["height"] < 450
        assert abs(shipped.bounding_box()["height"] - height) < 30
    assert tab.evaluate("document.documentElement.scrollWidth") <= width


def test_the_record_is_what_the_model_computes():
    stored, computed = json.loads(read(FIRST)), recorded()
    for name, digits in {"probabilities": 3, "cross": 2}.items():
        found, right = (torch.tensor(each.pop(name)) for each in (stored, computed))
        torch.testing.assert_close(found, right, rtol=0, atol=10**-digits)
    for found, right in zip(stored.pop("found"), computed.pop("found"), strict=True):
        assert found["text"] == right["text"]
        assert found["score"] == pytest.approx(right["score"], abs=0.011)
    assert stored == computed


def test_capitals_are_read_as_small_letters_and_that_is_said(control, script):
    ask(control, "A RED CAT")
    assert "Read in small letters" in says(control, "To write")
    expected = from_script(script).translate(["A red cat"], beam=5)[0]
    assert german(control) == (expected or "(nothing)")
    ask(control, "A Red cat")
    says(control, "To write")
    assert "small letters" not in says(control, "To write")


def test_the_reader_is_told_what_the_model_knows_and_when_it_is_unsure(control, book):
    assert "captions of photographs" in control.inner_text()
    packed = untrained(0.1)  # every token is about as likely as any other
    (book / "_static/made/translator.js").write_text(packed, encoding="utf-8")
    control.get_by_role("button", name="Translate").click()
    assert "The model is unsure" in says(control, "To write")
