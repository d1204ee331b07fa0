"""The tree of a beam search, grown in a browser by keyboard and mouse."""

import math

import pytest
import torch
from operating import press, says

from bookkit.controls.beam import beam_control
from transformer_lib.decoding import Hypothesis, beam_search
from transformer_lib.model import Transformer, TransformerConfig

WORDS = ["PAD", "BOS", "EOS", "der", "die", "<script>", "Katze"]
DER, DIE, SCRIPT, CAT = range(3, 7)
SOURCE = ["▁the", "<b>cat"]


def hypothesis(probability, *tokens, score=None):
    log_prob = math.log(probability)
    return Hypothesis(list(tokens), log_prob, score or log_prob, score is not None)


STEPS = [
    [hypothesis(0.5, DER), hypothesis(0.4, DIE)],
    [hypothesis(0.36, DIE, CAT), hypothesis(0.05, DIE, SCRIPT)],
    [
        hypothesis(0.21, DIE, CAT, score=-1.4),
        hypothesis(0.04, DIE, CAT, SCRIPT),
        hypothesis(0.03, DIE, CAT, DER),
    ],
    [hypothesis(0.039, DIE, CAT, SCRIPT, score=-1.2)],
]
WEIGHTS = [
    torch.tensor(rows)
    for rows in (
        [[0.9, 0.1]],
        [[0, 1.0], [0.25, 0.75]],
        [[0.3, 0.7]] * 2,
        [[0.5] * 2] * 2,
    )
]


def pieces(ids):
    return [WORDS[i] for i in ids]


def seen(control):
    """The boxes of the tree that are shown, as "word probability"."""
    boxes = control.locator(".c-pick label:visible").all_inner_texts()
    return [" ".join(text.split()) for text in boxes]


def dropped(control):
    boxes = control.locator("label.c-beam-dropped:visible").all_inner_texts()
    return [text.split()[0] for text in boxes]


def looks(control):
    return control.locator(".c-beam-looks small").all_inner_texts()


def test_the_tree_grows_by_a_token_a_step_and_what_nothing_extends_is_dropped(show):
    control = show(beam_control(STEPS, pieces))
    assert seen(control) == ["BOS 1.0", "der 0.50", "die 0.40"]
    assert dropped(control) == []
    assert "“der”: 1.0 × 0.50 = 0.50." in says(control)  # the likeliest is chosen
    press(control, "Next")
    assert seen(control)[3:] == ["Katze 0.36", "<script> 0.050"]
    assert dropped(control) == ["der"]
    assert "Dropped: “der”." in says(control)
    assert "“die Katze”: 0.40 × 0.90 = 0.36." in says(control)
    assert control.locator("table").is_hidden()
    press(control, "Next")
    assert seen(control)[5] == "EOS 0.21"
    assert dropped(control) == ["der", "<script>"]
    assert "Dropped: “die <script>”." in says(control)
    assert "Ended: “die Katze” with score −1.40." in says(control)
    press(control, "Next")
    rows = control.locator("tr").all_inner_texts()[1:]
    assert [row.split("\t") for row in rows] == [
        ["−1.20", "0.039", "die Katze <script>"],
        ["−1.40", "0.21", "die Katze"],
    ]
    assert says(control).startswith("Step 4 of 4: the search ends, 0 are unfinished.")
    assert "“die Katze <script>”: 0.040 × 0.97 = 0.039." in says(control)  # the best
    press(control, "Back", times=5)  # before the fourth there is nothing
    assert seen(control) == ["BOS 1.0"]
    assert says(control).startswith("Step 0 of 4: 1 go on.")


def test_the_arrow_keys_step_and_choose(show):
    control = show(beam_control(STEPS, pieces))
    control.get_by_role("radio", name="der").focus()
    tab = control.page.keyboard
    tab.press("ArrowDown")
    assert "“die”: " in says(control)
    tab.press("ArrowRight")
    assert "Step 2" in says(control)
    assert "“die Katze”: " in says(control)
    tab.press("ArrowDown")
    assert "“die <script>”: " in says(control)
    tab.press("ArrowLeft")
    assert "Step 1" in says(control)
    assert control.get_by_role("radio", name="der").evaluate(
        "radio => radio === document.activeElement"
    )
    tab.press("ArrowUp")
    assert "Step 1" in says(control)
    assert control.get_by_role("radio", name="BOS").is_checked()


def test_the_source_beside_it_shows_what_wrote_the_newest_token(show):
    control = show(beam_control(STEPS, pieces, SOURCE, WEIGHTS))
    assert looks(control) == ["0.90", "0.10"]
    press(control, "Next")  # die Katze comes from die, the second row
    assert looks(control) == ["0.25", "0.75"]
    assert "To write Katze, it looks most at <b>cat, 0.75." in says(control)
    control.get_by_role("radio", name="der").check()
    assert looks(control) == ["0.90", "0.10"]
    assert "To write der, it looks most at ▁the, 0.90." in says(control)


