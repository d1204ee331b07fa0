"""A training run: how to train, what was reached, and how it goes on when stopped."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from transformer_lib.checkpoint import (
    UNREADABLE,
    average_weights,
    load_tensors,
    load_weights,
    require_fit,
    save_tensors,
)
from transformer_lib.checks import (
    require_not_negative,
    require_one_of,
    require_positive,
    require_probability,
)
from transformer_lib.distributed import leads, wait_for_first
from transformer_lib.files import write_csv
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.precision import PRECISIONS, LossScaler, with_precision

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
        precision: What autocast multiplies in: ``"float32"``, which leaves everything
            in the type of the weights, ``"bfloat16"`` or ``"float16"``. With float16,
            an update whose gradient is not finite is skipped.
        checkpoint_layers: Keep only the inputs of the layers for the gradients, and
            compute the rest again: less memory, more time, the same weights.

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
    precision: str = "float32"
    checkpoint_layers: bool = False

    def __post_init__(self) -> None:
        require_positive(
            epochs=self.epochs,
            warmup_steps=self.warmup_steps,
            accumulate=self.accumulate,
            average=self.average,
        )
        require_not_negative(cooldown=self.cooldown, r_drop=self.r_drop)
        require_probability(smoothing=self.smoothing)
        require_one_of(PRECISIONS, precision=self.precision)
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
        step: Updates so far, skipped ones included.
        rate: The learning rate of the last one.
        loss: Mean smoothed loss of a training token, in nats, dropout on.
        validation_loss: Mean cross-entropy of a validation token, in nats.
        validation_accuracy: Share of validation tokens whose score is the highest, in
            [0, 1].
        tokens: Target tokens trained on, padding not counted.
        seconds: How long the pass took.
        skipped: Updates left out so far, because float16 could not hold a gradient.
    """

    epoch: int
    step: int
    rate: float
    loss: float
    validation_loss: float
    validation_accuracy: float
    tokens: int
    seconds: float
    skipped: int = 0


