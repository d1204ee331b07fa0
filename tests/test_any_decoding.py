"""Decoding with the cache finds what it finds without, whatever is asked for."""

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import (
    SEEDS,
    configs,
    examples,
    models,
    models_and_sentences,
    sentences,
    source_of,
)
from torch.testing import assert_close

from transformer_lib.decoding import (
    beam_search,
    greedy_decode,
    length_limits,
    length_penalty,
    next_probabilities,
    sample,
)
from transformer_lib.model import DecoderCache

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]
same = {"rtol": 0, "atol": 1e-9}
TRANSLATORS = configs(has_source=True, least_width=4)


@examples(20, 2_000)
@given(models_and_sentences(), st.data())
def test_step_by_step_the_logits_are_those_of_one_pass(given, data):
    """Rows leave, come twice and change places on the way."""
    model, src, tgt = given
    config = model.config
    tgt = tgt.where(tgt != config.pad_id, (config.pad_id + 1) % config.tgt_vocab_size)
    source = source_of(model, src)
    expected = model.decode(tgt, *source)
    cache = DecoderCache(config.num_layers)
    for t in range(tgt.size(1)):
        assert cache.length == t
        logits = model.decode(tgt[:, t : t + 1], *source, cache=cache)
        assert_close(logits, expected[:, t : t + 1], **same)
        rows = st.lists(st.integers(0, len(tgt) - 1), min_size=1, max_size=4)
        if data.draw(st.booleans()):
            rows = torch.tensor(data.draw(rows, "rows"))
            cache.select(rows)
            tgt, expected = tgt[rows], expected[rows]
            source = source[:1] + tuple(mask[rows] for mask in source[1:])


@st.composite
def tasks(draw):
    """A model, sentences, and how much may be written."""
    model = draw(models(TRANSLATORS))
    config = model.config
    src = draw(sentences(config.src_vocab_size, config.pad_id, draw(st.integers(1, 3))))
    return model, src, draw(st.none() | st.integers(1, config.max_len))


def assert_written(translation, limit, model):
    assert len(translation) <= limit
    assert model.config.pad_id not in translation
    assert model.config.eos_id not in translation


@examples(15, 1_500)
@given(tasks())
def test_greedy_decoding_is_the_same_without_the_cache(task):
    model, src, max_len = task
    with_, without = (
        greedy_decode(model, src, max_len=max_len, use_cache=use)
        for use in (True, False)
    )
    assert with_ == without
    limits = length_limits(model, src, max_len)
    for translation, limit in zip(with_, limits, strict=True):
        assert_written(translation, limit, model)
    if max_len is not None:
        alone = [greedy_decode(model, row[None], max_len=max_len)[0] for row in src]
        assert alone == with_


@examples(15, 1_500)
@given(
    tasks(),
    SEEDS,
    st.floats(0.1, 5.0),
    st.none() | st.integers(1, 10),
    st.none() | st.floats(0.01, 1.0),
)
def test_the_same_numbers_draw_the_same_without_the_cache(
    task, seed, temperature, top_k, top_p
):
    model, src, max_len = task
    how = {"temperature": temperature, "top_k": top_k, "top_p": top_p}

    def drawn(use_cache):
        how["generator"] = torch.Generator().manual_seed(seed)
        return sample(model, src, **how, max_len=max_len, use_cache=use_cache)

    assert drawn(True) == drawn(False)


@examples(15, 1_500)
@given(
    tasks(),
    st.integers(1, 5),
    st.sampled_from([0.6, 0.0, 1.4, -3.0, 100.0, -100.0]) | st.floats(-5, 5),
)
def test_beam_search_finds_the_same_without_the_cache(task, beam_size, alpha):
    model, src, max_len = task
    how = {"beam_size": beam_size, "alpha": alpha, "max_len": max_len}
    with_, without = (
        beam_search(model, src, **how, use_cache=use) for use in (True, False)
    )
    for ours, theirs in zip(with_, without, strict=True):
        assert [h.tokens for h in ours] == [h.tokens for h in theirs]
        assert [h.ended for h in ours] == [h.ended for h in theirs]
        for name in ("log_prob", "score"):
            one, other = ([getattr(h, name) for h in hs] for hs in (ours, theirs))
            assert one == pytest.approx(other, rel=1e-9, abs=1e-9)
    limits = length_limits(model, src, max_len)
    for each, limit in zip(with_, limits, strict=True):
        assert 1 <= len(each) <= beam_size
        assert each == sorted(each, key=lambda h: (not h.ended, -h.score))
        for h in each:
            assert_written(h.tokens, limit, model)
            assert h.ended or len(h.tokens) == limit
            penalty = length_penalty(len(h.tokens) + h.ended, alpha)
            assert h.score == pytest.approx(h.log_prob / penalty)


@examples(20, 3_000)
@example(-1e30, 1e-40, None, None)
@example(0.0, 1.0, None, 1e-300)
@given(
    st.floats(-1e30, 1e30),
    st.floats(0, 1e300, exclude_min=True),
    st.none() | st.integers(1, 9),
    st.none() | st.floats(0, 1, exclude_min=True),
)
def test_any_temperature_and_share_give_probabilities_or_are_refused(
    logit, temperature, top_k, top_p
):
    for dtype in (torch.float32, torch.float64):
        logits = torch.tensor([[0.0, 1.0, logit, -1.0, 0.5]], dtype=dtype)
        try:
            found = next_probabilities(logits, temperature, top_k, top_p)
        except ValueError as error:
            named = str(error).partition(" ")[0]
            assert named in ("temperature", "top_p")
            continue
        assert_close(found.sum(dim=-1), torch.ones(1, dtype=dtype))
        assert (found >= 0).all()
