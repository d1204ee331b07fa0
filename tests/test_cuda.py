"""What a GPU must do as the CPU does; without one, these tests do not run."""

from dataclasses import replace

import pytest
import torch
from test_training import V, sequences

from transformer_lib.data import token_batches
from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.faster import (
    ScaleConfig,
    autocast,
    checkpoint_layers,
    train_at_scale,
)
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import evaluate
from transformer_lib.translation.command import main
from transformer_lib.translation.run import read_record
from transformer_lib.translation.translator import Translator

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch finds no GPU here"
)
MODEL = TransformerConfig.base(
    V, d_model=32, num_heads=4, d_ff=64, num_layers=2, dropout=0.1, max_len=64
)
CONFIG = ScaleConfig(epochs=4, warmup_steps=20, factor=0.5, average=2)


@pytest.fixture(autouse=True)
def single_precision():
    """Autocast leaves float64, the default of the other tests, as it is."""
    torch.set_default_dtype(torch.float32)  # another fixture sets it back


def batches(epoch):
    return token_batches(sequences(400, 0), 300, seed=epoch)


VALIDATION = list(token_batches(sequences(60, 1), 300))


def new_model():
    torch.manual_seed(0)
    return Transformer(MODEL)


@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
def test_it_scores_and_decodes_as_on_the_cpu_with_and_without_the_cache(decode):
    model = new_model()
    train_at_scale(model, batches, VALIDATION, CONFIG)  # or scores are nearly equal
    src, tgt = VALIDATION[0].to("cpu")
    scores = [model.eval().to(d)(src.to(d), tgt.to(d)).cpu() for d in ("cpu", "cuda")]
    torch.testing.assert_close(*scores, atol=1e-4, rtol=1e-4)

    def written(device, use_cache):
        found = decode(model.to(device), src.to(device), use_cache=use_cache)
        return [getattr(row[0], "tokens", row) for row in found]

    expected = written("cpu", True)
    assert written("cuda", True) == expected
    assert written("cuda", False) == expected


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
def test_a_run_that_was_stopped_comes_to_the_same_losses_up_to_rounding(
    tmp_path, precision
):
    config = replace(CONFIG, precision=precision)
    whole = train_at_scale(new_model().cuda(), batches, VALIDATION, config)
    first = replace(config, epochs=2)
    train_at_scale(new_model().cuda(), batches, VALIDATION, first, folder=tmp_path)
    torch.rand(5, device="cuda")  # what dropout draws next must come from the file
    model = new_model().cuda()
    resumed = train_at_scale(model, batches, VALIDATION, config, folder=tmp_path)
    assert [e.step for e in resumed] == [e.step for e in whole]
    for ours, theirs in zip(resumed, whole, strict=True):
        rounding = 2e-3 if precision == "float32" else 0.02
        assert ours.loss == pytest.approx(theirs.loss, rel=rounding)


def test_short_numbers_learn_what_single_precision_learns():
    losses = {}
    for precision in ("float32", "bfloat16", "float16"):
        model = new_model().cuda()
        train_at_scale(model, batches, VALIDATION, replace(CONFIG, precision=precision))
        assert all(p.dtype == torch.float32 for p in model.parameters())
        losses[precision], _ = evaluate(model, VALIDATION)
    assert losses["bfloat16"] == pytest.approx(losses["float32"], rel=0.05)
    assert losses["float16"] == pytest.approx(losses["float32"], rel=0.05)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_checkpointed_layers_have_the_gradients_of_ordinary_ones(precision):
    gradients = []
    for enabled in (False, True):
        model = new_model().cuda()
        torch.manual_seed(1)
        batch = VALIDATION[0].to("cuda")
        with autocast(batch.src.device, precision), checkpoint_layers(model, enabled):
            logits = model(batch.src, batch.tgt)
        logits.float().square().mean().backward()
        gradients.append([parameter.grad for parameter in model.parameters()])
    for ours, theirs in zip(*gradients, strict=True):
        torch.testing.assert_close(ours, theirs, atol=1e-6, rtol=1e-4)


def test_the_command_takes_the_gpu_and_its_model_runs_on_the_cpu(tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert main(["train", "--epochs", "1", "--output", folder]) == 0
    record = read_record(folder)
    assert record["precision"] == "bfloat16"
    assert record["device"] == torch.cuda.get_device_name()
    assert main(["train", "--epochs", "2", "--output", folder]) == 0
    assert "Going on with the run" in capsys.readouterr().err
    sentence = "the dog sees the cat ."
    assert len(Translator.load(folder).translate([sentence])) == 1
    assert main(["translate", "--model", folder, sentence]) == 0
    assert main(["evaluate", "--model", folder, "--split", "validation"]) == 0
