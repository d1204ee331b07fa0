"""What newer models, such as Llama and its relatives, change in every layer."""

from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from transformer_lib.checks import require_one_of
from transformer_lib.model import (
    LAYOUTS,
    DecoderLayer,
    EncoderLayer,
    MultiHeadAttention,
    TokenEmbedding,
    Transformer,
    TransformerConfig,
    TransformerParts,
    causal_mask,
    padding_mask,
)
from transformer_lib.variants.attention.alibi import AlibiAttention
from transformer_lib.variants.attention.variant import CausalMask
from transformer_lib.variants.modern.gated import GatedFeedForward
from transformer_lib.variants.modern.grouped import GroupedAttention
from transformer_lib.variants.modern.no_positions import NoPositions
from transformer_lib.variants.modern.norm import RMSNorm
from transformer_lib.variants.modern.rotary import RotaryAttention

NORMS = ("layer", "rms")
POSITIONS = (*LAYOUTS, "rotary", "alibi", "none")


@dataclass(frozen=True, kw_only=True)
class ModernConfig(TransformerConfig):
    """The choices of 2017, those made since, and models of one stack.

    Without any of them it describes the same model as ``TransformerConfig``.

    Args:
        src_vocab_size: As there; None for a ``DecoderAlone``.
        tgt_vocab_size: As there; None for an ``EncoderAlone``.
        positions: As there; or ``"rotary"``, which turns queries and keys (see
            ``RotaryAttention``), ``"alibi"``, which lowers scores with the distance
            (see ``AlibiAttention``), or ``"none"``.
        norm: ``"layer"`` or ``"rms"``, which subtracts no mean (see ``RMSNorm``).
        gated: Feed-forward networks with a gate and without biases (see
            ``GatedFeedForward``).
        num_key_heads: Heads of keys and values, each shared by several heads of
            queries (see ``GroupedAttention``); None makes one for each.
        scale_embeddings: Whether embeddings are multiplied by sqrt(d_model).
        d_k: Width of a head; None takes d_model / num_heads.

    Raises:
        ValueError: If ``norm`` or ``positions`` is unknown, or no vocabulary is given;
            the rest as ``TransformerConfig``.
    """

    src_vocab_size: int | None
    tgt_vocab_size: int | None
    norm: str = "layer"
    gated: bool = False
    num_key_heads: int | None = None
    scale_embeddings: bool = True
    d_k: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of(NORMS, norm=self.norm)
        require_one_of(POSITIONS, positions=self.positions)
        if self.src_vocab_size is None and self.tgt_vocab_size is None:
            raise ValueError(
                "src_vocab_size or tgt_vocab_size must be given, got None and None"
            )


class ModernParts(TransformerParts):
    """Makes the parts that a ``ModernConfig`` chooses in place of those of 2017.

    Args:
        config: Sizes and choices.
    """

    config_type = ModernConfig

    def make_embedding(self, vocab_size: int) -> TokenEmbedding:
        """Make a table whose vectors are scaled, or left as they are."""
        embedding = super().make_embedding(vocab_size)
        if not self.config.scale_embeddings:
            embedding.scale = 1.0
        return embedding

    def make_positions(self) -> nn.Module:
        """Make what adds positions, or adds none."""
        if self.config.positions in LAYOUTS:
            return super().make_positions()
        return NoPositions(self.config.max_len)

    def make_encoder_layer(self) -> EncoderLayer:
        """Make a layer whose self-attention may know the positions."""
        attention = self.make_self_attention(causal=False)
        return EncoderLayer(attention, self.make_feed_forward(), self.make_residual)

    def make_decoder_layer(self) -> DecoderLayer:
        """Make a layer whose self-attention may know the positions."""
        attentions = self.make_self_attention(causal=True), self.make_attention()
        return DecoderLayer(*attentions, self.make_feed_forward(), self.make_residual)

    def make_self_attention(self, causal: bool) -> MultiHeadAttention:
        """Make an attention that reads the positions it belongs to.

        Cross-attention never knows positions: those of two sequences have no distance.

        Args:
            causal: Whether a position reads itself and earlier ones only.
        """
        config = self.config
        if config.positions == "rotary":
            return RotaryAttention(**self._grouped(), max_len=config.max_len)
        attention = self.make_attention()
        if config.positions == "alibi":
            attention.attend = AlibiAttention(config.num_heads, causal=causal)
        return attention

    def make_attention(self) -> MultiHeadAttention:
        """Make an attention with as many heads of keys, and as wide, as is wanted."""
        grouped = self._grouped()
        if self.config.d_k is None and grouped["num_key_heads"] == grouped["num_heads"]:
            return super().make_attention()
        return GroupedAttention(**grouped)

    def _grouped(self) -> dict[str, Any]:
        """Gather what a ``GroupedAttention`` takes."""
        config = self.config
        groups = config.num_key_heads
        return {
            "d_model": config.d_model,
            "num_heads": config.num_heads,
            "num_key_heads": config.num_heads if groups is None else groups,
            "bias": config.bias,
            "dropout": config.attention_dropout,
            "d_k": config.d_k,
        }

    def make_feed_forward(self) -> nn.Module:
        """Make a network with or without a gate."""
        if not self.config.gated:
            return super().make_feed_forward()
        return GatedFeedForward(
            self.config.d_model,
            self.config.d_ff,
            dropout=self.config.feed_forward_dropout,
            activation=self.config.activation,
        )

    def make_norm(self) -> nn.Module:
        """Make a norm with or without a mean."""
        if self.config.norm == "layer":
            return super().make_norm()
        return RMSNorm(self.config.d_model, eps=self.config.norm_eps)

    def target_mask(self, tgt: Tensor) -> Tensor | CausalMask:
        """Hide the future and the padding; for ALiBi without a tensor of T times T."""
        padding = padding_mask(tgt, self.config.pad_id)  # (B, 1, 1, T)
        if self.config.positions == "alibi":
            return CausalMask(padding)
        return causal_mask(tgt.size(1), tgt.device) & padding  # (B, 1, T, T)


class ModernTransformer(ModernParts, Transformer):
    """The encoder-decoder Transformer, made of the parts of a ``ModernConfig``.

    Args:
        config: Its sizes and choices, with both vocabularies.
    """
