"""RMSNorm: a norm that divides, and subtracts no mean."""

import torch
from torch import Tensor, nn

from transformer_lib.checks import require_not_negative, require_positive, require_width


class RMSNorm(nn.Module):
    """Divide every vector by the root of the mean of its squares, and scale it.

    Vectors of 16 bits are squared and averaged in 32. A square must fit into 32 bits:
    float32 vectors with features above about 1e19 become zeros, as in Llama.

    Args:
        d_model: Width of the vectors.
        eps: Added to the mean of the squares.

    Raises:
        ValueError: If ``d_model`` is not positive, or ``eps`` is negative.

    Source: Zhang and Sennrich (2019), equation 4.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        require_positive(d_model=d_model)
        require_not_negative(eps=eps)
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        """Normalise each vector by itself: (..., d_model) to (..., d_model).

        Raises:
            ValueError: If the vectors have another width.
        """
        require_width(len(self.weight), x=x)
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        square = wide.square().mean(dim=-1, keepdim=True)  # (..., 1)
        scaled = (wide * (square + self.eps).rsqrt()).to(x.dtype)
        return scaled * self.weight  # (..., d_model)
