"""An encoder alone: every word of a text gathers from all the others, as in BERT."""

from torch import Tensor, nn

from transformer_lib.model import initialise, padding_mask
from transformer_lib.variants.modern.transformer import ModernConfig, ModernParts


class EncoderAlone(ModernParts):
    """The left half of a Transformer, with a score for every token at every position.

    Args:
        config: Its sizes and choices; ``tgt_vocab_size`` is None. ``tie_output`` uses
            the source's table as the output projection.

    Raises:
        ValueError: If the config has a target; the rest as the parts.

    Source: Devlin et al. (2019), section 3, but for the layer before their output.
    """

    def __init__(self, config: ModernConfig) -> None:
        super().__init__(config)
        if config.tgt_vocab_size is not None:
            raise ValueError(
                "tgt_vocab_size must be None for an encoder alone, "
                f"got {config.tgt_vocab_size}"
            )
        self.src_embedding = self.make_embedding(config.src_vocab_size)
        self.src_positions = self.make_positions()
        self.encoder = self.make_encoder()
        self.output = nn.Linear(
            config.d_model, config.src_vocab_size, bias=config.output_bias
        )
        self.dropout = nn.Dropout(config.dropout)
        initialise(self, config.d_model)
        if config.tie_output:
            self.output.weight = self.src_embedding.table.weight

    def forward(self, src: Tensor) -> Tensor:
        """Score every token at every position, whose own token is seen, too.

        Args:
            src: Token ids, shape (B, S).

        Returns:
            Logits, shape (B, S, src_vocab_size). Those at padding mean nothing.
        """
        return self.output(self.encode(src))  # (B, S, src_vocab_size)

    def encode(self, src: Tensor) -> Tensor:
        """Turn every token into a vector that knows its context: (B, S, d_model)."""
        x = self.src_positions(self.src_embedding(src))  # (B, S, d_model)
        return self.encoder(self.dropout(x), padding_mask(src, self.config.pad_id))
