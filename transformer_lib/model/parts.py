"""The parts of a model, as its config describes them, and their first values."""

from torch import nn

from transformer_lib.model.attention import MultiHeadAttention
from transformer_lib.model.config import TransformerConfig
from transformer_lib.model.decoder import Decoder, DecoderLayer
from transformer_lib.model.embedding import TokenEmbedding
from transformer_lib.model.encoder import Encoder, EncoderLayer
from transformer_lib.model.feed_forward import FeedForward
from transformer_lib.model.positions import PositionalEncoding
from transformer_lib.model.residual import Residual


class TransformerParts(nn.Module):
    """Makes the parts of a model as its config describes them.

    A family of models with other parts overrides the methods that make them.

    Args:
        config: Sizes and choices.

    Attributes:
        config_type: The class of configs that it accepts.

    Raises:
        TypeError: If ``config`` is of another class, some of whose choices would be
            ignored.
    """

    config_type = TransformerConfig

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if type(config) is not self.config_type:
            wanted, got = self.config_type.__name__, type(config).__name__
            raise TypeError(f"config must be a {wanted}, got a {got}")
        self.config = config

    def make_embedding(self, vocab_size: int) -> TokenEmbedding:
        """Make the table of a language."""
        return TokenEmbedding(vocab_size, self.config.d_model, self.config.pad_id)

    def make_positions(self) -> PositionalEncoding:
        """Make the module that adds positions."""
        config = self.config
        return PositionalEncoding(config.d_model, config.max_len, config.positions)

    def make_encoder(self) -> Encoder:
        """Make the left stack."""
        layers = [self.make_encoder_layer() for _ in range(self.config.num_layers)]
        return Encoder(layers, self.make_final_norm())

    def make_decoder(self) -> Decoder:
        """Make the right stack."""
        layers = [self.make_decoder_layer() for _ in range(self.config.num_layers)]
        return Decoder(layers, self.make_final_norm())

    def make_encoder_layer(self) -> EncoderLayer:
        """Make one layer of the encoder."""
        attention, feed_forward = self.make_attention(), self.make_feed_forward()
        return EncoderLayer(attention, feed_forward, self.make_residual)

    def make_decoder_layer(self) -> DecoderLayer:
        """Make one layer of the decoder."""
        attentions = self.make_attention(), self.make_attention()
        return DecoderLayer(*attentions, self.make_feed_forward(), self.make_residual)

    def make_attention(self) -> MultiHeadAttention:
        """Make one attention, for self- or cross-attention."""
        return MultiHeadAttention(
            self.config.d_model,
            self.config.num_heads,
            bias=self.config.bias,
            dropout=self.config.attention_dropout,
        )

    def make_feed_forward(self) -> FeedForward:
        """Make the feed-forward network of one layer."""
        return FeedForward(
            self.config.d_model,
            self.config.d_ff,
            dropout=self.config.feed_forward_dropout,
            activation=self.config.activation,
        )

    def make_residual(self) -> Residual:
        """Make the residual connection around one sublayer."""
        return Residual(
            self.make_norm(),
            dropout=self.config.dropout,
            norm_first=self.config.norm_first,
        )

    def make_norm(self) -> nn.Module:
        """Make one norm."""
        return nn.LayerNorm(self.config.d_model, eps=self.config.norm_eps)

    def make_final_norm(self) -> nn.Module | None:
        """Make the norm after a pre-norm stack; a post-norm stack needs none."""
        return self.make_norm() if self.config.norm_first else None


def initialise(model: nn.Module, d_model: int) -> None:
    """Draw Xavier-uniform matrices and embeddings; biases become zero.

    Embeddings have a standard deviation of d_model^-0.5. Multiplied by sqrt(d_model),
    embedded tokens then have a variance of 1, and a tied output gives logits of order
    1.

    Args:
        model: Its linear layers and embeddings are filled, in their order.
        d_model: Width of the embeddings.
    """
    for module in model.modules():
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=d_model**-0.5)