def test_it_plays_to_the_end_and_can_be_halted(show, tab):
    tab.clock.install(time=0)
    tab.clock.pause_at(1000)  # from now on it goes only when told
    control = show(beam_control(STEPS, pieces))
    press(control, "Play")
    assert says(control).startswith("Step 2")
    tab.clock.run_for(1300)
    assert says(control).startswith("Step 3")
    press(control, "Pause")
    tab.clock.run_for(5000)
    assert says(control).startswith("Step 3")
    press(control, "Play")
    tab.clock.run_for(5000)
    assert says(control).startswith("Step 4")
    press(control, "Play")  # from the beginning
    assert says(control).startswith("Step 0")
    press(control, "Next")  # the reader has taken over
    tab.clock.run_for(5000)
    assert says(control).startswith("Step 1")


def table_steps():
    """As many steps as in chapter 12: four go on and one ends, up to the seventh."""
    steps, kept = [], [[]]
    for length in range(1, 7):
        kept = [[*kept[i % len(kept)], DER + i] for i in range(4)]
        ends = hypothesis(0.01, *kept[0][:-1], score=-1.0)
        steps.append([hypothesis(0.09**length, *each) for each in kept] + [ends])
    return [*steps, [hypothesis(1e-7, *each, score=-2.0) for each in kept]]


def outside(control):
    """The boxes that stick out of their place, and those with too long a word."""
    return control.evaluate(
        """control => {
          const place = control.querySelector(".c-scroll").getBoundingClientRect();
          return [...control.querySelectorAll(".c-pick label")].filter((label) => {
            const box = label.getBoundingClientRect(), token = label.lastChild;
            return box.left < place.left || box.right > place.right
              || token.scrollWidth > token.clientWidth;
          }).map((label) => label.textContent);
        }"""
    )


@pytest.mark.parametrize(("width", "down"), [(700, False), (400, True)])
def test_the_tree_of_the_chapter_fits_its_box(show, tab, width, down):
    tab.set_viewport_size({"width": width, "height": 900})
    names = ["", "", "", "der", "schläft", "Garten", "Katze"]
    made = beam_control(table_steps(), lambda ids: [names[i] for i in ids])
    control = show(made)
    press(control, "Next", times=6)
    assert outside(control) == []
    scroll = control.locator(".c-scroll").first
    assert scroll.evaluate("part => part.scrollWidth - part.clientWidth") <= 0
    first, second = control.locator(".c-pick label").all()[:2]
    after, before = second.bounding_box(), first.bounding_box()
    assert (after["y"] > before["y"] + before["height"]) == down


def test_it_takes_what_a_beam_search_gives():
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "d_ff": 8}
    model = Transformer(TransformerConfig(src_vocab_size=7, tgt_vocab_size=7, **sizes))
    steps, src = [], torch.tensor([[5, 2]])
    beam_search(model, src, max_len=4, on_step=lambda step: steps.append(step[0]))
    nodes = beam_control(steps, pieces).data["nodes"]
    assert len(nodes) == sum(map(len, steps)) + 1
    assert nodes[-1]["step"] == len(steps)


def test_what_the_model_rules_out_is_counted_and_not_shown(show):
    steps = [
        [hypothesis(0.6, DER), hypothesis(1e-13, SCRIPT), hypothesis(1e-13, CAT)],
        [
            hypothesis(0.3, DER, score=-0.5),
            hypothesis(1e-13, SCRIPT, score=-8),
            hypothesis(0.3, DER, CAT),
            hypothesis(1e-13, SCRIPT, DER),
        ],
        [hypothesis(0.2, DER, CAT, DIE)],
    ]
    made = beam_control(steps, pieces)
    assert "<script>" not in made.words
    control = show(made)
    assert seen(control) == ["BOS 1.0", "der 0.60"]
    assert "1 go on. Not shown: 2 that the model rules out" in says(control)
    press(control, "Next")
    assert seen(control)[2:] == ["EOS 0.30", "Katze 0.30"]
    assert "Not shown: 2 that" in says(control)
    press(control, "Next")
    assert "Not shown" not in says(control)


def test_a_step_with_nothing_but_what_is_ruled_out_shows_what_has_ended(show):
    steps = [
        [hypothesis(1.0, score=-0.1), hypothesis(1e-13, SCRIPT)],
        [hypothesis(1e-13, SCRIPT, CAT)],
    ]
    control = show(beam_control(steps, pieces))
    press(control, "Next")
    assert seen(control) == ["BOS 1.0", "EOS 1.0"]
    assert "Step 2 of 2: the search ends, 0 are unfinished." in says(control)


def test_where_no_script_runs_what_ended_is_listed_by_score():
    control = beam_control(STEPS, lambda ids: [f"▁{WORDS[i]}" for i in ids])
    assert "-1.20  die Katze <script>\n-1.40  die Katze" in control.words
    assert "(empty)" in beam_control([[hypothesis(0.1, score=-2)]], pieces).words
