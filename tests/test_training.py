"""One step, one run, and a run that is stopped, damaged or changed."""

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

from transformer_lib.data import token_batches
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import (
    Epoch,
    TrainingConfig,
    TrainingRun,
    evaluate,
    load_tensors,
    save_tensors,
    train,
    train_step,
    warmup_rate,
)
from transformer_lib.training import loop as training

pytestmark = pytest.mark.usefixtures("one_thread")
V, PAD = 11, 0
MODEL = TransformerConfig.base(
    V, d_model=4, num_heads=2, d_ff=5, num_layers=1, dropout=0.2, max_len=16
)
CONFIG = TrainingConfig(epochs=3, warmup_steps=4, average=2)
STATE = "training.safetensors"


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


def run(folder=None, config=CONFIG, batches=batches, model=None, **callbacks):
    model = model or new_model()
    history = train(model, batches, VALIDATION, config, folder=folder, **callbacks)
    return model, history


@functools.cache
def never_stopped():
    return run()


@pytest.fixture
def one_epoch(tmp_path):
    """A folder with a run of one epoch."""
    run(tmp_path, replace(CONFIG, epochs=1))
    return tmp_path


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def assert_same(one, other):
    """Bit for bit: the weights, and the history but for its seconds."""
    (model, history), (other_model, other_history) = one, other
    for ours, theirs in zip(history, other_history, strict=True):
        assert replace(ours, seconds=theirs.seconds) == theirs
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


# -- One step and measuring ------------------------------------------------------------


