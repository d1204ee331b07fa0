import csv
import errno
import functools
import math
import os
import random
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from transformer_lib.data import make_batch, token_batches
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import (
    Epoch,
    TrainingConfig,
    TrainingRun,
    evaluate,
    load_tensors,
    save_model,
    save_tensors,
    train,
    train_step,
    warmup_rate,
)
from transformer_lib.training import loop as training

V, PAD = 11, 0
MODEL = TransformerConfig.base(
    V, d_model=4, num_heads=2, d_ff=5, num_layers=1, dropout=0.2, max_len=16
)
CONFIG = TrainingConfig(epochs=3, warmup_steps=4, average=2)
STATE = "training.safetensors"


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)  # a child that was forked has only the one
    yield
    torch.set_num_threads(before)


def sequences(count, seed):
    rng = random.Random(seed)
    rows = [rng.choices(range(3, V), k=rng.randint(1, 6)) for _ in range(count)]
    return [(row, row[::-1]) for row in rows]


def batches(epoch):
    return token_batches(sequences(14, 0), 24, seed=epoch)


VALIDATION = list(token_batches(sequences(7, 1), 24))
UPDATES = len(list(batches(1)))


def new_model(config=MODEL):
    torch.manual_seed(5)
    return Transformer(config)


def adam(model):
    return torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)


def run(folder=None, config=CONFIG, batches=batches, **callbacks):
    model = new_model()
    history = train(model, batches, VALIDATION, config, folder=folder, **callbacks)
    return model, history


@functools.cache
def never_stopped():
    return run()


def untimed(history):
    return [replace(epoch, seconds=0.0) for epoch in history]


def assert_same(one, other):
    """Bit for bit: the weights, and the history but for its seconds."""
    (model, history), (other_model, other_history) = one, other
    assert untimed(history) == untimed(other_history)
    for ours, theirs in zip(model.parameters(), other_model.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_the_short_training_imports_nothing_of_the_full_one():
    code = "import sys, transformer_lib.training; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(training.__file__).parents[2],
        capture_output=True,
        check=True,
        encoding="utf-8",
    )
    loaded = set(done.stdout.splitlines())
    assert "transformer_lib.training.run" in loaded
    others = ("transformer_lib.faster", "transformer_lib.variants", "bookkit")
    assert not [name for name in loaded if name.startswith(others)]


# -- One step --------------------------------------------------------------------------


def test_a_step_agrees_with_torchs_loss_clipping_and_adam():
    model, twin = new_model(replace(MODEL, dropout=0.0)), new_model()
    twin.load_state_dict(model.state_dict())
    batch = VALIDATION[0]
    config = replace(CONFIG, max_norm=0.01)
    optimizer, twins = adam(model), adam(twin)
    for rate in (0.3, 0.1):
        loss, tokens = train_step(model, optimizer, batch, rate, config)
        twin.eval()
        expected = F.cross_entropy(
            twin(batch.src, batch.tgt[:, :-1]).flatten(0, 1),
            batch.tgt[:, 1:].flatten(),
            ignore_index=PAD,
            label_smoothing=config.smoothing,
        )
        twins.param_groups[0]["lr"] = rate
        twins.zero_grad()
        expected.backward()
        torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.01)
        twins.step()
        assert loss / tokens == pytest.approx(expected.item())
    assert tokens == (batch.tgt[:, 1:] != PAD).sum()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_a_step_puts_the_model_into_training_mode_and_forgets_old_gradients():
    results = []
    for earlier in (0.0, 7.0):
        model = new_model().eval()
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, earlier)
        torch.manual_seed(0)
        results.append(train_step(model, adam(model), VALIDATION[0], 0.01, CONFIG))
        assert all(module.training for module in model.modules())
        results.append([p.tolist() for p in model.parameters()])
    assert results[:2] == results[2:]


