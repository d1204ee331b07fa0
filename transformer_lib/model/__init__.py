"""The Transformer of 2017, part by part."""

from transformer_lib.model.attention import (
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from transformer_lib.model.cache import (
    CrossAttentionCache,
    DecoderCache,
    KeysAndValues,
    SelfAttentionCache,
)
from transformer_lib.model.config import TransformerConfig
from transformer_lib.model.decoder import Decoder, DecoderLayer
from transformer_lib.model.embedding import TokenEmbedding
from transformer_lib.model.encoder import Encoder, EncoderLayer
from transformer_lib.model.feed_forward import ACTIVATIONS, FeedForward
from transformer_lib.model.inference import inference
from transformer_lib.model.masks import causal_mask, padding_mask
from transformer_lib.model.parts import TransformerParts, initialise
from transformer_lib.model.positions import (
    LAYOUTS,
    LONGEST_TIMESCALE,
    PositionalEncoding,
    sinusoidal_table,
)
from transformer_lib.model.recording import record_attention
from transformer_lib.model.residual import Residual
from transformer_lib.model.transformer import Transformer

__all__ = [
    "ACTIVATIONS",
    "LAYOUTS",
    "LONGEST_TIMESCALE",
    "CrossAttentionCache",
    "Decoder",
    "DecoderCache",
    "DecoderLayer",
    "Encoder",
    "EncoderLayer",
    "FeedForward",
    "KeysAndValues",
    "MultiHeadAttention",
    "PositionalEncoding",
    "Residual",
    "SelfAttentionCache",
    "TokenEmbedding",
    "Transformer",
    "TransformerConfig",
    "TransformerParts",
    "causal_mask",
    "fused_attention",
    "inference",
    "initialise",
    "padding_mask",
    "record_attention",
    "scaled_dot_product_attention",
    "sinusoidal_table",
]
