import math
import re

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch_weights import copy_attention

from transformer_lib.model import (
    MultiHeadAttention,
    causal_mask,
    fused_attention,
    scaled_dot_product_attention,
)

B, H, T, S, D_K, D_V = 2, 3, 5, 7, 11, 13
D_MODEL = H * D_K


@pytest.fixture
def heads():
    return (
        torch.randn(B, H, T, D_K),
        torch.randn(B, H, S, D_K),
        torch.randn(B, H, S, D_V),
    )


@pytest.fixture
def mask():
    mask = torch.rand(B, H, T, S) < 0.5
    mask[..., 0] = True  # every query may attend to something
    return mask


@pytest.fixture(params=[True, False], ids=["bias", "no bias"])
def attention(request):
    attention = MultiHeadAttention(D_MODEL, H, bias=request.param)
    for parameter in attention.parameters():
        nn.init.normal_(parameter)
    return attention.eval()


@pytest.mark.parametrize("masked", [False, True])
def test_it_agrees_with_torchs_functional_form(heads, mask, masked):
    mask = mask if masked else None
    attended, _ = scaled_dot_product_attention(*heads, mask)
    assert_close(attended, F.scaled_dot_product_attention(*heads, mask))
    assert_close(attended, fused_attention(*heads, mask))


@pytest.mark.parametrize("masked", [False, True])
def test_many_heads_agree_with_torchs_module(attention, mask, masked):
    theirs = nn.MultiheadAttention(
        D_MODEL, H, bias=attention.w_q.bias is not None, batch_first=True
    ).eval()
    copy_attention(attention, theirs)
    query, memory = torch.randn(B, T, D_MODEL), torch.randn(B, S, D_MODEL)
    value = torch.randn(B, S, D_MODEL)
    hidden = ~mask.flatten(0, 1) if masked else None
    expected, _ = theirs(query, memory, value, attn_mask=hidden)
    mask = mask if masked else None
    assert_close(attention(query, memory, value, mask), expected)


def test_dropout_drops_the_same_weights_as_torch(heads):
    torch.manual_seed(1)
    attended, weights = scaled_dot_product_attention(*heads, dropout=0.5)
    torch.manual_seed(1)
    assert_close(attended, fused_attention(*heads, dropout=0.5))
    assert_close(weights.sum(-1), torch.ones(B, H, T))  # those before dropout


def test_two_keys_by_hand():
    query = torch.tensor([[2.0, 0.0]])
    key = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    value = torch.tensor([[1.0], [-1.0]])
    attended, weights = scaled_dot_product_attention(query, key, value)
    first = math.exp(2 / math.sqrt(2)) / (math.exp(2 / math.sqrt(2)) + 1)
    assert_close(weights, torch.tensor([[first, 1 - first]]))
    assert_close(attended, torch.tensor([[2 * first - 1]]))


def test_each_row_of_weights_sums_to_one_and_hidden_keys_get_none(heads, mask):
    _, weights = scaled_dot_product_attention(*heads, mask)
    assert weights.shape == (B, H, T, S)
    assert (weights >= 0).all()
    assert_close(weights.sum(-1), torch.ones(B, H, T))
    assert (weights[~mask] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_a_query_that_may_attend_to_nothing_gets_zeros_and_finite_gradients(dtype):
    heads = [torch.randn(B, H, n, D_K, dtype=dtype) for n in (T, S, S)]
    mask = torch.ones(B, 1, T, S, dtype=torch.bool)
    mask[1, :, 2] = False
    explicit = [x.clone().requires_grad_() for x in heads]
    fused = [x.clone().requires_grad_() for x in heads]
    attended, weights = scaled_dot_product_attention(*explicit, mask)
    assert (attended[1, :, 2] == 0).all()
    assert (weights[1, :, 2] == 0).all()
    also = fused_attention(*fused, mask)
    assert (also[1, :, 2] == 0).all()
    attended.sum().backward()
    also.sum().backward()
    assert all(x.grad.isfinite().all() for x in explicit + fused)


def test_a_nan_in_the_input_is_not_hidden(heads):
    query, key, value = heads
    query[0, 0, 0, 0] = float("nan")
    mask = torch.ones(T, S, dtype=torch.bool)
    attended, _ = scaled_dot_product_attention(query, key, value, mask)
    assert attended[0, 0, 0].isnan().all()


@pytest.fixture
def shout(heads):
    """Both functions on a hidden last position that holds these numbers."""

    def shout(key=0.0, value=0.0):
        keys, values = heads[1].clone(), heads[2].clone()
        keys[..., -1, :], values[..., -1, :] = key, value
        mask = torch.ones(T, S, dtype=torch.bool)
        mask[:, -1] = False
        explicit, _ = scaled_dot_product_attention(heads[0], keys, values, mask)
        return explicit, fused_attention(heads[0], keys, values, mask)

    return shout


def test_what_is_hidden_has_no_say_as_long_as_it_is_finite(shout):
    explicit, fused = shout()
    for numbers in ({"key": 1e300}, {"key": -1e300}, {"value": 1e300}):
        loud, fused_loud = shout(**numbers)
        assert loud.equal(explicit)
        assert fused_loud.equal(fused)


@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_a_hidden_value_that_is_not_finite_gives_nan_and_a_key_does_in_the_kernel(
    shout, number
):
    silent, _ = shout()
    explicit, fused = shout(key=number)
    assert explicit.equal(silent)
    assert fused.isnan().all()
    for attended in shout(value=number):
        assert attended.isnan().all()


def test_causal_attention_never_looks_ahead(attention):
    x = torch.randn(B, T, D_MODEL, requires_grad=True)
    attended = attention(x, x, x, causal_mask(T))
    for t in range(T):
        (gradient,) = torch.autograd.grad(attended[:, t].sum(), x, retain_graph=True)
        assert (gradient[:, t + 1 :] == 0).all()
        assert (gradient[:, : t + 1] != 0).any(-1).all()


def test_hidden_keys_change_nothing(attention):
    query, memory = torch.randn(B, T, D_MODEL), torch.randn(B, S, D_MODEL)
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 4:] = False
    before = attention(query, memory, memory, mask)
    memory[1, 4:] = 1e6
    assert_close(attention(query, memory, memory, mask), before)


