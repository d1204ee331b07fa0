"""The encoder: every source word gathers what it needs from all the others."""

from collections.abc import Callable, Iterable

from torch import Tensor, nn

from transformer_lib.model.attention import MultiHeadAttention
from transformer_lib.model.feed_forward import FeedForward
from transformer_lib.model.residual import Residual


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network; a residual around each.

    Args:
        attention: The self-attention.
        feed_forward: The network that treats each position by itself.
        residual: Makes the residual connection around a sublayer; called for each.

    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.self_attention = attention
        self.self_attention_residual = residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Attend to all positions, then transform each by itself.

        Args:
            x: Shape (B, S, d_model).
            mask: Boolean, broadcastable to (B, H, S, S); True = may attend.

        Returns:
            Shape (B, S, d_model).
        """
        x = self.self_attention_residual(
            x, lambda x: self.self_attention(x, x, x, mask)
        )
        return self.feed_forward_residual(x, self.feed_forward)  # (B, S, d_model)


class Encoder(nn.Module):
    """A stack of layers, and a final norm for pre-norm layers.

    Args:
        layers: The layers, first to last.
        norm: The final norm. Pre-norm layers leave their sum without one; post-norm
            layers end in their own, and need none.
    """

    def __init__(
        self, layers: Iterable[EncoderLayer], norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Run the layers one after another.

        Args:
            x: Source vectors with positions, shape (B, S, d_model).
            mask: Boolean, broadcastable to (B, H, S, S); True = may attend.

        Returns:
            The memory, shape (B, S, d_model).
        """
        for layer in self.layers:
            x = layer(x, mask)  # (B, S, d_model)
        return x if self.norm is None else self.norm(x)  # (B, S, d_model)
