"""Record the attention weights of a real pass through any model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from torch import Tensor, nn

from transformer_lib.model.attention import (
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from transformer_lib.patching import patched


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep the weights of every head while the model runs.

    Inside the ``with`` block each attention layer computes with the explicit function
    of the book instead of the fused kernel, behind the same projections, checks, mask
    and dropout; other kinds of attention use their own ``explicit``. Afterwards
    everything is as it was.

        with record_attention(model) as maps:
            model(src, tgt)
        maps["encoder.layers.0.self_attention"]  # (B, H, T, S)

    Args:
        model: Any module with ``MultiHeadAttention`` layers inside, or such a layer.

    Yields:
        A dictionary that fills as the model runs: the layer's name in the model ("" for
        the model itself) to its weights in the latest pass, shape (B, H, T, S),
        detached. Layers that did not run are missing, and so are layers of a subclass
        whose ``forward`` does not call ``attend``.

    Raises:
        TypeError: If ``model`` is not a module.
        ValueError: If the model has no ``MultiHeadAttention``, or one whose attention
            has no explicit form or is being recorded already.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a Module, got a {type(model).__name__}")
    maps: dict[str, Tensor] = {}
    changes = [
        (module, "attend", _recorded(module.attend, maps, name))
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    ]
    if not changes:
        raise ValueError(
            f"model must hold a MultiHeadAttention, got {type(model).__name__}"
        )
    with patched(changes):
        yield maps


def _recorded(
    attend: Callable[..., Tensor], maps: dict[str, Tensor], where: str
) -> Callable[..., Tensor]:
    """Wrap ``attend`` so that it also keeps the weights, under a layer's name."""
    explicit = getattr(attend, "explicit", None)
    if attend is fused_attention:
        explicit = scaled_dot_product_attention
    if explicit is None:
        raise ValueError(
            "attend must have an explicit form to be recorded, and not be recorded "
            f"already, got {getattr(attend, '__name__', attend)} at "
            f"{where or 'the layer itself'}"
        )

    def recording(*inputs: Tensor | float | None) -> Tensor:
        heads, weights = explicit(*inputs)
        maps[where] = weights.detach()
        return heads

    return recording