def test_shuffled_words_give_shuffled_results(attention):
    x = torch.randn(B, T, D_MODEL)
    order = torch.randperm(T)
    assert_close(attention(x, x, x)[:, order], attention(*[x[:, order]] * 3))


def test_attention_dropout_is_for_training_only():
    attention = MultiHeadAttention(D_MODEL, H, dropout=0.5)
    x = torch.randn(B, T, D_MODEL)
    assert not attention(x, x, x).equal(attention(x, x, x))
    attention.eval()
    assert attention(x, x, x).equal(attention(x, x, x))


def test_the_number_of_heads_does_not_change_the_number_of_parameters():
    sizes = {
        sum(p.numel() for p in MultiHeadAttention(D_MODEL, heads).parameters())
        for heads in (1, H, D_K, D_MODEL)
    }
    assert sizes == {4 * D_MODEL**2 + 4 * D_MODEL}


def test_d_model_must_be_divisible_by_the_heads():
    with pytest.raises(ValueError, match="divisible by num_heads, got 10 and 3"):
        MultiHeadAttention(10, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"d_model": -6, "num_heads": 3}, "d_model must be at least 1, got -6"),
        ({"d_model": 6, "num_heads": 0}, "num_heads must be at least 1, got 0"),
        ({"d_model": 6, "num_heads": 3, "dropout": 1.0}, r"in \[0, 1\), got 1\.0"),
        ({"d_model": 6, "num_heads": 3, "dropout": -0.1}, r"in \[0, 1\), got -0\.1"),
    ],
)
def test_impossible_sizes_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**arguments)


BOTH = pytest.mark.parametrize(
    "attend", [scaled_dot_product_attention, fused_attention]
)


@BOTH
@pytest.mark.parametrize("dtype", [torch.int64, torch.float64])
def test_masks_that_are_not_boolean_are_refused(heads, attend, dtype):
    with pytest.raises(TypeError, match=f"mask must be boolean, got {dtype}"):
        attend(*heads, torch.ones(T, S, dtype=dtype))


@BOTH
@pytest.mark.parametrize("shape", [(S, T), (4, 1, 1, S), (2, 1, 1, 1, S), (B, S), (S,)])
def test_masks_that_do_not_broadcast_are_refused(heads, attend, shape):
    mask = torch.ones(shape, dtype=torch.bool)
    with pytest.raises(ValueError, match=re.escape(f"got {shape} and {(B, H, T, S)}")):
        attend(*heads, mask)


@BOTH
def test_a_key_without_a_value_is_refused(heads, attend):
    query, key, value = heads
    with pytest.raises(ValueError, match=r"key and value .* length, got 7 and 6"):
        attend(query, key, value[..., :-1, :])


@BOTH
def test_queries_and_keys_of_different_width_are_refused(heads, attend):
    query, key, value = heads
    with pytest.raises(ValueError, match=r"query and key .* width, got 10 and 11"):
        attend(query[..., :-1], key, value)


@BOTH
@pytest.mark.parametrize("other", [(1, H), (B + 1, H), (H,)])
def test_batches_of_different_size_are_refused(heads, attend, other):
    query, _, value = heads
    message = re.escape(f"got {(B, H)}, {other} and {(B, H)}")
    with pytest.raises(ValueError, match=message):
        attend(query, torch.randn(*other, S, D_K), value)


@BOTH
def test_no_key_at_all_is_refused(heads, attend):
    query, key, value = heads
    with pytest.raises(ValueError, match="key must hold at least one position, got 0"):
        attend(query, key[..., :0, :], value[..., :0, :])


def test_without_bias_no_projection_adds_one():
    attention = MultiHeadAttention(D_MODEL, H, bias=False)
    assert sum(p.numel() for p in attention.parameters()) == 4 * D_MODEL**2


def test_any_number_of_axes_may_come_before_the_last_two(heads, mask):
    expected, _ = scaled_dot_product_attention(*heads, mask)
    single, own = [x[1, 2] for x in heads], mask[1, 2]
    assert_close(scaled_dot_product_attention(*single, own)[0], expected[1, 2])
    assert_close(fused_attention(*single, own), expected[1, 2])