def test_longer_gradients_are_shortened_to_max_norm():
    lengths = []
    for max_norm in (1e9, 0.02):
        model = new_model(replace(MODEL, dropout=0.0))
        config = replace(CONFIG, max_norm=max_norm)
        train_step(model, adam(model), VALIDATION[0], 0.01, config)
        lengths.append(math.hypot(*(p.grad.norm().item() for p in model.parameters())))
    assert lengths[0] > 0.1
    assert lengths[1] == pytest.approx(0.02, rel=1e-3)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_costs_neither_weights_nor_state(tmp_path, bad):
    model, batches = new_model(), [VALIDATION[0]]
    config = replace(CONFIG, epochs=1)
    train(model, lambda _: batches, VALIDATION, config, folder=tmp_path)
    saved = (tmp_path / "training.safetensors").read_bytes()

    def spoil(epoch):
        yield from batches
        model.output.weight.register_hook(lambda gradient: gradient * bad)
        yield from batches

    longer = replace(config, epochs=2)
    with pytest.raises(ValueError, match=f"gradient_norm must be finite, got {bad}"):
        train(model, spoil, VALIDATION, longer, folder=tmp_path)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert (tmp_path / "training.safetensors").read_bytes() == saved


def test_an_epoch_that_loses_the_weights_is_not_kept(tmp_path, monkeypatch):
    def lose(record):
        monkeypatch.setattr(training, "warmup_rate", lambda *_: math.inf)

    with pytest.raises(ValueError, match="validation_loss must be finite, got nan"):
        run(tmp_path, batches=lambda _: VALIDATION[:1], on_epoch=lose)
    tensors, about = load_tensors(tmp_path / STATE)
    assert len(about["history"]) == 1
    assert all(tensor.isfinite().all() for tensor in tensors.values())


# -- Measuring -------------------------------------------------------------------------


def test_evaluate_agrees_with_torch_over_all_tokens_together():
    model = new_model()
    model.eval()
    logits = torch.cat([model(b.src, b.tgt[:, :-1]).flatten(0, 1) for b in VALIDATION])
    targets = torch.cat([b.tgt[:, 1:].flatten() for b in VALIDATION])
    loss, accuracy = evaluate(model, iter(VALIDATION))
    expected = F.cross_entropy(logits, targets, ignore_index=PAD)
    assert loss == pytest.approx(expected.item())
    right = (logits.argmax(-1) == targets)[targets != PAD]
    assert accuracy == pytest.approx(right.double().mean().item())


