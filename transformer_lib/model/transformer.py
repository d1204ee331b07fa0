"""The whole Transformer: from token ids to a score for every possible next token."""

from contextlib import nullcontext

from torch import Tensor, nn

from transformer_lib.checks import require_tokens
from transformer_lib.model.attention import MultiHeadAttention
from transformer_lib.model.cache import DecoderCache
from transformer_lib.model.config import TransformerConfig
from transformer_lib.model.decoder import Decoder, DecoderLayer
from transformer_lib.model.embedding import TokenEmbedding
from transformer_lib.model.encoder import Encoder, EncoderLayer
from transformer_lib.model.feed_forward import FeedForward
from transformer_lib.model.masks import causal_mask, padding_mask
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

    def initialise(self) -> None:
        """Draw Xavier-uniform matrices and embeddings; biases become zero.

        Embeddings have a standard deviation of d_model^-0.5. Multiplied by
        sqrt(d_model), embedded tokens then have a variance of 1, and a tied output
        gives logits of order 1.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)


class Transformer(TransformerParts):
    """The encoder-decoder Transformer.

    Args:
        config: Its sizes and choices.

    Raises:
        TypeError: As ``TransformerParts``.
        ValueError: As the parts do.

    Source: Vaswani et al. (2017), section 3.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__(config)
        self.src_embedding = self.make_embedding(config.src_vocab_size)
        self.src_positions = self.make_positions()
        self.encoder = self.make_encoder()
        self.tgt_embedding = self.make_embedding(config.tgt_vocab_size)
        self.tgt_positions = self.make_positions()
        self.decoder = self.make_decoder()
        self.output = nn.Linear(
            config.d_model, config.tgt_vocab_size, bias=config.output_bias
        )
        self.dropout = nn.Dropout(config.dropout)
        self.initialise()
        if config.share_embeddings:
            self.src_embedding.table.weight = self.tgt_embedding.table.weight
        if config.tie_output:
            self.output.weight = self.tgt_embedding.table.weight

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Score every possible next token after every target prefix.

        Args:
            src: Source token ids, shape (B, S).
            tgt: Target token ids, shape (B, T), beginning with BOS.

        Returns:
            Logits, shape (B, T, tgt_vocab_size). Those at t have seen tgt[:, : t + 1].

        Raises:
            TypeError: If token ids are not integers.
            ValueError: If a sequence is empty or longer than ``max_len``, or the two
                batches differ in size.
            IndexError: If a token id is outside the vocabulary.
        """
        require_tokens(src=src, tgt=tgt)
        memory_mask = padding_mask(src, self.config.pad_id)  # (B, 1, 1, S)
        return self.decode(tgt, self.encode(src), memory_mask)  # (B, T, tgt_vocab_size)

    def encode(self, src: Tensor) -> Tensor:
        """Encode the source, once for all decoding steps.

        Args:
            src: Source token ids, shape (B, S).

        Returns:
            The memory, shape (B, S, d_model).

        Raises:
            TypeError, ValueError, IndexError: As ``forward``.
        """
        x = self.src_positions(self.src_embedding(src))  # (B, S, d_model)
        return self.encoder(self.dropout(x), padding_mask(src, self.config.pad_id))

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor,
        memory_mask: Tensor,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Score the next token after every target prefix, given the memory.

        Args:
            tgt: Target token ids, shape (B, T).
            memory: What ``encode`` returned, shape (B, S, d_model).
            memory_mask: The source's padding mask, shape (B, 1, 1, S).
            cache: Filled by earlier calls. Then ``tgt`` is the newest token of each
                sentence, shape (B, 1), never padding, and sees all tokens before it.

        Returns:
            Logits, shape (B, T, tgt_vocab_size).

        Raises:
            ValueError: If ``tgt`` has more than one token with a ``cache``, or the
                cache was filled from another memory; otherwise as ``forward``. The
                cache then stays as it was.
        """
        start = 0 if cache is None else cache.length
        x = self.tgt_positions(self.tgt_embedding(tgt), start)  # (B, T, d_model)
        mask = self.target_mask(tgt) if cache is None else None
        with nullcontext() if cache is None else cache.unchanged_by_errors():
            x = self.decoder(self.dropout(x), memory, mask, memory_mask, cache)
        return self.output(x)  # (B, T, tgt_vocab_size)

    def target_mask(self, tgt: Tensor) -> Tensor:
        """Hide the future and the padding.

        Args:
            tgt: Target token ids, shape (B, T).

        Returns:
            Boolean, shape (B, 1, T, T); True = may attend.
        """
        causal = causal_mask(tgt.size(1), tgt.device)  # (1, 1, T, T)
        return causal & padding_mask(tgt, self.config.pad_id)  # (B, 1, T, T)

    def new_cache(self) -> DecoderCache:
        """Make the empty cache that a new batch of sentences needs."""
        return DecoderCache(self.config.num_layers)
