import math

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import LAYOUTS, PositionalEncoding, sinusoidal_table

B, T, MAX_LEN, D_MODEL = 2, 5, 17, 12


def test_the_interleaved_table_is_the_papers_formula():
    table = sinusoidal_table(MAX_LEN, D_MODEL)
    for position in range(MAX_LEN):
        for i in range(D_MODEL // 2):
            angle = position / 10_000 ** (2 * i / D_MODEL)
            both = [math.sin(angle), math.cos(angle)]
            found = table[position, 2 * i : 2 * i + 2]
            assert found.tolist() == pytest.approx(both, abs=1e-6)


@pytest.mark.parametrize("width", [2, 3, D_MODEL])
def test_the_concatenated_table_spreads_timescales_over_n_minus_1(width):
    table, n = sinusoidal_table(MAX_LEN, width, "concatenated"), width // 2
    for position in range(MAX_LEN):
        for i in range(n):
            angle = position * math.exp(-i * math.log(10_000) / max(n - 1, 1))
            both = [math.sin(angle), math.cos(angle)]
            found = table[position, [i, n + i]]
            assert found.tolist() == pytest.approx(both, abs=1e-6)
    assert table.shape == (MAX_LEN, width)
    assert (table[:, 2 * n :] == 0).all()  # the last feature of an odd width


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_table_is_exact_in_float32_and_no_parameter(layout):
    torch.set_default_dtype(torch.float32)
    encoding = PositionalEncoding(D_MODEL, 20_000, layout)
    assert encoding.table.dtype == torch.float32
    # Angles in float32 would be off by 1e-3 at position 20,000.
    assert encoding.table[-1, 0].item() == pytest.approx(math.sin(19_999), abs=1e-6)
    scale = 10_000 ** (-2 / D_MODEL if layout == "interleaved" else -1 / 5)
    second = encoding.table[-1, 2 if layout == "interleaved" else 1].item()
    assert second == pytest.approx(math.sin(19_999 * scale), abs=1e-6)
    assert list(encoding.parameters()) == []
    assert encoding.state_dict() == {}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_position_t_gets_row_t_also_in_a_sequence_that_starts_later(layout):
    encoding = PositionalEncoding(D_MODEL, T, layout)
    x = torch.randn(B, T, D_MODEL)
    assert_close(encoding(x) - x, encoding.table.expand(B, -1, -1).to(x))
    for t in range(T):
        assert_close(encoding(x[:, t:], start=t), encoding(x)[:, t:])


def test_a_learned_table_is_a_parameter_of_deviation_one_over_root_d_model():
    encoding = PositionalEncoding(64, 500, "learned")
    assert [p.shape for p in encoding.parameters()] == [(500, 64)]
    assert encoding.table.std().item() == pytest.approx(64**-0.5, rel=0.05)
