"""Calls that transformer_lib.training refuses, and what it says."""

import math
from functools import partial
from pathlib import Path

import torch
from refusals import assert_refused, over
from test_training import CONFIG, VALIDATION, batches, new_model

from transformer_lib.training import (
    TrainingConfig,
    average_weights,
    cooldown_factor,
    evaluate,
    label_smoothed_loss,
    load_model,
    load_tensors,
    train,
    warmup_rate,
)

GONE = Path("gone.safetensors")
LOGITS, TARGETS = torch.zeros(3, 5, 11), torch.ones(3, 5, dtype=torch.int64)


def trained(batches=batches, validation=VALIDATION, grad=True):
    train(new_model().requires_grad_(grad), batches, validation, CONFIG)


def choose(**choices):
    return partial(TrainingConfig, **choices)


REFUSED = [
    (
        ValueError,
        "logits must have the shape of targets and one axis more, "
        "got (3, 5, 11) and (3, 4)",
        lambda: label_smoothed_loss(LOGITS, TARGETS[:, 1:], 0),
    ),
    (
        ValueError,
        "smoothing must be in [0, 1), got 1.0",
        lambda: label_smoothed_loss(LOGITS, TARGETS, 0, 1.0),
    ),
    (ValueError, "step must be at least 1, got 0", lambda: warmup_rate(0, 1)),
    (ValueError, "d_model must be at least 1, got 0", lambda: warmup_rate(1, 0)),
    (ValueError, "warmup_steps must be at least", lambda: warmup_rate(1, 1, 0)),
    (ValueError, "epoch must be in [1, 3], got 0", lambda: cooldown_factor(0, 3, 1)),
    (ValueError, "epoch must be in [1, 3], got 4", lambda: cooldown_factor(4, 3, 1)),
    (ValueError, "cooldown must be at least 0", lambda: cooldown_factor(1, 3, -1)),
    (ValueError, "smoothing must be in [0, 1), got 2.0", choose(smoothing=2.0)),
    (ValueError, "factor must be above 0, got nan", choose(factor=math.nan)),
    (ValueError, "factor must be finite, got inf", choose(factor=math.inf)),
    (ValueError, "max_norm must be above 0, got 0.0", choose(max_norm=0.0)),
    (ValueError, "cooldown must be at least 0, got -1", choose(cooldown=-1)),
    (ValueError, "epochs must be at least 1, got 0", choose(epochs=0)),
    (ValueError, "warmup_steps must be at least 1, got 0", choose(warmup_steps=0)),
    (ValueError, "average must be at least 1, got 0", choose(average=0)),
    (ValueError, "patience must be at least 1, got 0", choose(patience=0)),
    (ValueError, "epochs must be int, got True", choose(epochs=True)),
    (TypeError, "positional", lambda: TrainingConfig(10)),
    (ValueError, "validation must hold at least 1", lambda: trained(validation=[])),
    (
        ValueError,
        "batches must give at least 1 batch, got 0 in epoch=2",
        lambda: trained(lambda epoch: batches(epoch) if epoch == 1 else []),
    ),
    (ValueError, "empty parameter list", lambda: trained(grad=False)),
    (ValueError, "at least 1 target token", lambda: evaluate(new_model(), [])),
    (ValueError, "checkpoints must hold at least 1", lambda: average_weights([])),
    (
        ValueError,
        "checkpoints must have the same names",
        lambda: average_weights([{"a": TARGETS}, {"b": TARGETS}]),
    ),
    (FileNotFoundError, GONE.name, lambda: load_tensors(GONE)),
    (FileNotFoundError, GONE.name, lambda: load_model(str(GONE))),
]


@over(REFUSED)
def test_a_bad_argument_is_named_with_what_it_was(error, text, call):
    assert_refused(error, text, call)
