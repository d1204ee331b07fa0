"""An encoder that answers one question about all that it has read."""

import torch
from torch import Tensor, nn

from transformer_lib.checks import require_boolean, require_positive
from transformer_lib.model import Encoder


def mean_over_tokens(x: Tensor, mask: Tensor | None = None) -> Tensor:
    """Average the vectors of each row, and leave out what is hidden.

    Vectors of 16 bits are added up in 32.

    Args:
        x: Shape (B, S, d_model).
        mask: Boolean, shape (B, 1, 1, S) as ``padding_mask`` makes it, or (1, 1, 1, S);
            True = counts. A row without any gets zeros.

    Returns:
        Shape (B, d_model).

    Raises:
        TypeError: If ``mask`` is not boolean.
        ValueError: If ``mask`` has another shape: one that differs from query to query
            does not say which tokens count.
    """
    if mask is None:
        return x.mean(dim=1)  # (B, d_model)
    require_boolean(mask=mask)
    if mask.shape not in ((x.size(0), 1, 1, x.size(1)), (1, 1, 1, x.size(1))):
        raise ValueError(
            f"mask must have shape (batch, 1, 1, length), got {tuple(mask.shape)} "
            f"for vectors of shape {tuple(x.shape)}"
        )
    counts = mask[:, 0, 0, :, None]  # (B, S, 1)
    wide = torch.promote_types(x.dtype, torch.float32)
    total = x.masked_fill(~counts, 0.0).sum(dim=1, dtype=wide)  # (B, d_model)
    mean = total / counts.sum(dim=1).clamp(min=1)  # (B, d_model)
    return mean.to(x.dtype)


class Classifier(nn.Module):
    """Make tokens, let an encoder read them, average, and score the classes.

    What the tokens are is the business of ``embed``: patches of a picture, points of a
    cloud, words. So is their position, if they have one.

    Args:
        embed: Turns an input into vectors, shape (B, S, d_model).
        encoder: Reads them.
        d_model: Width of the vectors.
        num_classes: Number of answers to choose from.

    Raises:
        ValueError: If a size is not positive.
    """

    def __init__(
        self, embed: nn.Module, encoder: Encoder, d_model: int, num_classes: int
    ) -> None:
        super().__init__()
        require_positive(d_model=d_model, num_classes=num_classes)
        self.embed = embed
        self.encoder = encoder
        self.output = nn.Linear(d_model, num_classes)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Score the classes.

        Args:
            x: What ``embed`` takes, B of them.
            mask: Boolean, shape (B, 1, 1, S) as ``padding_mask`` makes it; True = a
                token that is there. None: all are.

        Returns:
            Logits, shape (B, num_classes).
        """
        tokens = self.embed(x)  # (B, S, d_model)
        read = self.encoder(tokens, mask)  # (B, S, d_model)
        return self.output(mean_over_tokens(read, mask))  # (B, num_classes)
