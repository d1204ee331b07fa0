"""Put a value into a few words."""

import dataclasses
import math
import re
from contextlib import suppress
from types import FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from bookkit.listing.pictures import Picture, draw

MOST_NUMBERS = 16
MOST_ITEMS = 6
LONGEST_STRING = 40
LONGEST_TEXT = 160
TEMPORARY = re.compile(r"(?<=[/\\])tmp[a-z0-9_]{8}(?![^/\\])")  # tempfile's names
CONTAINERS = (nn.ModuleList, nn.Sequential)


@dataclasses.dataclass
class Value:
    """What is kept of a value when the run goes on.

    Attributes:
        name: What the code calls it.
        text: Its range, its contents, or its class.
        status: "", "changed", "changed in place" or "same values".
        shape: The sizes of a tensor's axes; None for all else.
        letters: The same in letters, once they are known: ``(B, T, d_model)``.
        picture: A heat map of a small tensor.
        parts: The parameters of a module.
    """

    name: str
    text: str
    status: str = ""
    shape: tuple[int, ...] | None = None
    letters: str = ""
    picture: Picture | None = None
    parts: tuple["Value", ...] = ()


def describe(name: str, value: Any, status: str = "") -> list[Value]:
    """Describe a value; a few tensors in a tuple or list one by one."""
    data = getattr(getattr(value, "handle", None), "data", None)
    if isinstance(data, np.ndarray):  # a tensor of Triton's interpreter
        if value.dtype.is_ptr():
            return [Value(name, "an address", status)]
        value = torch.from_numpy(data.copy())
    if isinstance(value, Tensor) and not value.is_nested:
        described = Value(name, _kind(value), status, tuple(value.shape))
        with suppress(RuntimeError):  # sparse, quantised, meta: not all can be read
            tensor = value.detach()
            described.text = " ".join(filter(None, [described.text, _numbers(tensor)]))
            described.picture = draw(tensor)
        return [described]
    is_sequence = isinstance(value, (tuple, list)) and len(value) <= MOST_ITEMS
    if is_sequence and any(isinstance(item, Tensor) for item in value):
        items = [describe(f"{name}[{i}]", x, status) for i, x in enumerate(value)]
        return [part for item in items for part in item]
    if isinstance(value, nn.Module) and not isinstance(value, CONTAINERS):
        parameters = dict(value.named_parameters())
        if 0 < len(parameters) <= 3:
            parts = [Value(n, "", shape=tuple(p.shape)) for n, p in parameters.items()]
            return [Value(name, type(value).__name__, status, parts=tuple(parts))]
    return [Value(name, _cut(short(value), LONGEST_TEXT), status)]


def same_values(old: Any, new: Any) -> bool:
    """Say whether two values are equal, nan to nan; what is in doubt is not."""
    if isinstance(old, Tensor) and isinstance(new, Tensor):
        try:
            kinds = [(x.shape, x.dtype, x.device) for x in (old, new)]
            same = (old == new) | ((old != old) & (new != new))
            return kinds[0] == kinds[1] and bool(same.all())
        except RuntimeError:  # the shapes do not fit, or the numbers cannot be read
            return False
    return type(old) is type(new) and isinstance(old, (int, float, str)) and old == new


def short(value: Any, depth: int = 2) -> str:
    """Write any value in a few words, without addresses, the same in every run."""
    if isinstance(value, Tensor):
        return "nested" if value.is_nested else f"tensor of {sizes(value.shape)}"
    if isinstance(value, nn.Module):
        return _module(value)
    if isinstance(value, float):
        return repr(value) if len(repr(value)) <= 8 else f"{value:.6g}"
    if isinstance(value, int | None | range | torch.dtype | torch.device):
        return repr(value)
    if isinstance(value, str):
        return repr(_cut(TEMPORARY.sub("tmp…", value), LONGEST_STRING))
    if isinstance(value, (type, FunctionType, ModuleType)):
        return getattr(value, "__qualname__", value.__name__)
    if depth == 0:
        return type(value).__name__
    if dataclasses.is_dataclass(value):
        fields = [field.name for field in dataclasses.fields(value)]
        pairs = [f"{f}={short(getattr(value, f), depth - 1)}" for f in fields]
        return f"{type(value).__name__}({_some(pairs)})"
    if isinstance(value, dict):
        pairs = [f"{short(k, 0)}: {short(v, depth - 1)}" for k, v in value.items()]
        return "{" + _some(pairs) + "}"
    if isinstance(value, (list, tuple)):
        return _sequence(value, depth)
    return type(value).__name__


