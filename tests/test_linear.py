import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import causal_mask
from transformer_lib.variants import (
    CausalMask,
    LinearAttention,
    NystromAttention,
    PerformerAttention,
)
from transformer_lib.variants.attention.linear import elu_features, sum_by_chunks

B, H, T, S, D_K, D_V, PAD = 2, 3, 5, 13, 7, 11, 0
BACK, ALL = LinearAttention(causal=True), LinearAttention(causal=False)
PAIRS = {  # for an encoder and for a decoder
    "linear": (ALL, BACK),
    "performer": [PerformerAttention(8, 3, causal=causal) for causal in (False, True)],
    "nystrom": (NystromAttention(3), None),
}


# -- The features ----------------------------------------------------------------------


def test_the_features_are_those_of_torch_plus_one(heads):
    query, key, _ = heads
    query[..., 0] = query[..., 0].abs()
    q, k = elu_features(query, key)
    assert_close(q, F.elu(query) + 1)
    assert_close(k, F.elu(key) + 1)


def test_small_features_are_not_rounded_to_zero():
    x = torch.tensor([-20.0, -40.0], dtype=torch.float32)
    assert (F.elu(x) + 1 == 0).all()
    assert_close(elu_features(x, x)[1], x.exp(), rtol=1e-6, atol=0)


def test_a_query_below_zero_is_raised_until_its_largest_number_is_zero():
    x = torch.tensor([[-20.0, -40.0], [-200.0, -199.0], [3.0, -2.0]])
    raised = torch.tensor([[0.0, -20.0], [-1.0, 0.0], [3.0, -2.0]])
    assert_close(elu_features(x, x)[0], F.elu(raised) + 1)


def test_gradients_of_the_features_are_those_of_torch():
    x = torch.tensor([-3.0, -0.5, 0.0, 0.5, 3.0], requires_grad=True)
    ours = torch.autograd.grad(elu_features(x, x)[0].sum(), x)
    theirs = torch.autograd.grad(F.elu(x).sum(), x)
    assert_close(ours, theirs)


# -- The computation -------------------------------------------------------------------


def test_three_tokens_by_hand():
    # Features 1, 2 and 3 of the keys; the query's cancels, since it is one number.
    key = torch.tensor([0.0, 1.0, 2.0])[None, None, :, None]
    value = torch.tensor([6.0, 0.0, 3.0])[None, None, :, None]
    query = torch.tensor([5.0, -1.0, 0.3])[None, None, :, None]
    expected = torch.full((3,), (1 * 6 + 3 * 3) / 6)
    assert_close(ALL(query, key, value).flatten(), expected)
    expected = torch.tensor([6, 6 / 3, 15 / 6])
    assert_close(BACK(query, key, value).flatten(), expected)


def mask_of(t, causal, padding):
    """Where weights may be, (B or 1, 1, T or 1, S)."""
    mask = causal_mask(S)[:, :, -t:] if causal else torch.ones(1, 1, 1, S).bool()
    return mask if padding is None else mask & padding


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("t", [1, T, S])
@pytest.mark.parametrize("padded", [True, False])
def test_moved_brackets_give_what_the_table_gives(heads, padding, causal, t, padded):
    query, key, value = heads
    query, padding = query[:, :, -t:], padding if padded else None
    weights = (F.elu(query) + 1) @ (F.elu(key) + 1).transpose(-2, -1)
    weights = weights * mask_of(t, causal, padding)
    weights = (weights / weights.sum(dim=-1, keepdim=True)).nan_to_num(0.0)
    attend = LinearAttention(causal=causal)
    assert_close(attend(query, key, value, padding), weights @ value)
    ours, our_weights = attend.explicit(query, key, value, padding)
    assert_close(ours, weights @ value)
    assert_close(our_weights, weights)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 12, 13, 14, 100])
@pytest.mark.parametrize("t", [1, T, S])
def test_chunks_of_any_size_give_the_same_sums(heads, size, t):
    q, k = elu_features(*heads[:2])
    expected = (q @ k.transpose(-2, -1)).tril() @ heads[2]
    found = sum_by_chunks(q[:, :, -t:], k, heads[2], size)
    assert_close(found, expected[:, :, -t:])


