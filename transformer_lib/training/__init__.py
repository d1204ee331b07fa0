"""How a model learns, and how a run is kept."""

from transformer_lib.training.checkpoint import (
    average_weights,
    instantiate,
    load_model,
    load_tensors,
    load_weights,
    require_fit,
    require_own_config,
    save_model,
    save_tensors,
)
from transformer_lib.training.loop import evaluate, train
from transformer_lib.training.loss import label_smoothed_loss
from transformer_lib.training.run import Epoch, TrainingConfig, TrainingRun
from transformer_lib.training.schedule import cooldown_factor, warmup_rate
from transformer_lib.training.step import train_step

__all__ = [
    "Epoch",
    "TrainingConfig",
    "TrainingRun",
    "average_weights",
    "cooldown_factor",
    "evaluate",
    "instantiate",
    "label_smoothed_loss",
    "load_model",
    "load_tensors",
    "load_weights",
    "require_fit",
    "require_own_config",
    "save_model",
    "save_tensors",
    "train",
    "train_step",
    "warmup_rate",
]
