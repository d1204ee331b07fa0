import sys
import warnings
from dataclasses import asdict

import numpy as np
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
from transformer_lib.translation.scores import score
from transformer_lib.variants import ModernConfig, ModernTransformer

sys.path.append(str(ROOT / "measurements"))  # the scripts import their neighbours

import quantization as experiment
from tables import read

B, T, D_IN, D_OUT = 2, 5, 7, 11
SIZES = [torch.tensor([1.0, 8.0, 3.0])]
EPSILON = 2.0**-23  # of float32, in which scales are kept
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


def linears(model):
    return [name for name, part in model.named_modules() if type(part) is nn.Linear]


def torchs(linear):
    """Quantize a layer with torch, its weights by row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch.ao.quantization as ao

        choice = {"0": ao.per_channel_dynamic_qconfig}
        return ao.quantize_dynamic(nn.Sequential(linear), choice)


def product_bound(x, weight, step_x, step_w):
    """Bound the error of each output, if inputs and weights are so far off at most.

    |x w - x' w'| <= |x| |w - w'| + |x - x'| |w'|, summed over the features.
    """
    largest = weight.abs() + step_w[:, None]  # |w'|, (D_OUT, D_IN)
    return x.abs().sum(-1, keepdim=True) * step_w + step_x * largest.sum(dim=1)


# -- Agrees with torch -----------------------------------------------------------------


def test_a_dynamic_layer_and_torchs_are_no_further_apart_than_both_may_err():
    linear = nn.Linear(D_IN, D_OUT, dtype=torch.float32)
    x = torch.randn(B, T, D_IN, dtype=torch.float32)
    x[0, 1, 3] = 9.0
    layer, theirs = QuantizedLinear(linear), torchs(linear)
    weight = linear.weight.detach()
    steps = x.abs().amax(-1, keepdim=True) / 127
    # torch has one step for all, in 7 bits on some processors, and rounds its zero.
    shared = (x.max().clamp(min=0) - x.min().clamp(max=0)) / 127
    allowed = product_bound(x, weight, steps / 2, layer.scale / 2)
    allowed = allowed + product_bound(x, weight, shared, layer.scale / 2) + 1e-5
    assert ((layer(x) - theirs(x)).abs() <= allowed).all()


def test_torch_finds_the_same_whole_numbers_for_the_rows():
    weight = torch.randn(D_OUT, D_IN, dtype=torch.float32)
    values, scale = quantize_rows(weight)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.quantize_per_channel(
            weight, scale.double(), torch.zeros(D_OUT, dtype=torch.long), 0, torch.qint8
        )
    assert theirs.int_repr().tolist() == values.tolist()


# -- Rows ------------------------------------------------------------------------------


def test_a_row_by_hand():
    values, scale = quantize_rows(
        torch.tensor([[0.31, -0.11, 0.05, 0.56, -0.33, 0.17]]), bits=4
    )
    assert values.tolist() == [[4, -1, 1, 7, -4, 2]]
    assert_close(scale, torch.tensor([0.08], dtype=torch.float32))


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


def test_an_outlier_spoils_its_own_row_only():
    weight = torch.randn(3, 11)
    before = dequantize(*quantize_rows(weight))
    weight[1, 4] = 1000.0
    after = dequantize(*quantize_rows(weight))
    assert after[[0, 2]].equal(before[[0, 2]])
    assert (after[1] != 0).sum() == 1


def test_a_scale_that_is_rounded_itself_makes_no_number_change_its_sign():
    tiny = torch.full((1, 3), 136 * 2.0**-149, dtype=torch.float32)
    assert (quantize_rows(tiny)[0] == 127).all()


@pytest.mark.parametrize("bits", [2.5, 4.0])
def test_a_number_of_bits_that_is_not_whole_is_refused(bits):
    with pytest.raises(TypeError, match=f"bits must be a whole number, got {bits}"):
        quantize_rows(torch.ones(2, 2), bits)


@pytest.mark.parametrize("bits", [1, 9])
def test_a_number_of_bits_out_of_range_is_refused(bits):
    with pytest.raises(ValueError, match=rf"bits must be in \[2, 8\], got {bits}"):
        quantize_rows(torch.ones(2, 2), bits)


# -- The layer -------------------------------------------------------------------------


@pytest.mark.parametrize("largest", [None, 1.5])
def test_the_layer_multiplies_what_the_whole_numbers_stand_for(linear, largest):
    layer, x = QuantizedLinear(linear, largest), torch.randn(B, T, D_IN)
    weight = dequantize(layer.weight, layer.scale).double()
    if largest is None:
        rounded = dequantize(*quantize_rows(x.flatten(0, 1))).view(x.shape)
    else:
        step = largest / 127
        rounded = ((x / step).round() * step).clamp(-largest, largest)
    expected = F.linear(rounded.double(), weight, linear.bias)
    assert_close(layer(x), expected.detach(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("largest", [None, 9.0])
def test_a_layer_errs_by_half_a_step_of_each_factor_at_most(linear, largest):
    layer, x = QuantizedLinear(linear, largest), torch.randn(B, T, D_IN)
    step = x.abs().amax(-1, keepdim=True) / 127 if largest is None else largest / 127
    allowed = product_bound(x, linear.weight.detach(), step / 2, layer.scale / 2)
    off = (layer(x) - linear(x)).abs()
    assert (off <= allowed + D_IN * EPSILON * 20).all()
    assert off.max() > 0


def test_whole_numbers_are_added_up_without_an_error():
    half = 1500  # 127 * 127 * 1500 needs 25 bits, one more than float32 has
    linear = nn.Linear(2 * half, 1, bias=False)
    with torch.no_grad():
        linear.weight.copy_(torch.tensor([1.0, -1.0]).repeat_interleave(half))
    x = torch.full((1, 2 * half), 127.0)
    x[0, 0] = 126.0
    layer = QuantizedLinear(linear, largest=127.0)
    layer.scale.fill_(1.0)
    assert layer(x).item() == -127


def test_what_a_position_becomes_does_not_depend_on_its_neighbours(linear):
    layer, x = QuantizedLinear(linear), torch.randn(B, T, D_IN)
    other = x.clone()
    other[1, 2] *= 1000
    same = (layer(x) == layer(other)).all(dim=-1)
    assert same.sum() == B * T - 1
    assert layer(x[0, 3]).equal(layer(x)[0, 3])


def test_a_static_layer_cuts_what_is_larger_than_foreseen(linear):
    layer = QuantizedLinear(linear, largest=2.0)
    x = torch.tensor([[0.5, -1.0, 2.0, -2.0, 0.0, 1.0, 1.5]])
    larger = x.clone()
    larger[0, 2], larger[0, 3] = 70.0, -3e9
    assert layer(larger).equal(layer(x))


@pytest.mark.parametrize("shape", [(D_IN,), (3, D_IN), (0, D_IN), (2, 0, D_IN)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("largest", [None, 1.0])
def test_the_result_has_the_inputs_type_and_its_shape_but_for_the_width(
    linear, shape, dtype, largest
):
    y = QuantizedLinear(linear, largest)(torch.randn(shape).to(dtype))
    assert y.dtype == dtype
    assert y.shape == (*shape[:-1], D_OUT)


def test_half_precision_does_not_overflow_where_float32_does_not():
    linear = nn.Linear(64, 1, bias=False)
    nn.init.ones_(linear.weight)
    y = QuantizedLinear(linear)(torch.ones(1, 64, dtype=torch.float16))
    assert_close(y, torch.tensor([[64.0]], dtype=torch.float16))


def test_a_layer_without_bias_has_none():
    layer = QuantizedLinear(nn.Linear(D_IN, D_OUT, bias=False))
    assert layer.bias is None
    assert (layer(torch.zeros(1, D_IN)) == 0).all()


def test_later_changes_to_the_layer_have_no_effect(linear):
    layer, x = QuantizedLinear(linear), torch.randn(B, D_IN)
    before = layer(x)
    with torch.no_grad():
        linear.weight.zero_()
        linear.bias.zero_()
    assert layer(x).equal(before)


def test_a_dynamic_layer_passes_on_what_is_not_a_number(linear):
    x = torch.randn(2, D_IN)
    x[0, 0] = torch.nan
    y = QuantizedLinear(linear)(x)
    assert y[0].isnan().all()
    assert y[1].isfinite().all()


@pytest.mark.parametrize("largest", [None, 1.0])
def test_no_gradient_flows_back_through_a_rounding(linear, largest):
    x = torch.randn(3, D_IN, requires_grad=True)
    assert not QuantizedLinear(linear, largest)(x).requires_grad


@pytest.mark.parametrize("strange", [torch.nan, torch.inf])
def test_a_static_layer_refuses_what_is_not_a_finite_number(linear, strange):
    x = torch.full((1, D_IN), strange)
    with pytest.raises(ValueError, match=f"x must be finite, got {strange}"):
        QuantizedLinear(linear, largest=1.0)(x)


@pytest.mark.parametrize("largest", [0.0, -1.0, torch.inf, torch.nan])
def test_a_scale_that_is_no_positive_number_is_refused(linear, largest):
    with pytest.raises(ValueError, match=f"positive and finite, got {largest}"):
        QuantizedLinear(linear, largest)


def test_inputs_of_another_width_are_refused(linear):
    with pytest.raises(ValueError, match="x must be 7 wide, got 14"):
        QuantizedLinear(linear)(torch.ones(3, 14))


def test_more_columns_than_int32_can_add_up_are_refused():
    assert COLUMNS * 127**2 < 2**31 <= (COLUMNS + 1) * 127**2
    wide = nn.Linear(COLUMNS + 1, 1, dtype=torch.float32)
    with pytest.raises(ValueError, match="at most 133144, got 133145"):
        QuantizedLinear(wide)


# -- A whole model ---------------------------------------------------------------------


def test_every_linear_layer_is_replaced_but_the_tied_output(model):
    eight = quantize(model)
    assert linears(eight) == ["output"]
    assert eight.output.weight is eight.tgt_embedding.table.weight
    replaced = [n for n, m in eight.named_modules() if type(m) is QuantizedLinear]
    assert [*replaced, "output"] == linears(model)


def test_an_output_of_its_own_is_replaced():
    model = Transformer(config(share_embeddings=False, tie_output=False))
    assert shared_weights(model) == []
    assert linears(quantize(model)) == []


def test_the_names_of_a_shared_weight_are_all_told(model):
    tables = [f"{side}_embedding.table.weight" for side in ("src", "tgt")]
    assert sorted(shared_weights(model)) == ["output.weight", *tables]


def test_the_model_itself_does_not_change(model):
    model.train()
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    quantize(model)
    fake_quantize(model, 3)
    assert model.training
    assert all(weight.requires_grad for weight in model.parameters())
    after = model.state_dict()
    assert after.keys() == before.keys()
    assert all(weight.equal(before[name]) for name, weight in after.items())


@pytest.mark.parametrize("norm_first", [False, True])
def test_the_quantized_model_scores_nearly_as_before(norm_first):
    model = Transformer(config(norm_first=norm_first)).eval()
    off = (quantize(model)(SRC, TGT) - model(SRC, TGT))[..., 1:].abs().max()
    assert 0 < off < 0.3


def test_the_quantized_model_never_looks_ahead(model):
    eight = quantize(model)
    other = TGT.clone()
    other[:, -1] = 12
    before, after = eight(SRC, TGT), eight(SRC, other)
    assert before[:, :-1].equal(after[:, :-1])
    assert not before[:, -1].equal(after[:, -1])


def test_writing_word_by_word_scores_as_the_whole_does(model):
    eight = quantize(model)
    memory, mask = eight.encode(SRC), padding_mask(SRC, 0)
    whole, cache = eight.decode(TGT, memory, mask), eight.new_cache()
    for t in range(TGT.size(1)):
        step = eight.decode(TGT[:, t : t + 1], memory, mask, cache=cache)
        assert_close(step[:, 0, 1:], whole[:, t, 1:], rtol=1e-5, atol=1e-5)


def test_the_copy_is_for_evaluation_and_wants_no_gradients(model):
    eight = quantize(model.train())
    assert not any(module.training for module in eight.modules())
    assert not eight(SRC, TGT).requires_grad


def test_a_quantized_model_can_be_saved_and_read(model, tmp_path):
    eight = quantize(model)
    torch.save(eight.state_dict(), tmp_path / "eight.pt")
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(2)
    other = quantize(model)
    assert not other(SRC, TGT).equal(eight(SRC, TGT))
    other.load_state_dict(torch.load(tmp_path / "eight.pt"))
    assert other(SRC, TGT).equal(eight(SRC, TGT))


def test_the_fast_decoder_knows_that_it_does_not_know_it(model):
    name = "decoder.layers.0.self_attention.w_q"
    assert why_unsupported(quantize(model)) == f"a QuantizedLinear as {name}"


def test_a_layer_of_an_unknown_kind_is_refused_by_name(model):
    model.encoder.layers[1].feed_forward.w_1 = nn.Bilinear(2, 3, 5)
    name = "encoder.layers.1.feed_forward.w_1"
    with pytest.raises(ValueError, match=f"got a Bilinear as {name}"):
        quantize(model)


def test_a_model_that_is_quantized_already_is_refused(model):
    name = "encoder.layers.0.self_attention.w_q"
    with pytest.raises(ValueError, match=f"got a QuantizedLinear as {name}"):
        quantize(quantize(model))


@pytest.mark.parametrize("kind", ["forward", "forward_pre"])
def test_a_hook_that_would_be_lost_is_refused(model, kind):
    layer = model.decoder.layers[1].feed_forward.w_2
    getattr(layer, f"register_{kind}_hook")(print)
    with pytest.raises(
        ValueError, match=r"a hook at decoder.layers.1.feed_forward.w_2"
    ):
        quantize(model)


def test_learned_positions_stay_as_they_are():
    model = Transformer(config(positions="learned")).eval()
    table = quantize(model).tgt_positions.table
    assert table.equal(model.tgt_positions.table)


def test_a_model_with_later_choices_is_quantized_as_well():
    later = {"norm": "rms", "gated": True, "num_key_heads": 1, "positions": "rotary"}
    choices = asdict(config(d_model=8)) | later
    model = ModernTransformer(ModernConfig(**choices)).eval()
    off = (quantize(model)(SRC, TGT) - model(SRC, TGT))[..., 1:].abs().max()
    assert 0 < off < 0.3


def test_fake_quantization_rounds_matrices_and_no_vectors(model):
    rounded = dict(fake_quantize(model, 4).named_parameters())
    for name, weight in model.named_parameters():
        expected = weight.detach()
        if expected.dim() == 2:
            expected = dequantize(*quantize_rows(expected, 4)).to(expected.dtype)
        assert rounded[name].equal(expected), name


def test_fake_quantization_keeps_what_is_tied_tied(model):
    rounded = fake_quantize(model, 4)
    assert rounded.output.weight is rounded.tgt_embedding.table.weight


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


def test_a_share_of_the_positions_fits():
    seen = {"a": [torch.arange(1.0, 51.0), torch.arange(51.0, 102.0)], "b": SIZES}
    assert largest_inputs(seen) == {"a": 101.0, "b": 8.0}
    assert largest_inputs(seen, 0.5) == {"a": 51.0, "b": 3.0}


@pytest.mark.parametrize("share", [0.013, 0.5, 0.99, 0.999, 1.0])
def test_the_share_is_that_of_torchs_quantile(share):
    sizes = torch.rand(10_007).float()
    found = largest_inputs({"a": [sizes]}, share)["a"]
    assert found == pytest.approx(sizes.quantile(share).item(), rel=1e-4)


def test_more_positions_fit_than_torchs_quantile_takes():
    sizes = torch.zeros(2**24 + 1, dtype=torch.float16)  # 16.8 million
    sizes[:2] = torch.tensor([3.0, 5.0])
    seen = {"a": [sizes]}
    assert largest_inputs(seen) == {"a": 5.0}
    assert largest_inputs(seen, 1 - 1 / 2**24) == {"a": 3.0}


@pytest.mark.parametrize("strange", [torch.inf, torch.nan])
def test_a_layer_whose_inputs_were_not_finite_is_named(strange):
    seen = {"encoder.w_1": [torch.tensor([1.0, strange])]}
    with pytest.raises(
        ValueError, match=rf"encoder\.w_1 must be finite, got {strange}"
    ):
        largest_inputs(seen)


@pytest.mark.parametrize("share", [0.0, 1.5, float("nan")])
def test_a_share_out_of_range_is_refused(share):
    with pytest.raises(ValueError, match=rf"in \(0, 1\], got {share}"):
        largest_inputs({}, share)


def test_a_static_model_has_the_scales_that_were_measured(model):
    seen = calibrate(model, lambda: model(SRC, TGT))
    largest = largest_inputs(seen)
    static = quantize(model, largest)
    for name, module in static.named_modules():
        if type(module) is QuantizedLinear:
            assert module.largest == largest[name]
    off = (static(SRC, TGT) - model(SRC, TGT))[..., 1:].abs().max()
    assert 0 < off < 0.3


def test_a_layer_without_a_measured_scale_is_refused(model):
    largest = largest_inputs(calibrate(model, lambda: model(SRC, TGT)))
    del largest["decoder.layers.1.cross_attention.w_k"]
    with pytest.raises(ValueError, match=r"must have decoder.layers.1.cross_.*w_k"):
        quantize(model, largest)


def test_a_layer_that_only_saw_zeros_is_named(model):
    largest = largest_inputs(calibrate(model, lambda: model(SRC, TGT)))
    largest["encoder.layers.1.feed_forward.w_2"] = 0.0
    message = r"layers\.1\.feed_forward\.w_2: largest must be positive .* got 0.0"
    with pytest.raises(ValueError, match=message):
        quantize(model, largest)


# -- What was measured -----------------------------------------------------------------

OURS = ["Ein Hund läuft heute im Park .", "Zwei Männer reden .", "Ja"]
REFERENCES = [
    "Ein Hund rennt heute im Park .",
    "zwei Männer reden miteinander .",
    "Nein",
]


def test_bleu_of_the_counts_is_that_of_the_corpus():
    counted = experiment.counts(OURS, REFERENCES)
    expected = score(OURS, REFERENCES).bleu_lowercased
    assert experiment.bleu(counted.sum(0)) == pytest.approx(expected)


def test_resampled_differences_surround_the_difference():
    counted = experiment.counts(OURS * 7, REFERENCES * 7)
    assert experiment.difference(counted, counted) == (0.0, 0.0)
    better = experiment.counts(REFERENCES * 7, REFERENCES * 7)
    low, high = experiment.difference(better, counted)
    assert 0 < low < 100 - experiment.bleu(counted.sum(0)) < high
    assert np.isfinite([low, high]).all()


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


def test_eight_bits_cost_less_than_three_tenths_of_bleu_in_the_table():
    rows = read(experiment.SCORES)
    for row in rows:
        if (row["way"], row["setting"]) in {("dynamic", ""), ("rows", "8")}:
            assert float(row["difference"]) > -0.3
            assert float(row["low"]) > -0.3
    found = {(row["way"], row["setting"], row["beam"]) for row in rows}
    assert len(found) == len(rows)
    assert found >= {("dynamic", "", beam) for beam in "15"}


def test_the_share_that_was_chosen_is_the_best_where_it_was_chosen():
    shares = {
        row["setting"]: float(row["same_training"])
        for row in read(experiment.SCORES)
        if row["way"] == "static" and row["setting"].startswith("200 captions, ")
    }
    assert len(shares) == len(experiment.SHARES)
    assert max(shares, key=shares.get) == "200 captions, share 1.0"
