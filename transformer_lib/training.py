"""Training: make the right next token a little less surprising, again and again."""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch
from torch import Tensor, nn

from transformer_lib.checkpoint import (
    average_weights,
    load_tensors,
    load_weights,
    save_tensors,
)
from transformer_lib.checks import (
    require_not_negative,
    require_positive,
    require_probability,
)
from transformer_lib.data.batching import Batch
from transformer_lib.decoding import inference
from transformer_lib.files import write_csv
from transformer_lib.loss import disagreement, label_smoothed_loss
from transformer_lib.model import Transformer
from transformer_lib.schedule import cooldown_factor, warmup_rate

STATE, LOG = "training.safetensors", "log.csv"
HOW_IT_ENDS = {"epochs", "patience", "cooldown"}  # what a resumed run may change
ADAM = ("exp_avg", "exp_avg_sq")  # what torch's Adam keeps of each parameter


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train.

    Args:
        epochs: How often to go through the data, at most.
        warmup_steps: The update with the highest learning rate.
        factor: Multiplies the paper's learning rate.
        smoothing: Share of each answer that label smoothing gives away.
        max_norm: Longer gradients are shortened to this length.
        accumulate: Batches whose gradients make one update.
        average: How many of the last epochs' weights are averaged at the end.
        patience: Stop after this many epochs without a lower validation loss; None
            never stops early.
        cooldown: Over how many of the last epochs the learning rate falls to nearly
            nothing, in equal steps; 0 leaves it to the paper's formula.
        r_drop: How much it costs that two passes over a batch, each with dropout of its
            own, disagree (R-Drop); 0 makes one pass.
        seed: Where torch's random numbers begin, which dropout draws.
        bf16: Multiply in bfloat16 where autocast does so.

    Raises:
        ValueError: If a choice is out of its range.
    """

    epochs: int = 10
    warmup_steps: int = 4000
    factor: float = 1.0
    smoothing: float = 0.1
    max_norm: float = 1.0
    accumulate: int = 1
    average: int = 1
    patience: int | None = None
    cooldown: int = 0
    r_drop: float = 0.0
    seed: int = 0
    bf16: bool = False

    def __post_init__(self) -> None:
        require_positive(
            epochs=self.epochs,
            warmup_steps=self.warmup_steps,
            accumulate=self.accumulate,
            average=self.average,
        )
        require_not_negative(cooldown=self.cooldown, r_drop=self.r_drop)
        require_probability(smoothing=self.smoothing)
        for name in ("factor", "max_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        if self.patience is not None:
            require_positive(patience=self.patience)


@dataclass(frozen=True)
class Epoch:
    """What one pass through the data came to.

    Args:
        epoch: Which pass; the first is 1.
        step: Updates made so far.
        rate: The learning rate of the last one.
        loss: Mean smoothed loss of a training token, in nats, dropout on.
        validation_loss: Mean cross-entropy of a validation token, in nats.
        validation_accuracy: Share of validation tokens whose score is the highest, in
            [0, 1].
        tokens: Target tokens trained on, padding not counted.
        seconds: How long the pass took.
    """

    epoch: int
    step: int
    rate: float
    loss: float
    validation_loss: float
    validation_accuracy: float
    tokens: int
    seconds: float


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
        model: It stays on the device where it is.
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
            more epochs, or a damaged file; if an epoch or the validation has no
            batches; as ``train_step`` does.

    Source: Vaswani et al. (2017), section 5.
    """
    if not validation:
        raise ValueError("validation must hold at least 1 batch, got 0")
    torch.manual_seed(config.seed)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    recent: list[dict[str, Tensor]] = []
    history: list[Epoch] = []
    if folder is not None and (Path(folder) / STATE).exists():
        history, recent = _resume(Path(folder) / STATE, model, optimizer, config)
    if len(history) > config.epochs:
        raise ValueError(
            "epochs must be at least as many as were trained, "
            f"got {config.epochs} and {len(history)}"
        )
    step = history[-1].step if history else 0
    width = model.config.d_model
    while len(history) < config.epochs and not _out_of_patience(history, config):
        began, total, tokens = time.perf_counter(), 0.0, 0
        epoch = len(history) + 1
        cooling = cooldown_factor(epoch, config.epochs, config.cooldown)
        factor = config.factor * cooling
        for parts in _groups(batches(epoch), config.accumulate):
            step += 1
            rate = warmup_rate(step, width, config.warmup_steps, factor)
            loss, count = train_step(model, optimizer, parts, rate, config)
            total, tokens = total + loss, tokens + count
            if on_step is not None:
                on_step(step, loss / count)
        if not tokens:
            raise ValueError(f"batches must give at least 1 batch, got 0 in {epoch=}")
        measured = evaluate(model, validation)
        seconds = time.perf_counter() - began
        record = Epoch(epoch, step, rate, total / tokens, *measured, tokens, seconds)
        history.append(record)
        weights = {name: p.detach().clone() for name, p in model.named_parameters()}
        recent = [*recent, weights][-config.average :]
        if folder is not None:
            _save(Path(folder), model, optimizer, config, history, recent)
        if on_epoch is not None:
            on_epoch(record)
    load_weights(model, average_weights(recent), source="the average")
    return history


