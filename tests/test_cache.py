from dataclasses import asdict, replace

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import (
    CrossAttentionCache,
    DecoderCache,
    MultiHeadAttention,
    SelfAttentionCache,
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
    record_attention,
)
from transformer_lib.variants import DecoderAlone, ModernConfig

B, H, T, S, D_MODEL, PAD = 2, 3, 5, 7, 12, 0
CONFIG = TransformerConfig(
    src_vocab_size=19,
    tgt_vocab_size=23,
    d_model=D_MODEL,
    num_heads=H,
    d_ff=17,
    num_layers=2,
    max_len=11,
)


@pytest.fixture
def attention():
    return MultiHeadAttention(D_MODEL, H)


@pytest.fixture
def x():
    return torch.randn(B, T, D_MODEL)


@pytest.fixture
def memory():
    return torch.randn(B, S, D_MODEL)


@pytest.fixture
def memory_mask():
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 4:] = False
    return mask


@pytest.fixture
def src():
    src = torch.randint(1, 19, (B, S))
    src[1, 4:] = PAD
    return src


@pytest.fixture
def tgt():
    return torch.randint(1, 23, (B, T))


def projections_of(attention):
    """Count the positions that w_k projects, call by call."""
    counts = []
    attention.w_k.register_forward_pre_hook(
        lambda _, inputs: counts.append(inputs[0].size(1))
    )
    return counts


def test_self_attention_step_by_step_equals_one_masked_pass(attention, x):
    expected = attention(x, x, x, causal_mask(T))
    cache = SelfAttentionCache()
    steps = [attention(new, new, new, cache=cache) for new in x.split(1, dim=1)]
    assert_close(torch.cat(steps, dim=1), expected)


def test_cross_attention_step_by_step_equals_one_pass(
    attention, x, memory, memory_mask
):
    expected = attention(x, memory, memory, memory_mask)
    cache = CrossAttentionCache()
    steps = [
        attention(new, memory, memory, memory_mask, cache) for new in x.split(1, dim=1)
    ]
    assert_close(torch.cat(steps, dim=1), expected)


def test_every_position_is_projected_once(attention, x, memory):
    counts = projections_of(attention)
    own, source = SelfAttentionCache(), CrossAttentionCache()
    for new in x.split(1, dim=1):
        attention(new, new, new, cache=own)
    assert counts == [1] * T
    counts.clear()
    for new in x.split(1, dim=1):
        attention(new, memory, memory, cache=source)
    assert counts == [S]


def test_the_positions_are_kept_in_their_order(attention, x):
    cache, kept = SelfAttentionCache(), attention._project(x, x)
    for t, new in enumerate(x.split(1, dim=1)):
        assert cache.length == t
        attention(new, new, new, cache=cache)
    assert_close((cache.k, cache.v), kept)


def test_keys_are_made_of_the_key_and_values_of_the_value(attention, x, memory):
    for cache, given in (
        (SelfAttentionCache(), x[:, :1]),
        (CrossAttentionCache(), memory),
    ):
        kept = attention._keys_values(given, -given, cache)
        assert_close(kept, attention._project(given, -given))


@pytest.mark.parametrize("norm_first", [False, True], ids=["post-norm", "pre-norm"])
@pytest.mark.parametrize("positions", ["interleaved", "concatenated", "learned"])
def test_the_model_step_by_step_equals_one_pass(src, tgt, norm_first, positions):
    config = replace(CONFIG, norm_first=norm_first, positions=positions)
    model = Transformer(config).eval()
    memory, memory_mask = model.encode(src), padding_mask(src, PAD)
    cache = DecoderCache(CONFIG.num_layers)
    for t in range(T):
        assert cache.length == t
        logits = model.decode(tgt[:, t : t + 1], memory, memory_mask, cache)
        assert_close(logits, model(src, tgt)[:, t : t + 1])


def test_a_decoder_alone_has_only_its_own_past_to_keep(tgt):
    config = ModernConfig(**asdict(CONFIG) | {"src_vocab_size": None})
    model = DecoderAlone(config).eval()
    cache = DecoderCache(CONFIG.num_layers)
    steps = [model.decode(token, cache=cache) for token in tgt.split(1, dim=1)]
    assert_close(torch.cat(steps, dim=1), model(tgt))
    cache.select(torch.tensor([1]))
    assert cache.layers[0][0].k.size(0) == 1


