import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import SelfAttentionCache, causal_mask, record_attention
from transformer_lib.variants import RotaryAttention, rotate, rotation_table

B, H, G, T, WIDTH, D_K, LONG = 2, 6, 3, 7, 36, 6, 11


@pytest.fixture
def layer():
    return RotaryAttention(WIDTH, H, G, max_len=LONG).eval()


def test_pairs_are_turned_as_the_product_with_complex_numbers():
    x, table = torch.randn(B, H, T, D_K), rotation_table(T, D_K)
    points = torch.complex(x[..., : D_K // 2], x[..., D_K // 2 :])
    rates = 10_000 ** (-torch.arange(0, D_K, 2) / D_K)
    turned = points * torch.exp(1j * torch.arange(T)[:, None] * rates)
    expected = torch.cat([turned.real, turned.imag], dim=-1)
    assert_close(rotate(x, table), expected)
    assert_close(rotate(x, table).norm(dim=-1), x.norm(dim=-1))


def test_the_recorded_weights_are_those_of_the_turned_vectors(layer):
    x = torch.randn(B, T, WIDTH)
    with record_attention(layer) as maps:
        layer(x, x, x)
    q = layer.w_q(x).unflatten(-1, (H, -1)).transpose(1, 2)
    k = layer.w_k(x).unflatten(-1, (G, -1)).transpose(1, 2)
    table = rotation_table(LONG, D_K)[:, :T]
    for head in range(H):
        scores = rotate(q[:, head], table) @ rotate(k[:, head // 2], table).mT
        assert_close(maps[""][:, head], (scores / D_K**0.5).softmax(dim=-1))


def test_a_cache_keeps_turned_keys_and_gives_the_same(layer):
    x, cache = torch.randn(B, T, WIDTH), SelfAttentionCache()
    steps = [layer(x[:, [t]], x[:, [t]], x[:, [t]], cache=cache) for t in range(T)]
    assert_close(torch.cat(steps, dim=1), layer(x, x, x, causal_mask(T)))
    assert cache.k.shape == (B, G, T, D_K)
    assert_close(cache.k, layer._project_turned(x, x, 0)[0])
