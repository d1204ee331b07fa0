"""Any configuration: shapes and dtypes, no look ahead, no leak of padding."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import (
    DTYPES,
    SEEDS,
    configs,
    examples,
    logits_of,
    models,
    models_and_sentences,
    sentences,
)
from torch.testing import assert_close

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]
same = {"rtol": 0, "atol": 1e-9}  # in float64, beside values of order 1


# -- Shapes and dtypes -----------------------------------------------------------------


@examples(15, 2_000)
@given(models_and_sentences(), st.sampled_from(DTYPES))
def test_a_model_of_any_dtype_gives_finite_logits_of_that_dtype(given, dtype):
    model, src, tgt = given
    for parameter in model.parameters():  # half precision ends at 65,504
        parameter.data.mul_(0.5)
    logits = logits_of(model.to(dtype), src, tgt)
    assert logits.shape == (*tgt.shape, model.config.tgt_vocab_size)
    assert logits.dtype == dtype
    assert logits.isfinite().all()
    assert torch.equal(
        logits_of(model, src if src is None else src.int(), tgt.int()), logits
    )


# -- Who sees what ---------------------------------------------------------------------


@examples(30, 2_000)
@given(models_and_sentences(), st.data())
def test_what_comes_later_changes_nothing(given, data):
    model, src, tgt = given
    t = data.draw(st.integers(0, tgt.size(1) - 1), "the last one kept")
    ids = st.integers(0, model.config.tgt_vocab_size - 1)  # PAD, too
    later = st.lists(ids, max_size=11 - t)
    rows = [data.draw(st.just([]) | later) for _ in tgt]
    longest = max(map(len, rows))
    new = torch.tensor([row + [0] * (longest - len(row)) for row in rows])
    other = torch.cat([tgt[:, : t + 1], new.long()], dim=1)
    before, after = logits_of(model, src, tgt), logits_of(model, src, other)
    assert_close(after[:, : t + 1], before[:, : t + 1], **same)
    assert after.isfinite().all()


@examples(30, 2_000)
@given(models_and_sentences())
def test_the_others_in_the_batch_change_nothing(given):
    model, src, tgt = given
    together, pad_id = logits_of(model, src, tgt), model.config.pad_id
    for row, logits in enumerate(together):
        length = int((tgt[row] != pad_id).sum())
        alone = None
        if src is not None:
            alone = src[row : row + 1, : max(1, int((src[row] != pad_id).sum()))]
        found = logits_of(model, alone, tgt[row : row + 1, :length])
        assert_close(found[0], logits[:length], **same)


@examples(30, 2_000)
@given(models_and_sentences(), SEEDS, st.floats(0, 1))
def test_what_lies_under_padding_anywhere_changes_nothing(given, seed, share):
    model, src, tgt = given
    pad_id, generator = model.config.pad_id, torch.Generator().manual_seed(seed)
    batches = {"src_positions": src, "tgt_positions": tgt}
    if src is None:
        del batches["src_positions"]
    for tokens in batches.values():  # on the left and in between, too
        tokens[torch.rand(tokens.shape, generator=generator) < share] = pad_id
    before = logits_of(model, src, tgt)
    for name, tokens in batches.items():
        noise = 100 * torch.randn(*tokens.shape, 1, generator=generator)
        padding = (tokens == pad_id)[..., None]
        model.get_submodule(name).register_forward_hook(
            lambda _, inputs, x, p=padding, n=noise: torch.where(p, x + n, x)
        )
    after, real = logits_of(model, src, tgt), tgt != pad_id
    assert_close(after[real], before[real], **same)
    assert before.isfinite().all()


@examples(20, 1_000)
@given(models(configs(least_width=4)), st.data())
def test_what_is_seen_does_matter(model, data):
    """Or a model that reads nothing would pass all of the above."""
    config = model.config
    assume(config.norm_eps < 0.1)
    src = None
    if config.src_vocab_size is not None:
        src = data.draw(sentences(config.src_vocab_size, config.pad_id, 1))
    tgt = data.draw(sentences(config.tgt_vocab_size, config.pad_id, 1, shortest=2))
    before = logits_of(model, src, tgt)
    real = [i for i in range(config.tgt_vocab_size) if i != config.pad_id]
    first = data.draw(st.sampled_from(real))
    assume(first != tgt[0, 0])
    other = torch.cat([torch.tensor([[first]]), tgt[:, 1:]], dim=1)
    assert (logits_of(model, src, other)[:, -1] - before[:, -1]).abs().max() > 1e-12
    if src is not None and config.src_vocab_size > 2:
        place = data.draw(st.integers(0, src.size(1) - 1))
        others = {*range(config.src_vocab_size)} - {config.pad_id, int(src[0, place])}
        src[0, place] = min(others)
        assert (logits_of(model, src, tgt) - before).abs().max() > 1e-12
