"""What surrounds every sublayer: a residual connection, dropout and a norm."""

from collections.abc import Callable

from torch import Tensor, nn

from transformer_lib.checks import require_probability


class Residual(nn.Module):
    """Add a sublayer's output to its input, and normalise.

    Args:
        norm: Normalises vectors of width d_model, such as ``nn.LayerNorm(d_model)``.
        dropout: Share of the sublayer's output dropped while training, in [0, 1).
        norm_first: False: post-norm, the paper's, normalises the sum. True: pre-norm
            normalises the sublayer's input and leaves the sum alone.

    Raises:
        ValueError: If ``dropout`` is out of its range.

    Source: post-norm: Vaswani et al. (2017), sections 3.1 and 5.4. Pre-norm: Xiong et
    al. (2020), figure 1.
    """

    def __init__(
        self,
        norm: nn.Module,
        *,
        dropout: float = 0.1,
        norm_first: bool = False,
    ) -> None:
        super().__init__()
        require_probability(dropout=dropout)
        self.norm_first = norm_first
        self.norm = norm
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        """Run the sublayer inside its residual connection.

        Args:
            x: Shape (B, T, d_model).
            sublayer: Any function from (B, T, d_model) to the same shape.

        Returns:
            Shape (B, T, d_model).
        """
        if self.norm_first:
            return x + self.dropout(sublayer(self.norm(x)))  # (B, T, d_model)
        return self.norm(x + self.dropout(sublayer(x)))  # (B, T, d_model)
