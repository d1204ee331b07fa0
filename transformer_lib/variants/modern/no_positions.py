"""No positions at the embedding: attention handles them, or nothing does."""

from torch import Tensor, nn

from transformer_lib.checks import require_not_negative, require_positive


class NoPositions(nn.Module):
    """Stand where positions are added, and add none.

    A causal decoder can find out where it is without any: a position sees as many
    others as there are before it.

    Args:
        max_len: The longest sequence that passes.

    Raises:
        ValueError: If ``max_len`` is not positive.

    Source: without positions: Haviv et al. (2022).
    """

    def __init__(self, max_len: int) -> None:
        super().__init__()
        require_positive(max_len=max_len)
        self.max_len = max_len

    def forward(self, x: Tensor, start: int = 0) -> Tensor:
        """Return the vectors as they are.

        Args:
            x: Shape (B, T, d_model).
            start: The position of the first vector.

        Returns:
            Shape (B, T, d_model).

        Raises:
            ValueError: If the sequence is longer than ``max_len``, or ``start`` is
                negative.
        """
        require_not_negative(start=start)
        end = start + x.size(1)
        if end > self.max_len:
            raise ValueError(
                f"sequence must be at most max_len long, got {end} and {self.max_len}"
            )
        return x
