import sys
import warnings
from dataclasses import asdict

import pytest
import torch
from book_files import ROOT
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.faster.fast_decoder import why_unsupported
from transformer_lib.faster.quantization import (
    COLUMNS,
    QuantizedLinear,
    calibrate,
    dequantize,
    fake_quantize,
    largest_inputs,
    quantize,
    quantize_rows,
    shared_weights,
)
from transformer_lib.model import Transformer, TransformerConfig, padding_mask
from transformer_lib.variants import ModernConfig, ModernTransformer

sys.path.append(str(ROOT / "measurements"))  # the scripts import their neighbours

import quantization as experiment

B, T, D_IN, D_OUT = 2, 5, 7, 11
SRC, TGT = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]]), torch.tensor([[1, 7, 9, 4]] * 2)


def config(**changes):
    sizes = {"d_model": 6, "num_heads": 2, "d_ff": 10, "num_layers": 2, "max_len": 16}
    return TransformerConfig.base(13, dropout=0.1, **sizes | changes)


@pytest.fixture
def model():
    return Transformer(config()).eval()


@pytest.fixture
def linear():
    return nn.Linear(D_IN, D_OUT)


@pytest.fixture
def largest(model):
    return largest_inputs(calibrate(model, lambda: model(SRC, TGT)))


def linears(model, kind=nn.Linear):
    return [name for name, part in model.named_modules() if type(part) is kind]


# -- Rows ------------------------------------------------------------------------------


def test_a_row_by_hand():
    values, scale = quantize_rows(
        torch.tensor([[0.31, -0.11, 0.05, 0.56, -0.33, 0.17]]), bits=4
    )
    assert values.tolist() == [[4, -1, 1, 7, -4, 2]]
    assert_close(scale, torch.tensor([0.08], dtype=torch.float32))


