"""The decoder: every target word reads the words before it, then the source."""

from collections.abc import Iterable

from torch import Tensor, nn

from transformer_lib.attention import MultiHeadAttention
from transformer_lib.cache import CrossAttentionCache, DecoderCache, SelfAttentionCache
from transformer_lib.feed_forward import FeedForward
from transformer_lib.residual import Residual


class DecoderLayer(nn.Module):
    """Masked self-attention, cross-attention, feed-forward; a residual around each.

    Args:
        d_model: Width of the vectors.
        num_heads: Number of attention heads.
        d_ff: Inner width of the feed-forward network.
        cross_attention: False leaves the cross-attention out: a decoder-only layer.
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
        cross_attention: bool = True,
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
        attention = {"bias": bias, "dropout": attention_dropout, "d_k": d_k}
        self.self_attention = MultiHeadAttention(d_model, num_heads, **attention)
        self.self_attention_residual = Residual(d_model, **around)
        self.cross_attention = None
        if cross_attention:
            self.cross_attention = MultiHeadAttention(d_model, num_heads, **attention)
            self.cross_attention_residual = Residual(d_model, **around)
        self.feed_forward = FeedForward(
            d_model, d_ff, dropout=feed_forward_dropout, activation=activation
        )
        self.feed_forward_residual = Residual(d_model, **around)

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: tuple[SelfAttentionCache, CrossAttentionCache] | None = None,
    ) -> Tensor:
        """Let every position read its own past, then the source, then think.

        Args:
            x: Target vectors, shape (B, T, d_model).
            memory: The encoder's output, shape (B, S, d_model); None without
                cross-attention.
            mask: For the self-attention: boolean, broadcastable to (B, H, T, T); True =
                may attend.
            memory_mask: For the cross-attention: boolean, broadcastable to (B, H, T,
                S).
            cache: What earlier decoding steps left, for the self-attention and for the
                cross-attention; then ``x`` is the newest position only.

        Returns:
            Shape (B, T, d_model).

        Raises:
            ValueError: If there is cross-attention but no ``memory``, or the reverse.
        """
        if memory is None and self.cross_attention is not None:
            raise ValueError("memory must be given with cross-attention, got None")
        if memory is not None and self.cross_attention is None:
            shape = tuple(memory.shape)
            raise ValueError(
                f"memory must be None without cross-attention, got {shape}"
            )
        past, source = cache or (None, None)
        x = self.self_attention_residual(
            x, lambda x: self.self_attention(x, x, x, mask, past)
        )
        if self.cross_attention is not None:
            x = self.cross_attention_residual(
                x,
                lambda x: self.cross_attention(x, memory, memory, memory_mask, source),
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
        self, layers: Iterable[DecoderLayer], norm: nn.LayerNorm | None = None
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.norm = norm

    def forward(
        self,
        x: Tensor,
        memory: Tensor | None = None,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Run the layers one after another; every one reads the same memory.

        Args:
            x: Target vectors with positions, shape (B, T, d_model).
            memory: The encoder's output, shape (B, S, d_model); None without
                cross-attention.
            mask: Boolean, broadcastable to (B, H, T, T); True = may attend.
            memory_mask: Boolean, broadcastable to (B, H, T, S); True = may attend.
            cache: What earlier decoding steps left; then ``x`` is the newest position
                only.

        Returns:
            Shape (B, T, d_model).

        Raises:
            ValueError: If ``cache`` has another number of layers; the rest as a layer.
        """
        caches = [None] * len(self.layers) if cache is None else cache.layers
        for layer, kept in zip(self.layers, caches, strict=True):
            x = layer(x, memory, mask, memory_mask, kept)  # (B, T, d_model)
        return x if self.norm is None else self.norm(x)  # (B, T, d_model)
