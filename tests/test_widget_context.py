"""One word exchanged in a trained encoder, in a browser; the numbers are PyTorch's."""

import pytest
import torch
from book_files import ROOT
from operating import answers, press, status

from pages.encoder.context import context_control
from transformer_lib.model import padding_mask
from transformer_lib.translation import Translator

SENTENCE = "the cat reads a red book"
WORDS = SENTENCE.split()
EXCHANGES = {
    "the": ["a"],
    "cat": ["dog", "girl"],
    "reads": ["sees", "buys"],
    "a": ["the"],
    "red": ["small", "big"],
    "book": ["letter", "newspaper"],
}
STEPS = 5
FRAME = 600  # milliseconds


@pytest.fixture(scope="module")
def translator():
    return Translator.load(ROOT / "models" / "grammar-en-de")


@pytest.fixture(scope="module")
def made(translator):
    return context_control(translator, SENTENCE, EXCHANGES)


@pytest.fixture
def control(show, made, tab):
    tab.emulate_media(reduced_motion="reduce")  # all steps at once
    yield show(made)
    tab.emulate_media(reduced_motion="no-preference")


def table(control):
    """What the cells show, the lowest row first."""
    rows = control.locator(".c-context tr:has(td + td)")
    found = [row.locator("td").all_inner_texts() for row in rows.all()]
    return found[::-1]


def word(control, i):
    return control.locator(".c-context button").nth(i)


def now(control):
    return control.locator(".c-german").last.inner_text().strip()


def solve(control, guess):
    control.get_by_label(guess, exact=True).check()
    control.get_by_role("button", name="Show").click()


# -- The numbers -----------------------------------------------------------------------


def stream(translator, sentence):
    """The vectors after the lookup and each sublayer, without hooks."""
    model = translator.model
    ids = torch.tensor([[*translator.tokenizer.encode(sentence), 2]])
    mask = padding_mask(ids, 0)
    x = model.src_positions(model.src_embedding(ids))
    steps = [x]
    for layer in model.encoder.layers:
        normed = layer.self_attention_residual.norm(x)
        x = x + layer.self_attention(normed, normed, normed, mask)
        steps.append(x)
        x = x + layer.feed_forward(layer.feed_forward_residual.norm(x))
        steps.append(x)
    return torch.stack(steps)[:, 0]


@torch.no_grad()
def test_the_distances_and_the_german_are_those_of_pytorch(control, translator):
    solve(control, "gathering")  # from now on each exchange shows all steps
    before = stream(translator, SENTENCE)
    for at, new in ((1, "dog"), (5, "newspaper"), (3, "the")):
        while word(control, at).inner_text() != new:
            word(control, at).click()
        changed = " ".join([*WORDS[:at], new, *WORDS[at + 1 :]])
        moved = (stream(translator, changed) - before).norm(dim=-1)
        found = torch.tensor([[float(text) for text in row] for row in table(control)])
        expected = (moved / before.norm(dim=-1))[:, : len(WORDS)] * 100
        torch.testing.assert_close(found, expected.to(found.dtype), rtol=0, atol=0.51)
        assert found.shape == (STEPS, len(WORDS))
        assert now(control) == translator.translate([changed])[0]


# -- The questions ---------------------------------------------------------------------


def test_nothing_but_the_lookup_is_shown_and_moved_before_the_guess(control):
    assert table(control) == [["0"] * 5 + ["109"], *[["?"] * 6] * 4]
    assert answers(control) == "Choose your guess, then press Show."
    show = control.get_by_role("button", name="Show")
    assert show.get_attribute("aria-disabled") == "true"
    show.click(force=True)
    assert now(control) == "?"
    for answered in ("gathering", "the"):
        before = control.locator(".c-context").inner_text()
        word(control, 1).click(force=True)
        assert word(control, 1).get_attribute("aria-disabled") == "true"
        assert control.locator(".c-context").inner_text() == before
        assert answers(control).endswith("After that you can exchange any word.")
        assert status(control) == answers(control)
        assert "press" not in control.locator(".c-hint").last.inner_text()
        solve(control, answered)
        word(control, 3).click()
        assert word(control, 3).inner_text() == "the"
        assert control.locator(".c-hint").last.inner_text().endswith("press any word.")
        if answered == "gathering":
            press(control, "Next question")


