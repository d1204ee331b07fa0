"""Checkpoints: weights in one file, written whole or not at all, never a pickle."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from transformer_lib.checks import require_finite
from transformer_lib.files import read_file, whole_file
from transformer_lib.model import Transformer, TransformerConfig

MOST_IN_TABLES = 2**26  # numbers that are computed and not read, such as sines
FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
HEADER = "__metadata__"  # safetensors' own name for what a file says
# What reading anything but a checkpoint may raise, besides ValueError.
UNREADABLE = (TypeError, LookupError, AttributeError, RuntimeError, OverflowError)


def save_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]
) -> None:
    """Write named tensors, and a description of them, into one file.

    The file also holds the SHA-256 of both. Equal input gives an identical file.

    Args:
        path: A ``safetensors`` file, replaced if it is there.
        tensors: Any shapes, any dtypes that safetensors has. A tensor with two names
            is written twice.
        about: The description; anything that JSON can hold.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold ``about``.
        ValueError: If a tensor is named ``__metadata__``, as a part of every file is.
    """
    if HEADER in tensors:
        raise ValueError(f"tensors must have other names than {HEADER}, got {HEADER}")
    copies = {
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    checked = {"about": about, "sha256": _sha256(about, save(copies))}
    # One entry: several would be written in an order that changes from run to run.
    content = save(copies, {"checked": json.dumps(checked)})
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content)


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Read what ``save_tensors`` wrote.

    Args:
        path: A ``safetensors`` file.

    Returns:
        The tensors by name, sorted, on the CPU, and the description.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it cannot be read.
        ValueError: If the file is cut off, altered or not a checkpoint.
    """
    content = read_file(path)
    try:
        tensors = dict(sorted(load(content).items()))  # theirs change from run to run
        checked = json.loads(_parts(content)[0][HEADER]["checked"])
        about, expected = checked["about"], checked["sha256"]
        found = _sha256(about, content)
    except (*UNREADABLE, ValueError, SafetensorError) as error:
        raise ValueError(f"{path} is not a whole checkpoint: {error}") from error
    if found != expected:
        raise ValueError(
            f"{path} is damaged: its SHA-256 must be {expected}, got {found}"
        )
    return tensors, about


def _parts(content: bytes) -> tuple[dict[str, object], memoryview]:
    """Split a file into its header and its numbers."""
    end = 8 + int.from_bytes(content[:8], "little")
    return json.loads(content[8:end]), memoryview(content)[end:]


def _sha256(about: object, content: bytes) -> str:
    """Compute the SHA-256 of a file's tensors and of their description."""
    header, numbers = _parts(content)
    header.pop(HEADER, None)
    total = hashlib.sha256(json.dumps([about, header]).encode())
    total.update(numbers)
    return total.hexdigest()


def save_model(path: str | Path, model: Transformer, **about: object) -> None:
    """Write a model's weights and its configuration into one file.

    A table that two layers share is written once.

    Args:
        path: A ``safetensors`` file, replaced if it is there.
        model: Its weights are written in the dtype they have.
        **about: What else to keep, as JSON; ``load_tensors`` returns it. The model
            adds its own ``config``.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold ``about``.
        ValueError: If ``about`` has a ``config``; or as ``require_own_config``, because
            nobody could load the file.
    """
    require_own_config(model)
    weights = dict(model.named_parameters())
    if "config" in about:
        raise ValueError("config must be the model's own, got another one")
    save_tensors(path, weights, {**about, "config": asdict(model.config)})


def build_transformer(choices: Mapping[str, Any]) -> Transformer:
    """Make the model of 2017 from the fields of its config, by name."""
    return Transformer(TransformerConfig(**choices))


