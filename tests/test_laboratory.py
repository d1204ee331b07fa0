"""What the laboratory's panels run."""

import sys
import threading
import time
from contextlib import suppress

import pytest
import torch
from book_files import ROOT

from bookkit.shipped import read_table
from pages.laboratory import training, what_if
from pages.laboratory.attention import attend, attention_panel
from pages.laboratory.decoding import decoding_panel
from pages.laboratory.tables import masks, masks_panel, positions, positions_panel
from pages.laboratory.training import Choices, Run, TrainingLaboratory
from pages.laboratory.what_if import altered, parts, what_if_panel
from transformer_lib.data import make_batch
from transformer_lib.patching import patched
from transformer_lib.training import warmup_rate
from transformer_lib.translation import Translator

sys.path.append(str(ROOT / "measurements"))

import laboratory

pytestmark = pytest.mark.usefixtures("one_thread")
SENTENCE, GERMAN = "the cat reads a red book", "die Katze liest ein rotes Buch"


@pytest.fixture(scope="module")
def grammar():
    return Translator.load(ROOT / "models" / "grammar-en-de")


def move(panel, **values):
    """Do what the page does: send all values, of a choice its number."""
    panel._live.values = panel._live.values | values


NO_TOKENS = "the sentence must have 1 to 60 tokens, got 0"
MISTAKES = [
    ("attention", {"heads": 2}, "d_model must be divisible by num_heads, got 16 and 3"),
    ("attention", {"head": 2}, "head must be below the number of heads, got 2, 2"),
    ("attention", {"sentence": " "}, "words must be 1 to 10, got 0"),
    ("positions", {"width": 2}, "d_model must be even to interleave, got 15"),
    ("positions", {"length": 0}, "position must be below 8, got 16"),
    ("masks", {"sentence": "a " * 13}, "tokens must be 1 to 12, got 13"),
    ("decoding", {"sentence": ""}, NO_TOKENS),
    ("what if", {"sentence": ""}, NO_TOKENS),
]


def test_a_panel_says_what_it_cannot_do(grammar):
    panels = {
        "attention": attention_panel(),
        "positions": positions_panel(),
        "masks": masks_panel(),
        "decoding": decoding_panel({"grammar": grammar}),
        "what if": what_if_panel(grammar),
    }
    starts = {name: panel._live.values for name, panel in panels.items()}
    for name, values, sentence in MISTAKES:
        assert panels[name].words
        panels[name]._live.values = starts[name] | values
        assert panels[name].wrong == sentence


# -- Attention ------------------------------------------------------------------------


def weights_of(sentence, mask="none", temperature=1):
    *_, listing, words = attend(sentence, 16, 2, 1, temperature, mask, seed=0)
    return listing.result[1][0], words  # (H, T, T)


def test_a_word_asks_the_same_wherever_it_stands():
    weights, _ = weights_of("a b a")
    torch.testing.assert_close(weights[:, 0], weights[:, 2])
    assert not torch.allclose(weights[:, 0], weights[:, 1])


def test_the_mask_hides_what_it_says():
    for mask, row in {
        "none": [1, 1, 1],
        "causal": [1, 1, 0],
        "hide the last word": [1, 1, 0],
        "hide everything": [0, 0, 0],
    }.items():
        weights, words = weights_of("a b c", mask=mask)
        assert (weights[0, 1] > 0).int().tolist() == row
        assert (weights[0, 2, 2] > 0) == (mask in ("none", "causal"))
        assert ("may look at nothing" in words) == (mask == "hide everything")


def test_heat_makes_the_weights_equal_and_cold_makes_one_of_them_all():
    hot, _ = weights_of("a b c d", temperature=1e6)
    cold, words = weights_of("a b c d", temperature=1e-6)
    torch.testing.assert_close(hot, torch.full_like(hot, 0.25), rtol=0, atol=1e-4)
    assert cold.amax(dim=-1).min() > 0.999
    assert "with 1.00 of its weight" in words


# -- Training -------------------------------------------------------------------------


