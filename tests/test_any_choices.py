"""Any choices of other families together: one model, on all of its ways."""

from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from kinds import KINDS, may_be_causal, variants
from strategies import configs, examples, logits_of, models_and_sentences, source_of
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import record_attention
from transformer_lib.training import load_model, save_model
from transformer_lib.variants import (
    FAMILIES,
    AlibiAttention,
    FullAttention,
    use_attention,
)
from transformer_lib.variants.modern.transformer import NORMS, POSITIONS, ModernConfig

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]
same = {"rtol": 0, "atol": 1e-9}  # in float64, beside values of order 1


@st.composite
def families(draw, has_source=None):
    """Any configuration, with every choice besides those of the paper."""
    config = draw(configs(has_source))
    heads, width = config.num_heads, config.d_model
    positions = draw(st.sampled_from(POSITIONS))
    if positions in ("rotary", "interleaved") and width // heads % 2:
        width *= 2
    groups = [None, *(n for n in range(1, heads + 1) if heads % n == 0)]
    choices = {
        "d_model": width,
        "positions": positions,
        "num_key_heads": draw(st.sampled_from(groups)),
        "norm": draw(st.sampled_from(NORMS)),
        "gated": draw(st.booleans()),
        "scale_embeddings": draw(st.booleans()),
        "d_k": draw(st.sampled_from([None, 2, 6])),
    }
    return ModernConfig(**asdict(config) | choices)


def step_by_step(model, source, tgt):
    """The logits of a decoder that is given one token after another."""
    cache = model.new_cache()
    steps = [
        model.decode(tgt[:, [t]], *source, cache=cache) for t in range(tgt.size(1))
    ]
    return torch.cat(steps, dim=1)


@examples(25, 2_000)
@given(models_and_sentences(families()), st.data())
def test_nothing_looks_ahead_and_neither_padding_nor_a_cache_changes_it(drawn, data):
    model, src, tgt = drawn
    if src is not None:
        longer = F.pad(src, (0, 3), value=model.config.pad_id)
        assert_close(model(longer, tgt), model(src, tgt))
    config, source = model.config, source_of(model, src)
    whole = model.decode(tgt, *source)
    assert whole.isfinite().all()
    at = data.draw(st.integers(0, tgt.size(1) - 1), "position")
    changed = tgt.clone()
    changed[:, at] = data.draw(st.integers(0, config.tgt_vocab_size - 1), "token")
    after = model.decode(changed, *source)
    assert_close(after[:, :at], whole[:, :at], **same)
    real = (tgt != config.pad_id).all(dim=1)  # a cache is never given padding
    if real.all():
        assert_close(step_by_step(model, source, tgt), whole, **same)


@examples(10, 500)
@given(models_and_sentences(families()))
def test_a_file_brings_the_model_back(tmp_path_factory, drawn):
    model, src, tgt = drawn
    path = tmp_path_factory.mktemp("models") / "model.safetensors"
    save_model(path, model)
    loaded = load_model(path, FAMILIES)
    assert type(loaded) is type(model)
    assert loaded.config == model.config
    assert_close(logits_of(loaded, src, tgt), logits_of(model, src, tgt))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if may_be_causal(kind)])
@examples(6, 500)
@given(models_and_sentences(families()), st.data())
def test_with_any_variant_it_learns_and_is_recorded_and_cached(kind, drawn, data):
    model, src, tgt = drawn
    config = model.config
    if config.positions == "alibi" and not kind.places:  # makes way for itself alone
        kind = AlibiAttention
    back, both = (
        data.draw(variants(kind, config.num_heads, causal)) for causal in (True, False)
    )
    use_attention(model, decoder=back)
    if src is not None:
        use_attention(model, encoder=both)
        full = FullAttention(causal=False)
        use_attention(model, cross=both if both.cross else full)
    model.train()
    if config.attention_dropout > 0 and not kind.drops:
        with pytest.raises(ValueError, match=r"dropout must be 0 with \w+"):
            logits_of(model, src, tgt)
        model.eval()
    logits_of(model, src, tgt).square().sum().backward()
    assert all(p.grad.isfinite().all() for p in model.parameters())
    model.eval()
    with torch.inference_mode():
        whole = logits_of(model, src, tgt)
        with record_attention(model) as maps:
            assert_close(logits_of(model, src, tgt), whole, **same)
        assert len(maps) == (1 if src is None else 3) * config.num_layers
        source = source_of(model, None if src is None else src[:1])
        first = tgt[:1, : (tgt[0] != config.pad_id).sum()]
        steps = step_by_step(model, source, first)
        assert_close(steps, whole[:1, : first.size(1)], **same)
