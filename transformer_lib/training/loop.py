"""The training loop: epochs of updates, each followed by a measurement."""

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import torch

from transformer_lib.checks import require_finite
from transformer_lib.data import Batch
from transformer_lib.files import folder_lock
from transformer_lib.model import Transformer, inference
from transformer_lib.training.loss import label_smoothed_loss
from transformer_lib.training.run import Epoch, TrainingConfig, TrainingRun
from transformer_lib.training.schedule import cooldown_factor, warmup_rate
from transformer_lib.training.step import train_step


def evaluate(model: Transformer, batches: Iterable[Batch]) -> tuple[float, float]:
    """Measure how well the model predicts each next token, given the right past.

    Dropout is off. The masks are those of training.

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


def train(
    model: Transformer,
    batches: Callable[[int], Iterable[Batch]],
    validation: Sequence[Batch],
    config: TrainingConfig,
    *,
    folder: str | Path | None = None,
    on_epoch: Callable[[Epoch], None] | None = None,
    step: Callable[..., tuple[float, int]] = train_step,
    run_type: Callable[..., TrainingRun] = TrainingRun,
) -> list[Epoch]:
    """Train a model, and leave it with the average of its last epochs' weights.

    With a ``folder``, each epoch ends by writing all that the next one needs to
    ``training.safetensors``, and a table of the epochs so far to ``log.csv``. The same
    call then continues from there: on a CPU, a run that was stopped reaches the same
    losses and weights as one that was not. It may change the number of epochs, the
    patience and the cooldown, but nothing else.

    Args:
        model: Stays on its device. Frozen parameters (``requires_grad`` is False)
            are not changed.
        batches: Returns the batches of an epoch, given its number from 1; the same
            number gives the same batches.
        validation: Batches to measure after each epoch, without dropout and gradients;
            at least one.
        config: How to train.
        folder: Where to keep the run; None keeps nothing.
        on_epoch: Called after each epoch.
        step: Makes an update, with the arguments and results of ``train_step``.
        run_type: Begins or resumes the run, given the model, the config and the folder.

    Returns:
        A record of every epoch, including those before a resumption.

    Raises:
        OSError: If the folder cannot be written, for example because the disk is full.
        ValueError: As ``step`` and the run raise it; if another process trains in the
            folder; if an epoch or the validation has no batches; or if the validation
            loss or a weight becomes infinite or not a number, in which case the epoch
            is not kept.

    Source: Vaswani et al. (2017), section 5.
    """
    if not validation:
        raise ValueError("validation must hold at least 1 batch, got 0")
    torch.manual_seed(config.seed)
    with folder_lock(folder):
        run = run_type(model, config, folder)
        number = run.history[-1].step if run.history else 0
        while not run.is_over():
            epoch = len(run.history) + 1
            began = time.perf_counter()
            total, tokens = 0.0, 0
            cooling = cooldown_factor(epoch, config.epochs, config.cooldown)
            factor = config.factor * cooling
            for batch in batches(epoch):
                number += 1
                rate = warmup_rate(
                    number, model.config.d_model, config.warmup_steps, factor
                )
                loss, count = step(model, run.optimizer, batch, rate, config)
                total += loss
                tokens += count
            if not tokens:
                raise ValueError(
                    f"batches must give at least 1 batch, got 0 in {epoch=}"
                )
            measured = evaluate(model, validation)
            require_finite(
                validation_loss=measured[0], **dict(model.named_parameters())
            )
            seconds = time.perf_counter() - began
            run.keep(
                Epoch(epoch, number, rate, total / tokens, *measured, tokens, seconds)
            )
            if on_epoch is not None:
                on_epoch(run.history[-1])
        run.finish()
        return run.history
