"""Numbers of eight bits or fewer: integers, and a scale for each row."""

import math
from collections.abc import Callable, Mapping
from copy import deepcopy

import torch
from torch import Tensor, nn

from transformer_lib.checks import (
    require_between,
    require_finite,
    require_whole,
    require_width,
)
from transformer_lib.faster.known_parts import require_plain
from transformer_lib.model import PositionalEncoding, Transformer
from transformer_lib.variants import RMSNorm

LARGEST = 127  # of the whole numbers of eight bits
COLUMNS = (2**31 - 1) // LARGEST**2  # whose products int32 can add up
KNOWN = {nn.Linear, nn.Embedding, nn.LayerNorm, RMSNorm, PositionalEncoding}


def quantize_rows(weight: Tensor, bits: int = 8) -> tuple[Tensor, Tensor]:
    """Write every row of a matrix as whole numbers times one scale.

    Args:
        weight: Shape (rows, columns).
        bits: From 2 to 8. The whole numbers go from -127 to 127 with eight of them,
            from -7 to 7 with four.

    Returns:
        The whole numbers, shape (rows, columns), int8; and the scales, shape (rows),
        float32. The product differs from ``weight`` by half a scale at most, but for
        rounding.

    Raises:
        TypeError: If ``bits`` is not a whole number.
        ValueError: If ``bits`` is outside its range.

    Source: Jacob et al. (2018), section 2.1, with a zero point of 0 and a scale by row.
    """
    require_whole(bits=bits)
    require_between(2, 8, bits=bits)
    weight = weight.float()  # or the same model loaded as float64 would differ
    most = 2 ** (bits - 1) - 1
    scale = weight.abs().amax(dim=1) / most  # (rows)
    scale = torch.where(scale == 0, 1.0, scale)  # a row of zeros stays one
    values = (weight / scale[:, None]).round()  # (rows, columns)
    return values.clamp(-most, most).to(torch.int8), scale


def dequantize(values: Tensor, scale: Tensor) -> Tensor:
    """Multiply the whole numbers of each row by its scale again, in float32."""
    return values.float() * scale[:, None]  # (rows, columns)


class QuantizedLinear(nn.Module):
    """A linear layer that multiplies whole numbers, for translating only.

    Every row of the weights has its scale. Of the inputs, every position has one, taken
    from its largest feature when it comes (dynamic). Or all have the same, fixed in
    advance (static): then a feature beyond the largest that was foreseen is cut to it.

    Args:
        linear: The layer whose place it takes. Later changes to it have no effect.
        largest: The largest feature that is foreseen, without its sign; None for
            dynamic scales.

    Attributes:
        weight: Whole numbers, shape (out_features, in_features), int8.
        scale: Of the rows of ``weight``, shape (out_features).
        bias: Of the layer, shape (out_features), or None.

    Raises:
        ValueError: If ``largest`` is not a positive number, or ``linear`` has more than
            133,144 inputs: the sums might not fit into 32 bits.

    Source: Jacob et al. (2018), section 2.2; a scale for each row of both factors:
    Dettmers et al. (2022), section 3.
    """

    def __init__(self, linear: nn.Linear, largest: float | None = None) -> None:
        super().__init__()
        if largest is not None and not 0 < largest < float("inf"):
            raise ValueError(f"largest must be positive and finite, got {largest}")
        if linear.in_features > COLUMNS:
            raise ValueError(
                f"in_features must be at most {COLUMNS}, got {linear.in_features}"
            )
        weight, scale = quantize_rows(linear.weight.detach())
        bias = None if linear.bias is None else linear.bias.detach().clone()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        self.largest = largest

    def forward(self, x: Tensor) -> Tensor:
        """Multiply by the weights and add the bias.

        Args:
            x: Shape (..., in_features).

        Returns:
            Shape (..., out_features), of the type of ``x``. No gradients flow back.

        Raises:
            ValueError: If ``x`` has another width, or, with a static scale, a feature
                that is infinite or not a number: no whole number stands for it.
        """
        require_width(self.weight.size(1), x=x)
        rows = x.detach().reshape(-1, self.weight.size(1))  # (n, in_features)
        if self.largest is None:
            values, scale = quantize_rows(rows)  # (n, in_features), (n)
        else:
            require_finite(x=rows)
            scale = rows.new_full((1,), self.largest / LARGEST, dtype=torch.float32)
            values = (rows / scale).round().clamp(-LARGEST, LARGEST).to(torch.int8)
        sums = values.int() @ self.weight.int().T  # (n, out_features)
        y = sums * scale[:, None] * self.scale  # (n, out_features)
        if self.bias is not None:
            y = y + self.bias
        return y.to(x.dtype).view(*x.shape[:-1], self.weight.size(0))

    def extra_repr(self) -> str:
        """Describe the layer as ``nn.Linear`` does."""
        outputs, inputs = self.weight.shape
        return f"in_features={inputs}, out_features={outputs}, largest={self.largest}"


