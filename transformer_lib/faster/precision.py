"""Precision and memory: shorter numbers where safe, activations computed twice."""

from collections.abc import Iterable
from contextlib import ExitStack
from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from transformer_lib.checks import (
    require_finite,
    require_not_negative,
    require_one_of,
    require_positive,
)
from transformer_lib.model import DecoderLayer, EncoderLayer
from transformer_lib.patching import patched

PRECISIONS = {
    "float32": None,
    "bfloat16": torch.bfloat16,
    "float16": torch.float16,
}


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """Choose the type that matrix products are computed in, inside a ``with`` block.

    The weights keep their own. What else is computed in the shorter type is up to
    torch, and differs between a CPU and a GPU.

    Args:
        device: Where the model is.
        precision: ``"bfloat16"`` or ``"float16"``; ``"float32"`` leaves everything in
            the type of the weights.

    Raises:
        ValueError: If ``precision`` is unknown.
    """
    require_one_of(PRECISIONS, precision=precision)
    dtype = PRECISIONS[precision]
    return torch.autocast(device.type, dtype, enabled=dtype is not None)


class LossScaler:
    """Keep gradients from vanishing in float16: multiply the loss, divide them again.

    How large the factor may be shows by itself. One too large makes a gradient
    infinite: that update is skipped and the factor halved. After ``interval`` updates
    in a row without such a gradient it is doubled.

    Args:
        factor: Where it begins. A power of two does not round; 1, with an ``interval``
            of 0, leaves everything as it is.
        interval: Updates after which the factor is doubled; 0 for never.

    Attributes:
        factor: What losses are multiplied by now.
        fine: Updates in a row since it last changed.
        skipped: Updates left out so far.

    Raises:
        ValueError: If ``factor`` is below 1, or ``interval`` is negative.

    Source: Micikevicius et al. (2018), section 3.2.
    """

    def __init__(self, factor: float = 2.0**16, interval: int = 2000) -> None:
        require_positive(factor=factor)
        require_not_negative(interval=interval)
        self.factor, self.interval = factor, interval
        self.fine = self.skipped = 0

    def scale(self, loss: Tensor) -> Tensor:
        """Multiply a loss, and so all its gradients, by the factor."""
        return self.factor * loss

    def unscale(self, parameters: Iterable[nn.Parameter]) -> None:
        """Divide the gradients by the factor, before anything looks at their size."""
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad /= self.factor

    def update(self, norm: Tensor) -> bool:
        """Adjust the factor to what became of the gradient.

        Args:
            norm: The length of the whole gradient, a scalar.

        Returns:
            Whether to update the weights with it: only if it is finite.

        Raises:
            ValueError: If it is not finite although the factor is 1: a smaller one
                would not help.
        """
        finite = bool(norm.isfinite())
        if self.factor <= 1:
            require_finite(gradient_norm=norm)
        self.fine += 1
        if not finite:
            self.factor, self.fine = self.factor / 2, 0
            self.skipped += 1
        elif self.fine == self.interval:
            self.factor, self.fine = self.factor * 2, 0
        return finite


def checkpoint_layers(model: nn.Module, enabled: bool = True) -> ExitStack:
    """Let layers called meanwhile keep their inputs alone, and compute the rest twice.

        with checkpoint_layers(model):
            loss = model(src, tgt).sum()

    The second time is when the gradients want it, with the same random numbers, so that
    dropout drops the same. The gradients are the same, bit for bit.

    Args:
        model: Its encoder and decoder layers are meant.
        enabled: False changes nothing.

    Returns:
        The replaced ``forward`` methods; ``with`` puts them back.

    Source: Chen et al. (2016), section 4.
    """
    kinds = (EncoderLayer, DecoderLayer) if enabled else ()
    layers = [module for module in model.modules() if isinstance(module, kinds)]
    return patched(
        (layer, "forward", partial(checkpoint, layer.forward, use_reentrant=False))
        for layer in layers
    )
