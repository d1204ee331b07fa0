"""Put a kind of attention into a model, and take it out again."""

from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial

from torch import Tensor, nn

from transformer_lib.model import (
    MultiHeadAttention,
    fused_attention,
    padding_mask,
)
from transformer_lib.patching import patched
from transformer_lib.variants.attention.full import FullAttention
from transformer_lib.variants.attention.variant import CausalMask, Variant

Choice = Variant | Sequence[Variant | None] | None


def use_attention(
    model: nn.Module,
    *,
    encoder: Choice = None,
    decoder: Choice = None,
    cross: Choice = None,
) -> ExitStack:
    """Replace the attention of a model's layers, for good or for a while.

        with use_attention(model, decoder=WindowAttention(128, causal=True)):
            model(src, tgt)

    Without ``with`` the variants stay until ``close`` of what is returned. The
    weights of the model do not change, and a saved file does not contain the variants:
    call this again after loading.

    Once a layer of the decoder has a variant, the model makes a ``CausalMask`` instead
    of a tensor of T times T, and layers without one get ``FullAttention``.

    A layer may be of a subclass of ``MultiHeadAttention``. If its ``forward`` does not
    call ``attend``, the variant has no effect.

    Args:
        model: With an ``encoder``, a ``decoder`` or both, as ``Transformer``.
        encoder: For its self-attention: a variant for every layer, or one for each,
            first to last, where None leaves a layer as it is.
        decoder: The same for the decoder's self-attention; a causal one.
        cross: The same for its cross-attention.

    Returns:
        What brings the earlier attention back, by ``with`` or ``close``; the latest
        replacement is closed first.

    Raises:
        TypeError: If there is something else than a variant, or a layer of the model is
            not a ``MultiHeadAttention``.
        ValueError: If there are not as many variants as layers, the model has no such
            layers, a variant is causal and must not be, or is not and must be, it
            cannot do cross-attention, or the model attends otherwise already, is
            recorded, or has its positions in the attention that would go.
    """
    choices = {"encoder": encoder, "decoder": decoder, "cross": cross}
    chosen: dict[MultiHeadAttention, Variant] = {}
    for part, choice in choices.items():
        if choice is None:
            continue
        layers = _layers(model, part)
        variants = choice if isinstance(choice, Sequence) else [choice] * len(layers)
        if len(variants) != len(layers):
            raise ValueError(
                f"{part} must hold a variant for each layer, "
                f"got {len(variants)} and {len(layers)}"
            )
        for layer, variant in zip(layers, variants, strict=True):
            if variant is not None:
                _require_fit(part, variant)
                chosen[layer] = variant
    own = [] if decoder is None else _layers(model, "decoder")
    in_words = any(layer in chosen for layer in own)
    if in_words:  # then for all of them
        for layer in own:
            if not isinstance(layer.attend, Variant):
                chosen.setdefault(layer, FullAttention(causal=True))
    changes = [(layer, "attend", variant) for layer, variant in chosen.items()]
    for layer, _, variant in changes:
        before = layer.attend
        if before is not fused_attention and not isinstance(before, Variant):
            raise ValueError(
                "model must hold no other attention, "
                f"got {getattr(before, '__name__', before)}"
            )
        if getattr(before, "places", False) and not variant.places:
            raise ValueError(
                "model must not have its positions in the attention that is replaced, "
                f"got {before}"
            )
    if in_words:
        make_mask = partial(causal_in_words, pad_id=model.config.pad_id)
        changes.append((model, "target_mask", make_mask))
    return patched(changes)


def causal_in_words(tgt: Tensor, pad_id: int) -> CausalMask:
    """Make the mask of a decoder's self-attention without a tensor of T times T."""
    return CausalMask(padding_mask(tgt, pad_id))


def _layers(model: nn.Module, part: str) -> list[MultiHeadAttention]:
    """List the attention layers of one part, first to last."""
    side = "encoder" if part == "encoder" else "decoder"
    name = "cross_attention" if part == "cross" else "self_attention"
    layers = getattr(getattr(model, side, None), "layers", ())
    found = [getattr(layer, name, None) for layer in layers]
    if not found or None in found:
        raise ValueError(f"{part} must be None for a model without such layers")
    for number, attention in enumerate(found):
        if not isinstance(attention, MultiHeadAttention):
            raise TypeError(
                f"{side}.layers.{number}.{name} must be a MultiHeadAttention, "
                f"got a {type(attention).__name__}"
            )
    return found


def _require_fit(part: str, variant: Variant) -> None:
    """Refuse a variant that this part of a model cannot have."""
    if not isinstance(variant, Variant):
        raise TypeError(f"{part} must be a Variant, got a {type(variant).__name__}")
    if part == "cross" and not variant.cross:
        raise ValueError(f"cross must be able to cross-attend, got {variant}")
    if variant.causal != (part == "decoder"):
        wanted = "causal" if part == "decoder" else "not causal"
        raise ValueError(f"{part} must be {wanted}, got {variant}")
