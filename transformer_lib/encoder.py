"""The encoder: every source word gathers what it needs from all the others."""

from collections.abc import Iterable

from torch import Tensor, nn

from transformer_lib.attention import MultiHeadAttention
from transformer_lib.feed_forward import FeedForward
from transformer_lib.residual import Residual


class EncoderLayer(nn.Module):
    """Self-attention, then the feed-forward network; a residual around each.

    Args:
        d_model: Width of the vectors.
        num_heads: Number of attention heads.
        d_ff: Inner width of the feed-forward network.
        dropout: Share dropped of what each sublayer adds, in [0, 1).
        attention_dropout: Share of the attention weights dropped, in [0, 1).
        feed_forward_dropout: Share of the inner features dropped, in [0, 1).
        norm_first: Pre-norm instead of the paper's post-norm.
        norm_eps: Added to the variance inside each norm.
        bias: Whether the attention's projections add a bias.
        activation: Of the feed-forward network; see ``FeedForward``.
        d_k: Width of a head; None takes d_model / num_heads.

    Raises:
        ValueError: As the pieces do.

    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self,
        d_model: int,
        num_heads: int,
        d_ff: int,
        *,
        dropout: float = 0.1,
        attention_dropout: float = 0.0,
        feed_forward_dropout: float = 0.0,
        norm_first: bool = False,
        norm_eps: float = 1e-5,
        bias: bool = True,
        activation: str = "relu",
        d_k: int | None = None,
    ) -> None:
        super().__init__()
        around = {"dropout": dropout, "norm_first": norm_first, "norm_eps": norm_eps}
        self.self_attention = MultiHeadAttention(
            d_model, num_heads, bias=bias, dropout=attention_dropout, d_k=d_k
        )
        self.self_attention_residual = Residual(d_model, **around)
        self.feed_forward = FeedForward(
            d_model, d_ff, dropout=feed_forward_dropout, activation=activation
        )
        self.feed_forward_residual = Residual(d_model, **around)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Let every position gather, then think.

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
        self, layers: Iterable[EncoderLayer], norm: nn.LayerNorm | None = None
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
