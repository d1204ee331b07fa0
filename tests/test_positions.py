import math

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.model import PositionalEncoding, sinusoidal_table

B, T, MAX_LEN, D_MODEL = 2, 5, 17, 12


def test_the_interleaved_table_is_the_papers_formula():
    table = sinusoidal_table(MAX_LEN, D_MODEL)
    for position in range(MAX_LEN):
        for i in range(D_MODEL // 2):
            angle = position / 10_000 ** (2 * i / D_MODEL)
            assert table[position, 2 * i].item() == pytest.approx(
                math.sin(angle), abs=1e-6
            )
            assert table[position, 2 * i + 1].item() == pytest.approx(
                math.cos(angle), abs=1e-6
            )


def test_the_concatenated_table_spreads_timescales_over_n_minus_1():
    table = sinusoidal_table(MAX_LEN, D_MODEL, "concatenated")
    n = D_MODEL // 2
    for position in range(MAX_LEN):
        for i in range(n):
            angle = position * math.exp(-i * math.log(10_000) / (n - 1))
            assert table[position, i].item() == pytest.approx(math.sin(angle), abs=1e-6)
            assert table[position, n + i].item() == pytest.approx(
                math.cos(angle), abs=1e-6
            )


def test_an_odd_width_is_padded_with_zeros_where_tensor2tensor_does():
    table = sinusoidal_table(MAX_LEN, 7, "concatenated")
    assert table.shape == (MAX_LEN, 7)
    assert (table[:, -1] == 0).all()
    assert table[:, :-1].equal(sinusoidal_table(MAX_LEN, 6, "concatenated"))


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_table_is_float32_and_between_minus_one_and_one(layout):
    table = sinusoidal_table(20_000, D_MODEL, layout)
    assert table.dtype == torch.float32
    assert table.abs().max() <= 1
    # Angles in float32 would be off by 1e-3 at position 20,000.
    assert table[-1, 0].item() == pytest.approx(math.sin(19_999), abs=1e-6)


@pytest.mark.parametrize("width", [2, 3])
def test_one_pair_of_features_turns_by_one_radian(width):
    table = sinusoidal_table(3, width, "concatenated")
    assert table[2, 0].item() == pytest.approx(math.sin(2), abs=1e-6)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated", "learned"])
def test_position_t_gets_row_t_in_every_sentence(layout):
    encoding = PositionalEncoding(D_MODEL, MAX_LEN, layout)
    x = torch.randn(B, T, D_MODEL)
    assert_close(encoding(x) - x, encoding.table[:T].expand(B, -1, -1).to(x))


@pytest.mark.parametrize("layout", ["interleaved", "concatenated", "learned"])
def test_a_sequence_that_starts_later_gets_the_rows_from_there(layout):
    encoding = PositionalEncoding(D_MODEL, MAX_LEN, layout)
    x = torch.randn(B, T, D_MODEL)
    for t in range(T):
        assert_close(encoding(x[:, t : t + 1], start=t), encoding(x)[:, t : t + 1])
    assert_close(encoding(x[:, 2:], 2), encoding(x)[:, 2:])


def test_a_fixed_table_is_no_parameter_and_not_in_the_checkpoint():
    encoding = PositionalEncoding(D_MODEL, MAX_LEN)
    assert list(encoding.parameters()) == []
    assert encoding.state_dict() == {}


def test_a_learned_table_is_a_parameter_of_deviation_one_over_root_d_model():
    encoding = PositionalEncoding(64, 500, "learned")
    assert [p.shape for p in encoding.parameters()] == [(500, 64)]
    assert encoding.table.std().item() == pytest.approx(64**-0.5, rel=0.05)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated", "learned"])
def test_a_sequence_longer_than_the_table_is_refused(layout):
    encoding = PositionalEncoding(D_MODEL, MAX_LEN, layout)
    assert encoding(torch.zeros(B, MAX_LEN, D_MODEL)).shape == (B, MAX_LEN, D_MODEL)
    with pytest.raises(ValueError, match="at most max_len long, got 18 and 17"):
        encoding(torch.zeros(B, MAX_LEN + 1, D_MODEL))
    with pytest.raises(ValueError, match="at most max_len long, got 18 and 17"):
        encoding(torch.zeros(B, 1, D_MODEL), start=MAX_LEN)
    with pytest.raises(ValueError, match="start must be at least 0, got -1"):
        encoding(torch.zeros(B, 1, D_MODEL), start=-1)


def test_an_odd_width_cannot_be_interleaved():
    with pytest.raises(ValueError, match="d_model must be even to interleave, got 7"):
        sinusoidal_table(MAX_LEN, 7)


def test_an_unknown_layout_is_refused():
    with pytest.raises(ValueError, match=r"layout must be .*, learned, got rotary"):
        PositionalEncoding(D_MODEL, MAX_LEN, "rotary")
    with pytest.raises(ValueError, match=r"layout must be .*concatenated, got learned"):
        sinusoidal_table(MAX_LEN, D_MODEL, "learned")


@pytest.mark.parametrize("layout", ["interleaved", "concatenated", "learned"])
def test_impossible_sizes_are_refused(layout):
    with pytest.raises(ValueError, match="max_len must be at least 1, got 0"):
        PositionalEncoding(D_MODEL, 0, layout)
    with pytest.raises(ValueError, match="d_model must be at least 1, got -2"):
        PositionalEncoding(-2, MAX_LEN, layout)


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
def test_the_table_is_as_exact_when_torch_computes_in_float32(layout):
    expected = sinusoidal_table(20_000, D_MODEL, layout)
    torch.set_default_dtype(torch.float32)
    assert sinusoidal_table(20_000, D_MODEL, layout).equal(expected)


@pytest.mark.parametrize("width", [1, 2, 3, 4, 5, 8])
def test_a_concatenated_table_has_the_width_asked_for(width):
    assert sinusoidal_table(3, width, "concatenated").shape == (3, width)


@pytest.mark.parametrize("width", [1, D_MODEL + 1])
def test_vectors_of_another_width_are_refused_and_not_spread(width):
    encoding = PositionalEncoding(D_MODEL, MAX_LEN)
    with pytest.raises(ValueError, match=f"x must be {D_MODEL} wide, got {width}"):
        encoding(torch.zeros(B, 1, width))
