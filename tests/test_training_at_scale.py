"""The step at scale and its run: equal to the short ones without options, and with."""

import csv
import functools
import math
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
    train,
    train_step,
    warmup_rate,
)

CONFIG = ScaleConfig(epochs=3, warmup_steps=4, average=2, accumulate=2)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # a child that was forked has only the one
    yield
    torch.set_num_threads(before)


def off():
    """A scaler that changes nothing."""
    return LossScaler(1, interval=0)


def run(folder=None, config=CONFIG, batches=batches, **callbacks):
    model = new_model()
    history = train_at_scale(model, batches, VALIDATION, config, folder, **callbacks)
    return model, history


@functools.cache
def never_stopped():
    return run()


# -- Without options -------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_without_options_both_steps_give_the_same_weights_bit_for_bit(dtype):
    short, full = new_model().to(dtype), new_model().to(dtype)
    config = ScaleConfig(warmup_steps=4)
    optimizers = adam(short), adam(full)
    for number in range(1, 7):
        batch = VALIDATION[number % len(VALIDATION)]
        rate = warmup_rate(number, MODEL.d_model, config.warmup_steps)
        torch.manual_seed(number)
        one = train_step(short, optimizers[0], batch, rate, config)
        torch.manual_seed(number)
        other = step_at_scale(full, optimizers[1], [batch], rate, config, off())
        assert one == other
        for ours, theirs in zip(short.parameters(), full.parameters(), strict=True):
            assert torch.equal(ours, theirs)
            assert torch.equal(ours.grad, theirs.grad)


def test_without_options_both_trainings_are_the_same_run(tmp_path):
    config = {"epochs": 3, "warmup_steps": 4, "average": 2}
    models = new_model(), new_model()
    short = train(models[0], batches, VALIDATION, TrainingConfig(**config))
    full = train_at_scale(models[1], batches, VALIDATION, ScaleConfig(**config))
    assert all(type(epoch) is ScaleEpoch and epoch.skipped == 0 for epoch in full)
    for ours, theirs in zip(short, full, strict=True):
        scaler = {"skipped": 0, "factor": 1, "fine": theirs.step}
        same = asdict(ours) | scaler | {"seconds": theirs.seconds}
        assert same == asdict(theirs)
    for ours, theirs in zip(*(model.parameters() for model in models), strict=True):
        assert torch.equal(ours, theirs)


def test_a_run_is_not_resumed_as_one_of_the_other_kind(tmp_path):
    config = TrainingConfig(epochs=1)
    train(new_model(), batches, VALIDATION, config, folder=tmp_path / "short")
    run(tmp_path / "full", replace(CONFIG, epochs=1))
    with pytest.raises(ValueError, match=r"accumulate must be 1, got 2"):
        run(tmp_path / "short")
    with pytest.raises(ValueError, match=r"accumulate must be 2, got None"):
        TrainingRun(new_model(), replace(config, warmup_steps=4), tmp_path / "full")


# -- A run -----------------------------------------------------------------------------


def test_a_run_is_the_steps_by_hand():
    model = new_model()
    torch.manual_seed(CONFIG.seed)
    optimizer, step, measured = adam(model), 0, []
    for epoch in (1, 2, 3):
        parts = list(batches(epoch))
        for first in range(0, len(parts), 2):
            step += 1
            rate = warmup_rate(step, MODEL.d_model, 4)
            group = parts[first : first + 2]
            step_at_scale(model, optimizer, group, rate, CONFIG, off())
        measured.append((step, *evaluate(model, VALIDATION)))
    assert [
        (epoch.step, epoch.validation_loss, epoch.validation_accuracy)
        for epoch in run()[1]
    ] == measured


@pytest.mark.parametrize(
    ("choice", "match"),
    [
        ({"accumulate": 0}, "accumulate must be at least 1, got 0"),
        ({"r_drop": -1.0}, r"r_drop must be at least 0, got -1\.0"),
        ({"r_drop": math.nan}, "r_drop must be at least 0, got nan"),
        ({"precision": "half"}, r"precision must be one of .*, got half"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
    ],
)
def test_choices_out_of_range_are_refused(choice, match):
    with pytest.raises(ValueError, match=match):
        ScaleConfig(**choice)


def test_unless_told_otherwise_it_is_the_short_training():
    config = ScaleConfig()
    assert (config.accumulate, config.r_drop) == (1, 0.0)
    assert (config.precision, config.checkpoint_layers) == ("float32", False)
    assert asdict(TrainingConfig()).items() <= asdict(config).items()


# -- One step --------------------------------------------------------------------------


def test_several_parts_are_one_update_equal_to_that_of_the_large_batch():
    pairs = sequences(9, 2)
    parts = [make_batch(pairs[:2]), make_batch(pairs[2:3]), make_batch(pairs[3:])]
    results = []
    for group in (parts, [make_batch(pairs)]):
        model = new_model(replace(MODEL, dropout=0.0))
        optimizer = adam(model)
        for _ in range(3):
            step = step_at_scale(model, optimizer, group, 0.01, CONFIG, off())
            results.append((*step, [p.grad.clone() for p in model.parameters()]))
    for ours, large in zip(results[:3], results[3:], strict=True):
        torch.testing.assert_close(ours, large, rtol=1e-7, atol=1e-12)
    assert results[0][1] == sum(len(tgt) + 1 for _, tgt in pairs)
    assert results[0][0] != results[1][0]


def test_r_drop_adds_half_its_share_of_what_two_passes_disagree_by():
    model, twin = new_model(), new_model()
    twin.load_state_dict(model.state_dict())
    batch, config = VALIDATION[0], replace(CONFIG, r_drop=3.0, max_norm=1e9)
    torch.manual_seed(5)
    loss, tokens = step_at_scale(model, adam(model), [batch], 0.01, config, off())

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
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad)


