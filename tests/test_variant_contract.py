"""What every kind of attention promises; what one kind computes is in its own file."""

import pickle
from dataclasses import FrozenInstanceError

import pytest
import torch
from torch.testing import assert_close
from watching import largest_tensor

from transformer_lib.model import (
    MultiHeadAttention,
    SelfAttentionCache,
    causal_mask,
    scaled_dot_product_attention,
)
from transformer_lib.variants import (
    AlibiAttention,
    BlockAttention,
    CausalMask,
    FullAttention,
    LinearAttention,
    LSHAttention,
    NystromAttention,
    PerformerAttention,
    WindowAttention,
)
from transformer_lib.variants.attention.variant import MaskedVariant

B, H, T, S, D_K, D_V = 2, 3, 5, 29, 7, 11
CHOICES = [
    (AlibiAttention, (H,)),
    (BlockAttention, (1, 0, 0, 0)),
    (BlockAttention, (3, 1, 1, 2, 2)),
    (BlockAttention, (4, 0, 2, 1, 2)),
    (BlockAttention, (7, 1, 0, 3, 2)),
    (BlockAttention, (100, 0, 0, 0)),
    (FullAttention, ()),
    (LSHAttention, (2, 1, 1, 2)),
    (LSHAttention, (2, 2, 29, 2)),
    (LSHAttention, (4, 3, 2, 2)),
    (LSHAttention, (6, 2, 5, 2)),
    (LSHAttention, (8, 5, 100, 2)),
    (LinearAttention, ()),
    (PerformerAttention, (20, 3)),
    *[(WindowAttention, (width,)) for width in (1, 2, 3, 4, 5, 28, 29, 30, 100)],
]
CAUSAL = [kind(*choice, causal=True) for kind, choice in CHOICES]
OTHER = [kind(*choice, causal=False) for kind, choice in CHOICES]
OTHER += [NystromAttention(count) for count in (1, 3, 40)]
ALL = CAUSAL + OTHER


