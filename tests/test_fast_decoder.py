import math
import random
from dataclasses import asdict, replace

import pytest
import torch
from strategies import model_of
from torch import nn
from torch.nn.utils import parametrize
from torch.testing import assert_close
from torch.utils._python_dispatch import TorchDispatchMode

from transformer_lib.decoding import beam_search, greedy_decode, sample
from transformer_lib.faster import fast_decoder
from transformer_lib.faster.fast_decoder import FastDecoder, FastLayer, why_unsupported
from transformer_lib.model import (
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
    record_attention,
    scaled_dot_product_attention,
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


@pytest.fixture(autouse=True)
def little_room(monkeypatch):
    """Two positions at first, so that the room is full again and again.

    And two sentences are many.
    """
    monkeypatch.setattr(fast_decoder, "ROOM", 2)
    monkeypatch.setattr(fast_decoder, "MANY", 2)


def lively(config):
    """An untrained model whose translations have many lengths."""
    model = model_of(config)
    with torch.no_grad():
        for name, parameter in model.decoder.named_parameters():
            if name.endswith("bias"):
                parameter.normal_(std=0.3)
            parameter.mul_(2)
        if config.output_bias:
            model.output.bias.normal_()
        if config.positions == "learned":
            model.tgt_positions.table.mul_(8)
        if not config.tie_output:
            model.output.weight[EOS].mul_(2)
    return model.eval()


@pytest.fixture
def model():
    return lively(CONFIG)


@pytest.fixture
def src():
    src = torch.randint(1, SRC, (B, S))
    src[1, 4:] = PAD
    src[2, 1:] = PAD
    return src


def random_config(chance):
    shared = chance.random() < 0.5
    heads = chance.randint(1, 4)
    return TransformerConfig(
        src_vocab_size=TGT if shared else SRC,
        tgt_vocab_size=TGT,
        d_model=heads * chance.choice([4, 6, 8]),
        num_heads=heads,
        d_ff=chance.randint(1, 20),
        num_layers=chance.randint(1, 3),
        norm_first=chance.random() < 0.5,
        norm_eps=chance.choice([1e-6, 1e-5]),
        bias=chance.random() < 0.5,
        output_bias=chance.random() < 0.5,
        activation=chance.choice(["relu", "gelu", "gelu_tanh", "silu"]),
        positions=chance.choice(["interleaved", "concatenated", "learned"]),
        max_len=chance.randint(3, 40),
        share_embeddings=shared,
        tie_output=chance.random() < 0.5,
    )


def random_batch(config, chance):
    lengths = [chance.randint(0, min(9, config.max_len)) for _ in range(4)]
    src = torch.randint(1, TGT, (len(lengths), max([1, *lengths])))
    return src.masked_fill(
        torch.arange(src.size(1)) >= torch.tensor(lengths)[:, None], 0
    )


def same_hypotheses(found, expected):
    assert [[h.tokens for h in each] for each in found] == [
        [h.tokens for h in each] for each in expected
    ]
    scores = [[[h.score for h in each] for each in some] for some in (found, expected)]
    for a, b in zip(*scores, strict=True):
        assert_close(a, b)


@pytest.mark.sweep
def test_random_models_write_the_same_as_fast_ones(request):
    sweeping = request.config.option.markexpr == "sweep"
    for seed in range(1000 if sweeping else 20):
        chance = random.Random(seed)
        torch.manual_seed(seed)
        config = random_config(chance)
        model, src = lively(config), random_batch(config, chance)
        fast = FastDecoder(model)
        assert greedy_decode(fast, src) == greedy_decode(model, src)
        search = {"beam_size": chance.randint(1, 6)}
        search["alpha"] = chance.choice([0.0, 0.6, 2.0])
        same_hypotheses(
            beam_search(fast, src, **search), beam_search(model, src, **search)
        )
        drawn = [
            sample(each, src, generator=torch.Generator().manual_seed(seed))
            for each in (fast, model)
        ]
        assert drawn[0] == drawn[1]


# -- Equal up to rounding, and how much that may be ------------------------------------
#
# Numbers x are followed together with a bound of their error: whoever computes in
# floats of unit roundoff u, in whatever order, comes within e of the exact x (Higham,
# Accuracy and Stability of Numerical Algorithms, 2002, chapter 3). A sum of n terms is
# off by at most gamma(n) times the sum of their sizes. Two ways differ by 2e at most.


# Here e bounds the length of a vector's error, and matrices count by their norms.


class Bound:
    def __init__(self, model, u):
        self.model, self.u = model, u

    def gamma(self, n):
        return n * self.u / (1 - n * self.u)

    def linear(self, layer, x, e):
        w = layer.weight
        size = torch.linalg.matrix_norm(w.abs(), 2) * (length(x) + e)
        if layer.bias is not None:
            size = size + layer.bias.norm()
        e = torch.linalg.matrix_norm(w, 2) * e + self.gamma(w.size(1) + 1) * size
        return layer(x), e

    def norm(self, layer, x, e):
        n = x.size(-1)
        e = e + self.gamma(n + 2) * (length(x) + e)  # once the mean is taken away
        deviation = (x.var(-1, correction=0, keepdim=True) + layer.eps).sqrt()
        least = deviation - e / math.sqrt(n)
        assert (least > 0).all()
        y = layer(x)
        # x / deviation(x) is nowhere steeper than 1 / deviation(x).
        e = layer.weight.abs().max() * (e / least)
        return y, e + self.gamma(n + 8) * (length(y) + e + 2 * layer.bias.norm())

    def attention(self, layer, query, key, mask):
        (q, q_e), (k, k_e), (v, v_e) = (
            (layer._split_heads(x), e[:, None])  # (B, H, T, d_k), (B, 1, T, 1)
            for x, e in (
                self.linear(layer.w_q, *query),
                self.linear(layer.w_k, *key),
                self.linear(layer.w_v, *key),
            )
        )
        d_k, n = q.size(-1), k.size(-2)
        q_size, k_size = length(q), length(k).transpose(-2, -1)
        off = q_e * (k_size + k_e.transpose(-2, -1)) + q_size * k_e.transpose(-2, -1)
        off = off + self.gamma(d_k + 4) * (q_size + q_e) * (
            k_size + k_e.transpose(-2, -1)
        )
        off = (off / math.sqrt(d_k)).masked_fill(~mask, 0).amax(-1, keepdim=True)
        seen = (q @ k.transpose(-2, -1)).abs().amax(-1, keepdim=True)
        # The greatest score is taken away from each; exp takes some ulps, the sum n.
        off = 2 * off + 4 * self.u * (seen + off)
        relative = torch.expm1(off) * (2 + off.exp()) + self.gamma(n + 10)
        heads, weights = scaled_dot_product_attention(q, k, v, mask)
        sizes = weights @ (length(v) + v_e)
        e = weights @ v_e + (relative + 2 * self.gamma(n)) * sizes
        return self.linear(layer.w_o, layer._merge_heads(heads), e.norm(dim=1))

    def feed_forward(self, layer, x, e):
        x, e = self.linear(layer.w_1, x, e)
        # No activation is steeper than 1.13; each takes some ten roundings.
        e = 1.13 * e + self.gamma(10) * (length(x) + e)
        return self.linear(layer.w_2, layer.activation(x), e)

    def residual(self, around, x, e, sublayer):
        inner = self.norm(around.norm, x, e) if around.norm_first else (x, e)
        y, y_e = sublayer(inner)
        x, e = x + y, (e + y_e) * (1 + self.u) + self.u * length(x + y)
        return (x, e) if around.norm_first else self.norm(around.norm, x, e)

    def logits(self, tgt, memory, memory_mask):
        """Of the tokens, with a bound of each row's error; the memory is given."""
        model = self.model
        embedded = model.tgt_embedding(tgt)
        x = model.tgt_positions(embedded)
        e = 3 * self.u * (length(embedded) + length(x))
        memory = memory, torch.zeros_like(memory[..., :1])
        for layer in model.decoder.layers:
            own, cross = layer.self_attention, layer.cross_attention
            for around, sublayer in (
                (
                    layer.self_attention_residual,
                    lambda x, a=own: self.attention(a, x, x, causal_mask(tgt.size(1))),
                ),
                (
                    layer.cross_attention_residual,
                    lambda x, a=cross: self.attention(a, x, memory, memory_mask),
                ),
                (
                    layer.feed_forward_residual,
                    lambda x, f=layer.feed_forward: self.feed_forward(f, *x),
                ),
            ):
                x, e = self.residual(around, x, e, sublayer)
        if model.decoder.norm is not None:
            x, e = self.norm(model.decoder.norm, x, e)
        return self.linear(model.output, x, e)


def length(x):
    return x.norm(dim=-1, keepdim=True)


def stepwise(model, tgt, memory, mask):
    cache = model.new_cache()
    steps = [model.decode(t, memory, mask, cache) for t in tgt.split(1, dim=1)]
    return torch.cat(steps, dim=1)


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@torch.no_grad()
def test_logits_differ_by_no_more_than_the_two_ways_may_round(src, norm_first):
    # One layer: each may turn an error of 1 into thousands, if all roundings conspire.
    changes = {"norm_first": norm_first, "output_bias": True, "num_layers": 1}
    model = Transformer(replace(CONFIG, **changes)).eval()
    fast = FastDecoder(model)
    memory, mask = model.encode(src), padding_mask(src, PAD)
    tgt = torch.randint(1, TGT, (B, 9))
    u = torch.finfo(torch.float64).eps / 2
    logits, bound = Bound(model, u).logits(tgt, memory, mask)
    readable, written = (stepwise(each, tgt, memory, mask) for each in (model, fast))
    assert ((readable - logits).abs() <= 2 * bound).all()
    assert ((written - readable).abs() <= 2 * bound).all()
    assert bound.max() < 1e-6  # and is no empty promise: faults are far beyond
    assert ((written.roll(1, 1) - readable).abs() > 1e3 * bound).all(-1).all()


# -- Where the rows and the room go ----------------------------------------------------


def rows_of(cache):
    """What each row sees: keys and values in order, and its source's keys."""
    layer = cache.layers[0]
    slots = cache.past.argmax(-1)  # (rows, length)
    return [
        (layer.room[:, row // cache.width, :, range(cache.length), slot],
         layer.source[0][row // cache.width])
        for row, slot in enumerate(slots)
    ]  # fmt: skip


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
    fast = FastDecoder(model)
    memory, cache = fast.encode(src), fast.new_cache()
    first, second = torch.randint(1, TGT, (2, B, 1))
    for token in (first, second):
        fast.decode(token, memory, padding_mask(src, PAD), cache)
    before = rows_of(cache)
    cache.select(torch.tensor(rows))
    assert cache.width == width
    assert len(cache.layers[0].source[0]) == len(rows) // width
    for row, after in zip(rows, rows_of(cache), strict=True):
        assert_close(after, before[row], rtol=0, atol=0)


def test_in_a_beam_no_key_moves(model, src):
    fast = FastDecoder(model)
    memory, cache = fast.encode(src), fast.new_cache()
    mask = padding_mask(src, PAD)
    fast.decode(torch.full((B, 1), BOS), memory, mask, cache)
    cache.select(torch.arange(B).repeat_interleave(2))
    fast.decode(torch.randint(1, TGT, (2 * B, 1)), memory, mask, cache)
    before, room = rows_of(cache), cache.layers[0].room
    kept, rows = room.clone(), [1, 1, 2, 3, 5, 4, 6, 6, 9, 8]
    cache.select(torch.tensor(rows), same_memory=True)
    assert cache.layers[0].room is room
    assert_close(room[:, :, :, : cache.length], kept[:, :, :, : cache.length])
    for row, after in zip(rows, rows_of(cache), strict=True):
        assert_close(after, before[row], rtol=0, atol=0)


@torch.inference_mode()
def test_what_stands_in_the_reserved_room_is_never_read(model, src):
    fast = FastDecoder(model)
    memory, cache = fast.encode(src), fast.new_cache()
    tgt, mask = torch.randint(1, TGT, (B, 9)), padding_mask(src, PAD)
    steps = []
    for token in tgt.split(1, dim=1):
        steps.append(fast.decode(token, memory, mask, cache))
        for layer in cache.layers:
            layer.room[:, :, :, cache.length :] = math.nan
    assert_close(torch.cat(steps, 1), stepwise(model, tgt, memory, mask))


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


def test_an_empty_source_gives_what_the_model_gives(model, src):
    src[3] = PAD
    fast = FastDecoder(model)
    assert greedy_decode(fast, src) == greedy_decode(model, src)
    same_hypotheses(beam_search(fast, src), beam_search(model, src))


class Operations(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.count += 1
        return function(*args, **(kwargs or {}))


def test_a_step_calls_fewer_operations_than_the_model_does(model, src):
    counts = []
    for each in (model, FastDecoder(model)):
        with torch.inference_mode(), Operations() as operations:
            memory, cache = each.encode(src), each.new_cache()
            for _ in range(2):
                before = operations.count
                each.decode(
                    torch.full((B, 1), BOS), memory, padding_mask(src, 0), cache
                )
        counts.append(operations.count - before)
    assert counts[1] < counts[0]


@torch.inference_mode()
def test_only_a_batch_gets_a_turned_copy_of_the_plain_output(model, src, monkeypatch):
    def output_of(model, rows):
        fast = FastDecoder(model)
        memory, cache = fast.encode(src[:rows]), fast.new_cache()
        token, mask = torch.full((rows, 1), BOS), padding_mask(src[:rows], PAD)
        fast.decode(token, memory, mask, cache)
        return cache.output

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
def test_a_decoder_alone_is_carried():
    model = lively(ModernConfig(**asdict(CONFIG) | {"src_vocab_size": None}))
    tgt = torch.randint(1, TGT, (B, 9))
    assert_close(stepwise(FastDecoder(model), tgt, None, None), model(tgt))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@torch.no_grad()
def test_other_precisions_are_carried(src, dtype):
    model = Transformer(CONFIG).eval()
    tgt, mask = torch.randint(1, TGT, (B, 5)), padding_mask(src, PAD)
    exact = stepwise(model, tgt, model.encode(src), mask)
    model.to(dtype)
    memory = model.encode(src)
    off = [
        (stepwise(each, tgt, memory, mask).double() - exact).abs().max().item()
        for each in (model, FastDecoder(model))
    ]
    assert stepwise(FastDecoder(model), tgt, memory, mask).dtype == dtype
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
    attention = model.decoder.layers[0].self_attention
    for linear in (attention.w_q, attention.w_k, attention.w_v):
        linear.weight = nn.Parameter(linear.weight[:8].detach())
        linear.bias = nn.Parameter(linear.bias[:8].detach())
        linear.out_features = 8
    attention.w_o.weight = nn.Parameter(attention.w_o.weight[:, :8].detach())
    attention.num_heads = 2
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


def without_a_query_bias(layer):
    layer.self_attention.w_q.bias = None


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
        (without_a_query_bias, f"{UNEQUAL} decoder.layers.1.self_attention"),
        (with_wider_values, f"{UNEQUAL} decoder.layers.1.self_attention"),
        (parametrised, "a ParametrizedLinear as decoder.layers.1.self_attention.w_k"),
    ],
)
def test_what_only_the_model_can_compute_is_refused_by_name(model, src, change, named):
    change(model.decoder.layers[1])
    assert why_unsupported(model) == named
    with pytest.raises(ValueError, match=rf"known here, got {named}$"):
        greedy_decode(FastDecoder(model), src)


def test_a_method_set_on_the_model_is_refused_by_name(model, src):
    model.decode = lambda *inputs, **more: 2 * Transformer.decode(model, *inputs)
    with pytest.raises(ValueError, match=r"got a decode of its own at the model$"):
        greedy_decode(FastDecoder(model), src)


def test_a_hook_at_every_module_is_refused_and_the_model_may_be_fast_after_it(model):
    handles = [
        register(lambda *_: None)
        for register in (
            nn.modules.module.register_module_forward_hook,
            nn.modules.module.register_module_forward_pre_hook,
        )
    ]
    for handle in handles:
        assert why_unsupported(model) == "a hook at every module"
        handle.remove()
    assert why_unsupported(model) is None


def test_another_kind_of_model_is_refused_by_name(src):
    with pytest.raises(ValueError, match=r"got a Other$"):
        greedy_decode(FastDecoder(Other(CONFIG)), src)


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
    for module in (model.encoder, model.tgt_embedding, model.output):
        module.register_forward_hook(lambda module, *_: called.append(module))
    greedy_decode(FastDecoder(model), src, max_len=2)
    assert {type(module) for module in called} == {
        type(model.encoder), type(model.tgt_embedding), type(model.output)
    }  # fmt: skip


def test_what_the_model_refuses_the_fast_decoder_refuses(model, src):
    for each in (model, FastDecoder(model)):
        for change, match in (
            ({"max_len": MAX_LEN + 1}, "max_len must be at most the model's"),
            ({"max_len": 0}, "max_len must be at least 1, got 0"),
        ):
            with pytest.raises(ValueError, match=match):
                greedy_decode(each, src, **change)
        with pytest.raises(TypeError, match="integer token ids, got torch"):
            greedy_decode(each, src.double())
        mask, token = padding_mask(src, PAD), torch.full((B, 1), BOS)
        memory, cache = each.encode(src), each.new_cache()
        with pytest.raises(ValueError, match=r"must be one new position.*, got 2"):
            each.decode(token.repeat(1, 2), memory, mask, cache)
    fast = FastDecoder(model)
    with pytest.raises(ValueError, match="memory_mask must come with memory"):
        fast.decode(token, memory, None, fast.new_cache())
    with pytest.raises(ValueError, match="memory must be given with"):
        fast.decode(token, None, None, fast.new_cache())
    alone = DecoderAlone(ModernConfig(**asdict(CONFIG) | {"src_vocab_size": None}))
    with pytest.raises(AttributeError, match=r"'DecoderAlone' .* no attribute 'encode"):
        greedy_decode(FastDecoder(alone), src)


def test_a_cache_is_needed_and_of_the_right_kind(model, src):
    with pytest.raises(TypeError, match="cache must come from new_cache, got NoneType"):
        greedy_decode(FastDecoder(model), src, use_cache=False)
    with pytest.raises(TypeError, match="got DecoderCache"):
        FastDecoder(model).decode(torch.full((B, 1), BOS), cache=model.new_cache())