def quantize(
    model: Transformer, largest: Mapping[str, float] | None = None
) -> Transformer:
    """Copy a model, with a ``QuantizedLinear`` in the place of its linear layers.

    A matrix that two modules share stays as it is, such as the output's when it is the
    target's table. So do embeddings and norms.

    Args:
        model: The trained model; it does not change.
        largest: What ``largest_inputs`` returned, for static scales; None for dynamic
            ones.

    Returns:
        The copy, in evaluation mode. Its weights want no gradients.

    Raises:
        ValueError: If a module with weights is of another kind or quantized already, or
            has a hook or a method of its own, which would be lost; or if ``largest``
            lacks a layer, or has 0 for one, as for a layer that only saw zeros.
    """
    model = deepcopy(model).requires_grad_(False)
    layers = [
        (name, module)
        for name, module in model.named_modules()
        if isinstance(module, QuantizedLinear) or list(module.parameters(recurse=False))
    ]
    require_plain(layers, KNOWN)
    shared = shared_weights(model)
    for name, module in layers:
        if type(module) is nn.Linear and f"{name}.weight" not in shared:
            if largest is not None and name not in largest:
                raise ValueError(f"largest must have {name}, got {len(largest)} others")
            its_largest = None if largest is None else largest[name]
            parent, _, leaf = name.rpartition(".")
            try:
                replacement = QuantizedLinear(module, its_largest)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
            setattr(model.get_submodule(parent), leaf, replacement)
    return model.eval()


def shared_weights(model: nn.Module) -> list[str]:
    """List all names of the weights that more than one module holds."""
    named = list(model.named_parameters(remove_duplicate=False))
    return [
        name for name, weight in named if sum(weight is other for _, other in named) > 1
    ]


def calibrate(model: Transformer, run: Callable[[], object]) -> dict[str, list[Tensor]]:
    """Run something, and note how large the inputs of every linear layer become.

        seen = calibrate(model, lambda: translator.translate(captions))
        static = quantize(model, largest_inputs(seen))

    Args:
        model: The model that runs.
        run: What it runs in, without arguments; its result is not used.

    Returns:
        By the name of a layer, a tensor for each call: the largest feature of every
        position, padding counted, without its sign, shape (n).
    """
    seen: dict[str, list[Tensor]] = {}

    def note(name: str, x: Tensor) -> None:
        seen.setdefault(name, []).append(x.detach().abs().amax(dim=-1).flatten())

    hooks = [
        module.register_forward_pre_hook(
            lambda _, inputs, name=name: note(name, inputs[0])
        )
        for name, module in model.named_modules()
        if type(module) is nn.Linear
    ]
    try:
        run()
    finally:
        for hook in hooks:
            hook.remove()
    return seen


def largest_inputs(
    seen: Mapping[str, list[Tensor]], share: float = 1.0
) -> dict[str, float]:
    """Say how large the inputs of each layer may be, so that most fit.

    Args:
        seen: What ``calibrate`` noted.
        share: Of the positions, in (0, 1], whose features all fit. Those beyond will
            be cut.

    Returns:
        The largest feature that fits, by the name of the layer.

    Raises:
        ValueError: If ``share`` is out of range, or a feature is infinite or not a
            number.
    """
    if not 0 < share <= 1:
        raise ValueError(f"share must be in (0, 1], got {share}")
    largest = {}
    for name, sizes in seen.items():
        ordered = torch.cat(sizes).float().sort().values  # (n), too many for quantile()
        require_finite(**{name: ordered})
        place = share * (len(ordered) - 1)
        below, above = ordered[math.floor(place)], ordered[math.ceil(place)]
        largest[name] = below.lerp(above, place % 1).item()
    return largest


def fake_quantize(model: Transformer, bits: int) -> Transformer:
    """Copy a model, with every matrix rounded to what so many bits can hold.

    The copy computes in its own type, as fast as before and no faster: this shows what
    the rounding of weights costs, embeddings included.

    Args:
        model: The trained model; it does not change.
        bits: From 2 to 8.

    Returns:
        The copy, in evaluation mode.
    """
    model = deepcopy(model).eval()
    with torch.no_grad():
        for weight in model.parameters():  # a shared one comes once
            if weight.dim() == 2:
                weight.copy_(dequantize(*quantize_rows(weight, bits)))
    return model