@pytest.mark.parametrize(
    ("guesses", "begin"),
    [
        (("gathering", "the"), ("✓ A word", "✓ ")),
        (("thinking", "red"), ("You guessed “thinking”. A word", "You guessed ")),
    ],
)
def test_only_the_right_guesses_are_ticked(control, guesses, begin):
    solve(control, guesses[0])
    assert answers(control).startswith(begin[0])
    told = answers(control).replace("\xa0", " ")
    assert "“letter” moves “a” by 10 % and “red” by 16 %." in told
    assert control.locator(".c-guess :disabled").count() == 3
    assert now(control) == "die Katze liest einen roten Brief"
    assert control.locator("mark").all_inner_texts() == ["einen", "roten", "Brief"]
    press(control, "Next question")
    assert word(control, 1).inner_text() == "dog"
    assert now(control) == "?"
    solve(control, guesses[1])
    assert answers(control).startswith(begin[1])
    told = answers(control).replace("\xa0", " ")
    assert "“dog” moves “the” by 23 %, “reads” by 5 %, “red” by 4 %." in told
    assert now(control) == "der Hund liest ein rotes Buch"
    assert not control.get_by_role("button", name="Next question").is_visible()


def test_the_steps_appear_one_after_another_from_the_bottom(show, made, tab):
    control = show(made)
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)
    solve(control, "gathering")
    for known in range(2, STEPS + 1):
        shown = [row[0] != "?" for row in table(control)]
        assert shown == [True] * known + [False] * (STEPS - known)
        assert ("✓" in answers(control)) == (known == STEPS)
        tab.clock.run_for(FRAME + 10)
    assert status(control).endswith(answers(control))


# -- Mouse, touch and keys -------------------------------------------------------------


def test_a_word_goes_through_its_exchanges_and_back(control):
    solve(control, "gathering")
    seen = []
    for _ in range(3):
        word(control, 5).click()
        pressed = word(control, 5).get_attribute("aria-pressed")
        seen.append((word(control, 5).inner_text(), pressed))
    assert seen == [("newspaper", "true"), ("book", "false"), ("letter", "true")]
    word(control, 5).click()
    word(control, 5).click()
    assert table(control) == [["0"] * 6] * STEPS
    assert now(control) == "die Katze liest ein rotes Buch"
    word(control, 0).click()
    assert word(control, 5).inner_text() == "book"


def test_keys_choose_show_and_exchange(control, tab):
    control.get_by_label("lookup", exact=True).focus()
    tab.keyboard.press("ArrowRight")
    tab.keyboard.press("Tab")
    tab.keyboard.press("Enter")
    assert answers(control).startswith("✓")
    assert tab.locator(":focus").inner_text() == "Next question"
    word(control, 1).focus()
    tab.keyboard.press(" ")
    assert word(control, 1).inner_text() == "dog"
    assert status(control).startswith(
        "“dog” instead of “cat”. lookup: the 0 %, dog 115 %,"
    )
    assert "German: der Hund liest ein rotes Buch." in status(control)
    control.get_by_role("button", name="Next question").press("Enter")
    assert tab.evaluate("document.activeElement.className") == "c-asks"
    control.get_by_label("the", exact=True).check()
    control.get_by_role("button", name="Show").press("Enter")
    assert tab.locator(":focus").inner_text() == answers(control)


def test_where_no_script_runs_the_question_is_asked(made):
    assert made.words.startswith(
        f"“{SENTENCE}” becomes “die Katze liest ein rotes Buch”"
    )
    assert made.words.endswith("does the vector of “a” first change?")


@pytest.mark.book
@pytest.mark.parametrize("width", [1400, 400])
def test_on_the_page_it_stands_in_the_first_half_and_fits(tab, server, width):
    tab.set_viewport_size({"width": width, "height": 850})
    tab.goto(f"{server}/book/07_encoder.html")
    control = tab.locator("[data-control=context]")
    place = "control => control.getBoundingClientRect().top + scrollY"
    height = tab.evaluate("document.documentElement.scrollHeight")
    assert control.evaluate(place) < height / 4
    assert tab.evaluate("document.documentElement.scrollWidth") <= width
    assert control.bounding_box()["height"] <= 850
    widths = control.locator(".c-context button").evaluate_all(
        "all => all.map(word => word.offsetWidth)"
    )
    assert min(widths) >= max(max(widths) - 1, 40)