def sizes(shape: tuple[int, ...]) -> str:
    """Write a shape as text: 2 × 3."""
    return " × ".join(map(str, shape)) if shape else "one number"


def number(value: float) -> str:
    """Write a number with about three digits and a true minus sign."""
    if not math.isfinite(value):
        text = {math.inf: "∞", -math.inf: "-∞"}.get(value, "nan")
    elif value == int(value) and abs(value) < 1e6:
        text = str(int(value))
    else:
        text = f"{value:.2f}" if 0.1 <= abs(value) < 1000 else f"{value:.2g}"
    return text.replace("-", "−", 1) if text.startswith("-") else text


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1] + "…"


def _some(items: list[str]) -> str:
    shown = items[:MOST_ITEMS] + ["…"] * (len(items) > MOST_ITEMS)
    return ", ".join(shown)


def _sequence(value: list | tuple, depth: int) -> str:
    kinds = {type(item).__name__ for item in value}
    if len(kinds) == 1 and isinstance(value[0], (Tensor, nn.Module)):
        kind = f"{len(value)} × {kinds.pop()}"
        shapes = {tuple(item.shape) for item in value if isinstance(item, Tensor)}
        return f"{kind}, each {sizes(shapes.pop())}" if len(shapes) == 1 else kind
    items = _some([short(item, depth - 1) for item in value])
    if isinstance(value, list):
        return f"[{items}]"
    return f"({items},)" if len(value) == 1 else f"({items})"


def _module(module: nn.Module) -> str:
    kind = type(module).__name__
    parameters = sum(parameter.numel() for parameter in module.parameters())
    if isinstance(module, CONTAINERS):
        kind = f"{kind} of {len(module)}"
    if parameters:
        return f"{kind}, {parameters:,} parameters"
    return kind if list(module.children()) else f"{kind}({module.extra_repr()})"


def _kind(tensor: Tensor) -> str:
    """Say the dtype and the device, if they are not the usual ones."""
    usual = tensor.dtype in (torch.get_default_dtype(), torch.bool)
    words = [] if usual else [str(tensor.dtype).removeprefix("torch.")]
    if tensor.device.type != "cpu":
        words.append(str(tensor.device))
    return " ".join(words)


def _numbers(tensor: Tensor) -> str:
    """Say the range of the numbers; which are True; a few integers one by one."""
    if tensor.numel() == 0:
        return "empty"
    if tensor.dtype == torch.bool:
        if tensor.numel() == 1:
            return str(tensor.item())
        trues = int(tensor.sum())
        return f"{trues} True, {tensor.numel() - trues} False"
    if not tensor.is_floating_point():
        if tensor.numel() <= MOST_NUMBERS:
            return str(tensor.tolist()).replace("-", "−")
        return _range(tensor)
    tensor = tensor.double()
    apart = {
        "−∞": tensor == -math.inf,
        "∞": tensor == math.inf,
        "nan": tensor.isnan(),
    }
    counts = {what: int(where.sum()) for what, where in apart.items()}
    words = [f"{count} × {what}" for what, count in counts.items() if count]
    finite = tensor[tensor.isfinite()]
    if finite.numel():
        words.append(_range(finite))
    return ", ".join(words)


def _range(tensor: Tensor) -> str:
    low, high = tensor.min().item(), tensor.max().item()
    if low == high:
        return number(low) if tensor.numel() == 1 else f"all {number(low)}"
    return f"{number(low)} to {number(high)}"
