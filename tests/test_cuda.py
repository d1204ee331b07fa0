"""What a GPU must do as the CPU does; without one, these tests do not run."""

import random
from dataclasses import replace

import pytest
import torch

from transformer_lib.data.batching import token_batches
from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import TrainingConfig, evaluate, train
from transformer_lib.translation.__main__ import main
from transformer_lib.translation.run import read_record
from transformer_lib.translation.translator import Translator

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available(), reason="torch finds no GPU here"
)
V = 11
MODEL = TransformerConfig.base(
    V, d_model=32, num_heads=4, d_ff=64, num_layers=2, dropout=0.1, max_len=64
)
CONFIG = TrainingConfig(epochs=4, warmup_steps=20, factor=0.5, average=2)


@pytest.fixture(autouse=True)
def single_precision():
    """Autocast leaves float64, the default of the other tests, as it is."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    yield
    torch.set_default_dtype(before)


def sequences(count, seed):
    rng = random.Random(seed)
    rows = [rng.choices(range(3, V), k=rng.randint(1, 12)) for _ in range(count)]
    return [(row, row[::-1]) for row in rows]


def batches(epoch):
    return token_batches(sequences(400, 0), 300, seed=epoch)


VALIDATION = list(token_batches(sequences(60, 1), 300))


def new_model():
    torch.manual_seed(0)
    return Transformer(MODEL)


def test_it_scores_as_on_the_cpu():
    model = new_model().eval()
    batch = VALIDATION[0]
    expected = model(batch.src, batch.tgt)
    found = model.cuda()(batch.src.cuda(), batch.tgt.cuda()).cpu()
    torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("decode", [greedy_decode, beam_search])
def test_it_decodes_as_on_the_cpu_with_and_without_the_cache(decode):
    model = new_model()
    train(model, batches, VALIDATION, CONFIG)  # untrained, scores are nearly equal
    src, ids = VALIDATION[0].src, {"bos_id": 1, "eos_id": 2}

    def written(device, use_cache):
        found = decode(model.to(device), src.to(device), use_cache=use_cache, **ids)
        return [getattr(row[0], "tokens", row) for row in found]

    expected = written("cpu", True)
    assert written("cuda", True) == expected
    assert written("cuda", False) == expected


@pytest.mark.parametrize("bf16", [False, True])
def test_a_run_that_was_stopped_comes_to_the_same_losses_up_to_rounding(tmp_path, bf16):
    config = replace(CONFIG, bf16=bf16)
    whole = train(new_model().cuda(), batches, VALIDATION, config)
    train(
        new_model().cuda(),
        batches,
        VALIDATION,
        replace(config, epochs=2),
        folder=tmp_path,
    )
    torch.rand(5, device="cuda")  # what dropout draws next must come from the file
    model = new_model().cuda()
    resumed = train(model, batches, VALIDATION, config, folder=tmp_path)
    assert [e.step for e in resumed] == [e.step for e in whole]
    for ours, theirs in zip(resumed, whole, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=0.02 if bf16 else 2e-3)


def test_bfloat16_learns_what_single_precision_learns():
    losses = {}
    for bf16 in (False, True):
        model = new_model().cuda()
        train(model, batches, VALIDATION, replace(CONFIG, bf16=bf16))
        assert all(p.dtype == torch.float32 for p in model.parameters())
        losses[bf16], _ = evaluate(model, VALIDATION)
    assert losses[True] == pytest.approx(losses[False], rel=0.05)


def test_the_command_takes_the_gpu_and_its_model_runs_on_the_cpu(tmp_path, capsys):
    folder = str(tmp_path / "run")
    assert main(["train", "--epochs", "1", "--output", folder]) == 0
    record = read_record(folder)
    assert record["bf16"] is True
    assert record["device"] == torch.cuda.get_device_name()
    assert main(["train", "--epochs", "2", "--output", folder]) == 0
    assert "Going on with the run" in capsys.readouterr().err
    sentences = ["the dog sees the cat .", ""]
    on_cpu = Translator.load(folder)
    assert on_cpu.translate(sentences)[1] == ""
    assert main(["translate", "--model", folder, sentences[0]]) == 0
    assert main(["evaluate", "--model", folder, "--split", "validation"]) == 0
