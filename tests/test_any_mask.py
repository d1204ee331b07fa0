"""Attention under any mask: what is hidden does nothing, whatever it holds."""

import math
import re

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from strategies import SEEDS, attentions, examples, masks, sizes
from torch.testing import assert_close

from transformer_lib.model import (
    MultiHeadAttention,
    causal_mask,
    fused_attention,
    padding_mask,
    scaled_dot_product_attention,
)

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]
nearly = {"rtol": 1e-11, "atol": 1e-11}  # in float64


def whole(mask, query, key):
    """The mask in the shape of the scores."""
    return mask.expand(*query.shape[:-1], key.size(-2))


def one_by_one(query, key, value, mask):
    """Attention of each query by itself, over the keys that it may see, and no mask."""
    out = query.new_zeros(*query.shape[:-1], value.size(-1))
    for place in torch.ones(query.shape[:-1]).nonzero().tolist():
        leading, place = tuple(place[:-1]), tuple(place)
        seen = mask[place]
        if seen.any():
            scores = key[leading][seen] @ query[place] / math.sqrt(query.size(-1))
            out[place] = scores.softmax(dim=0) @ value[leading][seen]
    return out


@examples(60, 10_000)
@given(attentions())
def test_fused_and_explicit_attention_are_the_average_over_what_may_be_seen(given):
    query, key, value, mask = given
    expected = one_by_one(query, key, value, whole(mask, query, key))
    explicit, weights = scaled_dot_product_attention(query, key, value, mask)
    assert_close(explicit, expected, **nearly)
    assert_close(fused_attention(query, key, value, mask), expected, **nearly)
    assert weights[~whole(mask, query, key)].eq(0).all()
    seen = whole(mask, query, key).any(dim=-1)
    assert_close(weights.sum(dim=-1), seen.double(), **nearly)
    assert explicit[~seen].eq(0).all()


@examples(30, 3_000)
@given(attentions(), st.data())
def test_no_gradient_reaches_what_is_hidden(given, data):
    query, key, value, mask = given
    column = data.draw(st.integers(0, key.size(-2) - 1), "column")
    hidden = ~whole(mask, query, key)[..., column]
    for attend in (lambda *x: scaled_dot_product_attention(*x)[0], fused_attention):
        inputs = [x.clone().requires_grad_() for x in (query, key, value)]
        out = attend(*inputs, mask)
        gradients = torch.autograd.grad(out[hidden].sum(), inputs)
        assert all(gradient.isfinite().all() for gradient in gradients)
        assert gradients[1][..., column, :].eq(0).all()
        assert gradients[2][..., column, :].eq(0).all()


@st.composite
def many_heads(draw):
    heads, d_k, (b, t, s) = (
        draw(sizes(3)),
        draw(sizes(3)),
        draw(st.tuples(*[sizes()] * 3)),
    )
    torch.manual_seed(draw(SEEDS))
    attention = MultiHeadAttention(heads * d_k, heads, bias=draw(st.booleans()))
    query, memory = torch.randn(b, t, heads * d_k), torch.randn(b, s, heads * d_k)
    return attention.eval(), query, memory, draw(masks((b, heads, t, s)))


@examples(20, 3_000)
@given(many_heads(), st.data())
def test_many_heads_hide_what_the_mask_hides(given, data):
    attention, query, memory, mask = given
    b, t, _ = query.shape
    s = memory.size(1)
    seen = mask.expand(b, attention.num_heads, t, s)
    column = data.draw(st.integers(0, s - 1), "column")
    changed = memory.clone()
    changed[:, column] += torch.randn_like(changed[:, column])
    before, after = (attention(query, x, x, mask) for x in (memory, changed))
    hidden = ~seen[..., column].any(dim=1)  # in every head
    assert_close(after[hidden], before[hidden], rtol=0, atol=1e-13)
    assert (before != after).any(dim=-1)[~hidden].all()  # what is seen matters
    blind = ~seen.any(dim=-1).any(dim=1)  # in every head
    nothing = attention.w_o(torch.zeros_like(query))
    assert_close(before[blind], nothing[blind])


@examples(30, 2_000)
@given(attentions(), st.lists(st.integers(0, 7), max_size=5))
def test_a_mask_of_another_shape_is_refused_with_both_shapes(given, shape):
    query, key, value, _ = given
    scores = (*query.shape[:-1], key.size(-2))
    pairs = zip(reversed(shape), reversed(scores), strict=False)
    fits = all(ours in (1, theirs) for ours, theirs in pairs)
    assume(not (fits and 2 <= len(shape) <= len(scores)))
    message = f"mask must broadcast to the scores, got {tuple(shape)} and {scores}"
    for attend in (scaled_dot_product_attention, fused_attention):
        with pytest.raises(ValueError, match=re.escape(message)):
            attend(query, key, value, torch.ones(shape, dtype=torch.bool))


@examples(30, 2_000)
@given(st.tuples(*[st.lists(sizes(3), min_size=2, max_size=4)] * 3))
def test_queries_keys_and_values_fit_or_are_refused_by_name(shapes):
    q, k, v = map(tuple, shapes)
    fit = q[:-2] == k[:-2] == v[:-2] and q[-1] == k[-1] and k[-2] == v[-2]
    inputs = [torch.ones(shape) for shape in (q, k, v)]
    for attend in (lambda *x: scaled_dot_product_attention(*x)[0], fused_attention):
        if fit:
            assert_close(attend(*inputs), torch.ones(*q[:-1], v[-1]))
        else:
            with pytest.raises(ValueError, match=r"(query|key).* and (key|value) must"):
                attend(*inputs)


@examples(20, 2_000)
@given(st.data())
def test_padding_and_future_are_hidden_and_nothing_else(data):
    b, t = data.draw(sizes()), data.draw(st.integers(0, 6))
    pad_id = data.draw(st.integers(-1, 3), "pad_id")
    rows = st.lists(st.integers(0, 3), min_size=t, max_size=t)
    tokens = torch.tensor([data.draw(rows) for _ in range(b)]).view(b, t)
    mask = causal_mask(t) & padding_mask(tokens, pad_id)
    assert mask.shape == (b, 1, t, t)
    for row, query, key in torch.ones(b, t, t).nonzero().tolist():
        seen = key <= query and tokens[row, key] != pad_id
        assert mask[row, 0, query, key] == seen
