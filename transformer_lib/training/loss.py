"""The loss: how surprised the model is by the right next token."""

from torch import Tensor

from transformer_lib.checks import require_probability


def label_smoothed_loss(
    logits: Tensor, targets: Tensor, pad_id: int, smoothing: float = 0.1
) -> Tensor:
    r"""Add up the cross-entropy of every real token against a smoothed answer.

    The answer gives the right token 1 - smoothing, and spreads the rest evenly over the
    whole vocabulary, including the right token, as torch does.

    Args:
        logits: A score for every token of the vocabulary, shape (B, T, V).
        targets: The right token ids, shape (B, T).
        pad_id: Targets with this id do not count.
        smoothing: The share that is spread, in [0, 1); 0 is the plain cross-entropy.

    Returns:
        The sum over all real tokens, in nats, a scalar. Divide by their number for the
        mean: sums of small batches add up to the sum of a large one, means do not.

    Raises:
        ValueError: If the shapes do not fit, or ``smoothing`` is outside [0, 1).

    Source: Szegedy et al. (2016), section 7; Vaswani et al. (2017), section 5.4.
    """
    require_probability(smoothing=smoothing)
    if logits.shape[:-1] != targets.shape:
        raise ValueError(
            "logits must have the shape of targets and one axis more, "
            f"got {tuple(logits.shape)} and {tuple(targets.shape)}"
        )
    log_probs = logits.log_softmax(dim=-1)  # (B, T, V)
    right = log_probs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    losses = -(1 - smoothing) * right  # (B, T)
    if smoothing > 0:  # 0 times the -inf of a banned token would be nan
        losses = losses - smoothing * log_probs.mean(dim=-1)  # (B, T)
    return losses.masked_fill(targets == pad_id, 0.0).sum()