def of_each_kind(variants):
    """Of variants that differ in their numbers alone, take the one in the middle."""
    kinds = {}
    for variant in variants:
        kinds.setdefault((type(variant), variant.causal), []).append(variant)
    return [same[len(same) // 2] for same in kinds.values()]


def over(variants):
    return pytest.mark.parametrize("attend", variants, ids=str)


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


@over([variant for variant in ALL if isinstance(variant, MaskedVariant)])
def test_its_explicit_form_is_attention_under_its_mask(heads, padding, attend):
    for t in lengths(attend):
        query, key, value = heads[0][:, :, -t:], *heads[1:]
        for hidden in (padding, None):
            mask = attend.mask(query, key, hidden)
            found = attend.explicit(query, key, value, hidden)
            assert_close(found, scaled_dot_product_attention(query, key, value, mask))
            if attend.causal or hidden is not None:
                seen = True if hidden is None else hidden
                seen = seen & causal_mask(S)[..., -t:, :] if attend.causal else seen
                assert not (mask & ~seen).any()


@over(of_each_kind(ALL))
def test_its_gradients_are_those_of_its_explicit_form(heads, padding, attend):
    found = []
    for function in (attend, lambda *inputs: attend.explicit(*inputs)[0]):
        inputs = [x.clone().requires_grad_() for x in heads]
        out = function(*inputs, padding)
        found.append(torch.autograd.grad(out.square().sum(), inputs))
    for ours, theirs in zip(*found, strict=True):
        assert ours.isfinite().all()
        assert_close(ours, theirs)


@over(of_each_kind(CAUSAL))
def test_the_mask_of_the_model_is_taken_in_words(heads, padding, attend):
    assert attend(*heads, CausalMask(padding)).equal(attend(*heads, padding))


@over(of_each_kind(ALL))
def test_where_nothing_is_visible_there_are_zeros_and_finite_gradients(heads, attend):
    inputs = [x.clone().requires_grad_() for x in heads]
    out = attend(*inputs, torch.zeros(B, 1, 1, S, dtype=torch.bool))
    assert out.eq(0).all()
    assert all(g.isfinite().all() for g in torch.autograd.grad(out.sum(), inputs))


@over(of_each_kind(CAUSAL))
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

DROPPING = [variant for variant in of_each_kind(ALL) if variant.drops]


@over([AlibiAttention(1, causal=True) if v.places else v for v in DROPPING])
def test_dropout_drops_that_share_of_the_weights_and_keeps_the_mean(attend):
    zeros, ones = torch.zeros(4000, 1, 1, 2), torch.ones(4000, 1, 1, 1)
    for function in (attend, lambda *inputs: attend.explicit(*inputs)[0]):
        kept = function(zeros, zeros, ones, None, 0.25)  # of the only weight
        assert kept.unique().tolist() == pytest.approx([0, 4 / 3])
        assert (kept == 0).double().mean().item() == pytest.approx(0.25, abs=0.03)
        eight, values = zeros.view(500, 1, 8, 2), ones.view(500, 1, 8, 1)
        kept = function(eight, eight, values, None, 0.5)
        assert kept.unique().numel() > 2  # weight by weight
        assert kept.mean().item() == pytest.approx(1, abs=0.05)


@over([variant for variant in of_each_kind(ALL) if not variant.drops])
def test_weights_that_are_not_made_cannot_be_dropped(heads, attend):
    for function in (attend, attend.explicit):
        with pytest.raises(ValueError, match=r"dropout must be 0 with .* 0.1") as e:
            function(*heads, None, 0.1)
        assert repr(attend) in str(e.value)


# -- What it is ------------------------------------------------------------------------


@over(ALL)
def test_it_is_a_value_that_can_be_written_down_compared_and_pickled(attend):
    for other in (eval(repr(attend)), pickle.loads(pickle.dumps(attend))):
        assert other == attend
        assert hash(other) == hash(attend)
    assert sum(attend == other for other in ALL) == 1
    with pytest.raises(FrozenInstanceError):
        attend.causal = True


@over(of_each_kind(ALL))
def test_more_queries_than_keys_are_for_those_that_cross_attend(heads, attend):
    query, key, value = heads[0], *(x[:, :, :T] for x in heads[1:])
    if attend.cross and not attend.causal:
        found = attend(query, key, value)
        assert found.shape == (B, H, S, D_V)
        assert_close(found, attend.explicit(query, key, value)[0])
        return
    with pytest.raises(ValueError, match=f"as long as key with .*, got {S} and {T}"):
        attend(query, key, value)


@over(of_each_kind(OTHER))
def test_a_causal_mask_is_refused_by_what_is_not_causal(heads, attend):
    mask = CausalMask(torch.ones(B, 1, 1, S).bool())
    with pytest.raises(ValueError, match=r"not be causal .* got a CausalMask"):
        attend(*heads, mask)


@pytest.mark.parametrize("kind", dict(CHOICES).items())
@pytest.mark.parametrize("causal", ["no", 0, None])
def test_causal_is_true_or_false(kind, causal):
    make, choice = kind
    with pytest.raises(
        TypeError, match=f"causal must be True or False, got {causal!r}"
    ):
        make(*choice, causal=causal)


@pytest.mark.parametrize(
    ("kind", "choice", "name", "least"),
    [
        (AlibiAttention, {}, "num_heads", 1),
        (BlockAttention, {}, "size", 1),
        (BlockAttention, {"size": 2}, "near", 0),
        (BlockAttention, {"size": 2}, "num_global", 0),
        (BlockAttention, {"size": 2}, "num_random", 0),
        (LSHAttention, {"num_rounds": 1, "width": 1}, "num_buckets", 1),
        (LSHAttention, {"num_buckets": 2, "width": 1}, "num_rounds", 1),
        (LSHAttention, {"num_buckets": 2, "num_rounds": 1}, "width", 1),
        (NystromAttention, {}, "num_landmarks", 1),
        (PerformerAttention, {"seed": 0}, "num_features", 1),
        (WindowAttention, {}, "width", 1),
    ],
)
def test_a_number_that_is_too_small_or_not_whole_is_refused(kind, choice, name, least):
    if kind is not NystromAttention:
        choice = choice | {"causal": True}
    message = f"{name} must be at least {least}, got {least - 1}"
    with pytest.raises(ValueError, match=message):
        kind(**choice, **{name: least - 1})
    if kind is not AlibiAttention:
        with pytest.raises(TypeError, match=f"{name} must be a whole number, got 2.5"):
            kind(**choice, **{name: 2.5})
