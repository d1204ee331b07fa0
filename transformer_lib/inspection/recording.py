"""Record the attention weights of a real pass through any model."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from torch import Tensor, nn

from transformer_lib.attention import MultiHeadAttention, scaled_dot_product_attention


@contextmanager
def record_attention(model: nn.Module) -> Iterator[dict[str, Tensor]]:
    """Keep the weights of every head while the model runs.

    Inside the ``with`` block each attention layer computes with the explicit function
    of the book instead of the fused kernel, behind the same projections, checks, mask
    and dropout. Afterwards everything is as it was.

        with record_attention(model) as maps:
            model(src, tgt)
        maps["encoder.layers.0.self_attention"]  # (B, H, T, S)

    Args:
        model: Any module with ``MultiHeadAttention`` layers inside, or such a layer.

    Yields:
        A dictionary that fills as the model runs: the layer's name in the model ("" for
        the model itself) to its weights in the latest pass, shape (B, H, T, S),
        detached.

    Raises:
        ValueError: If the model has no ``MultiHeadAttention``.
    """
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
    before = {name: layer.attend for name, layer in layers.items()}
    try:
        for name, layer in layers.items():
            layer.attend = partial(_attend_and_keep, maps, name)
        yield maps
    finally:
        for name, layer in layers.items():
            layer.attend = before[name]


def _attend_and_keep(maps: dict[str, Tensor], name: str, *inputs) -> Tensor:
    heads, weights = scaled_dot_product_attention(*inputs)
    maps[name] = weights.detach()
    return heads
