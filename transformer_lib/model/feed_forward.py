"""The feed-forward network: each position, by itself, through two matrices."""

from collections.abc import Callable
from functools import partial

from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.checks import (
    require_one_of,
    require_positive,
    require_probability,
)

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": F.relu,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
    "silu": F.silu,
}


class FeedForward(nn.Module):
    """Widen every vector to d_ff, keep what is positive, and narrow it again.

    Args:
        d_model: Width of the inputs and of the output.
        d_ff: Inner width; four times ``d_model`` in the paper.
        dropout: Share of the inner features dropped while training, in [0, 1). Not in
            the paper.
        activation: Applied to each inner feature x. ``"relu"``, the paper's:
            max(0, x). ``"gelu"``: x times the share of a normal distribution that is
            below x; BERT's. ``"gelu_tanh"``: the same, approximated with tanh; GPT-2's.
            ``"silu"``, also called swish: x times sigmoid(x).

    Raises:
        ValueError: If a size is not positive, ``dropout`` is outside [0, 1), or
            ``activation`` is unknown.

    Source: Vaswani et al. (2017), section 3.3, equation 2. GELU, both forms: Hendrycks
    and Gimpel (2016), section 2. SiLU: Elfwing et al. (2018).
    """

    def __init__(
        self,
        d_model: int,
        d_ff: int,
        *,
        dropout: float = 0.0,
        activation: str = "relu",
    ) -> None:
        super().__init__()
        require_positive(d_model=d_model, d_ff=d_ff)
        require_probability(dropout=dropout)
        require_one_of(ACTIVATIONS, activation=activation)
        self.w_1 = nn.Linear(d_model, d_ff)
        self.w_2 = nn.Linear(d_ff, d_model)
        self.activation = ACTIVATIONS[activation]
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Apply it to each position by itself: (B, T, d_model) to (B, T, d_model)."""
        inner = self.activation(self.w_1(x))  # (B, T, d_ff)
        return self.w_2(self.dropout(inner))  # (B, T, d_model)
