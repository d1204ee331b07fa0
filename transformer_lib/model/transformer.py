"""The whole Transformer: from token ids to a score for every possible next token."""

from contextlib import nullcontext

from torch import Tensor, nn

from transformer_lib.checks import require_tokens
from transformer_lib.model.cache import DecoderCache
from transformer_lib.model.config import TransformerConfig
from transformer_lib.model.masks import causal_mask, padding_mask
from transformer_lib.model.parts import TransformerParts, initialise


class Transformer(TransformerParts):
    """The encoder-decoder Transformer.

    Args:
        config: Its sizes and choices.

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
        initialise(self, config.d_model)
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
            TypeError, ValueError: As ``require_tokens``; also if a sequence is longer
                than ``max_len``.
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
