import pickle

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close
from watching import largest_tensor

from transformer_lib.decoding import greedy_decode
from transformer_lib.inspection import record_attention
from transformer_lib.masks import CausalMask, causal_mask, padding_mask
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.variants import (
    linear_attention,
    nystrom_attention,
    performer_attention,
    use_attention,
)
from transformer_lib.variants.linear import elu_features, sum_by_chunks

B, H, T, S, D_K, D_V, PAD = 2, 3, 5, 13, 7, 11, 0
IDS = {"bos_id": 1, "eos_id": 2}
BACK, ALL = linear_attention(causal=True), linear_attention(causal=False)
PAIRS = {  # for an encoder and for a decoder
    "linear": (ALL, BACK),
    "performer": [performer_attention(8, 3, causal=causal) for causal in (False, True)],
    "nystrom": (nystrom_attention(3), None),
}


@pytest.fixture
def heads():
    return (
        torch.randn(B, H, S, D_K),
        torch.randn(B, H, S, D_K),
        torch.randn(B, H, S, D_V),
    )


@pytest.fixture
def padding():
    padding = torch.ones(B, 1, 1, S, dtype=torch.bool)
    padding[0, ..., :5] = padding[1, ..., 9:] = False
    return padding


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
    attend = linear_attention(causal=causal)
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


def test_a_query_of_another_sequence_may_ask(heads):
    query, key, value = heads
    found = ALL(query, key[:, :, :T], value[:, :, :T])
    assert found.shape == (B, H, S, D_V)
    assert_close(found, ALL.explicit(query, key[:, :, :T], value[:, :, :T])[0])


@pytest.mark.parametrize("causal", [True, False])
def test_gradients_are_those_of_the_table(heads, padding, causal):
    attend, found = linear_attention(causal=causal), []
    for function in (attend, lambda *x: attend.explicit(*x)[0]):
        inputs = [x.clone().requires_grad_() for x in heads]
        out = function(*inputs, padding)
        found.append(torch.autograd.grad(out.square().sum(), inputs))
    for ours, theirs in zip(*found, strict=True):
        assert ours.isfinite().all()
        assert_close(ours, theirs)


def test_no_gradient_comes_from_the_future_or_from_hidden_keys(heads, padding):
    query, key, value = (x.clone().requires_grad_() for x in heads)
    out = BACK(query, key, value, CausalMask(padding))
    for gradient in torch.autograd.grad(out[:, :, 7].sum(), (key, value)):
        moved = gradient.abs().sum(dim=(1, 3)).nonzero().tolist()
        assert moved == [[0, s] for s in (5, 6, 7)] + [[1, s] for s in range(8)]


def test_a_query_that_sees_nothing_gets_zeros_and_finite_gradients(heads):
    hidden = torch.zeros(B, 1, 1, S, dtype=torch.bool)
    for attend in (ALL, BACK):
        inputs = [x.clone().requires_grad_() for x in heads]
        out = attend(*inputs, hidden)
        assert (out == 0).all()
        assert all((g == 0).all() for g in torch.autograd.grad(out.sum(), inputs))


def test_single_precision_stays_finite_where_features_vanish():
    for scale in (1, 30, 1000):
        heads = torch.randn(3, 1, 2, 200, 16, dtype=torch.float32) * scale
        for attend in (ALL, BACK, performer_attention(64, 3, causal=True)):
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


def test_no_tensor_has_all_the_pairs():
    heads = torch.randn(3, 1, 1, 1024, 4)
    # The largest is the pairs within chunks of 64, not 1024 * 1024.
    assert largest_tensor(BACK, *heads) == 1024 * 64
    assert largest_tensor(ALL, *heads) == 1024 * 5  # the values and their ones


# -- In a model: linear, Performer and Nystrom -----------------------------------------


@pytest.fixture
def model():
    return Transformer(
        TransformerConfig(
            src_vocab_size=13, tgt_vocab_size=17, d_model=12, num_heads=H, d_ff=17,
            num_layers=2, dropout=0.0,
        )
    ).eval()  # fmt: skip


@pytest.fixture
def tokens():
    src, tgt = torch.randint(3, 13, (B, S)), torch.randint(3, 17, (B, T))
    src[1, 8:], tgt[0, 3:] = PAD, PAD
    return src, tgt


@pytest.fixture(params=sorted(PAIRS))
def placed(request, model):
    encoder, decoder = PAIRS[request.param]
    use_attention(model, encoder=encoder, decoder=decoder)
    return model


def test_a_model_with_it_learns(placed, tokens):
    placed.train()
    optimizer, losses = torch.optim.Adam(placed.parameters(), lr=1e-2), []
    for _ in range(8):
        logits = placed(*tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[1].flatten())
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad.isfinite().all() for p in placed.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]


def test_padding_changes_nothing(placed, tokens):
    src, tgt = tokens
    assert_close(placed(src[1:, :8], tgt[1:]), placed(src, tgt)[1:])


def test_with_and_without_a_cache_the_same_tokens_are_written(placed, tokens):
    src, tgt = tokens
    tgt = tgt.clamp(min=3)
    memory, mask, cache = placed.encode(src), padding_mask(src, PAD), placed.new_cache()
    steps = [placed.decode(tgt[:, [t]], memory, mask, cache) for t in range(T)]
    assert_close(torch.cat(steps, dim=1), placed.decode(tgt, memory, mask))
    written = greedy_decode(placed, src, **IDS, max_len=9)
    assert written == greedy_decode(placed, src, **IDS, max_len=9, use_cache=False)


def test_a_recording_shows_its_weights_and_changes_nothing(placed, tokens):
    expected = placed(*tokens)
    with record_attention(placed) as maps:
        assert_close(placed(*tokens), expected)
    for name in ("encoder", "decoder"):
        weights = maps[f"{name}.layers.1.self_attention"]
        assert_close(weights.sum(dim=-1), torch.ones(weights.shape[:-1]))
    assert (maps["encoder.layers.1.self_attention"][1, ..., 8:].abs() < 1e-12).all()


def test_a_copy_attends_as_the_model_does(placed, tokens):
    copy = pickle.loads(pickle.dumps(placed))
    assert_close(copy(*tokens), placed(*tokens))


def test_what_is_not_causal_may_also_cross_attend(model, tokens):
    use_attention(model, encoder=ALL, decoder=BACK, cross=ALL)
    src, tgt = tokens
    assert_close(model(src[1:, :8], tgt[1:]), model(src, tgt)[1:])


# -- Refusals --------------------------------------------------------------------------


def test_weights_that_are_not_made_cannot_be_dropped(heads):
    for attend in (ALL, BACK):
        with pytest.raises(ValueError, match=r"0 with linear_attention\(causal=.*0.1"):
            attend(*heads, None, 0.1)


def test_a_table_for_a_mask_is_refused_with_its_shape(heads):
    with pytest.raises(ValueError, match=r"with linear_attention.*\(1, 1, 13, 13\)"):
        BACK(*heads, causal_mask(S))
    with pytest.raises(ValueError, match=r"causal=False\), got a CausalMask"):
        ALL(*heads, CausalMask(torch.ones(B, 1, 1, S).bool()))
    query, key, value = heads
    with pytest.raises(ValueError, match=r"causal=True\), got 13 and 5"):
        BACK(query, key[:, :, :T], value[:, :, :T])
