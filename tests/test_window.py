import pytest

from transformer_lib.variants import WindowAttention, window_mask

B, H, T, S, D_K, D_V = 2, 3, 5, 13, 7, 11


def test_a_window_of_two_sees_itself_and_one_neighbour_to_each_side():
    causal = [[1, 0, 0, 0], [1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1]]
    assert window_mask(4, 4, 2, causal=True)[0, 0].int().tolist() == causal
    both = [[1, 1, 0, 0], [1, 1, 1, 0], [0, 1, 1, 1], [0, 0, 1, 1]]
    assert window_mask(4, 4, 2, causal=False)[0, 0].int().tolist() == both


@pytest.mark.parametrize("causal", [True, False])
def test_the_mask_of_the_variant_is_the_window_and_the_padding(heads, padding, causal):
    attend = WindowAttention(4, causal=causal)
    query, key = heads[0][:, :, -T:], heads[1]
    window = window_mask(S, S, 4, causal)[..., -T:, :]  # queries are the last positions
    assert attend.mask(query, key, None).equal(window)
    assert attend.mask(query, key, padding).equal(window & padding)