@pytest.mark.parametrize("was_training", [True, False])
def test_evaluate_is_in_eval_mode_without_gradients_and_restores_the_mode(was_training):
    model = new_model().train(was_training)
    seen = []
    model.register_forward_hook(
        lambda module, _, logits: seen.append((module.training, logits.requires_grad))
    )
    assert evaluate(model, VALIDATION) == evaluate(model, VALIDATION)
    assert set(seen) == {(False, False)}
    assert all(module.training == was_training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled()


def test_evaluate_and_training_use_the_same_masks():
    """The future and the padding change no score, whichever of the two asks."""
    pairs = sequences(5, 3)
    batch = make_batch(pairs)
    model = new_model(replace(MODEL, dropout=0.0))
    scores = []
    model.register_forward_hook(lambda *call: scores.append(call[-1].detach()))
    changed = batch._replace(tgt=batch.tgt.clone())
    changed.tgt[:, 3:] = 9
    wider = batch._replace(src=F.pad(batch.src, (0, 3), value=PAD))
    for variant in (batch, changed, wider):
        evaluate(model, [variant])
        train_step(model, adam(model), variant, 0.0, CONFIG)
    first = scores[0]
    for number, other in enumerate(scores):
        seen = 3 if number in (2, 3) else first.size(1)
        torch.testing.assert_close(other[:, :seen], first[:, :seen])
    assert not torch.allclose(scores[2][:, 3:], first[:, 3:])


def test_no_batches_have_no_loss():
    with pytest.raises(ValueError, match="at least 1 target token, got 0"):
        evaluate(new_model(), [])


# -- A run -----------------------------------------------------------------------------


def test_the_record_of_a_run():
    steps, epochs = [], []

    def step(*arguments):
        steps.append(train_step(*arguments))
        return steps[-1]

    _, history = run(step=step, on_epoch=epochs.append)
    assert history == epochs
    assert len(steps) == 3 * UPDATES
    for number, epoch in enumerate(history, start=1):
        assert (epoch.epoch, epoch.step) == (number, number * UPDATES)
        assert epoch.rate == warmup_rate(epoch.step, MODEL.d_model, warmup_steps=4)
        assert epoch.tokens == sum(len(tgt) + 1 for _, tgt in sequences(14, 0))
        losses, tokens = zip(*steps[(number - 1) * UPDATES : epoch.step], strict=True)
        assert epoch.loss == pytest.approx(sum(losses) / sum(tokens))
        assert 0 <= epoch.validation_accuracy <= 1
        assert epoch.seconds > 0


def test_a_run_is_the_steps_by_hand_and_ends_with_the_mean_of_the_last_weights():
    model = new_model()
    torch.manual_seed(CONFIG.seed)
    optimizer, step, ends, measured = adam(model), 0, [], []
    for epoch in (1, 2, 3):
        for batch in batches(epoch):
            step += 1
            rate = warmup_rate(step, MODEL.d_model, 4)
            train_step(model, optimizer, batch, rate, CONFIG)
        measured.append(evaluate(model, VALIDATION))
        ends.append([p.detach().clone() for p in model.parameters()])
    trained, history = run()
    assert [(e.validation_loss, e.validation_accuracy) for e in history] == measured
    for number, parameter in enumerate(trained.parameters()):
        mean = (ends[1][number] + ends[2][number]) / 2
        torch.testing.assert_close(parameter.detach(), mean)
    assert trained.output.weight is trained.tgt_embedding.table.weight


def test_training_lowers_the_loss():
    config = replace(CONFIG, epochs=25, warmup_steps=30, average=1)
    _, history = run(config=config)
    assert history[-1].loss < 0.8 * history[0].loss


def test_the_seed_decides_what_dropout_drops():
    assert_same(run(), run())
    assert run()[1][0].loss != run(config=replace(CONFIG, seed=1))[1][0].loss


def test_it_stops_after_patience_epochs_without_a_lower_validation_loss(monkeypatch):
    losses = iter([5.0, 4.0, 4.5, 3.0, 3.0, 3.5, 9.0, 1.0])
    monkeypatch.setattr(training, "evaluate", lambda *_: (next(losses), 0.0))
    _, history = run(config=replace(CONFIG, epochs=8, patience=2))
    assert [epoch.validation_loss for epoch in history] == [5, 4, 4.5, 3, 3, 3.5]


def test_without_patience_it_never_stops_early(monkeypatch):
    losses = iter([1.0, 2.0, 3.0, 4.0, 5.0])
    monkeypatch.setattr(training, "evaluate", lambda *_: (next(losses), 0.0))
    assert len(run(config=replace(CONFIG, epochs=5))[1]) == 5


@pytest.mark.parametrize(
    ("choice", "match"),
    [
        ({"smoothing": 1.0}, r"smoothing must be in \[0, 1\), got 1.0"),
        ({"factor": 0}, "factor must be above 0, got 0"),
        ({"factor": math.nan}, "factor must be above 0, got nan"),
        ({"max_norm": 0.0}, "max_norm must be above 0, got 0.0"),
        ({"max_norm": -1.0}, "max_norm must be above 0, got -1.0"),
        ({"cooldown": -1}, "cooldown must be at least 0, got -1"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"warmup_steps": 0}, "warmup_steps must be at least 1, got 0"),
        ({"average": 0}, "average must be at least 1, got 0"),
        ({"patience": 0}, "patience must be at least 1, got 0"),
    ],
)
def test_choices_that_would_train_nothing_or_worse_are_refused(choice, match):
    with pytest.raises(ValueError, match=match):
        TrainingConfig(**choice)


def test_choices_go_by_name():
    with pytest.raises(TypeError, match="positional"):
        TrainingConfig(10)


def test_the_rate_falls_during_the_cooldown():
    plain, cooled = run()[1], run(config=replace(CONFIG, cooldown=2))[1]
    shares = [c.rate / p.rate for c, p in zip(cooled, plain, strict=True)]
    assert shares == pytest.approx([1, 2 / 3, 1 / 3])
    losses = [(p.loss, c.loss) for p, c in zip(plain, cooled, strict=True)]
    assert losses[0][0] == losses[0][1]
    assert losses[2][0] != losses[2][1]


def test_an_epoch_or_a_validation_without_batches_is_refused():
    with pytest.raises(ValueError, match=r"batches must give at least 1 .* epoch=2"):
        run(batches=lambda epoch: batches(epoch) if epoch == 1 else [])
    with pytest.raises(ValueError, match="validation must hold at least 1"):
        train(new_model(), batches, [], CONFIG)


