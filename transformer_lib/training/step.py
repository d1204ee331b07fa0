"""One update: make the right next token a little less surprising."""

import torch
from torch import nn

from transformer_lib.checks import require_finite, require_positive
from transformer_lib.data import Batch
from transformer_lib.model import Transformer
from transformer_lib.training.loss import label_smoothed_loss
from transformer_lib.training.run import TrainingConfig


def train_step(
    model: Transformer,
    optimizer: torch.optim.Optimizer,
    batch: Batch,
    rate: float,
    config: TrainingConfig,
) -> tuple[float, int]:
    """Update the weights once.

    Args:
        model: Put into training mode.
        optimizer: Of the model's parameters.
        batch: The sentences to learn from.
        rate: The learning rate.
        config: Gives the smoothing and the largest gradient norm.

    Returns:
        The smoothed loss of all target tokens together, in nats, and the number of
        these tokens.

    Raises:
        ValueError: If the batch has no target tokens, or a gradient is infinite or not
            a number. The weights then stay as they were.

    Source: Vaswani et al. (2017), sections 5.3 and 5.4.
    """
    model.train()
    pad_id = model.config.pad_id
    batch = batch.to(model.output.weight.device)
    targets = batch.tgt[:, 1:]  # (B, T)
    tokens = int((targets != pad_id).sum())
    require_positive(**{"target tokens of the batch": tokens})
    logits = model(batch.src, batch.tgt[:, :-1])  # (B, T, V)
    loss = label_smoothed_loss(logits, targets, pad_id, config.smoothing)
    optimizer.zero_grad()
    (loss / tokens).backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), config.max_norm)
    require_finite(gradient_norm=norm)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    return loss.item(), tokens
