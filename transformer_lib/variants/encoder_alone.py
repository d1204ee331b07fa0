"""An encoder alone: every word of a text gathers from all the others, as in BERT."""

from typing import NoReturn

from torch import Tensor, nn

from transformer_lib.encoder import Encoder, EncoderLayer
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.variants.choices import fit_choices


class EncoderAlone(Transformer):
    """The left half of a Transformer, with a score for every token at every position.

    Args:
        config: Its sizes and choices; ``tgt_vocab_size`` is None. ``tie_output`` uses
            the source's table as the output projection.

    Raises:
        ValueError: If the config has a target; the rest as ``Transformer``.

    Source: Devlin et al. (2019), section 3, but for the layer before their output.
    """

    def __init__(self, config: TransformerConfig) -> None:
        nn.Module.__init__(self)
        if config.tgt_vocab_size is not None:
            raise ValueError(
                "tgt_vocab_size must be None for an encoder alone, "
                f"got {config.tgt_vocab_size}"
            )
        self.config = config
        self.src_embedding = self._embedding(config.src_vocab_size)
        self.src_positions = self._positions()
        layer = config.for_layers()
        layers = [EncoderLayer(**layer) for _ in range(config.num_layers)]
        self.encoder = Encoder(layers, self._final_norm())
        self.output = nn.Linear(
            config.d_model, config.src_vocab_size, bias=config.output_bias
        )
        self.dropout = nn.Dropout(config.dropout)
        fit_choices(self)
        self._initialise()
        if config.tie_output:
            self.output.weight = self.src_embedding.table.weight

    def forward(self, src: Tensor) -> Tensor:
        """Score every token at every position, whose own token is seen, too.

        Args:
            src: Token ids, shape (B, S).

        Returns:
            Logits, shape (B, S, src_vocab_size). Those at padding mean nothing.

        Raises:
            TypeError: If token ids are not integers.
            ValueError: If a sequence is empty or longer than ``max_len``.
            IndexError: If a token id is outside the vocabulary.
        """
        return self.output(self.encode(src))  # (B, S, src_vocab_size)

    def decode(self, *_: object, **__: object) -> NoReturn:
        """Refuse: there is no decoder.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "the model must have a decoder to decode, got an encoder alone"
        )

    def new_cache(self) -> NoReturn:
        """Refuse: there is no decoder.

        Raises:
            ValueError: Always.
        """
        raise ValueError(
            "the model must have a decoder to decode, got an encoder alone"
        )


def build_model(config: TransformerConfig) -> Transformer:
    """Make the model that a config describes: both halves, or one of them.

    Args:
        config: Without ``src_vocab_size`` it is a decoder alone, without
            ``tgt_vocab_size`` an encoder alone.

    Raises:
        ValueError: As the models do.
    """
    if config.tgt_vocab_size is None:
        return EncoderAlone(config)
    return Transformer(config)