def test_a_step_agrees_with_torchs_loss_clipping_and_adam():
    model, twin = new_model(replace(MODEL, dropout=0.0)).eval(), new_model().eval()
    twin.load_state_dict(model.state_dict())
    batch = VALIDATION[0]
    config = replace(CONFIG, max_norm=0.01)
    optimizer, twins = adam(model), adam(twin)
    for rate in (0.3, 0.1):
        loss, tokens = train_step(model, optimizer, batch, rate, config)
        assert all(module.training for module in model.modules())
        expected = F.cross_entropy(
            twin(batch.src, batch.tgt[:, :-1]).flatten(0, 1),
            batch.tgt[:, 1:].flatten(),
            ignore_index=PAD,
            label_smoothing=config.smoothing,
        )
        twins.param_groups[0]["lr"] = rate
        twins.zero_grad()
        expected.backward()
        assert torch.nn.utils.clip_grad_norm_(twin.parameters(), 0.01) > 0.1
        twins.step()
        assert loss / tokens == pytest.approx(expected.item())
    assert tokens == (batch.tgt[:, 1:] != PAD).sum()
    for ours, theirs in zip(model.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(ours, theirs)
        torch.testing.assert_close(ours.grad, theirs.grad)


@pytest.mark.parametrize("bad", [math.inf, math.nan])
def test_a_gradient_that_is_not_finite_costs_neither_weights_nor_state(tmp_path, bad):
    model, batches = new_model(), [VALIDATION[0]]
    config = replace(CONFIG, epochs=1)
    run(tmp_path, config, lambda _: batches, model)
    saved = (tmp_path / STATE).read_bytes()

    def spoil(epoch):
        yield from batches
        model.output.weight.register_hook(lambda gradient: gradient * bad)
        yield from batches

    with pytest.raises(ValueError, match=f"gradient_norm must be finite, got {bad}"):
        run(tmp_path, replace(config, epochs=2), spoil, model)
    assert all(parameter.isfinite().all() for parameter in model.parameters())
    assert (tmp_path / STATE).read_bytes() == saved


def test_an_epoch_that_loses_the_weights_is_not_kept(tmp_path, monkeypatch):
    def lose(record):
        monkeypatch.setattr(training, "warmup_rate", lambda *_: math.inf)

    with pytest.raises(ValueError, match="validation_loss must be finite, got nan"):
        run(tmp_path, batches=lambda _: VALIDATION[:1], on_epoch=lose)
    tensors, about = load_tensors(tmp_path / STATE)
    assert len(about["history"]) == 1
    assert all(tensor.isfinite().all() for tensor in tensors.values())


@pytest.mark.parametrize("was_training", [True, False])
def test_evaluate_agrees_with_torch_over_all_tokens_and_leaves_no_trace(was_training):
    model = new_model().eval()
    logits = torch.cat([model(b.src, b.tgt[:, :-1]).flatten(0, 1) for b in VALIDATION])
    targets = torch.cat([b.tgt[:, 1:].flatten() for b in VALIDATION])
    expected = F.cross_entropy(logits, targets, ignore_index=PAD)
    right = (logits.argmax(-1) == targets)[targets != PAD]
    loss, accuracy = evaluate(model.train(was_training), iter(VALIDATION))
    assert loss == pytest.approx(expected.item())
    assert accuracy == pytest.approx(right.double().mean().item())
    assert all(module.training == was_training for module in model.modules())
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled()


# -- A run -----------------------------------------------------------------------------


def test_a_run_is_the_steps_by_hand_and_ends_with_the_mean_of_the_last_weights():
    model = new_model()
    torch.manual_seed(CONFIG.seed)
    optimizer, step, ends, expected = adam(model), 0, [], []
    for epoch in (1, 2, 3):
        losses = []
        for batch in batches(epoch):
            step += 1
            rate = warmup_rate(step, MODEL.d_model, 4)
            losses.append(train_step(model, optimizer, batch, rate, CONFIG))
        loss, tokens = map(sum, zip(*losses, strict=True))
        measured = evaluate(model, VALIDATION)
        expected.append(Epoch(epoch, step, rate, loss / tokens, *measured, tokens, 0.0))
        ends.append([p.detach().clone() for p in model.parameters()])
    told = []
    trained, history = run(on_epoch=told.append)
    assert told == history
    assert all(epoch.seconds > 0 for epoch in history)
    assert [replace(epoch, seconds=0.0) for epoch in history] == expected
    assert tokens == sum(len(tgt) + 1 for _, tgt in sequences(14, 0))
    for number, parameter in enumerate(trained.parameters()):
        mean = (ends[1][number] + ends[2][number]) / 2
        torch.testing.assert_close(parameter.detach(), mean)
    assert trained.output.weight is trained.tgt_embedding.table.weight


def test_training_lowers_the_loss():
    config = replace(CONFIG, epochs=25, warmup_steps=30, average=1)
    _, history = run(config=config)
    assert history[-1].loss < 0.8 * history[0].loss


def test_the_seed_decides_what_dropout_drops():
    assert_same(run(), never_stopped())
    other = run(config=replace(CONFIG, epochs=1, seed=1))
    assert other[1][0].loss != never_stopped()[1][0].loss


@pytest.mark.parametrize(("patience", "expected"), [(2, 6), (None, 8)])
def test_it_stops_after_patience_epochs_without_a_lower_validation_loss(
    tmp_path, monkeypatch, patience, expected
):
    losses = iter([5.0, 4.0, 4.5, 3.0, 3.0, 3.5, 9.0, 1.0])
    monkeypatch.setattr(training, "evaluate", lambda *_: (next(losses), 0.0))
    config = replace(CONFIG, epochs=8, patience=patience)
    run(tmp_path, replace(config, epochs=5))
    for _ in range(2):  # a run that is over stays so
        assert len(run(tmp_path, config)[1]) == expected


def test_the_rate_falls_during_the_cooldown_which_a_resumed_run_may_be_told(one_epoch):
    config = replace(CONFIG, cooldown=2)
    plain, cooled = never_stopped()[1], run(config=config)
    shares = [c.rate / p.rate for c, p in zip(cooled[1], plain, strict=True)]
    assert shares == pytest.approx([1, 2 / 3, 1 / 3])
    assert cooled[1][2].loss != plain[2].loss
    assert_same(run(one_epoch, config), cooled)


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
    assert names(tmp_path) == []


def test_unless_told_otherwise_it_trains_as_the_paper_did():
    config = TrainingConfig()
    assert (config.warmup_steps, config.factor, config.smoothing) == (4000, 1.0, 0.1)
    assert (config.patience, config.cooldown, config.average) == (None, 0, 1)


# -- Stopped and resumed ---------------------------------------------------------------


def in_a_child(function):
    """Call a function in a process of its own; return how that ended."""
    child = os.fork()
    if child == 0:
        try:
            function()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1]


