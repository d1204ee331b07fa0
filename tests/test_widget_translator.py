"""The translator as a control, in a browser, from files and without a network."""

import json

import pytest
import torch
from book_files import ROOT
from operating import press, says
from playwright.sync_api import expect

from bookkit.controls.control import read
from bookkit.controls.translator import EXAMPLES as EXAMPLES_OF_THE_BOOK
from bookkit.controls.translator import FIRST, translated, translator_control
from pages.translator.record_translation import recorded
from transformer_lib.data import Tokenizer
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.translation import Translator

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


def write_book(folder, script, html):
    """Make a folder like that of the built book; return its page."""
    made = folder / "_static/made/translator.js"
    made.parent.mkdir(parents=True)
    made.write_text(script, encoding="utf-8")
    (folder / "book").mkdir()
    page = folder / "book/page.html"
    head = "<!doctype html><html lang='en'><meta charset='utf-8'>"
    page.write_text(f"{head}{html}</html>", encoding="utf-8")
    return page


@pytest.fixture
def control(tab, tmp_path, script):
    """The second of two on a page, with a model that has learned nothing."""
    html = translator_control(EXAMPLES)._repr_html_()
    tab.context.set_offline(True)
    tab.asked = []
    tab.on(
        "request",  # what a page makes for itself is fetched from nowhere
        lambda sent: sent.url.startswith("blob:") or tab.asked.append(sent.url),
    )
    tab.goto(write_book(tmp_path, script, html + html).as_uri())
    yield tab.locator(".control").last
    assert tab.faults == []


@pytest.fixture(scope="module")
def weights():
    return to_script(Translator.load(ROOT / "models/multi30k-en-de"))


@pytest.fixture
def shipped(tab, tmp_path, weights):
    """The control as the book shows it, with the weights that it loads."""
    html = translator_control()._repr_html_()
    tab.goto(write_book(tmp_path, weights, html).as_uri())
    yield tab.locator(".control")
    assert tab.faults == []


def german(control):
    return control.locator(".c-german").inner_text()


def ask(control, text):
    control.get_by_label("English").fill(text)
    press(control, "Translate")


def translate(control):
    press(control, "Translate")
    return says(control, "To write")


def numbers(locator):
    return [float(text.removesuffix(" %")) for text in locator.all_inner_texts()]


def test_nothing_is_loaded_before_the_reader_asks(tab, control, weights):
    assert len(tab.asked) == 1
    said = f"weights, {len(weights.encode()) / 1e6:.1f} MB"
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
    press(control, "a dog")
    says(control, "To write")
    assert german(control) == theirs.translate(["a dog"])[0]
    assert line.input_value() == "a dog"


def test_probabilities_weights_and_runners_up_are_those_of_pytorch(control, script):
    right = translated(from_script(script), EXAMPLES[0])
    translate(control)
    shares = numbers(control.get_by_role("radiogroup").locator("small"))
    expected = [100 * share for share in right["probabilities"]]
    assert shares == pytest.approx(expected, abs=0.51)
    found = [f"{each['text']} {each['score']:.2f}" for each in right["found"]]
    best, *others = [text.replace(" -", " −") for text in found]
    assert f"translation is {best.split()[-1]}." in control.inner_text()
    shown = control.get_by_role("listitem").all_inner_texts()
    assert 1 <= len(shown) <= 2
    assert set(shown) <= set(others)
    cross = torch.tensor(right["cross"])  # (layers, H, T, S)
    control.locator(".c-pick label").first.click()

    def seen():
        return pytest.approx(numbers(control.locator(".c-tokens small")), abs=0.0061)

    assert cross.mean(dim=(0, 1))[0].tolist() == seen()
    control.get_by_label("Layer").select_option("layer 1")
    assert cross[1].mean(dim=0)[0].tolist() == seen()
    control.get_by_label("Head").select_option("head 0")
    assert cross[1, 0, 0].tolist() == seen()
    control.get_by_text("All tokens as a table").click()
    row = control.get_by_role("row").nth(3).locator("td")
    assert cross[1, 0, 2].tolist() == pytest.approx(numbers(row), abs=0.0061)


def test_keys_and_the_pointer_choose_the_token_that_is_explained(control):
    translate(control)
    tokens = control.get_by_role("radiogroup", name="German token")
    tokens.locator("label").first.click()
    first = says(control, "Token 1,")
    control.get_by_label("English").hover()
    tokens.get_by_role("radio").first.press("ArrowRight")
    second = says(control, "Token 2,")
    tokens.locator("label").first.hover()
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


def test_strange_text_is_translated_and_what_was_odd_about_it_is_said(control, script):
    control.get_by_label("Search").select_option("greedy search")
    for text, small, warning in (
        ("<img src=x onerror=alert(1)>&lt;", None, "Most of this is cut into single"),
        ("\u0000${1}\U0001f469\u200d\u202e", None, "expect nonsense"),
        ("A RED CAT", "A red cat", "Read in small letters"),
        ("A Red cat", None, ""),
    ):
        ask(control, text)
        told = says(control, "To write")
        assert warning in told
        assert ("small letters" in told) == (small is not None)
        typed = small or control.get_by_label("English").input_value()
        [expected] = from_script(script).translate([typed])
        assert german(control) == (expected or "(nothing)")
    assert control.locator("img").count() == 0


def test_the_reader_is_told_when_the_model_is_unsure(control, tmp_path):
    packed = untrained(0.1)  # every token is about as likely as any other
    (tmp_path / "_static/made/translator.js").write_text(packed, encoding="utf-8")
    assert "The model is unsure" in translate(control)


