"""The step at scale and its run: equal to the short ones without options, and with."""

import csv
import functools
from dataclasses import asdict, replace

import pytest
import torch
from test_training import (
    MODEL,
    PAD,
    STATE,
    VALIDATION,
    adam,
    assert_same,
    batches,
    new_model,
    sequences,
)
from test_training import run as short_run
from torch.nn import functional as F

from transformer_lib.data import make_batch
from transformer_lib.faster import (
    LossScaler,
    ScaleConfig,
    ScaleEpoch,
    step_at_scale,
    train_at_scale,
    training_at_scale,
)
from transformer_lib.training import (
    TrainingConfig,
    TrainingRun,
    evaluate,
    label_smoothed_loss,
    load_tensors,
    save_tensors,
    warmup_rate,
)

pytestmark = pytest.mark.usefixtures("one_thread")
CONFIG = ScaleConfig(epochs=3, warmup_steps=4, average=2, accumulate=2)
STILL = replace(MODEL, dropout=0.0)


def off():
    """A scaler that changes nothing."""
    return LossScaler(1, interval=0)


def run(folder=None, config=CONFIG):
    model = new_model()
    return model, train_at_scale(model, batches, VALIDATION, config, folder)


@functools.cache
def never_stopped():
    return run()


def step(model, config=CONFIG, parts=VALIDATION, scaler=None):
    """Make one update; give what it returns, and the gradients."""
    found = step_at_scale(model, adam(model), parts, 0.01, config, scaler or off())
    return *found, [parameter.grad for parameter in model.parameters()]


# -- Without options -------------------------------------------------------------------


def test_without_options_both_trainings_are_the_same_run():
    config = {"epochs": 3, "warmup_steps": 4, "average": 2}
    model, short = short_run(config=TrainingConfig(**config))
    expected = [ScaleEpoch(**asdict(epoch), fine=epoch.step) for epoch in short]
    assert_same(run(config=ScaleConfig(**config)), (model, expected))


def test_a_run_is_not_resumed_as_one_of_the_other_kind(tmp_path):
    config = TrainingConfig(epochs=1)
    short_run(tmp_path / "short", config)
    run(tmp_path / "full", replace(CONFIG, epochs=1))
    with pytest.raises(ValueError, match=r"accumulate must be 1, got 2"):
        run(tmp_path / "short")
    with pytest.raises(ValueError, match=r"accumulate must be 2, got None"):
        TrainingRun(new_model(), replace(config, warmup_steps=4), tmp_path / "full")


def test_a_run_is_the_steps_by_hand():
    model = new_model()
    torch.manual_seed(CONFIG.seed)
    optimizer, number, measured = adam(model), 0, []
    for epoch in (1, 2, 3):
        parts = list(batches(epoch))
        for first in range(0, len(parts), 2):
            number += 1
            rate = warmup_rate(number, MODEL.d_model, 4)
            group = parts[first : first + 2]
            step_at_scale(model, optimizer, group, rate, CONFIG, off())
        measured.append((number, *evaluate(model, VALIDATION)))
    assert [
        (epoch.step, epoch.validation_loss, epoch.validation_accuracy)
        for epoch in never_stopped()[1]
    ] == measured


# -- One step --------------------------------------------------------------------------


def test_several_parts_are_one_update_equal_to_that_of_the_large_batch():
    pairs = sequences(9, 2)
    parts = [make_batch(pairs[:2]), make_batch(pairs[2:3]), make_batch(pairs[3:])]
    ours, large = (
        step(new_model(STILL), parts=group) for group in (parts, [make_batch(pairs)])
    )
    torch.testing.assert_close(ours, large, rtol=1e-7, atol=1e-12)
    assert ours[1] == sum(len(tgt) + 1 for _, tgt in pairs)


