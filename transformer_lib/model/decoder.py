"""The decoder: every target word reads the words before it, then the source."""

from collections.abc import Callable, Iterable

from torch import Tensor, nn

from transformer_lib.model.attention import MultiHeadAttention
from transformer_lib.model.cache import (
    CrossAttentionCache,
    DecoderCache,
    SelfAttentionCache,
)
from transformer_lib.model.feed_forward import FeedForward
from transformer_lib.model.residual import Residual


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward; a residual around each.

    Args:
        attention: The self-attention.
        cross_attention: The attention that reads the memory.
        feed_forward: The network that treats each position by itself.
        residual: Makes the residual connection around a sublayer; called for each.

    Source: Vaswani et al. (2017), section 3.1.
    """

    def __init__(
        self,
        attention: MultiHeadAttention,
        cross_attention: MultiHeadAttention,
        feed_forward: FeedForward,
        residual: Callable[[], Residual],
    ) -> None:
        super().__init__()
        self.self_attention = attention
        self.self_attention_residual = residual()
        self.cross_attention = cross_attention
        self.cross_attention_residual = residual()
        self.feed_forward = feed_forward
        self.feed_forward_residual = residual()

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: tuple[SelfAttentionCache, CrossAttentionCache] | None = None,
    ) -> Tensor:
        """Attend to the target so far, then the source, then transform each position.

        Args:
            x: Target vectors, shape (B, T, d_model).
            memory: The encoder's output, shape (B, S, d_model).
            mask: For the self-attention: boolean, broadcastable to (B, H, T, T); True =
                may attend.
            memory_mask: For the cross-attention: boolean, broadcastable to (B, H, T,
                S).
            cache: The caches of both attentions, filled by earlier decoding steps; then
                ``x`` is the newest position only.

        Returns:
            Shape (B, T, d_model).
        """
        past, source = cache or (None, None)
        x = self.self_attention_residual(
            x, lambda x: self.self_attention(x, x, x, mask, past)
        )
        x = self.cross_attention_residual(
            x, lambda x: self.cross_attention(x, memory, memory, memory_mask, source)
        )
        return self.feed_forward_residual(x, self.feed_forward)  # (B, T, d_model)


class Decoder(nn.Module):
    """A stack of layers, and a final norm for pre-norm layers.

    Args:
        layers: The layers, first to last.
        norm: The final norm. Pre-norm layers leave their sum without one; post-norm
            layers end in their own, and need none.
    """

    def __init__(
        self, layers: Iterable[DecoderLayer], norm: nn.Module | None = None
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Run the layers one after another; every one reads the same memory.

        Args:
            x: Target vectors with positions, shape (B, T, d_model).
            memory: The encoder's output, shape (B, S, d_model).
            mask: Boolean, broadcastable to (B, H, T, T); True = may attend.
            memory_mask: Boolean, broadcastable to (B, H, T, S); True = may attend.
            cache: Filled by earlier decoding steps; then ``x`` is the newest position
                only.

        Returns:
            Shape (B, T, d_model).

        Raises:
            ValueError: If ``cache`` has another number of layers.
        """
        caches = [None] * len(self.layers) if cache is None else cache.layers
        for layer, kept in zip(self.layers, caches, strict=True):
            x = layer(x, memory, mask, memory_mask, kept)  # (B, T, d_model)
        return x if self.norm is None else self.norm(x)  # (B, T, d_model)