def test_where_the_weights_are_missing_the_control_says_how_to_make_them(
    tab, control, tmp_path
):
    (tmp_path / "_static/made/translator.js").unlink()
    press(control, "Translate")
    told = says(control, "weights are not here")
    assert "“make book” makes the file" in told
    assert all("ERR_FILE_NOT_FOUND" in fault for fault in tab.faults)
    tab.faults.clear()


def test_in_jupyter_the_weights_come_from_its_file_server(tab, control, tmp_path):
    (tmp_path / "files/_build/html").mkdir(parents=True)
    (tmp_path / "_static").rename(tmp_path / "files/_build/html/_static")
    settings = f'{{"baseUrl": "{tmp_path.as_posix()}/"}}'
    tab.evaluate(
        "html => document.body.insertAdjacentHTML('beforeend', html)",
        f"<script id=jupyter-config-data type=application/json>{settings}</script>",
    )
    translate(control)


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
def test_words_are_shown_while_it_computes_and_another_request_or_stop_ends_it(
    control, tab, script
):
    tab.evaluate(
        """() => {
          window.seen = new Set();
          setInterval(() => { // never, on a page that computes itself
            seen.add(document.querySelector(".c-german")?.textContent);
          }, 5);
        }"""
    )
    assert control.get_by_text("Stop", exact=True).is_hidden()
    ask(control, "a red cat and a dog " * 4)
    tab.wait_for_function("seen.size > 4")  # beginnings, each longer than the last
    control.get_by_label("Search").select_option("greedy search")
    ask(control, "a dog")
    assert "By greedy search" in says(control, "To write")
    assert german(control) == from_script(script).translate(["a dog"])[0]
    ask(control, "a red cat and a dog " * 4)
    press(control, "Stop")
    assert says(control, "Stopped") == "Stopped."


LINES = """rows => {
  const left = rows.getBoundingClientRect().x;
  return [...rows.querySelectorAll("path")].map((path) =>
    [0, path.getTotalLength()].map((at) => left + path.getPointAtLength(at).x)
      .concat(Number(path.getAttribute("stroke-width"))));
}"""


@pytest.fixture
def record():
    return json.loads(read(FIRST))


def middles(locator):
    boxes = [part.bounding_box() for part in locator.all()]
    return [box["x"] + box["width"] / 2 for box in boxes]


def test_lines_lead_from_the_picked_token_to_what_it_looked_at(shipped, tab, record):
    weights = torch.tensor(record["cross"]).mean(dim=(0, 1)).tolist()  # (T, S)
    tokens = shipped.get_by_role("radiogroup", name="German token").locator("label")
    for t in (0, tokens.count() - 1):
        tokens.nth(t).click()
        start, ends = middles(tokens)[t], middles(shipped.locator(".c-tokens .c-token"))
        drawn = shipped.locator(".c-looks").evaluate(LINES)
        looked = [s for s, weight in enumerate(weights[t]) if weight >= 0.05]
        assert len(drawn) == len(looked) > 0
        for line, s in zip(drawn, looked, strict=True):
            assert line[:2] == pytest.approx([start, ends[s]], abs=1)
            assert line[2] == pytest.approx(1 + 5 * weights[t][s])
    tab.set_viewport_size({"width": 400, "height": 900})  # tokens in several rows
    expect(shipped.locator(".c-looks path")).to_have_count(0)
    tab.set_viewport_size({"width": 1400, "height": 900})
    shipped.locator(".c-looks path").first.wait_for()


def test_it_begins_with_a_recorded_translation_which_the_page_then_computes(
    shipped, record
):
    weights = torch.tensor(record["cross"]).mean(dim=(0, 1))  # (T, S)
    words = [t for t, piece in enumerate(record["target"]) if piece.startswith("▁")]
    clearest = max(words, key=lambda t: weights[t].max())
    told = says(shipped, "To write")
    assert f"Token {clearest + 1}, {record['target'][clearest]}," in told
    assert "recorded. Nothing is loaded yet" in told
    seen = shipped.locator(".c-german, li, .c-token")
    before = seen.all_inner_texts()
    assert before[0] == "Ein brauner Hund rennt über den Strand."
    press(shipped, "Translate")
    says(shipped, "By a beam of 5")
    assert seen.all_inner_texts() == before


def test_on_a_phone_an_example_shows_its_translation_and_hardly_anything_moves(
    shipped, tab
):
    tab.set_viewport_size({"width": 400, "height": 700})
    shipped.scroll_into_view_if_needed()
    height = shipped.bounding_box()["height"]
    for english in EXAMPLES_OF_THE_BOOK:
        press(shipped, english)
        says(shipped, "By a beam of 5")
        box = shipped.locator(".c-german").bounding_box()
        assert 0 <= box["y"] < box["y"] + box["height"] < 450
        assert abs(shipped.bounding_box()["height"] - height) < 30
    assert tab.evaluate("document.documentElement.scrollWidth") <= 400


def test_the_record_is_what_the_model_computes(record):
    stored, computed = record, recorded()
    for name, digits in {"probabilities": 3, "cross": 2}.items():
        found, right = (torch.tensor(each.pop(name)) for each in (stored, computed))
        torch.testing.assert_close(found, right, rtol=0, atol=10**-digits)
    for found, right in zip(stored.pop("found"), computed.pop("found"), strict=True):
        assert found["text"] == right["text"]
        assert found["score"] == pytest.approx(right["score"], abs=0.011)
    assert stored == computed
