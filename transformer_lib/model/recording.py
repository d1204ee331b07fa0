"""Record the attention weights of a real pass through any model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from threading import Lock
from typing import Any

from torch import Tensor, nn

from transformer_lib.model.attention import (
    MultiHeadAttention,
    fused_attention,
    scaled_dot_product_attention,
)
from transformer_lib.swapped import Swapped, described

_ENTERING = Lock()


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep the weights of every head while the model runs.

    Inside the ``with`` block each attention layer computes with the explicit function
    of the book instead of the fused kernel, behind the same projections, checks, mask
    and dropout; other kinds of attention use their own ``explicit``. Afterwards
    everything is as it was. Copies of the model that are made inside are not recorded.

        with record_attention(model) as maps:
            model(src, tgt)
        maps["encoder.layers.0.self_attention"]  # (B, H, T, S)

    Args:
        model: Any module with ``MultiHeadAttention`` layers inside, or such a layer.

    Yields:
        A dictionary that fills as the model runs: the layer's name in the model ("" for
        the model itself) to its weights in the latest pass, whichever thread ran it,
        shape (B, H, T, S), detached. Layers that did not run are missing, and so are
        layers of a subclass whose ``forward`` does not call ``attend``.

    Raises:
        TypeError: If ``model`` is not a module.
        RuntimeError: If a layer is being recorded already, in this thread or another.
        ValueError: If the model has no ``MultiHeadAttention``, or one whose
            attention has no explicit form.
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model must be a Module, got a {type(model).__name__}")
    layers = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, MultiHeadAttention)
    }
    if not layers:
        raise ValueError(
            f"model must hold a MultiHeadAttention, got {type(model).__name__}"
        )
    maps: dict[str, Tensor] = {}
    with _ENTERING:
        for name, layer in layers.items():
            if isinstance(layer.attend, _Recorder):
                raise RuntimeError(
                    "model must be recorded once at a time, got a second recording of "
                    f"{name or type(model).__name__}"
                )
        recorded = Swapped(
            (layer, "attend", _Recorder(layer.attend, maps, name))
            for name, layer in layers.items()
        )
    with recorded:
        yield maps


class _Recorder:
    """Stands in for the ``attend`` of a layer, and keeps the weights."""

    def __init__(
        self, before: Callable[..., Tensor], maps: dict[str, Tensor], where: str
    ) -> None:
        self.before, self.maps, self.where = before, maps, where
        self.explicit = _explicit_form(before, where)

    def __call__(self, *inputs: Any) -> Tensor:
        heads, weights = self.explicit(*inputs)
        self.maps[self.where] = weights.detach()
        return heads

    def __repr__(self) -> str:
        return "a recording"  # as errors call it

    def __reduce__(self) -> tuple[Callable, tuple]:
        """Give a copy of the layer, or a pickle, what it attended with before."""
        return copy, (self.before,)


def _explicit_form(attend: Callable[..., Tensor], where: str) -> Callable[..., tuple]:
    """Find the function that also returns an attention's weights.

    Args:
        attend: What a layer attends with.
        where: The layer's name, for the error.

    Raises:
        ValueError: If there is none.
    """
    if attend is fused_attention:
        return scaled_dot_product_attention
    explicit = getattr(attend, "explicit", None)
    if explicit is None:
        raise ValueError(
            "attend must have an explicit form to be recorded, got "
            f"{described(attend)} at {where or 'the layer itself'}"
        )
    return explicit