def test_a_state_carried_from_step_to_step_gives_the_same(heads):
    query, key, value = heads
    (q, k), found = elu_features(query, key), []
    state, total = torch.zeros(B, H, D_K, D_V), torch.zeros(B, H, D_K)
    for step in range(S):
        state = state + k[:, :, step, :, None] * value[:, :, step, None]
        total = total + k[:, :, step]
        asked = q[:, :, step, None] @ state  # (B, H, 1, d_v)
        found.append(asked / (q[:, :, step] * total).sum(dim=-1)[..., None, None])
    assert_close(BACK(*heads), torch.cat(found, dim=2))


def test_a_large_key_after_small_ones_does_not_drown_them():
    # Had the past been made as a difference of sums, it would be 0 here.
    key = torch.full((1, 1, 128, 1), -60.0)
    key[:, :, 65] = 1e6
    value = torch.arange(128.0)[None, None, :, None]
    out = BACK(torch.zeros_like(key), key, value).flatten()
    assert_close(out[:65], torch.arange(65.0) / 2)


def test_no_gradient_comes_from_the_future_or_from_hidden_keys(heads, padding):
    query, key, value = (x.clone().requires_grad_() for x in heads)
    out = BACK(query, key, value, CausalMask(padding))
    for gradient in torch.autograd.grad(out[:, :, 7].sum(), (key, value)):
        moved = gradient.abs().sum(dim=(1, 3)).nonzero().tolist()
        assert moved == [[0, s] for s in (5, 6, 7)] + [[1, s] for s in range(8)]


def test_single_precision_stays_finite_where_features_vanish():
    for scale in (1, 30, 1000):
        heads = torch.randn(3, 1, 2, 200, 16, dtype=torch.float32) * scale
        for attend in (ALL, BACK, PerformerAttention(64, 3, causal=True)):
            inputs = [x.clone().requires_grad_() for x in heads]
            out = attend(*inputs)
            gradients = torch.autograd.grad(out.sum(), inputs)
            assert all(x.isfinite().all() for x in (out, *gradients))


@pytest.mark.parametrize("level", [0, -25, -30, -80, -1000])
@pytest.mark.parametrize("t", [1, 200])
def test_small_features_of_all_keys_give_a_mean_and_not_less(level, t):
    key, ones = torch.full((1, 2, 200, 8), float(level)), torch.ones(1, 2, 200, 3)
    query, key, ones = key[:, :, -t:].float(), key.float(), ones.float()
    for attend in (ALL, BACK):
        found, weights = attend.explicit(query, key, ones)
        for sums in (attend(query, key, ones), found, weights.sum(dim=-1)):
            assert_close(sums, torch.ones_like(sums))


@pytest.mark.parametrize("deviation", [1, 8, 100])
def test_long_keys_give_a_performers_mean_and_not_less(deviation):
    heads = deviation * torch.randn(2, 1, 2, 200, 16, dtype=torch.float32)
    ones = torch.ones(1, 2, 200, 3, dtype=torch.float32)
    for attend in PAIRS["performer"]:
        for sums in (attend(*heads, ones), attend.explicit(*heads, ones)[0]):
            assert_close(sums, ones)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("way", ["inputs", "autocast"])
def test_many_positions_in_16_bits_are_averaged_as_in_double_precision(dtype, way):
    heads = torch.randn(3, 1, 2, 2000, 64).to(dtype)
    heads[0, :, :, 7] = 40  # a query and a key whose product alone is large
    heads[1, :, :, 3] = 40
    for attend in (ALL, BACK):
        with torch.autocast("cpu", dtype, enabled=way == "autocast"):
            inputs = heads.float() if way == "autocast" else heads
            found = attend(*inputs)
        assert found.dtype == inputs.dtype
        # The sums are off by roundings of float32, the result by one of its own dtype.
        eps = torch.finfo(found.dtype).eps
        assert_close(found.double(), attend(*heads.double()), rtol=eps, atol=1e-4)
