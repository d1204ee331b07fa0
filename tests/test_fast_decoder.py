"""The fast decoder writes what the model writes, or says why it cannot."""

from dataclasses import asdict

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from strategies import SEEDS, examples, models_and_sentences, source_of
from torch import nn
from torch.nn.utils import parametrize
from torch.testing import assert_close

from transformer_lib.decoding import beam_search, greedy_decode, sample
from transformer_lib.faster import fast_decoder, remove_heads
from transformer_lib.faster.fast_decoder import FastDecoder, FastLayer, why_unsupported
from transformer_lib.model import (
    Transformer,
    TransformerConfig,
    padding_mask,
    record_attention,
)
from transformer_lib.variants import DecoderAlone, ModernConfig

B, S, PAD, BOS, EOS = 5, 7, 0, 1, 2
SRC, TGT, MAX_LEN = 19, 11, 61
CONFIG = TransformerConfig(
    src_vocab_size=SRC,
    tgt_vocab_size=TGT,
    d_model=12,
    num_heads=3,
    d_ff=17,
    num_layers=2,
    max_len=MAX_LEN,
    positions="learned",
)
ALONE = ModernConfig(**asdict(CONFIG) | {"src_vocab_size": None})


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    """Two positions at first, so that the room is full again and again.

    And two sentences are many.
    """
    monkeypatch.setattr(fast_decoder, "ROOM", 2)
    monkeypatch.setattr(fast_decoder, "MANY", 2)


@pytest.fixture
def model():
    """An untrained model whose translations have many lengths."""
    model = Transformer(CONFIG)
    with torch.no_grad():
        for name, parameter in model.decoder.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
            parameter.mul_(2)
        model.tgt_positions.table.mul_(8)
        model.output.weight[EOS].mul_(2)
    return model.eval()


@pytest.fixture
def src():
    src = torch.randint(1, SRC, (B, S))
    src[1, 4:] = PAD
    src[2, 1:] = PAD
    return src


def stepwise(model, tgt, *source):
    cache = model.new_cache()
    steps = [model.decode(t, *source, cache=cache) for t in tgt.split(1, dim=1)]
    return torch.cat(steps, dim=1)


@pytest.mark.sweep
@examples(25, 1000)
@given(
    models_and_sentences(), SEEDS, st.integers(1, 6), st.sampled_from([0.0, 0.6, 2.0])
)
@torch.no_grad()
def test_any_model_scores_and_writes_the_same_as_a_fast_one(task, seed, beam, alpha):
    model, src, tgt = task
    fast, source, config = FastDecoder(model), source_of(model, src), model.config
    tgt = tgt.where(tgt != config.pad_id, (config.pad_id + 1) % config.tgt_vocab_size)
    logits, expected = (stepwise(each, tgt, *source) for each in (fast, model))
    assert_close(logits, expected, rtol=1e-9, atol=1e-9)
    if src is None:
        return
    found = []
    for each in (fast, model):
        drawn = sample(each, src, generator=torch.Generator().manual_seed(seed))
        searched = beam_search(each, src, beam_size=beam, alpha=alpha)
        tokens = [[h.tokens for h in hypotheses] for hypotheses in searched]
        scores = [[h.score for h in hypotheses] for hypotheses in searched]
        found.append((scores, tokens, drawn, greedy_decode(each, src)))
    assert found[0][1:] == found[1][1:]
    for ours, theirs in zip(found[0][0], found[1][0], strict=True):
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-9)


# -- Where the rows and the room go ----------------------------------------------------


