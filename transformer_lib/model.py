"""The whole Transformer: from token ids to a score for every possible next token."""

from dataclasses import dataclass
from typing import Any, Self

from torch import Tensor, nn

from transformer_lib.cache import DecoderCache
from transformer_lib.checks import (
    require_not_negative,
    require_one_of,
    require_positive,
)
from transformer_lib.decoder import Decoder, DecoderLayer
from transformer_lib.embedding import TokenEmbedding
from transformer_lib.encoder import Encoder, EncoderLayer
from transformer_lib.masks import causal_mask, padding_mask
from transformer_lib.variants.choices import (
    NORMS,
    POSITIONS,
    fit_choices,
    position_layer,
)


@dataclass(frozen=True, kw_only=True)
class TransformerConfig:
    """What distinguishes one Transformer from another.

    The defaults are the paper's base model, but for the tables: they are apart until
    shared and tied, since that needs one vocabulary. ``base`` shares and ties them.

    Args:
        src_vocab_size: Source tokens; None makes a decoder-only model.
        tgt_vocab_size: Target tokens; None makes an encoder alone (``EncoderAlone``).
        pad_id: The id that fills short sentences up, in both languages.
        d_model: Width of the vectors between the layers.
        num_heads: Number of attention heads.
        d_ff: Inner width of the feed-forward networks.
        num_layers: Layers of the encoder, and of the decoder.
        dropout: Share dropped of the embeddings and of what each sublayer adds.
        attention_dropout: Share of the attention weights dropped; slow on a CPU.
        feed_forward_dropout: Share of the feed-forward networks' inner features
            dropped.
        norm_first: Pre-norm, with a final norm on each stack, instead of post-norm.
        norm_eps: Added to the variance inside each norm.
        bias: Whether the attention's projections add a bias.
        output_bias: Whether the final projection adds a bias, tied or not.
        activation: Of the feed-forward networks: ``"relu"``, ``"gelu"``,
            ``"gelu_tanh"`` or ``"silu"`` (see ``FeedForward``).
        positions: Added to the embeddings, ``"interleaved"``, ``"concatenated"`` or
            ``"learned"``; or ``"rotary"``, which turns queries and keys (see
            ``RotaryAttention``), ``"alibi"``, which lowers scores with the distance
            (see ``AlibiAttention``), or ``"none"``.
        max_len: The longest sequence, in tokens.
        share_embeddings: One table for source and target.
        tie_output: Use the target's table as the output projection, too.
        norm: ``"layer"`` or ``"rms"``, which subtracts no mean (see ``RMSNorm``).
        gated: Feed-forward networks with a gate and without biases (see
            ``GatedFeedForward``).
        num_key_heads: Heads of keys and values, each for several that ask (see
            ``GroupedAttention``); None makes one for each.
        scale_embeddings: Whether embeddings are multiplied by sqrt(d_model).
        d_k: Width of a head; None takes d_model / num_heads.

    Raises:
        ValueError: If ``num_layers`` is not positive, ``norm_eps`` is negative,
            ``positions`` or ``norm`` is unknown, neither vocabulary is given, or tables
            of different sizes are to be shared. The pieces check the rest.
    """

    src_vocab_size: int | None
    tgt_vocab_size: int | None
    pad_id: int = 0
    d_model: int = 512
    num_heads: int = 8
    d_ff: int = 2048
    num_layers: int = 6
    dropout: float = 0.1
    attention_dropout: float = 0.0
    feed_forward_dropout: float = 0.0
    norm_first: bool = False
    norm_eps: float = 1e-5
    bias: bool = True
    output_bias: bool = False
    activation: str = "relu"
    positions: str = "interleaved"
    max_len: int = 1024
    share_embeddings: bool = False
    tie_output: bool = False
    norm: str = "layer"
    gated: bool = False
    num_key_heads: int | None = None
    scale_embeddings: bool = True
    d_k: int | None = None

    def __post_init__(self) -> None:
        require_positive(num_layers=self.num_layers)
        require_not_negative(norm_eps=self.norm_eps)
        require_one_of(NORMS, norm=self.norm)
        if self.positions not in POSITIONS:
            known = ", ".join(POSITIONS)
            raise ValueError(f"positions must be one of {known}, got {self.positions}")
        if self.src_vocab_size is None and self.tgt_vocab_size is None:
            raise ValueError(
                "src_vocab_size or tgt_vocab_size must be given, got None and None"
            )
        if self.share_embeddings and self.src_vocab_size != self.tgt_vocab_size:
            raise ValueError(
                "src_vocab_size and tgt_vocab_size must be equal to share embeddings, "
                f"got {self.src_vocab_size} and {self.tgt_vocab_size}"
            )

    def for_layers(self) -> dict[str, Any]:
        """Gather what every layer of both stacks is made with."""
        return {
            "d_model": self.d_model,
            "num_heads": self.num_heads,
            "d_ff": self.d_ff,
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "feed_forward_dropout": self.feed_forward_dropout,
            "norm_first": self.norm_first,
            "norm_eps": self.norm_eps,
            "bias": self.bias,
            "activation": self.activation,
            "d_k": self.d_k,
        }

    @classmethod
    def base(cls, vocab_size: int = 37_000, **changes: Any) -> Self:
        """Describe the paper's base model: one vocabulary, one table for everything.

        Args:
            vocab_size: Tokens of the vocabulary that both languages share.
            **changes: Any other choice, by name.

        Source: Vaswani et al. (2017), table 3 (base) and section 3.4.
        """
        shared = {"share_embeddings": True, "tie_output": True}
        sizes = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
        return cls(**{**sizes, **shared, **changes})

    @classmethod
    def tensor2tensor(cls, vocab_size: int = 37_000, **changes: Any) -> Self:
        """Describe the base model as tensor2tensor came to build it.

        Pre-norm, attention without bias, eps 1e-6, sines then cosines. It also drops a
        tenth of the attention weights and of the inner features, which is slow on a
        CPU: pass ``attention_dropout=0.1, feed_forward_dropout=0.1`` for that.

        Args:
            vocab_size: Tokens of the vocabulary that both languages share.
            **changes: Any other choice, by name.

        Source: tensor2tensor, ``transformer_base`` (Vaswani et al., 2018).
        """
        style = {"norm_first": True, "bias": False, "norm_eps": 1e-6}
        style["positions"] = "concatenated"
        return cls.base(vocab_size, **{**style, **changes})


