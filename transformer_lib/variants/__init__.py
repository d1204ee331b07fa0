"""Other Transformers: other attention, other layers, one stack, other inputs.

A variant of attention is an object that knows its choices, such as
``WindowAttention(128, causal=True)``. It takes the place of ``attend`` in a layer:
``use_attention(model, decoder=WindowAttention(128, causal=True))`` puts it there.
"""

from transformer_lib.variants.attention.alibi import AlibiAttention
from transformer_lib.variants.attention.blocks import BlockAttention
from transformer_lib.variants.attention.full import FullAttention
from transformer_lib.variants.attention.install import use_attention
from transformer_lib.variants.attention.linear import LinearAttention
from transformer_lib.variants.attention.lsh import LSHAttention
from transformer_lib.variants.attention.nystrom import NystromAttention
from transformer_lib.variants.attention.performer import PerformerAttention
from transformer_lib.variants.attention.variant import CausalMask, Variant
from transformer_lib.variants.attention.window import WindowAttention, window_mask
from transformer_lib.variants.families import FAMILIES
from transformer_lib.variants.modalities.classifier import Classifier, mean_over_tokens
from transformer_lib.variants.modalities.graphs import GraphAttention, edge_mask
from transformer_lib.variants.modalities.patches import (
    PatchEmbedding,
    cut_into_patches,
)
from transformer_lib.variants.modern.gated import GatedFeedForward
from transformer_lib.variants.modern.grouped import GroupedAttention
from transformer_lib.variants.modern.no_positions import NoPositions
from transformer_lib.variants.modern.norm import RMSNorm
from transformer_lib.variants.modern.rotary import (
    RotaryAttention,
    rotate,
    rotation_table,
)
from transformer_lib.variants.modern.transformer import (
    ModernConfig,
    ModernParts,
    ModernTransformer,
)
from transformer_lib.variants.one_stack.decoder_alone import (
    CausalLayer,
    CausalStack,
    DecoderAlone,
    continue_tokens,
)
from transformer_lib.variants.one_stack.encoder_alone import EncoderAlone
from transformer_lib.variants.one_stack.masked_tokens import (
    mask_tokens,
    masked_token_loss,
)

__all__ = [
    "FAMILIES",
    "AlibiAttention",
    "BlockAttention",
    "CausalLayer",
    "CausalMask",
    "CausalStack",
    "Classifier",
    "DecoderAlone",
    "EncoderAlone",
    "FullAttention",
    "GatedFeedForward",
    "GraphAttention",
    "GroupedAttention",
    "LSHAttention",
    "LinearAttention",
    "ModernConfig",
    "ModernParts",
    "ModernTransformer",
    "NoPositions",
    "NystromAttention",
    "PatchEmbedding",
    "PerformerAttention",
    "RMSNorm",
    "RotaryAttention",
    "Variant",
    "WindowAttention",
    "continue_tokens",
    "cut_into_patches",
    "edge_mask",
    "mask_tokens",
    "masked_token_loss",
    "mean_over_tokens",
    "rotate",
    "rotation_table",
    "use_attention",
    "window_mask",
]
