"""What every kind of attention promises; what one kind computes is in its own file."""

import pickle
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from kinds import KINDS, a_few, choices_of, may_be_causal
from torch.testing import assert_close
from watching import largest_tensor

from transformer_lib import variants
from transformer_lib.model import (
    MultiHeadAttention,
    SelfAttentionCache,
    scaled_dot_product_attention,
)
from transformer_lib.variants import (
    BlockAttention,
    CausalMask,
    LinearAttention,
    LSHAttention,
    NystromAttention,
    WindowAttention,
)
from transformer_lib.variants.attention.variant import MaskedVariant

B, H, T, S, D_K, D_V = 2, 3, 5, 13, 7, 11
CAUSAL = [a_few(kind, H, causal=True) for kind in KINDS if may_be_causal(kind)]
OTHER = [a_few(kind, H, causal=False) for kind in KINDS]
ALL = [attend for same in CAUSAL + OTHER for attend in same]
CAUSAL_KINDS = [same[len(same) // 2] for same in CAUSAL]
OTHER_KINDS = [same[len(same) // 2] for same in OTHER]
EACH_KIND = CAUSAL_KINDS + OTHER_KINDS


def over(attends):
    return pytest.mark.parametrize("attend", attends, ids=str)


def lengths(attend):
    """Numbers of queries that it can be asked with."""
    return (S,) if isinstance(attend, NystromAttention) else (1, T, S)


# -- What it computes ------------------------------------------------------------------


@over(ALL)
@pytest.mark.parametrize("padded", [True, False])
def test_it_gives_what_its_explicit_form_gives(heads, padding, attend, padded):
    padding = padding if padded else None
    for t in lengths(attend):
        query, key, value = heads[0][:, :, -t:], *heads[1:]
        explicit, weights = attend.explicit(query, key, value, padding)
        assert_close(attend(query, key, value, padding), explicit)
        assert_close(weights @ value, explicit)
        if attend.causal:
            assert not weights.triu(S - t + 1).any()
        if padded:
            assert not weights.masked_select(~padding).any()
        if isinstance(attend, MaskedVariant):
            mask = attend.mask(query, key, padding)
            expected = scaled_dot_product_attention(query, key, value, mask)
            assert_close((explicit, weights), expected)


@over(EACH_KIND)
def test_its_gradients_are_those_of_its_explicit_form(heads, padding, attend):
    found = []
    for function in (attend, lambda *inputs: attend.explicit(*inputs)[0]):
        inputs = [x.clone().requires_grad_() for x in heads]
        out = function(*inputs, padding)
        found.append(torch.autograd.grad(out.square().sum(), inputs))
    assert_close(*found)


@over(EACH_KIND)
def test_where_nothing_is_visible_there_are_zeros_and_finite_gradients(heads, attend):
    inputs = [x.clone().requires_grad_() for x in heads]
    out = attend(*inputs, torch.zeros(B, 1, 1, S, dtype=torch.bool))
    assert out.eq(0).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), inputs))


@over([attend for attend in EACH_KIND if attend.wide])
def test_sums_are_wide_under_autocast(heads, padding, attend):
    inputs = [x.float() for x in heads]
    with torch.autocast("cpu", torch.bfloat16):
        for found in (attend, lambda *inputs: attend.explicit(*inputs)[0]):
            out = found(*inputs, padding)
            assert out.dtype == torch.float32
            assert_close(out.double(), attend(*heads, padding), rtol=0, atol=1e-3)


@over(CAUSAL_KINDS)
def test_a_layer_computes_step_by_step_with_a_cache_what_it_does_at_once(attend):
    layer, cache = MultiHeadAttention(12, H).eval(), SelfAttentionCache()
    layer.attend, x = attend, torch.randn(B, S, 12)
    steps = [layer(x[:, [t]], x[:, [t]], x[:, [t]], cache=cache) for t in range(S)]
    assert_close(torch.cat(steps, dim=1), layer(x, x, x))
    assert cache.length == S  # every key is kept, even if nobody sees it any more


@pytest.mark.parametrize(
    ("attend", "length", "largest"),
    [
        # The mask of a chunk: R times M.
        (WindowAttention(8, causal=True), 256, 256 * 15),
        (WindowAttention(8, causal=False), 256, 256 * 22),
        # Own, near, global and two drawn: M is 5 blocks.
        (BlockAttention(8, causal=True), 512, 512 * 8 * 5),
        # Nor has one all pairs of blocks: own, near and one drawn.
        (BlockAttention(1, 1, 0, 1, causal=True), 512, 512 * 3 * 2),
        (BlockAttention(1, 1, 0, 1, causal=False), 512, 512 * 4 * 2),
        # The scores: chunks of four rows read M = 7 keys.
        (LSHAttention(2, 1, 4, causal=True), 512, 512 * 7),
        # The pairs within chunks of 64; the values and their ones.
        (LinearAttention(causal=True), 1024, 1024 * 64),
        (LinearAttention(causal=False), 1024, 1024 * 3),
        (NystromAttention(8), 256, 8 * 256),
    ],
    ids=str,
)
def test_no_tensor_has_all_the_pairs(attend, length, largest):
    assert largest_tensor(attend, *torch.randn(3, 1, 1, length, 2)) == largest


# -- Dropout ---------------------------------------------------------------------------


@over([attend for attend in EACH_KIND if attend.drops])
def test_dropout_drops_that_share_of_the_weights_and_keeps_the_mean(attend):
    zeros, ones = torch.zeros(2000, H, 1, 2), torch.ones(2000, H, 1, 1)
    for function in (attend, lambda *inputs: attend.explicit(*inputs)[0]):
        kept = function(zeros, zeros, ones, None, 0.25)  # of the only weight
        assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
        assert (kept == 0).double().mean().item() == pytest.approx(0.25, abs=0.03)
        eight, values = zeros.view(250, H, 8, 2), ones.view(250, H, 8, 1)
        kept = function(eight, eight, values, None, 0.5)
        sees_several = attend.explicit(eight, eight, values)[1].count_nonzero(-1) > 1
        assert kept.unique().numel() > 2 or not sees_several.any()  # weight by weight
        assert kept.mean().item() == pytest.approx(1, abs=0.05)


@over([attend for attend in EACH_KIND if not attend.drops])
def test_weights_that_are_not_made_cannot_be_dropped(heads, attend):
    for function in (attend, attend.explicit):
        with pytest.raises(ValueError, match=r"dropout must be 0 with .* 0.1") as e:
            function(*heads, None, 0.1)
        assert repr(attend) in str(e.value)


# -- What it is ------------------------------------------------------------------------


@over(ALL)
def test_it_is_a_value_that_can_be_written_down_compared_and_pickled(attend):
    for other in (
        eval(repr(attend), vars(variants)),
        pickle.loads(pickle.dumps(attend)),
    ):
        assert other == attend
        assert hash(other) == hash(attend)
    assert sum(attend == other for other in ALL) == 1
    with pytest.raises(FrozenInstanceError):
        attend.causal = True


@over(EACH_KIND)
def test_more_queries_than_keys_are_for_those_that_cross_attend(heads, attend):
    query, key, value = heads[0], *(x[:, :, :T] for x in heads[1:])
    if attend.cross and not attend.causal:
        found = attend(query, key, value)
        assert_close(found, attend.explicit(query, key, value)[0])
        return
    with pytest.raises(ValueError, match=f"as long as key with .*, got {S} and {T}"):
        attend(query, key, value)


@over(EACH_KIND)
def test_the_mask_of_the_model_is_for_what_is_causal(heads, padding, attend):
    mask = CausalMask(padding)
    if attend.causal:
        assert attend(*heads, mask).equal(attend(*heads, padding))
        return
    with pytest.raises(ValueError, match=r"not be causal .* got a CausalMask"):
        attend(*heads, mask)


@over(CAUSAL_KINDS)
def test_causal_is_true_or_false(attend):
    for causal in ("no", 0, None):
        with pytest.raises(TypeError, match=f"be True or False, got {causal!r}"):
            replace(attend, causal=causal)


@over(OTHER_KINDS)
def test_a_number_below_zero_or_that_is_not_whole_is_refused_by_name(attend):
    names = [n for n, kind in choices_of(type(attend)).items() if kind is int]
    for name in names:
        with pytest.raises(TypeError, match=f"{name} must be a whole number, got 2.5"):
            replace(attend, **{name: 2.5})
        if name != "seed":
            with pytest.raises(
                ValueError, match=rf"{name} must be at least \d, got -1"
            ):
                replace(attend, **{name: -1})
