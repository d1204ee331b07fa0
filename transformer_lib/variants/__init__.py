"""Attention of other kinds, and what else models of other families do otherwise.

A variant is made by a factory that knows what it is, such as
``window_attention(128, causal=True)``, and stands in the ``attend`` of a layer:
``use_attention(model, decoder=window_attention(128, causal=True))`` puts it there.
"""

from transformer_lib.variants.alibi import alibi_attention
from transformer_lib.variants.blocks import block_attention, block_mask
from transformer_lib.variants.full import full_attention
from transformer_lib.variants.hashed import hashed_attention, hashed_mask
from transformer_lib.variants.linear import linear_attention
from transformer_lib.variants.nystrom import nystrom_attention
from transformer_lib.variants.performer import performer_attention
from transformer_lib.variants.use import use_attention
from transformer_lib.variants.variant import Variant
from transformer_lib.variants.window import window_attention, window_mask

__all__ = [
    "Variant",
    "alibi_attention",
    "block_attention",
    "block_mask",
    "full_attention",
    "hashed_attention",
    "hashed_mask",
    "linear_attention",
    "nystrom_attention",
    "performer_attention",
    "use_attention",
    "window_attention",
    "window_mask",
]