def test_the_rate_is_the_papers_after_a_long_warm_up_and_else_begins_earlier():
    for warm_up in (100, 200):
        factor = 1 / warmup_rate(warm_up, 64, warm_up)
        long = Choices(warm_up=warm_up, peak=1)
        for step in (1, 50, 100, 150, 300):
            expected = warmup_rate(step, 64, warm_up, factor)
            assert long.rate(step) == pytest.approx(expected)
    without, brief, usual = (Choices(warm_up=n) for n in (0, 10, 100))
    assert without.rate(1) == without.peak
    assert brief.rate(5) == pytest.approx(brief.peak / 2)
    for step in (100, 101, 250):
        assert without.rate(step) == brief.rate(step) == usual.rate(step)


def test_the_record_shows_what_warm_up_does():
    curves = training.curves_of(read_table("laboratory"))
    assert [curve.choices for curve in curves] == laboratory.RUNS
    without, with_it = curves
    assert without.steps == with_it.steps == list(range(20, 301, 20))
    assert without.losses[-1] > 4 > 2 > with_it.losses[-1]
    assert with_it.translation.startswith("die Katze liest")


def test_a_recorded_row_is_what_the_run_measured(monkeypatch):
    monkeypatch.setattr(training, "EVERY", 10)
    choices = Choices(d_model=32, num_layers=1)
    first, second = laboratory.rows_of(choices, updates=20)
    assert (first["step"], second["step"]) == (10, 20)
    assert float(second["validation_loss"]) < float(first["validation_loss"])
    run = Run(choices)
    for _ in range(10):
        run.advance()
    assert f"{run.curve.losses[0]:.4f}" == first["validation_loss"]


@pytest.fixture
def small_laboratory(monkeypatch):
    """A training laboratory whose runs are quick: (the panel, press a button)."""
    monkeypatch.setattr(training, "EVERY", 2)
    monkeypatch.setattr(training, "UPDATES", 6)
    panel = TrainingLaboratory()
    move(panel, num_layers=0, d_model=0)

    def press(name):
        panel._live._handle_custom_msg({"press": name}, [])

    yield panel, press
    press("halt")


def wait(panel):
    panel._thread.join()
    assert not panel.is_running


def test_a_run_begins_when_told_to_goes_on_and_stays_for_another(small_laboratory):
    panel, press = small_laboratory
    assert panel.words.startswith("The next new run: post-norm, warm-up 0")
    press("halt")
    assert panel.words == "Nothing runs."
    press("go_on")
    assert panel.words == "There is no run to go on with: start one."
    assert panel.curves == []
    press("begin")
    wait(panel)
    assert panel.words.startswith("Run 1 has made 6 updates: its loss is")
    assert "<svg" in panel.html
    press("go_on")
    wait(panel)
    assert panel.curves[0].steps == [2, 4, 6, 8, 10, 12]
    move(panel, warm_up=4)
    press("begin")
    wait(panel)
    assert [curve.steps[-1] for curve in panel.curves] == [12, 6]
    assert [curve.choices.warm_up for curve in panel.curves] == [0, 100]
    press("forget")
    assert (panel.curves, panel.html) == ([], "")


def test_a_run_stops_when_told_to_and_the_caller_is_free_meanwhile(
    small_laboratory, monkeypatch
):
    panel, press = small_laboratory
    monkeypatch.setattr(training, "UPDATES", 10**6)
    press("begin")
    assert panel.is_running
    while not (panel.active and panel.active.step):
        time.sleep(0.01)
    press("go_on")
    assert panel.words == "It runs already."
    press("halt")
    assert not panel.is_running
    assert panel.words == f"Stopped after {panel.active.step} updates."


def test_what_goes_wrong_in_the_thread_is_said_even_if_it_does_at_once(
    small_laboratory, monkeypatch
):
    panel, press = small_laboratory

    class Hasty(threading.Thread):
        def start(self):
            super().start()
            self.join()  # as on a computer that lets it run first

    monkeypatch.setattr(threading, "Thread", Hasty)
    monkeypatch.setattr(Run, "advance", lambda run: 1 / 0)
    press("begin")
    assert panel.wrong == "ZeroDivisionError: division by zero"


