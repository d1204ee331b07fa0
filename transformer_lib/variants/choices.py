"""Give a model that was just built the pieces of other families that its config asks.

The chapters build the model of the paper. What a config chooses besides is put in the
place of its pieces here, before the weights get their starting values.
"""

from collections.abc import Iterator

from torch import nn

from transformer_lib.attention import MultiHeadAttention
from transformer_lib.positions import LAYOUTS, PositionalEncoding
from transformer_lib.variants.alibi import AlibiAttention
from transformer_lib.variants.gated import GatedFeedForward
from transformer_lib.variants.grouped import GroupedAttention
from transformer_lib.variants.norm import RMSNorm
from transformer_lib.variants.rotary import RotaryAttention
from transformer_lib.variants.unplaced import Unplaced
from transformer_lib.variants.use import use_attention

NORMS = ("layer", "rms")
POSITIONS = (*LAYOUTS, "rotary", "alibi", "none")


def fit_choices(model: nn.Module) -> None:
    """Replace the pieces of which the config wants another kind.

    Args:
        model: With a ``config``, and an ``encoder``, a ``decoder`` or both. With the
            paper's choices it stays as it is.

    Raises:
        ValueError: As the pieces do.
    """
    config = model.config
    for name in ("src_embedding", "tgt_embedding"):
        if hasattr(model, name) and not config.scale_embeddings:
            getattr(model, name).scale = 1.0
    for stack in stacks(model):
        if config.norm == "rms" and stack.norm is not None:
            stack.norm = RMSNorm(config.d_model, eps=config.norm_eps)
        for layer in stack.layers:
            fit_layer(layer, config)
    if config.positions == "alibi":
        parts = {
            name: AlibiAttention(config.num_heads, causal=name == "decoder")
            for name in ("encoder", "decoder")
            if hasattr(model, name)
        }
        use_attention(model, **parts)


def fit_layer(layer: nn.Module, config: object) -> None:
    """Replace the pieces of one layer.

    Args:
        layer: Of an encoder or a decoder.
        config: A ``TransformerConfig``.
    """
    for name, part in list(layer.named_children()):
        if name.endswith("_residual") and config.norm == "rms":
            part.norm = RMSNorm(config.d_model, eps=config.norm_eps)
        elif name == "feed_forward" and config.gated:
            layer.feed_forward = GatedFeedForward(
                config.d_model,
                config.d_ff,
                dropout=config.feed_forward_dropout,
                activation=config.activation,
            )
        elif isinstance(part, MultiHeadAttention):
            rotary = config.positions == "rotary" and name == "self_attention"
            setattr(layer, name, fit_attention(part, config, rotary))


def fit_attention(
    part: MultiHeadAttention, config: object, rotary: bool
) -> MultiHeadAttention:
    """Make the attention that the config wants in the place of the paper's.

    Args:
        part: The paper's, whose sizes the new one has.
        config: A ``TransformerConfig``.
        rotary: Whether it turns its queries and keys. Positions of two sequences have
            no distance: cross-attention does not.
    """
    heads = config.num_heads
    groups = heads if config.num_key_heads is None else config.num_key_heads
    shared = {"bias": config.bias, "dropout": config.attention_dropout}
    shared["d_k"] = config.d_k
    if rotary:
        shared["max_len"] = config.max_len
        return RotaryAttention(config.d_model, heads, groups, **shared)
    if groups != heads:
        return GroupedAttention(config.d_model, heads, groups, **shared)
    return part


def position_layer(d_model: int, max_len: int, positions: str) -> nn.Module:
    """Make what adds positions to embedded tokens, or leaves that to others.

    Args:
        d_model: Width of the vectors.
        max_len: The longest sequence.
        positions: One of ``POSITIONS``.
    """
    if positions in LAYOUTS:
        return PositionalEncoding(d_model, max_len, positions)
    return Unplaced(max_len)


def stacks(model: nn.Module) -> Iterator[nn.Module]:
    """Give the model's encoder and decoder, as far as it has them."""
    for name in ("encoder", "decoder"):
        stack = getattr(model, name, None)
        if stack is not None:
            yield stack
