import pytest
import torch
from torch.testing import assert_close

from transformer_lib.variants.attention.alibi import AlibiAttention, alibi_slopes

B, H, T, S, D_K, D_V = 2, 3, 5, 7, 11, 13


def test_the_slopes_of_eight_heads_are_halves_of_each_other():
    assert_close(alibi_slopes(8), 0.5 ** torch.arange(1.0, 9.0))
    assert_close(alibi_slopes(1), torch.tensor([1 / 256]))


def test_the_slopes_of_another_number_take_some_of_the_next_power():
    found = alibi_slopes(12)
    assert_close(found[:8], alibi_slopes(8))
    assert_close(found[8:], alibi_slopes(16)[[0, 2, 4, 6]])


@pytest.mark.parametrize("causal", [True, False])
def test_it_is_attention_by_the_formula(heads, causal):
    query, key, value = heads
    query, expected = query[:, :, -T:], torch.zeros(B, H, T, D_V)
    for row, head, i in torch.ones(B, H, T).nonzero().tolist():
        own = S - T + i
        seen = range(own + 1 if causal else S)
        scores = [
            query[row, head, i] @ key[row, head, j] / D_K**0.5
            - alibi_slopes(H)[head] * abs(own - j)
            for j in seen
        ]
        weights = torch.stack(scores).softmax(dim=0)
        expected[row, head, i] = weights @ value[row, head, : len(seen)]
    assert_close(AlibiAttention(H, causal=causal)(query, key, value), expected)
