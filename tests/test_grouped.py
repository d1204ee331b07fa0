import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import (
    CrossAttentionCache,
    SelfAttentionCache,
    causal_mask,
    record_attention,
)
from transformer_lib.variants import GroupedAttention

B, H, G, T, S, WIDTH, D_K = 2, 6, 3, 5, 7, 30, 5


def heads(x, number):
    return x.unflatten(-1, (number, -1)).transpose(1, 2)


@pytest.mark.parametrize("groups", [1, 3, 6])
@pytest.mark.parametrize("d_k", [None, 4])
def test_it_is_the_grouped_attention_of_torch(groups, d_k):
    layer = GroupedAttention(WIDTH, H, groups, d_k=d_k)
    assert layer.w_k.weight.shape == (groups * (d_k or D_K), WIDTH)
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


def test_the_caches_keep_the_groups_alone_and_every_head_is_recorded():
    layer, x = GroupedAttention(WIDTH, H, G).eval(), torch.randn(B, T, WIDTH)
    own, source = SelfAttentionCache(), CrossAttentionCache()
    steps = [layer(x[:, [t]], x[:, [t]], x[:, [t]], cache=own) for t in range(T)]
    assert_close(torch.cat(steps, dim=1), layer(x, x, x, causal_mask(T)))
    assert own.k.shape == own.v.shape == (B, G, T, D_K)
    memory = torch.randn(B, S, WIDTH)
    with record_attention(layer) as maps:
        expected = layer(x, memory, memory)
    assert_close(layer(x, memory, memory, cache=source), expected)
    assert source.k.shape == (B, G, S, D_K)
    assert maps[""].shape == (B, H, T, S)