def load_model(
    path: str | Path,
    build: Callable[[Mapping[str, Any]], Transformer] = build_transformer,
) -> Transformer:
    """Build the model that ``save_model`` wrote, in eval mode, on the CPU.

    Args:
        path: A ``safetensors`` file.
        build: Makes a model from the fields of its config, by name. For a file that may
            hold a model of another family: ``variants.families.build_from``.

    Returns:
        The model, in torch's default dtype.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it cannot be read.
        ValueError: If the file is damaged, its configuration is missing or unknown, or
            its weights are of another configuration, infinite or nan.
    """
    weights, about = load_tensors(path)
    try:
        choices = about["config"]
        layers = choices.get("num_layers", 1)
        asked = _without_memory(lambda: build(choices), layers, weights)
    except (*UNREADABLE, ValueError) as error:
        raise ValueError(f"{path} has an unknown configuration: {error}") from error
    require_fit(dict(asked.named_parameters()), weights, source=path)
    model = build(choices)  # now that the file is known to be as large
    load_weights(model, weights, source=path)
    return model.eval()


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, source: str | Path
) -> None:
    """Copy weights into a model, if every one of them fits.

    Args:
        model: Left as it was unless all weights fit.
        weights: By the names of ``named_parameters``.
        source: Where the tensors come from, for the error.

    Raises:
        ValueError: As ``require_fit``.
    """
    parameters = dict(model.named_parameters())
    require_fit(parameters, weights, source=source)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def require_own_config(model: Transformer) -> None:
    """Refuse a model that its configuration does not describe.

    For example, one that lost heads in some of its layers only.

    Args:
        model: Left as it was.

    Raises:
        ValueError: If the configuration asks for other names or shapes of weights, or
            if ``load_model`` would refuse the size of the tables.
    """
    weights = dict(model.named_parameters())
    config = model.config
    asked = _without_memory(lambda: type(model)(config), config.num_layers, weights)
    parameters = dict(asked.named_parameters())
    require_fit(parameters, weights, source="the model", to="its configuration")


def _without_memory(
    build: Callable[[], Transformer], num_layers: int, weights: Mapping[str, Tensor]
) -> Transformer:
    """Build a model without memory: a small file must not claim a large model.

    Raises:
        ValueError: If there are more layers than weights, or if tables such as the
            sines, which no file shows, hold more numbers than ``MOST_IN_TABLES`` and
            than the weights.
    """
    if num_layers > len(weights):
        raise ValueError(
            f"num_layers must be at most {len(weights)} here, got {num_layers}"
        )
    with torch.device("meta"):
        model = build()
    numbers = sum(buffer.numel() for buffer in model.buffers())
    most = max(MOST_IN_TABLES, sum(weight.numel() for weight in weights.values()))
    if numbers > most:
        raise ValueError(
            f"max_len must make tables of at most {most:,} numbers, "
            f"got {model.config.max_len:,} and {numbers:,}"
        )
    return model


def require_fit(
    parameters: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    *,
    source: str | Path,
    to: str = "the model",
) -> None:
    """Refuse tensors that cannot take the place of the parameters.

    Args:
        parameters: Of a model, by name.
        tensors: What must fit them, by name.
        source: Where the tensors come from, for the error.
        to: What they must fit, for the error.

    Raises:
        ValueError: If a name is missing or unknown, a shape differs, or a tensor's
            numbers are of another kind than those of ``FLOATS``, infinite or nan.
    """
    missing, unknown = parameters.keys() - tensors, tensors.keys() - parameters
    if missing or unknown:
        raise ValueError(
            f"{source} does not fit {to}: missing {sorted(missing)[:3]}, "
            f"unknown {sorted(unknown)[:3]}"
        )
    for name, parameter in parameters.items():
        if parameter.shape != tensors[name].shape:
            raise ValueError(
                f"{source} does not fit {to}: {name} must have shape "
                f"{tuple(parameter.shape)}, got {tuple(tensors[name].shape)}"
            )
        if tensors[name].dtype not in FLOATS:
            known = ", ".join(map(str, FLOATS))
            raise ValueError(
                f"{source} does not fit {to}: {name} must be one of {known}, "
                f"got {tensors[name].dtype}"
            )
        require_finite(**{f"{source}, {name}": tensors[name]})


def average_weights(
    checkpoints: Sequence[Mapping[str, Tensor]],
) -> dict[str, Tensor]:
    """Average each weight over several checkpoints of one training run.

    Args:
        checkpoints: Weights by name, the same names and shapes in each.

    Returns:
        The means, by name.

    Raises:
        ValueError: If there is no checkpoint, or their names differ.

    Source: Vaswani et al. (2017), section 6.1.
    """
    if not checkpoints:
        raise ValueError("checkpoints must hold at least 1, got 0")
    if any(checkpoint.keys() != checkpoints[0].keys() for checkpoint in checkpoints):
        raise ValueError("checkpoints must have the same names, got different ones")
    return {
        name: torch.stack([checkpoint[name] for checkpoint in checkpoints]).mean(0)
        for name in checkpoints[0]
    }
