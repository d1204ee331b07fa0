"""Put a kind of attention into a model, and take it out again."""

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

from torch import Tensor, nn

from transformer_lib.attention import MultiHeadAttention, fused_attention
from transformer_lib.masks import CausalMask, padding_mask
from transformer_lib.variants.full import full_attention
from transformer_lib.variants.variant import Variant

Choice = Variant | Sequence[Variant | None] | None


def use_attention(
    model: nn.Module,
    *,
    encoder: Choice = None,
    decoder: Choice = None,
    cross: Choice = None,
) -> "Placed":
    """Let the layers of a model attend otherwise, for good or for a while.

        with use_attention(model, decoder=window_attention(128, causal=True)):
            model(src, tgt)

    Without ``with`` it stays until ``put_back`` of what is returned. The weights of the
    model are as they were, and files that are written of it do not know of the variant:
    use it again after loading.

    Once a layer of the decoder has a variant, the model makes a ``CausalMask`` instead
    of a tensor of T times T, and layers without one get ``full_attention``.

    A layer may be of a subclass of ``MultiHeadAttention``. If its ``forward`` does not
    call ``attend``, the variant has no effect.

    Args:
        model: With an ``encoder``, a ``decoder`` or both, as ``Transformer``.
        encoder: For its self-attention: a variant for every layer, or one for each,
            first to last, where None leaves a layer as it is.
        decoder: The same for the decoder's self-attention; a causal one.
        cross: The same for its cross-attention.

    Returns:
        What knows the attention from before.

    Raises:
        TypeError: If there is something else than a variant, or a layer of the model is
            not a ``MultiHeadAttention``.
        ValueError: If there are not as many variants as layers, the model has no such
            layers, a variant is causal and must not be, or is not and must be, it
            cannot do cross-attention, or the model attends otherwise already, is
            recorded, or has its positions in the attention that would go.
    """
    placed = Placed(model)
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
    in_words = None
    own = [] if decoder is None else _layers(model, "decoder")
    if any(layer in chosen for layer in own):
        for layer in own:  # all of them get the mask in words
            if not isinstance(layer.attend, Variant):
                chosen.setdefault(layer, full_attention(causal=True))
        in_words = partial(causal_in_words, pad_id=model.config.pad_id)
    for layer, variant in chosen.items():
        if layer.attend is not fused_attention and not isinstance(
            layer.attend, Variant
        ):
            name = described(layer.attend)
            raise ValueError(f"model must hold no other attention, got {name}")
        if getattr(layer.attend, "places", False) and not variant.places:
            raise ValueError(
                "model must not have its positions in the attention that is replaced, "
                f"got {layer.attend.name}"
            )
    if in_words is not None:
        placed.set_mask(in_words)
    for layer, variant in chosen.items():
        placed.set_attention(layer, variant)
    return placed


def causal_in_words(tgt: Tensor, pad_id: int) -> CausalMask:
    """Make the mask of a decoder's self-attention without a tensor of T times T.

    Args:
        tgt: Target token ids, shape (B, T).
        pad_id: The id that fills short sentences up.
    """
    return CausalMask(padding_mask(tgt, pad_id))


class Placed:
    """What a model attended with before; in a ``with`` block, it comes back after it.

    Args:
        model: As it is now.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.before: dict[MultiHeadAttention, Callable] = {}
        self.placed: dict[MultiHeadAttention, Variant] = {}
        self.masks: list[Callable | None] = []  # of the model, before; one at most

    def set_attention(self, layer: MultiHeadAttention, variant: Variant) -> None:
        """Let one of the model's layers attend otherwise."""
        self.before[layer], self.placed[layer] = layer.attend, variant
        layer.attend = variant

    def set_mask(self, make: Callable[[Tensor], CausalMask]) -> None:
        """Let the model make another mask for its decoder's self-attention."""
        self.masks.append(vars(self.model).get("target_mask"))
        self.model.target_mask = make

    def put_back(self) -> None:
        """Let the model attend as before. A second time, there is nothing to do.

        Raises:
            ValueError: If a layer has got another attention since: the latest of
                several goes first, and a recording ends before. Nothing is changed.
        """
        for layer, variant in self.placed.items():
            if layer.attend is not variant:
                raise ValueError(
                    f"model must attend with {variant.name} to put back what it had "
                    f"before, got {described(layer.attend)}"
                )
        for layer, attend in self.before.items():
            layer.attend = attend
        self.before.clear()
        self.placed.clear()
        while self.masks:
            del self.model.target_mask
            mask = self.masks.pop()
            if mask is not None:
                self.model.target_mask = mask

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.put_back()


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


def described(attend: Callable) -> str:
    """Name what a layer attends with, for an error."""
    for name in ("name", "__name__"):
        if hasattr(attend, name):
            return getattr(attend, name)
    return type(attend).__name__


def _require_fit(part: str, variant: Variant) -> None:
    """Refuse a variant that this part of a model cannot have."""
    if not isinstance(variant, Variant):
        raise TypeError(f"{part} must be a Variant, got a {type(variant).__name__}")
    if part == "cross" and not variant.cross:
        raise ValueError(f"cross must be able to cross-attend, got {variant.name}")
    if variant.causal != (part == "decoder"):
        wanted = "causal" if part == "decoder" else "not causal"
        raise ValueError(f"{part} must be {wanted}, got {variant.name}")