def test_r_drop_adds_half_its_share_of_what_two_passes_disagree_by():
    model, twin = new_model(), new_model()
    batch, config = VALIDATION[0], replace(CONFIG, r_drop=3.0, max_norm=1e9)
    torch.manual_seed(5)
    loss, tokens, gradients = step(model, config, [batch])

    torch.manual_seed(5)  # the same dropout
    logits = twin(batch.src.repeat(2, 1), batch.tgt[:, :-1].repeat(2, 1))
    targets = batch.tgt[:, 1:]
    first, second = logits.chunk(2)
    losses = [label_smoothed_loss(x, targets, PAD) for x in (first, second)]
    assert abs(losses[0] - losses[1]) > 1e-3
    assert loss == pytest.approx(sum(losses).item() / 2)
    assert tokens == (targets != PAD).sum()
    p, q = (x.log_softmax(dim=-1)[targets != PAD] for x in (first, second))
    apart = (F.kl_div(p, q, log_target=True, reduction="sum")
             + F.kl_div(q, p, log_target=True, reduction="sum")) / 2  # fmt: skip
    ((sum(losses) + 3.0 * apart) / 2 / tokens).backward()
    torch.testing.assert_close(gradients, [p.grad for p in twin.parameters()])


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_in_short_types_the_loss_is_nearly_the_same_and_weights_keep_theirs(short):
    losses = []
    for precision in ("float32", short):
        model = new_model(STILL).float()
        losses.append(step(model, replace(CONFIG, precision=precision))[0])
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert losses[0] != losses[1]
    assert losses[0] == pytest.approx(losses[1], rel=0.01)


def test_in_bfloat16_the_loss_is_still_added_up_in_single_precision():
    config = replace(CONFIG, precision="bfloat16")
    loss, *_ = step(new_model().float(), config, VALIDATION[:1])
    assert loss != torch.tensor(loss).bfloat16().item()


# -- Precision and memory --------------------------------------------------------------


@pytest.fixture
def single_precision():
    """Autocast leaves float64 as it is."""
    torch.set_default_dtype(torch.float32)  # another fixture sets it back


def test_a_step_that_is_scaled_is_the_same_step_unscaled_before_it_is_clipped():
    config, found = replace(CONFIG, max_norm=1e-3), []
    for scaler in (off(), LossScaler(2.0**7)):
        model = new_model()
        gradients = step(model, config, scaler=scaler)[2]
        length = torch.stack([gradient.norm() for gradient in gradients]).norm()
        assert length.item() == pytest.approx(1e-3, rel=1e-3)
        found.append(list(model.parameters()))
    assert scaler.fine == 1
    assert all(map(torch.equal, *found))


@pytest.mark.usefixtures("single_precision")
def test_a_float16_run_skips_counts_and_resumes_exactly(tmp_path, monkeypatch):
    # Begins far too high: all of the first epoch is skipped. Then it soon grows again.
    def restless(factor=2.0**40, interval=2):
        return LossScaler(factor, interval)

    monkeypatch.setattr(training_at_scale.precision, "LossScaler", restless)
    config = replace(CONFIG, epochs=14, precision="float16", accumulate=1)
    whole = run(config=config)
    skipped = [epoch.skipped for epoch in whole[1]]
    assert skipped[0] == whole[1][0].step
    assert skipped[0] < skipped[-1] < whole[1][-1].step
    assert skipped == sorted(skipped)
    for epochs in (1, 9, 14):
        stopped = run(tmp_path, replace(config, epochs=epochs))
    assert_same(stopped, whole)
    with open(tmp_path / "log.csv", newline="", encoding="utf-8") as file:
        assert [int(row["skipped"]) for row in csv.DictReader(file)] == skipped


def test_only_float16_skips(monkeypatch):
    monkeypatch.setattr(training_at_scale, "train", lambda *_, step, **__: step)
    for precision, interval in (("float32", 0), ("bfloat16", 0), ("float16", 2000)):
        config = replace(CONFIG, precision=precision)
        scaler = train_at_scale(None, batches, VALIDATION, config).keywords["scaler"]
        assert scaler.interval == interval
        assert scaler.factor == (1 if interval == 0 else 2**16)


@pytest.mark.usefixtures("single_precision")
def test_checkpointed_layers_come_to_the_same_weights_bit_for_bit(tmp_path):
    config = replace(CONFIG, precision="bfloat16", r_drop=1.0)
    expected = run(config=config)
    config = replace(config, checkpoint_layers=True)
    run(tmp_path, replace(config, epochs=1))
    assert_same(run(tmp_path, config), expected)


def test_a_run_begun_on_a_gpu_goes_on_without_one(tmp_path, monkeypatch):
    monkeypatch.delattr(torch.cuda, "set_rng_state")
    run(tmp_path, replace(CONFIG, epochs=2))
    tensors, about = load_tensors(tmp_path / STATE)
    tensors["random cuda"] = torch.zeros(16, dtype=torch.uint8)  # where its dropout was
    save_tensors(tmp_path / STATE, tensors, about)
    assert_same(run(tmp_path), never_stopped())
