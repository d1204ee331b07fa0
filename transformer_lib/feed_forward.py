"""The feed-forward network: each position, by itself, through two matrices."""

from torch import Tensor, nn

from transformer_lib.checks import require_positive, require_probability


class FeedForward(nn.Module):
    """Widen every vector to d_ff, keep what is positive, and narrow it again.

    Args:
        d_model: Width of the inputs and of the output.
        d_ff: Inner width; four times ``d_model`` in the paper.
        dropout: Share of the inner features dropped while training, in [0, 1). Not in
            the paper.

    Raises:
        ValueError: If a size is not positive, or ``dropout`` is outside [0, 1).

    Source: Vaswani et al. (2017), section 3.3, equation 2.
    """

    def __init__(self, d_model: int, d_ff: int, *, dropout: float = 0.0) -> None:
        super().__init__()
        require_positive(d_model=d_model, d_ff=d_ff)
        require_probability(dropout=dropout)
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Treat every position alike and apart: (B, T, d_model) to (B, T, d_model)."""
        inner = self.w_1(x).relu()  # (B, T, d_ff)
        return self.w_2(self.dropout(inner))  # (B, T, d_model)