class Transformer(nn.Module):
    """The encoder-decoder Transformer, or a decoder alone.

    Args:
        config: Its sizes and choices.

    Raises:
        ValueError: If the config has no target; the rest as ``TransformerConfig`` and
            the pieces.

    Source: Vaswani et al. (2017), section 3.
    """

    def __init__(self, config: TransformerConfig) -> None:
        super().__init__()
        if config.tgt_vocab_size is None:
            raise ValueError("tgt_vocab_size must be given, got None: see EncoderAlone")
        self.config = config
        layer = config.for_layers()
        has_source = config.src_vocab_size is not None
        if has_source:
            self.src_embedding = self._embedding(config.src_vocab_size)
            self.src_positions = self._positions()
            layers = [EncoderLayer(**layer) for _ in range(config.num_layers)]
            self.encoder = Encoder(layers, self._final_norm())
        self.tgt_embedding = self._embedding(config.tgt_vocab_size)
        self.tgt_positions = self._positions()
        layer["cross_attention"] = has_source
        layers = [DecoderLayer(**layer) for _ in range(config.num_layers)]
        self.decoder = Decoder(layers, self._final_norm())
        self.output = nn.Linear(
            config.d_model, config.tgt_vocab_size, bias=config.output_bias
        )
        self.dropout = nn.Dropout(config.dropout)
        fit_choices(self)
        self._initialise()
        if config.share_embeddings:
            self.src_embedding.table.weight = self.tgt_embedding.table.weight
        if config.tie_output:
            self.output.weight = self.tgt_embedding.table.weight

    def forward(self, src: Tensor | None, tgt: Tensor) -> Tensor:
        """Score every possible next token after every target prefix.

        Args:
            src: Source token ids, shape (B, S); None for a decoder-only model.
            tgt: Target token ids, shape (B, T), beginning with BOS.

        Returns:
            Logits, shape (B, T, tgt_vocab_size). Those at t have seen tgt[:, : t + 1].

        Raises:
            TypeError: If token ids are not integers.
            ValueError: If a source is given to a decoder-only model, or none to
                another; if a sequence is empty or longer than ``max_len``.
            IndexError: If a token id is outside the vocabulary.
        """
        if src is None:
            return self.decode(tgt)
        memory_mask = padding_mask(src, self.config.pad_id)  # (B, 1, 1, S)
        return self.decode(tgt, self.encode(src), memory_mask)  # (B, T, tgt_vocab_size)

    def encode(self, src: Tensor) -> Tensor:
        """Read the source, once, for every decoding step to come.

        Args:
            src: Source token ids, shape (B, S).

        Returns:
            The memory, shape (B, S, d_model).

        Raises:
            ValueError: If the model is decoder-only; the rest as ``forward``.
        """
        if self.config.src_vocab_size is None:
            raise ValueError(f"src must be None, got {tuple(src.shape)}: decoder-only")
        x = self.src_positions(self.src_embedding(src))  # (B, S, d_model)
        return self.encoder(self.dropout(x), padding_mask(src, self.config.pad_id))

    def decode(
        self,
        tgt: Tensor,
        memory: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: DecoderCache | None = None,
    ) -> Tensor:
        """Score the next token after every target prefix, given the memory.

        Args:
            tgt: Target token ids, shape (B, T).
            memory: What ``encode`` returned, shape (B, S, d_model); None for a
                decoder-only model.
            memory_mask: The source's padding mask, shape (B, 1, 1, S); with ``memory``.
            cache: What earlier calls left. Then ``tgt`` is the newest token of each
                sentence, shape (B, 1), which is never padding, and sees all before it.

        Returns:
            Logits, shape (B, T, tgt_vocab_size).

        Raises:
            ValueError: If ``memory`` comes without ``memory_mask``, ``tgt`` has more
                than one token with a ``cache``, or the cache was filled from another
                memory; the rest as ``forward``.
        """
        if memory is not None and memory_mask is None:
            raise ValueError("memory_mask must come with memory, got None")
        start = 0 if cache is None else cache.length
        x = self.tgt_positions(self.tgt_embedding(tgt), start)  # (B, T, d_model)
        mask = self.target_mask(tgt) if cache is None else None
        x = self.decoder(self.dropout(x), memory, mask, memory_mask, cache)
        return self.output(x)  # (B, T, tgt_vocab_size)

    def new_cache(self) -> DecoderCache:
        """Make the empty cache that a new batch of sentences needs."""
        return DecoderCache(self.config.num_layers)

    def target_mask(self, tgt: Tensor) -> Tensor:
        """Hide the future and the padding from the decoder's self-attention.

        Args:
            tgt: Target token ids, shape (B, T).

        Returns:
            Boolean, shape (B, 1, T, T); True = may attend.
        """
        causal = causal_mask(tgt.size(1), tgt.device)  # (1, 1, T, T)
        return causal & padding_mask(tgt, self.config.pad_id)  # (B, 1, T, T)

    def _embedding(self, vocab_size: int) -> TokenEmbedding:
        return TokenEmbedding(vocab_size, self.config.d_model, self.config.pad_id)

    def _positions(self) -> nn.Module:
        config = self.config
        return position_layer(config.d_model, config.max_len, config.positions)

    def _final_norm(self) -> nn.LayerNorm | None:
        """Pre-norm layers leave their sum as it is: one norm ends each stack."""
        if not self.config.norm_first:
            return None
        return nn.LayerNorm(self.config.d_model, eps=self.config.norm_eps)

    def _initialise(self) -> None:
        """Xavier-uniform matrices, zero biases, embeddings of deviation d_model^-0.5.

        Times sqrt(d_model), embedded tokens then have a variance of 1, and a tied
        output gives logits of order 1.
        """
        for module in self.modules():
            if isinstance(module, nn.Linear):
                nn.init.xavier_uniform_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Embedding):
                nn.init.normal_(module.weight, std=self.config.d_model**-0.5)
