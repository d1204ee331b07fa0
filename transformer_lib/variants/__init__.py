"""Attention of other kinds, and what else models of other families do otherwise.

A variant is an object that knows its choices, such as ``WindowAttention(128,
causal=True)``, and stands in the ``attend`` of a layer: ``use_attention(model,
decoder=WindowAttention(128, causal=True))`` puts it there.
"""

from transformer_lib.variants.alibi import AlibiAttention
from transformer_lib.variants.blocks import BlockAttention
from transformer_lib.variants.full import FullAttention
from transformer_lib.variants.hashed import HashedAttention
from transformer_lib.variants.linear import LinearAttention
from transformer_lib.variants.nystrom import NystromAttention
from transformer_lib.variants.performer import PerformerAttention
from transformer_lib.variants.use import use_attention
from transformer_lib.variants.variant import Variant
from transformer_lib.variants.window import WindowAttention, window_mask

__all__ = [
    "AlibiAttention",
    "BlockAttention",
    "FullAttention",
    "HashedAttention",
    "LinearAttention",
    "NystromAttention",
    "PerformerAttention",
    "Variant",
    "WindowAttention",
    "use_attention",
    "window_mask",
]
