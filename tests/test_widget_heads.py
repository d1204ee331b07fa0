"""The heads of a model, looked into in a browser by keyboard and mouse."""

import re

import pytest
import torch
from operating import says

from pages.inside.heads import heads_control
from transformer_lib.model import Transformer, TransformerConfig, record_attention

H = 2
ENCODER = "encoder.layers.0.self_attention"
DECODER = "decoder.layers.0.self_attention"
CROSS = "decoder.layers.0.cross_attention"
SOURCE = [["▁the", "▁<script>", "</s>"], ["▁so", "</s>"]]
TARGET = [["<s>", "▁die", "▁&amp;", "</s>"], ["<s>", "▁also", "</s>"]]


@pytest.fixture
def maps():
    """Three kinds of attention over SOURCE and TARGET, two heads each."""
    maps = {name: torch.zeros(2, H, 3, 3) for name in (ENCODER, DECODER, CROSS)}
    maps[ENCODER][:, 0] = torch.eye(3)
    maps[ENCODER][:, 1] = 1 / 3
    maps[DECODER][:] = torch.tensor([[1, 0, 0], [0.25, 0.75, 0], [0.5, 0.1, 0.4]])
    maps[CROSS][:, 0] = torch.tensor([[0, 1, 0], [0.7, 0.2, 0.1], [0, 0.4, 0.6]])
    return maps


def weights(control):
    numbers = control.locator(".c-tokens small:last-child")
    return numbers.all_inner_texts()


def head(control, name):
    return control.get_by_role("radio", name=name)


def token(control, name):
    tokens = control.get_by_role("radiogroup", name="Token")
    return tokens.get_by_role("radio", name=re.compile(f"^{name}"))


def test_keys_go_from_token_to_token_and_from_head_to_head(show, maps):
    control = show(heads_control(maps, SOURCE, TARGET))
    assert weights(control) == ["0.70", "0.20", "0.10"]
    assert says(control) == (
        "Cross-attention, layer 0, head 0: ▁die (which writes ▁&amp;) looks at "
        "▁the 0.70, ▁<script> 0.20, </s> 0.10."
    )
    token(control, "▁die").press("ArrowRight")
    assert weights(control) == ["0.00", "0.40", "0.60"]
    assert "▁&amp; (which writes </s>) looks at </s> 0.60, ▁<script> 0.40; " in says(
        control
    )
    token(control, "▁&amp;").press("ArrowLeft")
    head(control, "Encoder, layer 0, head 1").check()
    assert weights(control) == ["0.33"] * 3
    head(control, "Encoder, layer 0, head 1").press("ArrowLeft")
    assert says(control).startswith("Encoder, layer 0, head 0: ▁<script> looks at")
    assert weights(control) == ["0.00", "1.00", "0.00"]


def test_up_and_down_go_from_layer_to_layer(show, maps):
    two = maps | {CROSS.replace("0", "1"): maps[CROSS].flip(-1)}
    control = show(heads_control(two, SOURCE, TARGET))
    picked = head(control, "Cross-attention, layer 1, head 0")
    assert picked.is_checked()
    assert weights(control) == ["0.10", "0.20", "0.70"]
    picked.press("ArrowUp")
    assert weights(control) == ["0.70", "0.20", "0.10"]
    head(control, "Cross-attention, layer 0, head 0").press("ArrowUp")  # the top
    assert "layer 0" in says(control)


def test_a_token_under_the_mouse_is_shown_until_the_mouse_leaves(show, maps):
    control = show(heads_control(maps, SOURCE, TARGET))
    tokens = control.get_by_role("radiogroup", name="Token").locator("label")
    tokens.first.hover()
    assert weights(control) == ["0.00", "1.00", "0.00"]
    control.locator(".c-title").hover()
    assert weights(control) == ["0.70", "0.20", "0.10"]
    tokens.first.click()
    control.locator(".c-title").hover()
    assert weights(control) == ["0.00", "1.00", "0.00"]


def test_turned_round_it_shows_who_looks_and_the_future_stays_hidden(show, maps):
    control = show(heads_control(maps, SOURCE, TARGET))
    control.get_by_role("radio", name="is looked at by").check()
    assert weights(control) == ["1.00", "0.20", "0.40"]
    assert (
        "▁<script> is looked at by <s> (which writes ▁die) 1.00, "
        "▁&amp; (which writes </s>) 0.40, " in says(control)
    )
    head(control, "Decoder, layer 0, head 0").check()
    assert weights(control) == ["hidden", "0.75", "0.10"]
    control.get_by_role("radio", name="looks at", exact=True).check()
    assert weights(control) == ["0.25", "0.75", "hidden"]
    assert says(control).endswith("looks at ▁die 0.75, <s> 0.25.")


def test_another_sentence_has_its_own_maps_without_padding(show, maps):
    control = show(heads_control(maps, SOURCE, TARGET))
    control.get_by_label("Sentence").select_option("so")
    assert weights(control) == ["0.70", "0.20"]
    assert control.locator(".c-heads canvas").count() == 3 * H
    assert control.locator(".c-heads canvas").first.get_attribute("width") == "2"


def test_it_takes_what_record_attention_keeps():
    sizes = {"d_model": 8, "num_heads": H, "num_layers": 3, "d_ff": 8}
    config = TransformerConfig(src_vocab_size=11, tgt_vocab_size=11, **sizes)
    model = Transformer(config).eval()
    with record_attention(model) as maps:
        model(torch.tensor([[5, 6, 2]]), torch.tensor([[1, 7, 8]]))
    words = heads_control(maps, SOURCE[:1], TARGET[:1]).words
    assert words.startswith(f"The attention weights of {3 * 3 * H} heads")
