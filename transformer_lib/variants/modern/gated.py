"""A feed-forward network with a gate: one half says how much of the other passes."""

from torch import Tensor, nn

from transformer_lib.checks import (
    require_one_of,
    require_positive,
    require_probability,
)
from transformer_lib.model import ACTIVATIONS


class GatedFeedForward(nn.Module):
    """Widen every vector twice, multiply the two, and narrow the product again.

    With ``"silu"`` this is SwiGLU, with ``"gelu"`` GEGLU. There are three matrices
    instead of two and no biases; two thirds of the usual ``d_ff`` cost the same.

    Args:
        d_model: Width of the inputs and of the output.
        d_ff: Inner width.
        dropout: Share of the inner features dropped while training, in [0, 1).
        activation: What becomes of the first of the two; see ``FeedForward``.

    Source: Shazeer (2020), section 2, equation 6.
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        activation: str = "silu",
    ) -> None:
        super().__init__()
        require_positive(d_model=d_model, d_ff=d_ff)
        require_probability(dropout=dropout)
        require_one_of(ACTIVATIONS, activation=activation)
        self.w_1 = nn.Linear(d_model, d_ff, bias=False)  # the gate
        self.w_3 = nn.Linear(d_model, d_ff, bias=False)  # what passes it
        self.w_2 = nn.Linear(d_ff, d_model, bias=False)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Treat every position alike and apart: (B, T, d_model) to (B, T, d_model)."""
        inner = self.activation(self.w_1(x)) * self.w_3(x)  # (B, T, d_ff)
        return self.w_2(self.dropout(inner))  # (B, T, d_model)