class Batch:
    """A fast decoder on its way through a batch."""

    def __init__(self, model, src):
        self.fast = FastDecoder(model)
        self.memory, self.mask = self.fast.encode(src), padding_mask(src, PAD)
        self.cache = self.fast.new_cache()

    def step(self, rows=B):
        token = torch.randint(1, TGT, (rows, 1))
        return self.fast.decode(token, self.memory, self.mask, self.cache)

    def rows(self):
        """What each row sees: keys and values in order, and its source's keys."""
        cache, layer = self.cache, self.cache.layers[0]
        places, width = range(cache.length), cache.width
        slots = cache.past.argmax(-1)  # (rows, length)
        return [
            (layer.room[:, n // width, :, places, slot], layer.source[0][n // width])
            for n, slot in enumerate(slots)
        ]


@pytest.mark.parametrize(
    ("rows", "width"),
    [
        ([0, 1, 2, 3, 4], 1),
        ([1, 4], 1),
        ([3, 3, 3, 0, 0, 0], 3),
        ([2, 2, 1, 1, 1, 0], 1),  # not as many of each
        ([1, 1, 0, 0, 1, 1], 2),
    ],
)
def test_selected_rows_bring_their_past_and_rows_of_a_sentence_share_its_source(
    model, src, rows, width
):
    batch = Batch(model, src)
    for _ in range(2):
        batch.step()
    before = batch.rows()
    batch.cache.select(torch.tensor(rows))
    assert batch.cache.width == width
    assert len(batch.cache.layers[0].source[0]) == len(rows) // width
    for row, after in zip(rows, batch.rows(), strict=True):
        assert_close(after, before[row], rtol=0, atol=0)


def test_in_a_beam_no_key_moves(model, src):
    batch = Batch(model, src)
    batch.step()
    batch.cache.select(torch.arange(B).repeat_interleave(2))
    batch.step(2 * B)
    before, room = batch.rows(), batch.cache.layers[0].room
    kept, rows = room.clone(), [1, 1, 2, 3, 5, 4, 6, 6, 9, 8]
    batch.cache.select(torch.tensor(rows), same_memory=True)
    assert batch.cache.layers[0].room is room
    assert_close(room, kept, rtol=0, atol=0)
    for row, after in zip(rows, batch.rows(), strict=True):
        assert_close(after, before[row], rtol=0, atol=0)


def test_the_reserved_room_holds_no_leftovers_of_other_programs(
    model, src, monkeypatch
):
    """Or a listing that shows its numbers would be another in every run."""
    step, seen = FastLayer.step, []

    def look(layer, *arguments):
        seen.append(layer.room.isnan().any())
        return step(layer, *arguments)

    monkeypatch.setattr(FastLayer, "step", look)
    torch.use_deterministic_algorithms(True)  # fills what is only reserved with nan
    try:
        assert torch.empty(3).isnan().all()
        beam_search(FastDecoder(model), src, beam_size=3)
    finally:
        torch.use_deterministic_algorithms(False)
    assert seen
    assert not any(seen)


@torch.inference_mode()
def test_only_a_batch_gets_a_turned_copy_of_the_plain_output(model, src, monkeypatch):
    def output_of(model, rows):
        batch = Batch(model, src[:rows])
        batch.step(rows)
        return batch.cache.output

    monkeypatch.setattr(fast_decoder, "MANY", 3)
    x = torch.randn(B, CONFIG.d_model)
    assert output_of(model, 2) is model.output
    copied = output_of(model, 3)
    assert copied is not model.output
    assert_close(copied(x), model.output(x))
    model.output.register_forward_pre_hook(lambda *_: None)
    assert output_of(model, 3) is model.output


# -- Other models ----------------------------------------------------------------------


@torch.no_grad()
def test_other_precisions_are_carried(src):
    dtype = torch.bfloat16
    model = Transformer(CONFIG).eval()
    tgt, mask = torch.randint(1, TGT, (B, 5)), padding_mask(src, PAD)
    exact = stepwise(model, tgt, model.encode(src), mask)
    model.to(dtype)
    memory = model.encode(src)
    found = [stepwise(each, tgt, memory, mask) for each in (model, FastDecoder(model))]
    assert found[1].dtype == dtype
    off = [(each.double() - exact).abs().max().item() for each in found]
    assert max(off) < 30 * torch.finfo(dtype).eps


def test_a_model_that_went_on_learning_writes_with_its_new_weights(model, src):
    fast = FastDecoder(model)
    before = greedy_decode(fast, src)
    with torch.no_grad():
        for parameter in model.decoder.parameters():
            parameter.data.mul_(-1)
    after = greedy_decode(fast, src)
    assert before != after == greedy_decode(model, src)


def test_heads_that_were_cut_off_are_carried(model, src):
    remove_heads(model.decoder.layers[0].self_attention, [2])
    fast = FastDecoder(model)
    assert greedy_decode(fast, src) == greedy_decode(model, src)


# -- Refusals --------------------------------------------------------------------------


class Doubled(nn.Module):
    def forward(self, x):
        return 2 * x


class Other(Transformer):
    pass


def hooked(layer):
    layer.register_forward_hook(lambda *_: None)


def hooked_before(layer):
    layer.feed_forward.register_forward_pre_hook(lambda *_: None)


def of_its_own(layer):
    layer.forward = lambda x, *_: x


def projecting_by_itself(layer):
    layer.cross_attention._project = lambda key, value: (value, key)


def without_a_key_bias(layer):  # as in Whisper
    layer.self_attention.w_k.bias = None


def with_wider_values(layer):
    attention = layer.self_attention
    attention.w_v, attention.w_o = nn.Linear(12, 24), nn.Linear(24, 12)


def explicit(layer):
    layer.cross_attention.attend = lambda *inputs: inputs[0]


def parametrised(layer):
    parametrize.register_parametrization(layer.self_attention.w_k, "weight", Doubled())


UNEQUAL = "projections of different shapes or biases at"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (hooked, "a hook at decoder.layers.1"),
        (hooked_before, "a hook at decoder.layers.1.feed_forward"),
        (of_its_own, "a forward of its own at decoder.layers.1"),
        (explicit, "another attention at decoder.layers.1.cross_attention"),
        (
            projecting_by_itself,
            "a _project of its own at decoder.layers.1.cross_attention",
        ),
        (without_a_key_bias, f"{UNEQUAL} decoder.layers.1.self_attention"),
        (with_wider_values, f"{UNEQUAL} decoder.layers.1.self_attention"),
        (parametrised, "a ParametrizedLinear as decoder.layers.1.self_attention.w_k"),
    ],
)
def test_what_only_the_model_can_compute_is_refused_by_name(model, src, change, named):
    change(model.decoder.layers[1])
    assert why_unsupported(model) == named
    with pytest.raises(ValueError, match=rf"known here, got {named}$"):
        greedy_decode(FastDecoder(model), src)


