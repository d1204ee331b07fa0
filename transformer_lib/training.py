"""Training: make the right next token a little less surprising, again and again."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

import torch
from torch import nn

from transformer_lib.checks import require_finite
from transformer_lib.data.batching import Batch
from transformer_lib.decoding import inference
from transformer_lib.distributed import (
    add_up,
    agreed,
    begin_together,
    leads,
    own_random_numbers,
    share,
)
from transformer_lib.files import sole_use
from transformer_lib.loss import disagreement, label_smoothed_loss
from transformer_lib.model import Transformer
from transformer_lib.precision import LossScaler, autocast, checkpoint_layers
from transformer_lib.schedule import cooldown_factor, warmup_rate
from transformer_lib.training_run import Epoch, TrainingConfig, TrainingRun


def train(
    model: Transformer,
    batches: Callable[[int], Iterable[Batch]],
    validation: Sequence[Batch],
    config: TrainingConfig,
    *,
    folder: str | Path | None = None,
    on_step: Callable[[int, float], None] | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
) -> list[Epoch]:
    """Train a model, and leave it with the average of its last epochs' weights.

    With a ``folder``, each epoch ends by writing all that the next one needs, to
    ``training.safetensors``, and the epochs so far, to ``log.csv``. The same call then
    goes on from there: a run that was stopped comes to the same losses as one that was
    not. (On a GPU, to the same up to rounding.) It may ask for more epochs than before,
    another patience or cooldown, but for nothing else.

    Args:
        model: It stays on the device where it is. Parameters that are frozen
            (``requires_grad`` is False) stay as they are.
        batches: Gives the batches of an epoch, by its number from 1: the same ones
            whenever it is asked.
        validation: Batches to measure after each epoch, without dropout and gradients;
            at least one.
        config: How to train.
        folder: Where to keep what is reached; None keeps nothing.
        on_step: Called after each update with its number and its loss per token.
        on_epoch: Called after each epoch.

    Returns:
        A record of every epoch, those before a resumption included.

    Raises:
        OSError: If the folder cannot be written, as when the disk is full.
        ValueError: If the folder holds a run of another model or another way to train,
            more epochs, or a damaged file, or another process trains there; if an epoch
            or the validation has no batches; if the validation loss or a weight becomes
            infinite or not a number, which is not kept; as ``train_step`` does.

    Source: Vaswani et al. (2017), section 5.
    """
    if not validation:
        raise ValueError("validation must hold at least 1 batch, got 0")
    torch.manual_seed(config.seed)
    with sole_use(folder if leads() else None):
        run = TrainingRun(model, config, folder)
        step = run.history[-1].step if run.history else 0
        begin_together(model, step)
        while not run.is_over():
            epoch = len(run.history) + 1
            own_random_numbers(config.seed, epoch)
            began = time.perf_counter()
            total, tokens = 0.0, 0
            cooling = cooldown_factor(epoch, config.epochs, config.cooldown)
            factor = config.factor * cooling
            for parts in _groups(batches(epoch), config.accumulate):
                step += 1
                rate = warmup_rate(
                    step, model.config.d_model, config.warmup_steps, factor
                )
                loss, count = train_step(
                    model, run.optimizer, parts, rate, config, run.scaler
                )
                total += loss
                tokens += count
                if on_step is not None:
                    on_step(step, loss / count)
            if not tokens:
                raise ValueError(
                    f"batches must give at least 1 batch, got 0 in {epoch=}"
                )
            measured = agreed(*evaluate(model, validation))
            require_finite(
                validation_loss=measured[0], **dict(model.named_parameters())
            )
            seconds = time.perf_counter() - began
            loss, skipped = total / tokens, run.scaler.skipped
            record = Epoch(epoch, step, rate, loss, *measured, tokens, seconds, skipped)
            run.keep(record)
            if on_epoch is not None:
                on_epoch(record)
        run.finish()
        return run.history


def train_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    parts: Sequence[Batch],
    rate: float,
    config: TrainingConfig,
    scaler: LossScaler | None = None,
) -> tuple[float, int]:
    """Update the weights once.

    Args:
        model: It is put into training mode.
        optimizer: Of the model's parameters.
        parts: Batches that count as one: the update is that of all their sentences
            together.
        rate: The learning rate.
        config: Smoothing, R-Drop, the longest gradient, precision and memory.
        scaler: What float16 needs; None scales nothing.

    Returns:
        The smoothed loss of all target tokens together, in nats, of two passes the
        mean, and their number. What R-Drop adds is not in it.

    Raises:
        ValueError: If a gradient is infinite or not a number, and ``scaler`` cannot
            help. The weights stay.
    """
    scaler = scaler or LossScaler(factor=1, interval=0)
    model.train()
    optimizer.zero_grad()
    weight, pad_id = model.output.weight, model.config.pad_id
    tokens = sum(int((batch.tgt[:, 1:] != pad_id).sum()) for batch in parts)
    passes = 2 if config.r_drop else 1  # P
    total = 0.0
    for batch in parts:
        batch = share(batch).to(weight.device)
        src, tgt = (ids.repeat(passes, 1) for ids in batch)
        targets = tgt[:, 1:]  # (P * B, T)
        with (
            autocast(weight.device, config.precision),
            checkpoint_layers(model, config.checkpoint_layers),
        ):
            logits = model(src, tgt[:, :-1])  # (P * B, T, V)
        logits = logits.to(weight.dtype)  # the short types are too coarse for a sum
        loss = label_smoothed_loss(logits, targets, pad_id, config.smoothing)
        total += loss.item() / passes
        if config.r_drop:
            loss = loss + config.r_drop * disagreement(logits, targets, pad_id)
        scaler.scale(loss / (passes * tokens)).backward()
    total = add_up(model.parameters(), total)
    scaler.unscale(model.parameters())
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.max_norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    if scaler.update(norm):  # one infinite gradient would lose every weight
        optimizer.step()
    return total, tokens


def evaluate(model: Transformer, batches: Iterable[Batch]) -> tuple[float, float]:
    """Measure how well the model predicts each next token, given the right past.

    Dropout is off meanwhile; the masks are those of training.

    Args:
        model: Left in the mode that it was in.
        batches: At least one.

    Returns:
        The mean cross-entropy of a target token, in nats, and the share of tokens whose
        score is the highest, in [0, 1].

    Raises:
        ValueError: If there are no batches.
    """
    pad_id = model.config.pad_id
    total, right, tokens = 0.0, 0, 0
    with inference(model):
        for batch in batches:
            batch = batch.to(model.output.weight.device)
            logits = model(batch.src, batch.tgt[:, :-1])  # (B, T, V)
            targets = batch.tgt[:, 1:]  # (B, T)
            real = targets != pad_id  # (B, T)
            total += label_smoothed_loss(logits, targets, pad_id, smoothing=0.0).item()
            right += int(((logits.argmax(dim=-1) == targets) & real).sum())
            tokens += int(real.sum())
    if not tokens:
        raise ValueError("batches must hold at least 1 target token, got 0")
    return total / tokens, right / tokens


def _groups(batches: Iterable[Batch], size: int) -> Iterator[list[Batch]]:
    """Gather the batches of each update; the last one may have fewer."""
    batches = iter(batches)
    while group := list(islice(batches, size)):
        yield group