# -- What if --------------------------------------------------------------------------


def logits_of(translator):
    encode = translator.tokenizer.encode
    batch = make_batch([(encode(SENTENCE), encode(GERMAN))])
    with torch.no_grad():
        return translator.model.eval()(batch.src, batch.tgt)


def test_a_factor_changes_each_part_and_then_the_model_is_itself_again(grammar):
    model, before = grammar.model, logits_of(grammar)
    names = list(parts(model))
    assert len(names) == 2 + 4 + 6 + 2  # positions, layers, attentions, residuals
    assert {"src_positions", "decoder.layers.1", "encoder's residuals"} <= set(names)
    for part in names:
        with suppress(KeyError), altered(model, part, 0):
            assert not torch.allclose(logits_of(grammar), before, atol=1e-3), part
            raise KeyError
        with altered(model, part, 1):
            torch.testing.assert_close(logits_of(grammar), before, rtol=0, atol=1e-4)
        assert torch.equal(logits_of(grammar), before), part
    assert not any(module._forward_hooks for module in model.modules())


def test_a_head_is_altered_alone_and_all_heads_are_the_attention(grammar):
    part, seen = "decoder.layers.1.cross_attention", []
    for head in (0, 1, None):
        with altered(grammar.model, part, 0, head):
            seen.append(logits_of(grammar))
    assert not torch.allclose(seen[0], seen[1])
    w_o = grammar.model.get_submodule(part).w_o
    with patched([(w_o, "forward", lambda x: torch.zeros_like(x) + w_o.bias)]):
        torch.testing.assert_close(logits_of(grammar), seen[2])


def test_without_the_causal_mask_a_token_depends_on_those_after_it(grammar):
    encode = grammar.tokenizer.encode
    pairs = [(encode(SENTENCE), encode(text)) for text in (GERMAN, "die Katze schläft")]
    batch = make_batch(pairs)
    with torch.no_grad():
        with suppress(KeyError), what_if.without_causal_mask(grammar.model):
            one, other = grammar.model(batch.src, batch.tgt)[:, 0]
            raise KeyError
        assert not torch.allclose(one, other)
        one, other = grammar.model(batch.src, batch.tgt)[:, 0]
        torch.testing.assert_close(one, other)


def test_the_panel_says_which_words_have_changed(grammar):
    panel = what_if_panel(grammar)
    assert GERMAN in panel.html
    assert panel.words != "Not a word has changed."
    move(panel, factor=what_if.FACTORS.index(1))
    assert panel.words == "Not a word has changed."
    assert what_if.surprise(grammar, SENTENCE, GERMAN) < 0.2
    for after, said in {
        "die rote Katze schläft": "“rote” was added.",
        "der Katze": "“die” became “der”; “schläft” is gone.",
    }.items():
        assert what_if.changes("die Katze schläft", after) == said


# -- Decoding, positions, masks -------------------------------------------------------


def test_a_cold_draw_is_the_beams_choice_and_the_tree_is_there(grammar):
    panel = decoding_panel({"grammar": grammar})
    move(panel, sentence=SENTENCE, temperature=0, beam=0)
    assert panel.words == (
        f"The beam finds “{GERMAN}”. Different sentences among 5 draws: 1; "
        "like the beam's: 5."
    )
    assert 'data-control="beam"' in panel.html
    move(panel, temperature=6, seed=1)
    assert "draws: 5;" in panel.words


def test_a_mask_counts_what_may_attend():
    assert masks("a b PAD", causal=True, padding=True)[-1].startswith("5 of 9 pairs")
    words = masks("PAD a", causal=True, padding=True)[-1]
    assert words == "1 of 4 pairs may attend. 1 of 2 rows may attend to nothing."


def test_a_position_is_most_like_its_neighbours():
    assert "Most like position 8 is" in positions(16, 32, "interleaved", 8)[-1]