def die():
    os.kill(os.getpid(), signal.SIGKILL)


def full_disk():
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize("moment", ["half", "full disk", "before the name", "after it"])
def test_a_run_that_fails_while_it_writes_ends_as_one_never_stopped(tmp_path, moment):
    """The second write of the state fails in its middle, or beside its renaming."""

    def failing():
        write_bytes, replace_, left = Path.write_bytes, Path.replace, [2]

        def write(self, content):
            left[0] -= 1
            if left[0] == 0 and moment in ("half", "full disk"):
                write_bytes(self, content[: len(content) // 2])
                full_disk() if moment == "full disk" else die()
            return write_bytes(self, content)

        def rename(self, target):
            if left[0] == 0 and moment == "after it":
                replace_(self, target)
            if left[0] == 0:
                die()
            return replace_(self, target)

        Path.write_bytes, Path.replace = write, rename
        run(tmp_path)

    expected = never_stopped()
    assert in_a_child(failing) == (0 if moment == "full disk" else signal.SIGKILL)
    kept = load_tensors(tmp_path / STATE)[1]["history"]
    assert len(kept) == (2 if moment == "after it" else 1)
    assert_same(run(tmp_path), expected)
    assert names(tmp_path) == [".lock", "log.csv", STATE]


def test_a_run_interrupted_in_a_step_ends_as_one_never_stopped(tmp_path):
    steps = []

    def step(*arguments):
        steps.append(arguments)
        if len(steps) == 2 * UPDATES:  # the last of the second epoch
            raise KeyboardInterrupt
        return train_step(*arguments)

    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, step=step)
    assert_same(run(tmp_path, step=step), never_stopped())
    assert len(steps) == 4 * UPDATES


def test_a_run_may_be_made_longer_and_asked_again_but_not_shorter(one_epoch):
    run(one_epoch, replace(CONFIG, epochs=2, patience=7))
    torch.manual_seed(99)  # neither the seed nor the weights before it matter
    assert_same(run(str(one_epoch), model=Transformer(MODEL)), never_stopped())
    epochs = []
    assert_same(run(one_epoch, on_epoch=epochs.append), never_stopped())
    assert epochs == []
    match = f"as many as were trained, got 1 and {CONFIG.epochs}"
    with pytest.raises(ValueError, match=match):
        run(one_epoch, replace(CONFIG, epochs=1))


def test_a_second_process_cannot_train_in_the_folder(tmp_path):
    answers = tmp_path / "answers"

    def ask():
        with open(answers, "a", encoding="utf-8") as file:
            try:
                run(tmp_path)
            except ValueError as error:
                print(error, file=file)

    found = run(tmp_path, on_epoch=lambda _: in_a_child(ask))
    assert_same(found, never_stopped())
    said = answers.read_text(encoding="utf-8").splitlines()
    assert len(said) == CONFIG.epochs
    assert all(f"{tmp_path} is in use" in line for line in said)
    assert_same(run(tmp_path), found)  # and afterwards it is free


# -- Frozen parameters -----------------------------------------------------------------


def frozen(seed=5):
    """Freeze the encoder of a new model, and the table that everything shares."""
    torch.manual_seed(seed)
    model = Transformer(MODEL)
    model.encoder.requires_grad_(False)
    model.output.weight.requires_grad_(False)
    return model


def test_frozen_parameters_stay_and_the_others_are_trained_and_go_on(tmp_path):
    before = dict(frozen().named_parameters())
    whole = run(model=frozen())
    still = [name for name, p in before.items() if not p.requires_grad]
    assert len(still) > 10
    for name, parameter in whole[0].named_parameters():
        assert torch.equal(parameter, before[name]) == (name in still)

    run(tmp_path, replace(CONFIG, epochs=1), model=frozen())
    # The frozen ones come from the folder, too.
    assert_same(run(tmp_path, model=frozen(seed=7)), whole)


@pytest.mark.parametrize("first", [True, False])
def test_a_run_goes_on_with_the_same_parameters_frozen_or_not_at_all(tmp_path, first):
    models = [frozen(), new_model()][:: 1 if first else -1]
    run(tmp_path, replace(CONFIG, epochs=1), model=models[0])
    expected = f"{STATE} says of the parameters that are not frozen does not fit"
    with pytest.raises(ValueError, match=expected):
        run(tmp_path, model=models[1])


# -- A folder that does not fit --------------------------------------------------------


@pytest.mark.parametrize(
    ("training", "model", "named"),
    [
        ({"seed": 1}, {}, "config.seed must be 0, got 1"),
        ({"warmup_steps": 3}, {}, "config.warmup_steps must be 4, got 3"),
        ({"factor": 0.5}, {}, "config.factor must be 1.0, got 0.5"),
        ({}, {"d_ff": 7}, "model.d_ff must be 5, got 7"),
    ],
)
def test_another_run_is_refused_with_both_values(one_epoch, training, model, named):
    model = Transformer(replace(MODEL, **model))
    with pytest.raises(ValueError, match=f"{STATE} is of another run: {named}"):
        run(one_epoch, replace(CONFIG, **training), model=model)


def lacks(part):
    """Lose the first tensor whose name begins so."""

    def change(tensors, about):
        del tensors[next(name for name in tensors if name.startswith(part))]

    return change


def becomes(part, value):
    def change(tensors, about):
        name = next(name for name in tensors if name.startswith(part))
        tensors[name] = value

    return change


DAMAGES = {
    "an unknown choice": (
        lambda tensors, about: about["training"].update(momentum=0.9),
        "config.momentum must be 0.9, got None",
    ),
    "no model": (lambda tensors, about: about.pop("model"), "not a whole .* run: 'mod"),
    "no random state": (lacks("random"), "not a whole training run: 'random'"),
    "a weight is missing": (lacks("weights/"), "missing"),
    "a moment is missing": (lacks("exp_avg_sq/"), "missing"),
    "an average is missing": (lacks("recent 0/"), "missing"),
    "another shape": (becomes("weights/", torch.zeros(2, 3)), "must have shape"),
    "an average of another shape": (becomes("recent 0/", torch.zeros(2, 3)), "shape"),
    "whole moments": (
        lambda tensors, about: tensors.update(
            {k: t.int() for k, t in tensors.items() if k.startswith("exp_avg/")}
        ),
        "must be floating-point, got torch.int32",
    ),
}


@pytest.mark.parametrize(("damage", "said"), DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_state_is_refused_by_name_before_any_change(one_epoch, damage, said):
    tensors, about = load_tensors(one_epoch / STATE)
    damage(tensors, about)
    save_tensors(one_epoch / STATE, tensors, about)
    damaged, model = (one_epoch / STATE).read_bytes(), new_model()
    with pytest.raises(ValueError, match=f"{STATE}.*{said}"):
        TrainingRun(model, CONFIG, one_epoch)
    assert all(map(torch.equal, model.parameters(), new_model().parameters()))
    assert (one_epoch / STATE).read_bytes() == damaged


def test_a_run_from_before_a_choice_came_goes_on_with_its_default(one_epoch):
    tensors, about = load_tensors(one_epoch / STATE)
    del about["model"]["eos_id"]
    save_tensors(one_epoch / STATE, tensors, about)
    with pytest.raises(ValueError, match=r"model\.eos_id must be 2, got 3"):
        run(one_epoch, model=Transformer(replace(MODEL, eos_id=3)))
    assert_same(run(one_epoch), never_stopped())
