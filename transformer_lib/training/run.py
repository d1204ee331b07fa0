"""A training run: its settings, its history, and how it resumes after a stop."""

from dataclasses import asdict, dataclass, fields
from pathlib import Path

import torch
from torch import Tensor

from transformer_lib.checks import (
    require_field_types,
    require_finite,
    require_not_negative,
    require_positive,
    require_probability,
)
from transformer_lib.files import write_csv
from transformer_lib.model import Transformer
from transformer_lib.training.checkpoint import (
    average_weights,
    load_tensors,
    load_weights,
    require_fit,
    save_tensors,
)

STATE, LOG = "training.safetensors", "log.csv"
MAY_CHANGE = {"epochs", "patience", "cooldown"}  # what a resumed run may change
ADAM = ("exp_avg", "exp_avg_sq")  # what torch's Adam keeps of each parameter


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """How to train.

    Args:
        epochs: The most passes through the data.
        warmup_steps: The update with the highest learning rate.
        factor: Multiplies the paper's learning rate.
        smoothing: Share of each answer that label smoothing spreads.
        max_norm: Larger gradients are scaled down to this norm.
        average: How many of the last epochs' weights are averaged at the end.
        patience: Stop after this many epochs without a lower validation loss; None
            never stops early.
        cooldown: Over how many of the last epochs the learning rate falls to nearly 0,
            in equal steps; 0 keeps the paper's formula.
        seed: Seeds torch's random numbers, which dropout draws.

    Raises:
        ValueError: If a choice is not of its type or out of its range.
    """

    epochs: int = 10
    warmup_steps: int = 4000
    factor: float = 1.0
    smoothing: float = 0.1
    max_norm: float = 1.0
    average: int = 1
    patience: int | None = None
    cooldown: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        require_field_types(self)
        require_positive(
            epochs=self.epochs,
            warmup_steps=self.warmup_steps,
            average=self.average,
        )
        require_not_negative(cooldown=self.cooldown)
        require_probability(smoothing=self.smoothing)
        for name in ("factor", "max_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be above 0, got {getattr(self, name)}")
        require_finite(factor=self.factor)
        if self.patience is not None:
            require_positive(patience=self.patience)


@dataclass(frozen=True)
class Epoch:
    """The result of one pass through the data.

    Args:
        epoch: The number of the pass; the first is 1.
        step: Updates so far.
        rate: The learning rate of the last update.
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


class TrainingRun:
    """The state of a training run: everything that the next epoch needs.

    If the ``folder`` already holds a run, it is restored to the end of its last epoch:
    the model's weights, Adam's moments, torch's random state.

    Args:
        model: Stays on its device. Frozen parameters (``requires_grad`` is False)
            are not changed.
        config: How to train.
        folder: Where to keep the run; None keeps nothing.

    Attributes:
        trained: The model's parameters that are not frozen, by name.
        optimizer: The paper's Adam, of these parameters.
        history: A record of every epoch so far.
        recent: The trained parameters' values after each of the last
            ``config.average`` epochs.

    Raises:
        ValueError: If the folder holds a run of another model or config, more epochs
            than ``config`` asks for, or a file that is not whole.
    """

    epoch_type: type[Epoch] = Epoch  # the class of the records in ``history``

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
        """Return whether all epochs are done or patience has run out.

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
            record: The epoch that has just ended; the model has its weights.

        Raises:
            OSError: If the folder cannot be written, for example because the disk is
                full.
        """
        self.history.append(record)
        named = self.trained.items()
        weights = {name: parameter.detach().clone() for name, parameter in named}
        self.recent = [*self.recent, weights][-self.config.average :]
        if self.folder is not None:
            write_csv(self.folder / LOG, [asdict(epoch) for epoch in self.history])
            save_tensors(self.folder / STATE, *self._state())

    def finish(self) -> None:
        """Give the model the average of the recent weights."""
        weights = dict(self.model.named_parameters()) | average_weights(self.recent)
        load_weights(self.model, weights, source="the average")

    def _state(self) -> tuple[dict, dict]:
        """Gather the tensors that the next epoch needs, and everything else."""
        tensors = {"random": torch.get_rng_state()}
        for name, parameter in self.model.named_parameters():
            tensors[f"weights/{name}"] = parameter
        for name, parameter in self.trained.items():
            means, zeros = self.optimizer.state[parameter], torch.zeros_like(parameter)
            tensors |= {f"{moment}/{name}": means.get(moment, zeros) for moment in ADAM}
        for age, weights in enumerate(self.recent):
            for name, tensor in weights.items():
                tensors[f"recent {age}/{name}"] = tensor
        about = {
            "model": asdict(self.model.config),
            "training": asdict(self.config),
            "history": [asdict(epoch) for epoch in self.history],
        }
        return tensors, about

    def _resume(self, path: Path) -> None:
        """Read the state, unless it is not whole or belongs to another run."""
        tensors, about = load_tensors(path)
        try:
            _require_same("model", self.model.config, about["model"], path)
            _require_same("config", self.config, about["training"], path)
            self._restore(tensors, about, path)
        except (LookupError, TypeError) as error:
            raise ValueError(f"{path} is not a whole training run: {error}") from error

    def _restore(self, tensors: dict, about: dict, path: Path) -> None:
        """Put everything back as ``_state`` found it."""
        device = self.model.output.weight.device
        parts: dict[str, dict[str, Tensor]] = {}
        for key, tensor in tensors.items():
            part, _, name = key.partition("/")
            parts.setdefault(part, {})[name] = tensor.to(device)
        self.history = [self.epoch_type(**epoch) for epoch in about["history"]]
        updates = float(self.history[-1].step)
        ages = sum(part.startswith("recent") for part in parts)
        self.recent = [parts[f"recent {age}"] for age in range(ages)]
        source = f"what {path} says of the parameters that are not frozen"
        for values in [parts[moment] for moment in ADAM] + self.recent:
            require_fit(self.trained, values, source=source)
        for name, parameter in self.trained.items():
            means = {moment: parts[moment][name].to(parameter.dtype) for moment in ADAM}
            step = torch.tensor(updates)
            self.optimizer.state[parameter] = {"step": step, **means}
        torch.set_rng_state(tensors["random"])
        load_weights(self.model, parts["weights"], source=path)


def _require_same(
    name: str, config: object, found: dict[str, object], path: Path
) -> None:
    """Raise ``ValueError`` if a setting differs that a resumed run must keep."""
    given = asdict(config)
    # A file from before a field came has its default.
    found = {field.name: field.default for field in fields(config)} | found
    for key in sorted(found.keys() - MAY_CHANGE):
        if given.get(key) != found[key]:
            raise ValueError(
                f"{path} is of another run: {name}.{key} must be {found[key]!r}, "
                f"got {given.get(key)!r}"
            )
