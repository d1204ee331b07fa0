"""Any kind of attention, shape, mask and dtype: no nan, no leak, no look ahead."""

from itertools import product

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from kinds import KINDS, variants
from strategies import DTYPES, examples, generators, masks, sizes
from torch.testing import assert_close

from transformer_lib.variants import LSHAttention, NystromAttention
from transformer_lib.variants.attention.variant import MaskedVariant

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]

SIZES = [(1, 0), (0, 0), (30, 0), (1, -40), (1, 40)]  # scale and level of inputs
# Its inverse is cut off, so it keeps some promises nearly; it needs T = S.
EXACT = [kind for kind in KINDS if kind is not NystromAttention]
# A bucket may change by rounding.
SMOOTH = [kind for kind in EXACT if kind is not LSHAttention]


@st.composite
def calls(draw, kinds=KINDS):
    """A variant, what goes into it, and a mask that it takes."""
    kind, causal = draw(st.sampled_from(kinds)), draw(st.booleans())
    b, h, s, d_k, d_v = draw(st.tuples(sizes(3), sizes(3), *[sizes(9)] * 3))
    variant, generator = draw(variants(kind, h, causal)), draw(generators())
    t = s if kind is NystromAttention else draw(st.integers(1, s))
    scale, level = draw(st.sampled_from(SIZES))
    shapes = ((b, h, t, d_k), (b, h, s, d_k), (b, h, s, d_v))
    inputs = [
        level + scale * torch.randn(shape, generator=generator) for shape in shapes
    ]
    dtype = draw(st.sampled_from(DTYPES))
    inputs = [x.to(dtype) for x in inputs]
    padding = draw(st.none() | masks((b, 1, 1, s)))
    if padding is not None:  # any of the shapes that broadcast to it, in full
        padding = padding.expand(padding.size(0) if padding.dim() == 4 else 1, 1, 1, s)
    return variant, inputs, padding


# -- How much rounding may change ------------------------------------------------------
#
# Weights are exponentials of scores, or products of features that are exponentials. No
# exponent is much larger than ``size_of`` says. A few roundings move each by up to
# 2 * eps * size, and so a weight, which is divided by the sum of all, by a factor of at
# most exp(4 * eps * size). Since weights sum to 1, the result moves by that share of
# the largest value. Weights and result are then rounded to their dtype. In 16 bits, a
# score of 900 has no digits left after the point: then any mean of the values is right.


def size_of(query, key, *_):
    longest = max(x.detach().double().norm(dim=-1).max() for x in (query, key))
    return longest**2 / query.size(-1) ** 0.5 + 9  # 9: ALiBi's largest penalty


def rounding(variant, inputs):
    """What two ways to compute the same may differ by, for ``assert_close``."""
    outer = torch.finfo(inputs[2].dtype).eps
    inner = torch.finfo(torch.float32).eps if variant.wide else outer
    inner = min(inner, outer)
    moved = torch.expm1(4 * inner * size_of(*inputs))
    if isinstance(variant, NystromAttention):  # its inverse may enlarge its input
        moved = moved * inputs[1].size(2) / inner**0.5
    largest = inputs[2].detach().double().abs().max()
    return {"rtol": 2 * outer, "atol": (largest * (moved + outer).clamp(max=2)).item()}


@examples(150, 10_000)
@given(calls())
def test_it_is_its_explicit_form_without_nan(call):
    variant, inputs, padding = call
    inputs = [x.requires_grad_() for x in inputs]
    out = variant(*inputs, padding)
    assert out.isfinite().all()
    assert out.shape == (*inputs[0].shape[:-1], inputs[2].size(-1))
    assert out.dtype == inputs[2].dtype
    gradients = torch.autograd.grad(out.square().sum(), inputs)
    steep = size_of(*inputs) > 60 or isinstance(variant, NystromAttention)
    if out.dtype != torch.float16 or not steep:  # else they may leave its range
        assert all(gradient.isfinite().all() for gradient in gradients)
    explicit, weights = variant.explicit(*inputs, padding)
    bound = rounding(variant, inputs)
    assert weights.dtype == explicit.dtype == out.dtype
    assert_close(weights @ inputs[2], explicit, **bound)
    assert_close(out, explicit, **bound)
    if out.dtype == torch.float64 and not isinstance(variant, NystromAttention):
        theirs = torch.autograd.grad(explicit.square().sum(), inputs)
        for ours, other in zip(gradients, theirs, strict=True):
            assert_close(ours, other, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", EXACT)
@examples(8, 400)
@given(st.data(), generators())
def test_the_weights_of_a_query_sum_to_one_or_to_nothing(kind, data, generator):
    variant, inputs, padding = data.draw(calls(kinds=[kind]))
    query, key, value = (torch.randn(x.shape, generator=generator) for x in inputs)
    # So many weights that their sums may overflow, where that does not take long.
    times = 1 if isinstance(variant, MaskedVariant) else 100
    key = key.repeat(1, 1, times, 1)
    padding = None if padding is None else padding.repeat(1, 1, 1, times)
    ones = torch.ones_like(value).repeat(1, 1, times, 1)
    for dtype, (scale, level) in product(DTYPES, SIZES):
        inputs = [(level + scale * x).to(dtype) for x in (query, key)]
        inputs.append(ones.to(dtype))
        explicit, weights = variant.explicit(*inputs, padding)
        # Weights and results are rounded to their dtype, and each addition is rounded,
        # too, in float32 at least.
        eps = torch.finfo(dtype).eps
        added = key.size(2) * min(eps, torch.finfo(torch.float32).eps)
        bound = {"rtol": 0, "atol": 10 * eps + added}
        for sums in (variant(*inputs, padding), explicit, weights.sum(-1, True)):
            assert_close(sums, sums.round().clamp(0, 1), **bound)
            if padding is not None:  # a query whose own position is visible sees that
                own = padding.mT[:, :, -query.size(2) :]
                sums = sums.masked_fill(~own, 1.0)
            assert_close(sums, torch.ones_like(sums), **bound)


@examples(100, 5_000)
@given(calls(kinds=SMOOTH))
def test_in_any_dtype_it_is_nearly_what_it_is_in_double_precision(call):
    variant, inputs, padding = call
    assume(size_of(*inputs) < 60)  # else features may vanish in one dtype alone
    exact = variant(*(x.double() for x in inputs), padding)
    out = variant(*inputs, padding)
    assert_close(out.double(), exact, **rounding(variant, inputs))


@examples(100, 5_000)
@given(calls(), st.data())
def test_hidden_keys_and_values_change_nothing_and_get_no_gradient(call, data):
    variant, (query, key, value), padding = call
    assume(padding is not None and not padding.all())
    row, *_, column = data.draw(st.sampled_from((~padding).nonzero().tolist()))
    rows = slice(None) if padding.size(0) == 1 else [row]
    new_key, new_value = key.clone(), value.clone()
    new_key[rows, :, column] += 100
    new_value[rows, :, column] -= 100
    before = variant(query, key, value, padding)
    after = variant(query, new_key, new_value, padding)
    assert after.equal(before)
    key, value = key.requires_grad_(), value.requires_grad_()
    out = variant(query, key, value, padding)
    for gradient in torch.autograd.grad(out.square().sum(), (key, value)):
        assert gradient[rows, :, column].eq(0).all()