def train_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    parts: Sequence[Batch],
    rate: float,
    config: TrainingConfig,
) -> tuple[float, int]:
    """Update the weights once.

    Args:
        model: It is put into training mode.
        optimizer: Of the model's parameters.
        parts: Batches that count as one: the update is that of all their sentences
            together.
        rate: The learning rate.
        config: Smoothing, R-Drop, the longest gradient, precision.

    Returns:
        The smoothed loss of all target tokens together, in nats, of two passes the
        mean, and their number. What R-Drop adds is not in it.

    Raises:
        ValueError: If a gradient is infinite or not a number. The weights stay.
    """
    model.train()
    optimizer.zero_grad()
    weight, pad_id = model.output.weight, model.config.pad_id
    tokens = sum(int((batch.tgt[:, 1:] != pad_id).sum()) for batch in parts)
    passes = 2 if config.r_drop else 1  # P
    total = 0.0
    for batch in parts:
        batch = batch.to(weight.device)
        src, tgt = (ids.repeat(passes, 1) for ids in batch)
        targets = tgt[:, 1:]  # (P * B, T)
        with torch.autocast(tgt.device.type, torch.bfloat16, config.bf16):
            logits = model(src, tgt[:, :-1])  # (P * B, T, V)
        logits = logits.to(weight.dtype)  # bfloat16 is too coarse for a sum
        loss = label_smoothed_loss(logits, targets, pad_id, config.smoothing)
        total += loss.item() / passes
        if config.r_drop:
            loss = loss + config.r_drop * disagreement(logits, targets, pad_id)
        (loss / (passes * tokens)).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.max_norm)
    if not norm.isfinite():  # the update would lose every weight
        raise ValueError(f"gradients must be finite, got a norm of {norm.item()}")
    for group in optimizer.param_groups:
        group["lr"] = rate
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


def _out_of_patience(history: Sequence[Epoch], config: TrainingConfig) -> bool:
    """Say whether the lowest validation loss is ``patience`` epochs old."""
    if config.patience is None or not history:
        return False
    best = min(history, key=lambda epoch: epoch.validation_loss)
    return len(history) - best.epoch >= config.patience


def _save(
    folder: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
    history: Sequence[Epoch],
    recent: Sequence[dict[str, Tensor]],
) -> None:
    """Write the state as one file, so that its parts cannot differ in age."""
    tensors = {"random": torch.get_rng_state()}
    device = model.output.weight.device
    if device.type == "cuda":  # where dropout then draws
        tensors["random cuda"] = torch.cuda.get_rng_state(device)
    for name, parameter in model.named_parameters():
        tensors[f"weights/{name}"] = parameter
        for moment in ADAM:
            tensors[f"{moment}/{name}"] = optimizer.state[parameter][moment]
    for age, weights in enumerate(recent):
        tensors |= {f"recent {age}/{name}": tensor for name, tensor in weights.items()}
    about = {
        "model": asdict(model.config),
        "training": asdict(config),
        "history": [asdict(epoch) for epoch in history],
    }
    save_tensors(folder / STATE, tensors, about)
    write_csv(folder / LOG, about["history"])


def _resume(
    path: Path,
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    config: TrainingConfig,
) -> tuple[list[Epoch], list[dict[str, Tensor]]]:
    """Put everything back as ``_save`` found it."""
    tensors, about = load_tensors(path)
    if about.keys() != {"model", "training", "history"}:
        raise ValueError(f"{path} holds no training run, but {sorted(about)}")
    _require_same("model", asdict(model.config), about["model"], path)
    _require_same("config", asdict(config), about["training"], path)
    device = model.output.weight.device
    parts: dict[str, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        part, _, name = key.partition("/")
        parts.setdefault(part, {})[name] = tensor.to(device)
    try:
        history = [Epoch(**epoch) for epoch in about["history"]]
        for name, parameter in model.named_parameters():
            moments = {moment: parts[moment][name] for moment in ADAM}
            step = torch.tensor(float(history[-1].step))
            optimizer.state[parameter] = {"step": step, **moments}
        load_weights(model, parts["weights"], source=path)
        torch.set_rng_state(tensors["random"])
        ages = sum(part.startswith("recent") for part in parts)
        recent = [parts[f"recent {age}"] for age in range(ages)]
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if device.type == "cuda" and "random cuda" in tensors:
        torch.cuda.set_rng_state(tensors["random cuda"], device)
    write_csv(path.parent / LOG, [asdict(epoch) for epoch in history])
    return history, recent


def _require_same(
    name: str, given: dict[str, object], found: dict[str, object], path: Path
) -> None:
    """A run may end otherwise; anything else would make it another run."""
    for key in sorted((given.keys() | found.keys()) - HOW_IT_ENDS):
        if given.get(key) != found.get(key):
            raise ValueError(
                f"{path} is of another run: {name}.{key} must be {found.get(key)!r}, "
                f"got {given.get(key)!r}"
            )