def test_another_model_or_one_with_a_method_of_its_own_is_refused_by_name(model):
    assert why_unsupported(Other(CONFIG)) == "a Other"
    model.decode = lambda *inputs, **more: 2 * Transformer.decode(model, *inputs)
    assert why_unsupported(model) == "a decode of its own at the model"


def test_a_hook_at_every_module_is_refused_and_the_model_may_be_fast_after_it(model):
    for register in (
        nn.modules.module.register_module_forward_hook,
        nn.modules.module.register_module_forward_pre_hook,
    ):
        handle = register(lambda *_: None)
        assert why_unsupported(model) == "a hook at every module"
        handle.remove()
    assert why_unsupported(model) is None


def test_attention_is_not_recorded_in_silence(model, src):
    fast = FastDecoder(model)
    with record_attention(fast), pytest.raises(ValueError, match="another attention"):
        greedy_decode(fast, src)
    assert greedy_decode(fast, src) == greedy_decode(model, src)


def test_training_mode_is_refused_and_searching_leaves_it_for_a_while(model, src):
    model.decoder.layers[1].train()
    fast = FastDecoder(model)
    with pytest.raises(ValueError, match="evaluation mode, got training mode"):
        fast.new_cache()
    assert greedy_decode(fast, src) == greedy_decode(model, src)
    assert model.decoder.layers[1].training
    assert not model.decoder.layers[0].training


def test_hooks_outside_of_the_decoder_are_called(model, src):
    called = []
    outside = model.encoder, model.tgt_embedding, model.output
    for module in outside:
        module.register_forward_hook(lambda module, *_: called.append(module))
    greedy_decode(FastDecoder(model), src, max_len=2)
    assert set(called) == set(outside)


def test_what_the_model_refuses_the_fast_decoder_refuses(model, src):
    mask, token = padding_mask(src, PAD), torch.full((B, 1), BOS)
    for each in (model, FastDecoder(model)):
        for max_len in (0, MAX_LEN + 1):
            with pytest.raises(ValueError, match=f"max_len must be .*, got {max_len}"):
                greedy_decode(each, src, max_len=max_len)
        with pytest.raises(TypeError, match="integer token ids, got torch"):
            greedy_decode(each, src.double())
        memory, cache = each.encode(src), each.new_cache()
        with pytest.raises(ValueError, match=r"must be one new position.*, got 2"):
            each.decode(token.repeat(1, 2), memory, mask, cache)


def test_a_cache_a_memory_and_its_mask_must_be_right(model, src):
    fast, token = FastDecoder(model), torch.full((B, 1), BOS)
    for memory, mask, cache, error, said in (
        (None, None, None, TypeError, "cache must come from new_cache, got NoneType"),
        (None, None, model.new_cache(), TypeError, "got DecoderCache"),
        (None, None, fast.new_cache(), ValueError, "memory must be given with"),
        (fast.encode(src), None, fast.new_cache(), ValueError, "memory_mask must come"),
    ):
        with pytest.raises(error, match=said):
            fast.decode(token, memory, mask, cache)
    with pytest.raises(AttributeError, match=r"'DecoderAlone' .* no attribute 'encode"):
        greedy_decode(FastDecoder(DecoderAlone(ALONE)), src)