def test_selected_rows_go_on_as_if_they_had_been_there_from_the_start(src, tgt):
    model = Transformer(CONFIG).eval()
    memory, memory_mask = model.encode(src), padding_mask(src, PAD)
    cache = DecoderCache(CONFIG.num_layers)
    for t in range(T - 1):
        model.decode(tgt[:, t : t + 1], memory, memory_mask, cache)
    rows = torch.tensor([1, 0, 1])
    cache.select(rows)
    logits = model.decode(tgt[rows, -1:], memory, memory_mask[rows], cache)
    assert_close(logits, model(src[rows], tgt[rows])[:, -1:])


def test_recorded_maps_reach_over_all_that_is_kept(src, tgt):
    model = Transformer(CONFIG).eval()
    memory, memory_mask = model.encode(src), padding_mask(src, PAD)
    with record_attention(model) as whole:
        model(src, tgt)
    cache = DecoderCache(CONFIG.num_layers)
    with record_attention(model) as maps:
        for token in tgt.split(1, dim=1):
            model.decode(token, memory, memory_mask, cache)
    for name in ("self_attention", "cross_attention"):
        name = f"decoder.layers.1.{name}"
        assert_close(maps[name], whole[name][:, :, -1:])


def test_a_self_attention_cache_takes_one_position_at_a_time(attention, x, memory):
    with pytest.raises(ValueError, match="one new position with a cache, got 5"):
        attention(x, x, x, cache=SelfAttentionCache())
    new = x[:, :1]
    with pytest.raises(ValueError, match="one new position with a cache, got 7"):
        attention(new, memory, memory, cache=SelfAttentionCache())


def test_no_position_goes_beyond_the_table(src, tgt):
    model = Transformer(replace(CONFIG, max_len=2)).eval()
    memory, memory_mask = model.encode(src[:, :2]), padding_mask(src[:, :2], PAD)
    cache = DecoderCache(CONFIG.num_layers)
    for token in tgt[:, :2].split(1, dim=1):
        model.decode(token, memory, memory_mask, cache)
    with pytest.raises(ValueError, match="at most max_len long, got 3 and 2"):
        model.decode(tgt[:, 2:3], memory, memory_mask, cache)
    assert cache.length == 2


def test_a_cross_attention_cache_knows_its_memory(attention, x, memory):
    cache = CrossAttentionCache()
    attention(x[:, :1], memory, memory, cache=cache)
    other = memory.clone()
    with pytest.raises(ValueError, match=r"filled from, got .* \(2, 7, 12\) and"):
        attention(x[:, 1:2], other, other, cache=cache)


def test_a_cross_attention_cache_lays_each_head_side_by_side(attention, x, memory):
    cache = CrossAttentionCache()
    attention(x[:, :1], memory, memory, cache=cache)
    assert cache.k.is_contiguous()
    assert cache.v.is_contiguous()


def test_a_cross_attention_cache_in_self_attention_is_refused(attention, x):
    cache = CrossAttentionCache()
    attention(x[:, :1], x[:, :1], x[:, :1], cache=cache)
    new = x[:, 1:2]
    with pytest.raises(ValueError, match=r"\(2, 1, 12\) and \(2, 1, 12\)"):
        attention(new, new, new, cache=cache)


def test_a_cache_of_another_depth_is_refused(src, tgt):
    model = Transformer(CONFIG).eval()
    cache = DecoderCache(CONFIG.num_layers + 1)
    with pytest.raises(ValueError, match="argument 2 is longer than argument 1"):
        model.decode(tgt[:, :1], model.encode(src), padding_mask(src, PAD), cache)


def test_rows_of_the_same_sentences_leave_what_is_kept_of_their_memory(src, tgt):
    model = Transformer(CONFIG).eval()
    cache = DecoderCache(CONFIG.num_layers)
    model.decode(tgt[:, :1], model.encode(src), padding_mask(src, PAD), cache)
    own, source = cache.layers[0]
    before, newest = source.k, own.k
    cache.select(torch.tensor([1, 0]), same_memory=True)
    assert source.k is before
    assert own.k.equal(newest[[1, 0]])