class TrainingRun:
    """What a training has reached: all that the next epoch needs.

    With a ``folder`` that holds a run already, it is that run, put back to where its
    last epoch ended: the model's weights, Adam's means, torch's random state.

    Parameters that are frozen (``requires_grad`` is False) stay as they are.

    Args:
        model: It stays on the device where it is.
        config: How to train.
        folder: Where to keep what is reached; None keeps nothing.

    Attributes:
        trained: The model's parameters that are not frozen, by name.
        optimizer: The paper's Adam, of these.
        scaler: What float16 needs; otherwise it does nothing.
        history: A record of every epoch so far.
        recent: Their values after each of the last ``config.average`` epochs.

    Raises:
        ValueError: If the folder holds a run of another model or another way to train,
            more epochs, or a damaged file.
    """

    def __init__(
        self,
        model: Transformer,
        config: TrainingConfig,
        folder: str | Path | None = None,
    ) -> None:
        self.model, self.config = model, config
        self.folder = None if folder is None else Path(folder)
        named = model.named_parameters()
        self.trained = {name: weight for name, weight in named if weight.requires_grad}
        parameters = self.trained.values()
        self.optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.98), eps=1e-9)
        in_float16 = config.precision == "float16"
        self.scaler = LossScaler() if in_float16 else LossScaler(1, interval=0)
        self.history: list[Epoch] = []
        self.recent: list[dict[str, Tensor]] = []
        if self.folder is not None and (self.folder / STATE).exists():
            self._resume(self.folder / STATE)
        if len(self.history) > config.epochs:
            raise ValueError(
                "epochs must be at least as many as were trained, "
                f"got {config.epochs} and {len(self.history)}"
            )

    def is_over(self) -> bool:
        """Say whether all epochs are done, or patience is at its end.

        That is when the lowest validation loss is ``patience`` epochs old.
        """
        done, patience = len(self.history), self.config.patience
        if done == self.config.epochs:
            return True
        if patience is None or not done:
            return False
        best = min(self.history, key=lambda epoch: epoch.validation_loss)
        return done - best.epoch >= patience

    def keep(self, record: Epoch) -> None:
        """Add an epoch, remember its weights, and write everything to the folder.

        Args:
            record: What the epoch came to; the model has the weights at its end.

        Raises:
            OSError: If the folder cannot be written, as when the disk is full.
        """
        self.history.append(record)
        named = self.trained.items()
        weights = {name: parameter.detach().clone() for name, parameter in named}
        self.recent = [*self.recent, weights][-self.config.average :]
        if self.folder is not None and leads():
            self._save(self.folder)
        wait_for_first()  # nobody goes on before it is written

    def finish(self) -> None:
        """Leave the model with the average of the recent weights."""
        weights = dict(self.model.named_parameters()) | average_weights(self.recent)
        load_weights(self.model, weights, source="the average")

    def _save(self, folder: Path) -> None:
        """Write the state as one file, so that its parts cannot differ in age."""
        tensors = {"random": torch.get_rng_state()}
        device = self.model.output.weight.device
        if device.type == "cuda":  # where dropout then draws
            tensors["random cuda"] = torch.cuda.get_rng_state(device)
        for name, parameter in self.model.named_parameters():
            tensors[f"weights/{name}"] = parameter
        for name, parameter in self.trained.items():
            means = self.optimizer.state[parameter]  # none if all updates were skipped
            tensors |= {f"{moment}/{name}": means[moment] for moment in ADAM if means}
        for age, weights in enumerate(self.recent):
            for name, tensor in weights.items():
                tensors[f"recent {age}/{name}"] = tensor
        about = {
            "model": asdict(self.model.config),
            "training": asdict(self.config),
            "history": [asdict(epoch) for epoch in self.history],
            "scaler": self.scaler.state_dict(),
        }
        save_tensors(folder / STATE, tensors, about)
        write_csv(folder / LOG, about["history"])

    def _resume(self, path: Path) -> None:
        """Put everything back as ``_save`` found it."""
        tensors, about = load_tensors(path)
        if about.keys() - {"scaler"} != {"model", "training", "history"}:
            raise ValueError(f"{path} holds no training run, but {sorted(about)}")
        device = self.model.output.weight.device
        parts: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = tensor.to(device)
        try:
            _require_same("model", self.model.config, about["model"], path)
            _require_same("config", self.config, about["training"], path)
            self.history = [Epoch(**epoch) for epoch in about["history"]]
            if "scaler" in about:
                self.scaler.load_state_dict(about["scaler"])
            updates = float(self.history[-1].step - self.scaler.skipped)
            ages = sum(part.startswith("recent") for part in parts)
            self.recent = [parts[f"recent {age}"] for age in range(ages)]
            source = f"what {path} says of the parameters that are not frozen"
            means = [parts[moment] for moment in ADAM] if updates else []
            for values in means + self.recent:
                require_fit(self.trained, values, source=source)
            for name, parameter in self.trained.items() if updates else ():
                moments = {moment: parts[moment][name] for moment in ADAM}
                step = torch.tensor(updates)
                self.optimizer.state[parameter] = {"step": step, **moments}
            load_weights(self.model, parts["weights"], source=path)
            torch.set_rng_state(tensors["random"])
            if device.type == "cuda" and "random cuda" in tensors:
                torch.cuda.set_rng_state(tensors["random cuda"], device)
        except UNREADABLE as error:
            raise ValueError(f"{path} is damaged: {error}") from error
        if leads():
            write_csv(path.parent / LOG, about["history"])


def _require_same(
    name: str,
    given: TransformerConfig | TrainingConfig,
    found: dict[str, object],
    path: Path,
) -> None:
    """A run may end otherwise; anything else would make it another run.

    A choice that is not in an older file had its default.
    """
    defaults = {field.name: field.default for field in fields(given)}
    before = defaults | with_precision(found)
    now = asdict(given)
    for key in sorted((now.keys() | before.keys()) - HOW_IT_ENDS):
        if now.get(key) != before.get(key):
            raise ValueError(
                f"{path} is of another run: {name}.{key} must be {before.get(key)!r}, "
                f"got {now.get(key)!r}"
            )
