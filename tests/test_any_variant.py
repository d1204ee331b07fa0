"""Any kind of attention, any shape and mask: no nan, no leak, no look ahead."""

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import examples, generators, masks, sizes
from torch.testing import assert_close

from transformer_lib.masks import CausalMask
from transformer_lib.variants import (
    alibi_attention,
    block_attention,
    full_attention,
    hashed_attention,
    linear_attention,
    nystrom_attention,
    performer_attention,
    window_attention,
)

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]
nearly = {"rtol": 1e-11, "atol": 1e-11}  # in float64


def landmarks(count, *, causal):
    """Of the choices of ``causal``, one is none."""
    assert not causal
    return nystrom_attention(count)


# Every factory, with a choice of what it takes besides ``causal``.
FACTORIES = {
    "alibi": lambda draw: (alibi_attention, (3,)),
    "blocks": lambda draw: (
        block_attention,
        (draw(sizes(4)), *[draw(st.integers(0, 3)) for _ in range(4)]),
    ),
    "full": lambda draw: (full_attention, ()),
    "hashed": lambda draw: (
        hashed_attention,
        (2 * draw(sizes(3)), draw(sizes(3)), draw(sizes(5)), draw(st.integers(0, 3))),
    ),
    "landmarks": lambda draw: (landmarks, (draw(sizes(9)),)),
    "linear": lambda draw: (linear_attention, ()),
    "performer": lambda draw: (
        performer_attention,
        (draw(sizes(20)), draw(st.integers(0, 3))),
    ),
    "window": lambda draw: (window_attention, (draw(sizes(9)),)),
}


@st.composite
def variants(draw, causal=None):
    names = sorted(FACTORIES)
    if causal:
        names.remove("landmarks")
    name = draw(st.sampled_from(names))
    make, choices = FACTORIES[name](draw)
    if name == "landmarks":
        causal = False
    causal = draw(st.booleans()) if causal is None else causal
    return make(*choices, causal=causal)


@st.composite
def calls(draw, causal=None):
    """A variant, what goes into it, and a mask that it takes."""
    variant, generator = draw(variants(causal)), draw(generators())
    b, s, d_k, d_v = draw(st.tuples(sizes(3), *[sizes(9)] * 3))
    h = 3 if "alibi" in variant.name else draw(sizes(3))
    t = s if "nystrom" in variant.name else draw(st.integers(1, s))
    scale = draw(st.sampled_from([1.0, 0.0, 30.0]))
    shapes = ((b, h, t, d_k), (b, h, s, d_k), (b, h, s, d_v))
    inputs = [scale * torch.randn(shape, generator=generator) for shape in shapes]
    padding = draw(st.none() | masks((b, 1, 1, s)))
    if padding is not None:  # any of the shapes that broadcast to it, in full
        padding = padding.expand(padding.size(0) if padding.dim() == 4 else 1, 1, 1, s)
    return variant, inputs, padding


@examples(60, 10_000)
@given(calls())
def test_it_is_its_explicit_form_without_nan(call):
    variant, inputs, padding = call
    inputs = [x.requires_grad_() for x in inputs]
    out = variant(*inputs, padding)
    assert out.isfinite().all()
    assert out.shape == (*inputs[0].shape[:-1], inputs[2].size(-1))
    gradients = torch.autograd.grad(out.square().sum(), inputs)
    assert all(gradient.isfinite().all() for gradient in gradients)
    if variant.explicit is None:
        return
    explicit, weights = variant.explicit(*inputs, padding)
    assert_close(weights @ inputs[2], explicit, **nearly)
    if "nystrom" in variant.name:  # its inverse may enlarge rounding 1e8 times
        assert_close(out, explicit, rtol=1e-5, atol=1e-5)
        return
    assert_close(out, explicit, **nearly)
    theirs = torch.autograd.grad(explicit.square().sum(), inputs)
    for ours, other in zip(gradients, theirs, strict=True):
        assert_close(ours, other, rtol=1e-9, atol=1e-9)


@examples(40, 5_000)
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
    assert_close(after, before, rtol=0, atol=1e-12)
    key, value = key.requires_grad_(), value.requires_grad_()
    out = variant(query, key, value, padding)
    for gradient in torch.autograd.grad(out.square().sum(), (key, value)):
        assert gradient[rows, :, column].eq(0).all()


@examples(40, 5_000)
@given(calls(causal=True))
def test_what_is_causal_gets_no_gradient_from_the_future(call):
    variant, inputs, padding = call
    query, key, value = (x.requires_grad_() for x in inputs)
    t, s = query.size(2), key.size(2)
    mask = padding
    if padding is not None:
        mask = CausalMask(padding)
    out = variant(query, key, value, mask)
    for step in range(t):
        found = torch.autograd.grad(
            out[:, :, step].sum(), (key, value), retain_graph=True
        )
        for gradient in found:
            assert gradient[:, :, s - t + step + 1 :].eq(0).all()


@examples(30, 3_000)
@given(calls())
def test_the_last_queries_alone_get_what_they_get_among_all(call):
    variant, (query, key, value), padding = call
    assume("nystrom" not in variant.name)  # refuses fewer queries than keys
    whole = variant(query, key, value, padding)
    for t in range(1, query.size(2)):
        last = variant(query[:, :, -t:], key, value, padding)
        assert_close(last, whole[:, :, -t:], **nearly)