# -- Stopped and resumed ---------------------------------------------------------------


def killed(run, *arguments, prepare):
    """Train in a child until it ends or is killed; return whether it was."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            prepare()
            run(*arguments)
            status = 0
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status != 0


def die():
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("write", [1, 2])
@pytest.mark.parametrize("moment", ["half written", "before the name", "after it"])
def test_a_run_killed_while_it_writes_ends_as_one_never_stopped(
    tmp_path, write, moment, monkeypatch
):
    """Each write of the state is killed in its middle, or beside its renaming."""

    def prepare():
        write_bytes, replace_, left = Path.write_bytes, Path.replace, [write]

        def half(self, content):
            left[0] -= 1
            if left[0] == 0 and moment == "half written":
                write_bytes(self, content[: len(content) // 2])
                die()
            return write_bytes(self, content)

        def rename(self, target):
            if left[0] == 0 and moment == "after it":
                replace_(self, target)
            if left[0] == 0:
                die()
            return replace_(self, target)

        Path.write_bytes, Path.replace = half, rename

    expected = never_stopped()
    assert killed(run, tmp_path, prepare=prepare)
    nothing_yet = write == 1 and moment != "after it"
    assert (tmp_path / STATE).exists() != nothing_yet
    assert_same(run(tmp_path), expected)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "log.csv",
        STATE,
    ]


def test_a_disk_that_is_full_loses_nothing(tmp_path, monkeypatch):
    write_bytes, left = Path.write_bytes, [2]

    def full(self, content):
        left[0] -= 1
        if left[0] == 0:
            write_bytes(self, content[:100])
            raise OSError(errno.ENOSPC, "No space left on device")
        return write_bytes(self, content)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left on device"):
        run(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        ".lock",
        "log.csv",
        STATE,
    ]
    assert_same(run(tmp_path), never_stopped())


@pytest.mark.parametrize("stop", [KeyboardInterrupt, MemoryError])
def test_a_run_interrupted_in_a_step_ends_as_one_never_stopped(tmp_path, stop):
    numbers = iter(range(1, 3 * UPDATES))

    def interrupted(*arguments):
        if next(numbers) == 2 * UPDATES:
            raise stop
        return train_step(*arguments)

    with pytest.raises(stop):
        run(tmp_path, step=interrupted)
    rates = []

    def counted(*arguments):
        rates.append(arguments[3])
        return train_step(*arguments)

    resumed = run(tmp_path, step=counted)
    assert rates[0] == warmup_rate(UPDATES + 1, MODEL.d_model, CONFIG.warmup_steps)
    assert len(rates) == 2 * UPDATES
    assert_same(resumed, never_stopped())


def test_a_run_may_be_made_longer_and_asked_again(tmp_path):
    run(tmp_path, replace(CONFIG, epochs=1))
    run(tmp_path, replace(CONFIG, epochs=2, patience=7))
    expected = never_stopped()
    assert_same(run(tmp_path), expected)
    epochs = []
    assert_same(run(tmp_path, on_epoch=epochs.append), expected)
    assert epochs == []
    match = f"as many as were trained, got 1 and {CONFIG.epochs}"
    with pytest.raises(ValueError, match=match):
        run(tmp_path, replace(CONFIG, epochs=1))


def test_a_run_may_be_told_to_cool_down(tmp_path):
    config = replace(CONFIG, cooldown=2)
    run(tmp_path, replace(CONFIG, epochs=1))
    assert_same(run(tmp_path, config), run(config=config))


def test_resuming_leaves_nothing_to_the_weights_and_the_seed_before_it(tmp_path):
    run(tmp_path, replace(CONFIG, epochs=2))
    torch.manual_seed(99)
    model = Transformer(MODEL)
    history = train(model, batches, VALIDATION, CONFIG, folder=str(tmp_path))
    assert_same((model, history), never_stopped())


def test_early_stopping_survives_being_resumed(tmp_path, monkeypatch):
    losses = iter([5.0, 6.0, 7.0])
    monkeypatch.setattr(training, "evaluate", lambda *_: (next(losses), 0.0))
    config = replace(CONFIG, epochs=9, patience=2)
    run(tmp_path, replace(config, epochs=2))
    assert len(run(tmp_path, config)[1]) == 3
    assert len(run(tmp_path, config)[1]) == 3


def test_the_log_is_csv_with_a_row_for_each_epoch(tmp_path):
    _, history = run(tmp_path)
    with open(tmp_path / "log.csv", newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    types = {name: type(value) for name, value in asdict(history[0]).items()}
    read = [{name: types[name](row[name]) for name in types} for row in rows]
    assert [Epoch(**row) for row in read] == history


def test_without_a_folder_nothing_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run()
    assert list(tmp_path.iterdir()) == []


# -- Frozen parameters -----------------------------------------------------------------


def frozen(model):
    """Freeze the encoder, and the table that everything shares."""
    model.encoder.requires_grad_(False)
    model.output.weight.requires_grad_(False)
    return {n: p.detach().clone() for n, p in model.named_parameters()}, [
        n for n, p in model.named_parameters() if not p.requires_grad
    ]


def test_frozen_parameters_stay_and_the_others_are_trained():
    model = new_model().float()
    before, still = frozen(model)
    train(model, batches, VALIDATION, replace(CONFIG, average=3))
    assert len(still) > 10
    for name, parameter in model.named_parameters():
        assert torch.equal(parameter, before[name]) == (name in still)


def test_a_run_with_frozen_parameters_is_kept_and_goes_on(tmp_path):
    whole, resumed = new_model(), new_model()
    frozen(whole)
    history = train(whole, batches, VALIDATION, CONFIG)
    frozen(resumed)
    for epochs in (1, 2):
        config = replace(CONFIG, epochs=epochs)
        train(resumed, batches, VALIDATION, config, folder=tmp_path)
        torch.manual_seed(7)
        resumed = Transformer(MODEL)  # the frozen ones come from the folder, too
        frozen(resumed)
    resumed_history = train(resumed, batches, VALIDATION, CONFIG, folder=tmp_path)
    assert_same((resumed, resumed_history), (whole, history))


@pytest.mark.parametrize("first", [True, False])
def test_a_run_goes_on_with_the_same_parameters_frozen_or_not_at_all(tmp_path, first):
    models = new_model(), new_model()
    frozen(models[not first])
    config = replace(CONFIG, epochs=1)
    train(models[0], batches, VALIDATION, config, folder=tmp_path)
    expected = f"{STATE} says of the parameters that are not frozen does not fit"
    with pytest.raises(ValueError, match=expected):
        train(models[1], batches, VALIDATION, CONFIG, folder=tmp_path)


def test_a_model_that_is_frozen_altogether_is_refused():
    with pytest.raises(ValueError, match="empty parameter list"):
        train(new_model().requires_grad_(False), batches, VALIDATION, CONFIG)


# -- A folder that does not fit --------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "config.seed must be 0, got 1"),
        ({"warmup_steps": 3}, "config.warmup_steps must be 4, got 3"),
        ({"factor": 0.5}, "config.factor must be 1.0, got 0.5"),
    ],
)
def test_another_way_to_train_is_refused_with_both_values(tmp_path, change, named):
    run(tmp_path, replace(CONFIG, epochs=1))
    with pytest.raises(ValueError, match=f"{STATE} is of another run: {named}"):
        run(tmp_path, replace(CONFIG, **change))


def test_another_model_is_refused_with_both_values(tmp_path):
    run(tmp_path, replace(CONFIG, epochs=1))
    model = Transformer(replace(MODEL, d_ff=7))
    with pytest.raises(ValueError, match=r"another run: model\.d_ff must be 5, got 7"):
        train(model, batches, VALIDATION, CONFIG, folder=tmp_path)


def test_a_choice_that_this_version_does_not_know_is_refused(tmp_path):
    run(tmp_path, replace(CONFIG, epochs=1))
    tensors, about = load_tensors(tmp_path / STATE)
    about["training"]["momentum"] = 0.9
    save_tensors(tmp_path / STATE, tensors, about)
    with pytest.raises(ValueError, match=r"config\.momentum must be 0\.9, got None"):
        run(tmp_path)


def test_a_run_from_before_a_choice_came_goes_on_with_its_default(tmp_path):
    run(tmp_path, replace(CONFIG, epochs=1))
    tensors, about = load_tensors(tmp_path / STATE)
    del about["model"]["eos_id"]
    save_tensors(tmp_path / STATE, tensors, about)
    assert_same(run(tmp_path), never_stopped())
    save_tensors(tmp_path / STATE, tensors, about)
    model = Transformer(replace(MODEL, eos_id=3))
    with pytest.raises(ValueError, match=r"model\.eos_id must be 2, got 3"):
        train(model, batches, VALIDATION, CONFIG, folder=tmp_path)


def test_a_file_that_holds_no_training_run_is_refused(tmp_path):
    save_model(tmp_path / STATE, new_model())
    with pytest.raises(
        ValueError, match=f"{STATE} is not a whole training run: 'model'"
    ):
        run(tmp_path)


@pytest.mark.parametrize(
    "part", ["weights/", "exp_avg/", "exp_avg_sq/", "recent 1/", "random"]
)
def test_a_state_that_lacks_something_is_refused(tmp_path, part):
    run(tmp_path, replace(CONFIG, epochs=2))
    tensors, about = load_tensors(tmp_path / STATE)
    lost = next(name for name in tensors if name.startswith(part))
    del tensors[lost]
    save_tensors(tmp_path / STATE, tensors, about)
    with pytest.raises(ValueError, match=r"is not a whole|does not fit"):
        run(tmp_path)


@pytest.mark.parametrize(
    ("part", "becomes", "error"),
    [
        ("weights/", torch.zeros(2, 3), "must have shape"),
        ("exp_avg/", torch.int32, "must be floating-point, got torch.int32"),
        ("recent 0/", torch.zeros(2, 3), "must have shape"),
    ],
)
def test_a_state_with_something_else_in_it_is_refused_before_any_change(
    tmp_path, part, becomes, error
):
    config, model = replace(CONFIG, epochs=1), new_model()
    run(tmp_path, config)
    tensors, about = load_tensors(tmp_path / STATE)
    name = next(name for name in tensors if name.startswith(part))
    if isinstance(becomes, torch.dtype):
        becomes = tensors[name].to(becomes)
    save_tensors(tmp_path / STATE, tensors | {name: becomes}, about)
    before = [parameter.clone() for parameter in model.parameters()]
    with pytest.raises(ValueError, match=f"{STATE}.*{error}"):
        TrainingRun(model, config, tmp_path)
    assert all(map(torch.equal, model.parameters(), before))


def test_moments_of_another_width_go_on_in_that_of_the_weights(tmp_path):
    run(tmp_path, replace(CONFIG, epochs=1))
    tensors, about = load_tensors(tmp_path / STATE)
    halves = {k: t.half() for k, t in tensors.items() if k.startswith("exp_avg/")}
    save_tensors(tmp_path / STATE, tensors | halves, about)
    assert len(run(tmp_path, replace(CONFIG, epochs=2))[1]) == 2


def test_a_second_process_cannot_train_in_the_folder(tmp_path):
    answers = []

    def elsewhere(epoch):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                run(tmp_path)
            except ValueError as error:
                os.write(writer, str(error).encode())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writer)
        answers.append(os.read(reader, 1000).decode())
        os.close(reader)

    found = run(tmp_path, on_epoch=elsewhere)
    assert_same(found, never_stopped())
    assert len(answers) == CONFIG.epochs
    assert all(f"{tmp_path} is in use" in answer for answer in answers)
    assert_same(run(tmp_path), found)  # and afterwards it is free


def test_a_state_that_is_cut_off_is_refused_and_left_alone(tmp_path):
    run(tmp_path, replace(CONFIG, epochs=1))
    cut_off = (tmp_path / STATE).read_bytes()[:-1]
    (tmp_path / STATE).write_bytes(cut_off)
    with pytest.raises(ValueError, match=f"{STATE} is not a whole checkpoint"):
        run(tmp_path)
    assert (tmp_path / STATE).read_bytes() == cut_off


def test_unless_told_otherwise_it_trains_as_the_paper_did():
    config = TrainingConfig()
    assert (config.warmup_steps, config.factor, config.smoothing) == (4000, 1.0, 0.1)
    assert (config.patience, config.cooldown, config.average) == (None, 0, 1)
