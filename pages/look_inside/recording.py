"""Record every tensor of the graph in a real pass of the model."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from transformer_lib.decoding.sampling import next_probabilities
from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    fused_attention,
    scaled_dot_product_attention,
)
from transformer_lib.patching import patched

# Module -> the nodes that it reads and returns.
OUTSIDE = {
    "src_embedding": ("src.ids", "src.embedded"),
    "src_positions": ("", "src.x"),
    "encoder": ("", "memory"),
    "tgt_embedding": ("tgt.ids", "tgt.embedded"),
    "tgt_positions": ("", "tgt.x"),
    "decoder": ("", "decoder.output"),
    "output": ("", "logits"),
}
# Module of a sublayer -> the same, without the sublayer's name.
INSIDE = {
    "w_o": ("merged", "output"),
    "w_1": ("", "inner"),
    "w_2": ("active", "output"),
}


@torch.no_grad()
def record(model: Transformer, src: Tensor, tgt: Tensor) -> dict[str, Tensor]:
    """Run a model on one sentence and keep what it computes.

    Args:
        model: In eval mode.
        src: Source token ids, shape (1, S), without padding.
        tgt: Target token ids, shape (1, T), beginning with BOS, without padding.

    Returns:
        The name of each node of ``graph(model.config)`` to its tensor, without the
        batch's axis.
    """
    found: dict[str, Tensor] = {}
    with ExitStack() as watches:
        for name, reads, returns in _watched(model):
            keep = partial(_keep, found, reads, returns)
            hook = model.get_submodule(name).register_forward_hook(keep)
            watches.callback(hook.remove)
        watches.enter_context(
            patched(
                (module, "attend", _Watch(found, _node(name), module.attend))
                for name, module in model.named_modules()
                if isinstance(module, MultiHeadAttention)
            )
        )
        logits = model(src, tgt)
    found["src.positions"] = model.src_positions.table[: src.size(1)]
    found["tgt.positions"] = model.tgt_positions.table[: tgt.size(1)]
    logits[..., model.config.pad_id] = float("-inf")
    found["probabilities"] = next_probabilities(logits[0])
    return found


def _node(module: str) -> str:
    return module.replace(".layers", "")


def _watched(model: Transformer) -> Iterator[tuple[str, str, str]]:
    """List the modules to watch, and the nodes that each reads and returns."""
    for name, nodes in OUTSIDE.items():
        yield name, *nodes
    for name, _ in model.named_modules():
        parent, _, last = name.rpartition(".")
        at = _node(parent)
        if last in INSIDE:
            yield name, *(node and f"{at}.{node}" for node in INSIDE[last])
        if last.endswith("_residual"):
            at = _node(name).removesuffix("_residual")
            if model.config.norm_first:
                yield name, "", f"{at}.added"
                yield f"{name}.norm", "", f"{at}.normed"
            else:
                yield f"{name}.norm", f"{at}.added", f"{at}.normed"


def _keep(
    found: dict[str, Tensor],
    reads: str,
    returns: str,
    module: nn.Module,
    inputs: tuple[Any, ...],
    output: Tensor,
) -> None:
    for name, value in ((reads, inputs[0]), (returns, output)):
        if name:
            found[name] = value[0].clone()


class _Operations(TorchFunctionMode):
    """Keep what each function of torch returns, by the function's name."""

    def __init__(self) -> None:
        super().__init__()
        self.made: dict[str, list[Tensor]] = {}

    def __torch_function__(
        self, function: Callable, types: Any, args: tuple = (), kwargs: Any = None
    ) -> Any:
        result = function(*args, **(kwargs or {}))
        self.made.setdefault(function.__name__, []).append(result)
        return result


class _Watch:
    """Stands in for the ``attend`` of a layer, and keeps what happens inside it."""

    def __init__(self, found: dict[str, Tensor], at: str, before: Callable) -> None:
        self.found, self.at, self.before = found, at, before

    def __call__(self, q: Tensor, k: Tensor, v: Tensor, *others: Any) -> Tensor:
        with _Operations() as watch:
            if self.before is fused_attention:
                attended, _ = scaled_dot_product_attention(q, k, v, *others)
            else:
                attended = self.before(q, k, v, *others)
        [scores], [masked, weights] = (
            watch.made[name] for name in ("div", "masked_fill")
        )
        values = {"q": q, "k": k, "v": v, "scores": scores, "weights": weights}
        if self.at.startswith("decoder") and self.at.endswith("self_attention"):
            values["masked"] = masked
        for name, value in (values | {"attended": attended}).items():
            self.found[f"{self.at}.{name}"] = value[0]
        return attended