def test_without_dropout_r_drop_changes_nothing():
    results = []
    for r_drop in (0.0, 5.0):
        model = new_model(replace(MODEL, dropout=0.0))
        config = replace(CONFIG, r_drop=r_drop)
        found = step_at_scale(model, adam(model), VALIDATION, 0.01, config, off())
        results.append((*found, list(model.parameters())))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("short", ["bfloat16", "float16"])
def test_in_short_types_the_loss_is_nearly_the_same_and_weights_keep_theirs(short):
    results = []
    for precision in ("float32", short):
        model = new_model(replace(MODEL, dropout=0.0)).float()
        config = replace(CONFIG, precision=precision)
        step = step_at_scale(model, adam(model), VALIDATION, 0.01, config, off())
        results.append(step[0])
        assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert results[0] != results[1]
    assert results[0] == pytest.approx(results[1], rel=0.01)


# -- Precision and memory --------------------------------------------------------------


@pytest.fixture
def single_precision():
    """Autocast leaves float64 as it is."""
    torch.set_default_dtype(torch.float32)  # another fixture sets it back


def test_a_step_that_is_scaled_is_the_same_step():
    parameters = []
    for scaler in (off(), LossScaler(2.0**7)):
        model = new_model()
        step_at_scale(model, adam(model), VALIDATION, 0.01, CONFIG, scaler)
        parameters.append(list(model.parameters()))
    assert scaler.fine == 1
    assert all(map(torch.equal, *parameters))


def test_gradients_are_unscaled_before_they_are_clipped():
    lengths = []
    for scaler in (off(), LossScaler(2.0**10)):
        model = new_model()
        config = replace(CONFIG, max_norm=1e-3)
        step_at_scale(model, adam(model), VALIDATION, 0.01, config, scaler)
        norms = [parameter.grad.norm() for parameter in model.parameters()]
        lengths.append(torch.stack(norms).norm().item())
    assert lengths == pytest.approx([1e-3, 1e-3], rel=1e-3)


def test_a_step_whose_gradient_is_not_finite_is_skipped_with_a_scaler():
    model = new_model()
    before = [parameter.clone() for parameter in model.parameters()]
    optimizer, scaler = adam(model), LossScaler(math.inf)
    for _ in range(2):
        step_at_scale(model, optimizer, VALIDATION, 0.01, CONFIG, scaler)
    assert all(map(torch.equal, before, model.parameters()))
    assert scaler.skipped == 2
    assert not optimizer.state


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
    for epochs in (1, 2, 9, 14):
        stopped = run(tmp_path, replace(config, epochs=epochs))
    assert_same(stopped, whole)
    assert run(config=replace(config, epochs=1))[1][0].skipped == skipped[0]
    with open(tmp_path / "log.csv", newline="", encoding="utf-8") as file:
        assert [int(row["skipped"]) for row in csv.DictReader(file)] == skipped


def test_only_float16_skips(monkeypatch):
    monkeypatch.setattr(training_at_scale, "train", lambda *_, step, **__: step)
    for precision, interval in (("float32", 0), ("bfloat16", 0), ("float16", 2000)):
        config = replace(CONFIG, precision=precision)
        step = train_at_scale(new_model(), batches, VALIDATION, config)
        scaler = step.keywords["scaler"]
        assert scaler.interval == interval
        assert scaler.factor == (1 if interval == 0 else 2**16)


@pytest.mark.parametrize("precision", ["float32", "bfloat16", "float16"])
@pytest.mark.usefixtures("single_precision")
def test_checkpointed_layers_come_to_the_same_weights_bit_for_bit(precision, tmp_path):
    config = replace(CONFIG, precision=precision, r_drop=1.0)
    expected = run(config=config)
    config = replace(config, checkpoint_layers=True)
    assert_same(run(config=config), expected)
    run(tmp_path, replace(config, epochs=1))
    assert_same(run(tmp_path, config), expected)


def test_a_run_begun_on_a_gpu_goes_on_without_one(tmp_path, monkeypatch):
    monkeypatch.delattr(torch.cuda, "set_rng_state")
    run(tmp_path, replace(CONFIG, epochs=2))
    tensors, about = load_tensors(tmp_path / STATE)
    tensors["random cuda"] = torch.zeros(16, dtype=torch.uint8)  # where its dropout was
    save_tensors(tmp_path / STATE, tensors, about)
    assert_same(run(tmp_path), never_stopped())


def test_in_bfloat16_the_loss_is_still_added_up_in_single_precision():
    model, batch = new_model().float(), VALIDATION[0]
    config = replace(CONFIG, precision="bfloat16")
    loss, _ = step_at_scale(model, adam(model), [batch], 0.01, config, off())
    assert loss != torch.tensor(loss).bfloat16().item()
