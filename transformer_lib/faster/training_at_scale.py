"""Training at scale: parts of a batch, R-Drop, short numbers, several processes.

``train_at_scale`` passes ``step_at_scale`` and ``ScaleRun`` to ``training.train``.
Without options, they make the same updates as ``train_step``, bit for bit. All of them
raise ``ConnectionError`` if another process has ended, or does not answer.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer_lib import checks
from transformer_lib.data import Batch
from transformer_lib.faster import distributed, precision
from transformer_lib.model import Transformer
from transformer_lib.training import (
    Epoch,
    TrainingConfig,
    TrainingRun,
    label_smoothed_loss,
    train,
)

SCALER_STATE = ("skipped", "factor", "fine")  # what a resumed run needs of it


@dataclass(frozen=True, kw_only=True)
class ScaleConfig(TrainingConfig):
    """How to train at scale; the other fields are those of ``TrainingConfig``.

    Args:
        accumulate: Batches whose gradients make one update.
        r_drop: Weight of the disagreement between two passes over a batch, each with
            its own dropout (R-Drop); 0 makes one pass.
        precision: The type that autocast multiplies in: ``"float32"``, which leaves
            everything in the type of the weights, ``"bfloat16"`` or ``"float16"``. With
            float16, an update whose gradient is not finite is skipped.
        checkpoint_layers: Keep only the inputs of the layers for the gradients, and
            compute the rest again: less memory, more time, the same weights.

    Raises:
        ValueError: If a choice is out of its range.
    """

    accumulate: int = 1
    r_drop: float = 0.0
    precision: str = "float32"
    checkpoint_layers: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        checks.require_positive(accumulate=self.accumulate)
        checks.require_not_negative(r_drop=self.r_drop)
        checks.require_one_of(precision.PRECISIONS, precision=self.precision)


@dataclass(frozen=True)
class ScaleEpoch(Epoch):
    """What one pass through the data came to, and the state of the loss scaler.

    Args:
        skipped: Updates skipped so far, because float16 could not hold a gradient;
            ``step`` includes them.
        factor: What losses are multiplied by at the end of the pass.
        fine: Updates in a row since this factor last changed.
    """

    skipped: int = 0
    factor: float = 1.0
    fine: int = 0


def train_at_scale(
    model: Transformer,
    batches: Callable[[int], Iterable[Batch]],
    validation: Sequence[Batch],
    config: ScaleConfig,
    folder: str | Path | None = None,
    on_epoch: Callable[[ScaleEpoch], None] | None = None,
) -> list[ScaleEpoch]:
    """Train with ``training.train``, but with ``step_at_scale``, in all processes.

    Args, Returns and Raises are those of ``train``; ``config.accumulate`` batches make
    one update. All processes must see the same folder, and only process 0 writes there.
    On a GPU, a run that was stopped reaches the same losses as one that was not, up to
    rounding.
    """
    scaler = precision.LossScaler(1, interval=0)
    if config.precision == "float16":
        scaler = precision.LossScaler()

    def groups(epoch: int) -> Iterator[list[Batch]]:
        distributed.own_random_numbers(config.seed, epoch)
        drawn = iter(batches(epoch))
        return iter(lambda: list(islice(drawn, config.accumulate)), [])

    return train(
        model,
        groups,
        validation,
        config,
        folder=folder if distributed.is_main() else None,
        step=partial(step_at_scale, scaler=scaler),
        run_type=lambda model, config, _: ScaleRun(model, config, folder, scaler),
        on_epoch=on_epoch,
    )


def step_at_scale(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    parts: Sequence[Batch],
    rate: float,
    config: ScaleConfig,
    scaler: precision.LossScaler,
) -> tuple[float, int]:
    """Update the weights once, by all processes together.

    Args:
        model: It is put into training mode.
        optimizer: Of the model's parameters.
        parts: Batches that count as one: the update is that of all their sentences
            together. The same in all processes, which share out the sentences.
        rate: The learning rate.
        config: Smoothing, R-Drop, the longest gradient, precision and memory.
        scaler: Scales the loss for float16; with a factor of 1 it changes nothing.

    Returns:
        The smoothed loss of all target tokens together, in nats, without what R-Drop
        adds, and the number of these tokens.

    Raises:
        ValueError: If the batches have no target tokens, or a gradient is infinite or
            not a number, and the scaler's factor is 1. The weights then stay as they
            were.
    """
    model.train()
    optimizer.zero_grad()
    pad_id = model.config.pad_id
    tokens = sum(int((batch.tgt[:, 1:] != pad_id).sum()) for batch in parts)
    checks.require_positive(**{"target tokens of the batches": tokens})
    total = 0.0
    for batch in parts:
        loss, penalty = loss_at_scale(model, distributed.shard(batch), config)
        total += loss.item()
        scaler.scale((loss + penalty) / tokens).backward()
    total = distributed.all_reduce_gradients(model.parameters(), total)
    scaler.unscale(model.parameters())
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.max_norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    if scaler.update(norm):  # one infinite gradient would lose every weight
        optimizer.step()
    return total, tokens


def loss_at_scale(
    model: Transformer, batch: Batch, config: ScaleConfig
) -> tuple[Tensor, Tensor | float]:
    """Compute the loss of one part of a batch, in one pass or in two.

    Args:
        model: In training mode, or two passes are the same.
        batch: B pairs, on any device.
        config: Smoothing, R-Drop, precision and memory.

    Returns:
        The smoothed loss of all target tokens together, in nats, the mean of both
        passes; and what R-Drop adds for the gradient, 0 without it.
    """
    weight, pad_id = model.output.weight, model.config.pad_id
    passes = 2 if config.r_drop else 1  # P
    src, tgt = (ids.repeat(passes, 1) for ids in batch.to(weight.device))
    targets = tgt[:, 1:]  # (P * B, T)
    with (
        precision.autocast(weight.device, config.precision),
        precision.checkpoint_layers(model, config.checkpoint_layers),
    ):
        logits = model(src, tgt[:, :-1])  # (P * B, T, V)
    logits = logits.to(weight.dtype)  # the short types are too coarse for a sum
    loss = label_smoothed_loss(logits, targets, pad_id, config.smoothing) / passes
    if not config.r_drop:
        return loss, 0.0
    return loss, config.r_drop / 2 * disagreement(logits, targets, pad_id)


class ScaleRun(TrainingRun):
    """The state of a run at scale.

    All processes resume from the same folder, and begin with the weights of process 0,
    which alone writes.

    Args:
        model: It stays on its device.
        config: How to train.
        folder: Where to keep the run; None keeps nothing.
        scaler: The one that the steps use; a resumed run restores it.

    Raises:
        ValueError: As ``TrainingRun`` does, or if process 0 has made another number of
            updates.
    """

    epoch_type = ScaleEpoch

    def __init__(
        self,
        model: Transformer,
        config: ScaleConfig,
        folder: str | Path | None,
        scaler: precision.LossScaler,
    ) -> None:
        self.scaler = scaler
        super().__init__(model, config, folder)
        if not distributed.is_main():
            self.folder = None
        distributed.begin_together(model, self.history[-1].step if self.history else 0)

    def keep(self, record: Epoch) -> None:
        """Add an epoch, as process 0 has measured it; wait until it is written."""
        numbers = record.validation_loss, record.validation_accuracy
        loss, accuracy = distributed.broadcast(*numbers)
        found = {"validation_loss": loss, "validation_accuracy": accuracy}
        found |= {name: getattr(self.scaler, name) for name in SCALER_STATE}
        super().keep(ScaleEpoch(**asdict(record) | found))
        distributed.wait_for_main()

    def _state(self) -> tuple[dict, dict]:
        """Add the random state of the GPU, if dropout draws there."""
        tensors, about = super()._state()
        device = self.model.output.weight.device
        if device.type == "cuda":
            tensors["random cuda"] = torch.cuda.get_rng_state(device)
        return tensors, about

    def _restore(self, tensors: dict, about: dict, path: Path) -> None:
        """Put everything back as ``_state`` found it."""
        super()._restore(tensors, about, path)
        for name in SCALER_STATE:
            setattr(self.scaler, name, getattr(self.history[-1], name))
        for state in self.optimizer.state.values():
            state["step"] -= self.scaler.skipped
        device = self.model.output.weight.device
        if device.type == "cuda" and "random cuda" in tensors:
            torch.cuda.set_rng_state(tensors["random cuda"], device)


def disagreement(logits: Tensor, targets: Tensor, pad_id: int) -> Tensor:
    r"""Add up how far apart two passes over the same tokens are, for R-Drop.

    For a token that is the mean of two Kullback-Leibler divergences: of the second
    pass's probabilities from the first's, and the other way round.

    Args:
        logits: A score for every token of the vocabulary, shape (2 * B, T, V): those of
            one pass, then those of the other.
        targets: The right token ids, shape (2 * B, T): the same twice.
        pad_id: Positions with this target do not count.

    Returns:
        The sum over the real tokens of one pass, in nats, a scalar; 0 where both agree.

    Raises:
        ValueError: If the shapes do not fit, or the number of rows is odd.

    Source: Liang et al. (2021), section 2.1.
    """
    if logits.shape[:-1] != targets.shape or len(targets) % 2:
        raise ValueError(
            "logits must have the shape of targets and one axis more, and an even "
            f"number of rows, got {tuple(logits.shape)} and {tuple(targets.shape)}"
        )
    first, second = logits.log_softmax(dim=-1).chunk(2)  # (B, T, V), (B, T, V)
    apart = (first.exp() - second.exp()) * (first - second)  # (B, T, V)
    both = apart.sum(dim=-1) / 2  # (B, T)
    return both.masked_fill(targets[: len(both)] == pad_id, 0.0).sum()
