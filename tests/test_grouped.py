import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import (
    CrossAttentionCache,
    MultiHeadAttention,
    SelfAttentionCache,
    causal_mask,
    record_attention,
    scaled_dot_product_attention,
)
from transformer_lib.variants import GroupedAttention

B, H, G, T, S, WIDTH, D_K = 2, 6, 3, 5, 7, 30, 5


def heads(x, number):
    return x.unflatten(-1, (number, -1)).transpose(1, 2)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
def test_it_is_the_grouped_attention_of_torch(groups):
    layer = GroupedAttention(WIDTH, H, groups)
    query, memory = torch.randn(B, T, WIDTH), torch.randn(B, S, WIDTH)
    mask = torch.rand(B, 1, T, S) < 0.7
    mask[..., 0] = True
    attended = F.scaled_dot_product_attention(
        heads(layer.w_q(query), H),
        heads(layer.w_k(memory), groups),
        heads(layer.w_v(memory), groups),
        mask,
        enable_gqa=True,
    )
    expected = layer.w_o(attended.transpose(1, 2).flatten(-2))
    assert_close(layer(query, memory, memory, mask), expected)


def test_the_caches_keep_the_groups_alone():
    layer, x = GroupedAttention(WIDTH, H, G).eval(), torch.randn(B, T, WIDTH)
    own, source = SelfAttentionCache(), CrossAttentionCache()
    steps = [layer(x[:, [t]], x[:, [t]], x[:, [t]], cache=own) for t in range(T)]
    assert_close(torch.cat(steps, dim=1), layer(x, x, x, causal_mask(T)))
    assert own.k.shape == own.v.shape == (B, G, T, D_K)
    memory = torch.randn(B, S, WIDTH)
    assert_close(layer(x, memory, memory, cache=source), layer(x, memory, memory))
    assert source.k.shape == (B, G, S, D_K)


def test_every_head_is_recorded():
    layer, x = GroupedAttention(WIDTH, H, G), torch.randn(B, T, WIDTH)
    with record_attention(layer) as maps:
        layer(x, x, x)
    assert maps[""].shape == (B, H, T, T)


def test_dropout_is_for_training():
    layer, x = GroupedAttention(WIDTH, H, G, dropout=0.5), torch.randn(B, T, WIDTH)
    assert not torch.equal(layer(x, x, x), layer(x, x, x))
    assert torch.equal(layer.eval()(x, x, x), layer(x, x, x))


def test_heads_may_have_a_width_of_their_own():
    torch.manual_seed(4)
    layer = GroupedAttention(10, 3, 3, d_k=7).double()
    assert layer.w_k.weight.shape == (21, 10)
    x, memory = torch.randn(2, 5, 10).double(), torch.randn(2, 4, 10).double()
    q, k, v = (
        w(y).unflatten(-1, (3, 7)).transpose(1, 2)
        for w, y in ((layer.w_q, x), (layer.w_k, memory), (layer.w_v, memory))
    )
    heads, _ = scaled_dot_product_attention(q, k, v)
    expected = layer.w_o(heads.transpose(1, 2).flatten(-2))
    assert_close(layer(x, memory, memory), expected)
    with pytest.raises(ValueError, match="d_k must be at least 1, got 0"):
        GroupedAttention(10, 3, 3, d_k=0)