def test_torch_finds_the_same_whole_numbers_for_the_rows():
    weight = torch.randn(D_OUT, D_IN, dtype=torch.float32)
    values, scale = quantize_rows(weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.quantize_per_channel(
            weight, scale.double(), torch.zeros(D_OUT, dtype=torch.long), 0, torch.qint8
        )
    assert theirs.int_repr().tolist() == values.tolist()


@pytest.mark.parametrize("bits", range(2, 9))
def test_a_whole_number_times_its_scale_is_half_a_scale_away_at_most(bits):
    weight = torch.randn(7, 11) * torch.logspace(-3, 3, 7)[:, None]
    values, scale = quantize_rows(weight, bits)
    assert values.dtype == torch.int8
    assert scale.dtype == torch.float32
    largest = values.abs().amax(dim=1)
    assert largest.tolist() == [2 ** (bits - 1) - 1] * 7  # all of the range is used
    error = (dequantize(values, scale) - weight).abs()
    assert (error <= 0.5001 * scale[:, None]).all()


def test_a_row_of_zeros_stays_one():
    values, scale = quantize_rows(torch.zeros(2, 3))
    assert scale.tolist() == [1.0, 1.0]
    assert dequantize(values, scale).tolist() == [[0.0] * 3] * 2


def test_a_scale_that_is_rounded_itself_makes_no_number_change_its_sign():
    tiny = torch.full((1, 3), 136 * 2.0**-149, dtype=torch.float32)
    assert (quantize_rows(tiny)[0] == 127).all()


# -- The layer -------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [None, 1.5])
def test_the_layer_multiplies_what_the_whole_numbers_stand_for(linear, largest):
    layer, x = QuantizedLinear(linear, largest), torch.randn(B, T, D_IN)
    weight = dequantize(layer.weight, layer.scale).double()
    if largest is None:
        rounded = dequantize(*quantize_rows(x.flatten(0, 1))).view(x.shape)
    else:  # what is larger than foreseen is cut
        step = largest / 127
        rounded = ((x / step).round() * step).clamp(-largest, largest)
    expected = F.linear(rounded.double(), weight, linear.bias)
    assert_close(layer(x), expected.detach(), rtol=1e-5, atol=1e-5)


def test_whole_numbers_are_added_up_without_an_error():
    half = 60_000  # products whose sums need up to 30 bits, six more than float32 has
    linear = nn.Linear(2 * half, 1, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([1.0, -1.0]).repeat_interleave(half))
    x = torch.randint(64, 127, (1, 2 * half)).double()
    layer = QuantizedLinear(linear, largest=127.0)
    layer.scale.fill_(1.0)
    expected = 127 * (x[:, :half].sum() - x[:, half:].sum())
    assert abs(expected) < 2**24
    assert layer(x).item() == expected
    assert COLUMNS * 127**2 < 2**31 <= (COLUMNS + 1) * 127**2


def test_what_a_position_becomes_does_not_depend_on_its_neighbours(linear):
    layer, x = QuantizedLinear(linear), torch.randn(B, T, D_IN)
    other = x.clone()
    other[1, 2] *= torch.nan  # which it passes on
    same = (layer(x) == layer(other)).all(dim=-1)
    assert same.sum() == B * T - 1
    assert layer(other)[1, 2].isnan().all()
    assert layer(x[0, 3]).equal(layer(x)[0, 3])


@pytest.mark.parametrize("shape", [(D_IN,), (0, D_IN), (2, 3, D_IN)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("largest", [None, 1.0])
def test_the_result_has_the_inputs_type_and_its_shape_but_for_the_width(
    linear, shape, dtype, largest
):
    x = torch.randn(shape).to(dtype).requires_grad_()
    y = QuantizedLinear(linear, largest)(x)
    assert y.dtype == dtype
    assert y.shape == (*shape[:-1], D_OUT)
    assert not y.requires_grad  # no gradient flows back through a rounding


def test_half_precision_does_not_overflow_where_float32_does_not():
    linear = nn.Linear(64, 1, bias=False)
    nn.init.ones_(linear.weight)
    y = QuantizedLinear(linear)(torch.ones(1, 64, dtype=torch.float16))
    assert_close(y, torch.tensor([[64.0]], dtype=torch.float16))


def test_later_changes_to_the_layer_have_no_effect(linear):
    layer, x = QuantizedLinear(linear), torch.randn(B, D_IN)
    before = layer(x)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
    assert layer(x).equal(before)


# -- A whole model ---------------------------------------------------------------------


def test_every_linear_layer_is_replaced_but_the_tied_output(model):
    eight = quantize(model)
    assert linears(eight) == ["output"]
    assert eight.output.weight is eight.tgt_embedding.table.weight
    assert [*linears(eight, QuantizedLinear), "output"] == linears(model)
    tables = [f"{side}_embedding.table.weight" for side in ("src", "tgt")]
    assert sorted(shared_weights(model)) == ["output.weight", *tables]


def test_an_output_of_its_own_is_replaced():
    model = Transformer(config(share_embeddings=False, tie_output=False))
    assert shared_weights(model) == []
    assert linears(quantize(model)) == []


def test_the_model_itself_does_not_change(model):
    model.train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    eight = quantize(model)
    fake_quantize(model, 3)
    assert not any(module.training for module in eight.modules())
    assert not eight(SRC, TGT).requires_grad
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(weight.equal(before[name]) for name, weight in after.items())


LATER = {"norm": "rms", "gated": True, "num_key_heads": 1, "positions": "rotary"}


@pytest.mark.parametrize("modern", [False, True])
def test_the_quantized_model_scores_nearly_as_before(modern):
    sizes = config(norm_first=True, d_model=8)
    model = Transformer(sizes)
    if modern:
        model = ModernTransformer(ModernConfig(**asdict(sizes) | LATER))
    eight = quantize(model)
    off = (eight(SRC, TGT) - model.eval()(SRC, TGT))[..., 1:].abs().max()
    assert 0 < off < 0.3
    memory, mask = eight.encode(SRC), padding_mask(SRC, 0)
    whole, cache = eight.decode(TGT, memory, mask), eight.new_cache()
    for t in range(TGT.size(1)):  # word by word as well
        step = eight.decode(TGT[:, t : t + 1], memory, mask, cache=cache)
        assert_close(step[:, 0, 1:], whole[:, t, 1:], rtol=1e-5, atol=1e-5)


def test_a_quantized_model_can_be_saved_and_read(model, tmp_path):
    eight = quantize(model)
    torch.save(eight.state_dict(), tmp_path / "eight.pt")
    other = quantize(Transformer(config()))
    other.load_state_dict(torch.load(tmp_path / "eight.pt"))
    assert other(SRC, TGT).equal(eight(SRC, TGT))


def test_the_fast_decoder_knows_that_it_does_not_know_it(model):
    name = "decoder.layers.0.self_attention.w_q"
    assert why_unsupported(quantize(model)) == f"a QuantizedLinear as {name}"


def test_fake_quantization_rounds_matrices_and_no_vectors(model):
    rounded = fake_quantize(model, 4)
    assert rounded.output.weight is rounded.tgt_embedding.table.weight
    parameters = dict(rounded.named_parameters())
    for name, weight in model.named_parameters():
        expected = weight.detach()
        if expected.dim() == 2:
            expected = dequantize(*quantize_rows(expected, 4)).to(expected.dtype)
        assert parameters[name].equal(expected), name


# -- Calibration -----------------------------------------------------------------------


def test_calibration_notes_the_largest_feature_of_every_position(model):
    seen = calibrate(model, lambda: (model.encode(SRC), model.encode(SRC[:1])))
    sizes = seen["encoder.layers.0.self_attention.w_q"]
    assert [tuple(size.shape) for size in sizes] == [(8,), (4,)]
    x = model.src_positions(model.src_embedding(SRC))
    assert_close(sizes[0], x.abs().amax(-1).flatten().detach())
    assert not any(name.startswith("decoder.layers.0.self") for name in seen)


def test_calibration_leaves_no_hook_behind_whatever_happens(model):
    with pytest.raises(IndexError):
        calibrate(model, lambda: model.encode(SRC + 100))
    assert not any(module._forward_pre_hooks for module in model.modules())


@pytest.mark.parametrize("share", [0.013, 0.5, 0.999, 1.0])
def test_the_share_is_that_of_torchs_quantile(share):
    sizes = torch.rand(10_007).float()
    found = largest_inputs({"a": [sizes[:5], sizes[5:]]}, share)["a"]
    assert found == pytest.approx(sizes.quantile(share).item(), rel=1e-4)


def test_more_positions_fit_than_torchs_quantile_takes():
    sizes = torch.zeros(2**24 + 1, dtype=torch.float16)  # 16.8 million
    sizes[:2] = torch.tensor([3.0, 5.0])
    assert largest_inputs({"a": [sizes]}, 1 - 1 / 2**24) == {"a": 3.0}


def test_a_static_model_has_the_scales_that_were_measured(model, largest):
    static = quantize(model, largest)
    for name in linears(static, QuantizedLinear):
        assert static.get_submodule(name).largest == largest[name]
    off = (static(SRC, TGT) - model(SRC, TGT))[..., 1:].abs().max()
    assert 0 < off < 0.3


# -- What was measured -----------------------------------------------------------------


def test_one_scale_for_a_matrix_loses_more_than_one_for_each_row(model):
    rounded = [experiment.rounded_by_matrix(model, 4), fake_quantize(model, 4)]
    off = [
        sum(
            (one - other).square().sum()
            for one, other in zip(each.parameters(), model.parameters(), strict=True)
        )
        for each in rounded
    ]
    assert off[0] > off[1] > 0
