"""Distillation: a small model that learns from the answers of a large one."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from transformer_lib.data import Batch
from transformer_lib.model import Transformer


def soft_label_loss(
    logits: Tensor,
    teacher_logits: Tensor,
    targets: Tensor,
    pad_id: int,
    temperature: float = 1.0,
) -> Tensor:
    r"""Add up how far the student's next-token probabilities are from the teacher's.

    For a token that is the Kullback-Leibler divergence of the student's from the
    teacher's, both with logits divided by the temperature, times the temperature
    squared: so the gradients stay about as long whatever the temperature is. The
    hotter, the less the two probabilities differ: they are computed in float64.

    Args:
        logits: The student's score for every token, shape (B, T, V).
        teacher_logits: The teacher's, of the same shape.
        targets: Token ids, shape (B, T): they only say which positions are padding.
        pad_id: Positions with this target cost nothing.
        temperature: In [1e-9, 1e5]. The higher it is, the more the unlikely tokens
            count.

    Returns:
        The sum over all real tokens, in nats, a scalar; 0 where both agree. It is in
        float32 for logits of 16 bits, else in their dtype.

    Raises:
        ValueError: If the shapes do not fit, or ``temperature`` is out of its range.

    Source: Hinton et al. (2015), section 2.
    """
    if not 1e-9 <= temperature <= 1e5:  # beyond, rounding would decide
        raise ValueError(f"temperature must be in [1e-9, 1e5], got {temperature}")
    if logits.shape != teacher_logits.shape or logits.shape[:-1] != targets.shape:
        raise ValueError(
            "logits and teacher_logits must have the shape of targets and one axis "
            f"more, got {tuple(logits.shape)}, {tuple(teacher_logits.shape)} and "
            f"{tuple(targets.shape)}"
        )
    student = (logits.double() / temperature).log_softmax(dim=-1)  # (B, T, V)
    teacher = (teacher_logits.double() / temperature).log_softmax(dim=-1)  # (B, T, V)
    shares = teacher.exp()  # (B, T, V)
    apart = (shares * (teacher - student)).masked_fill(shares == 0, 0.0)
    losses = temperature**2 * apart.sum(dim=-1)  # (B, T)
    total = losses.masked_fill(targets == pad_id, 0.0).sum()
    return total.to(torch.promote_types(logits.dtype, torch.float32))


def soft_labels(teacher: Transformer, batch: Batch) -> Tensor:
    """Ask the teacher for its logits, without dropout and without gradients.

    Args:
        teacher: In evaluation mode; it has the student's vocabulary.
        batch: Pairs of sentences.

    Returns:
        Shape (B, T, V), to be handed to ``soft_label_loss``.

    Raises:
        ValueError: If the teacher is in training mode.
    """
    if teacher.training:
        raise ValueError("teacher must be in evaluation mode, got training mode")
    with torch.no_grad():
        return teacher(batch.src, batch.tgt[:, :-1])  # (B, T, V)


def teacher_pairs(
    translate: Callable[[Sequence[str]], Sequence[str]], sentences: Sequence[str]
) -> list[tuple[str, str]]:
    """Make pairs to learn from, out of sentences that nobody has translated.

    Args:
        translate: Translates sentences, as the teacher's ``Translator.translate`` does.
            Its translations become the targets, right or wrong.
        sentences: In the source language.

    Returns:
        Each sentence with the teacher's translation, in order. Left out are those whose
        translation is empty.

    Source: Kim and Rush (2016), section 3.2.
    """
    pairs = zip(sentences, translate(sentences), strict=True)
    return [(source, target) for source, target in pairs if target]
