"""Weights on disk: one file, whole or not there at all, and never a pickle."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypedDict

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from transformer_lib.checks import require_type
from transformer_lib.files import read_file, whole_file
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.variants.families import build_model, plainest
from transformer_lib.variants.modern import ModernConfig

SIZES = ("src_vocab_size", "tgt_vocab_size", "d_model", "d_ff")  # the weights show them
MOST_IN_TABLES = 2**26  # numbers that are computed and not read, such as sines
HEADER = "__metadata__"  # safetensors' own name for what a file says


class Checked(TypedDict):
    """What a file says besides its tensors, with the SHA-256 of all of it."""

    about: dict
    sha256: str


def save_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]
) -> None:
    """Write named tensors and what there is to say about them into one file.

    The same make the same bytes. The file holds their SHA-256, too.

    Args:
        path: A ``safetensors`` file, replaced if it is there.
        tensors: Any shapes, any dtypes that safetensors has. What has two names is
            written twice.
        about: What JSON can hold.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold what ``about`` says.
        ValueError: If a tensor is named ``__metadata__``, as a part of every file is.
    """
    if HEADER in tensors:
        raise ValueError(f"tensors must have other names than {HEADER}, got {HEADER}")
    copies = {
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    checked: Checked = {"about": about, "sha256": _sha256(about, save(copies))}
    # One entry: several would be written in an order that changes from run to run.
    content = save(copies, {"checked": json.dumps(checked)})
    with whole_file(path) as unfinished:
        unfinished.write_bytes(content)


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Read what ``save_tensors`` wrote.

    Args:
        path: A ``safetensors`` file.

    Returns:
        The tensors by name, sorted, on the CPU, and what was said about them.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it cannot be read.
        ValueError: If the file is cut off, altered or something else, such as a pipe.
    """
    try:
        content = read_file(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"there is no checkpoint {path}") from error
    try:
        tensors = dict(sorted(load(content).items()))  # theirs change from run to run
        about = {name: json.loads(value) for name, value in _parts(content)[0].items()}
        if "checked" not in about:  # older files have an entry for each
            return tensors, about
        require_type(Checked, checked=about["checked"])
        about, expected = about["checked"]["about"], about["checked"]["sha256"]
        found = _sha256(about, content)
    except (SafetensorError, ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not a whole checkpoint: {error}") from error
    if found != expected:
        raise ValueError(
            f"{path} is damaged: its SHA-256 must be {expected}, got {found}"
        )
    return tensors, about


def _parts(content: bytes) -> tuple[dict[str, str], dict[str, object], memoryview]:
    """Take a file apart: what is said, then names, dtypes and shapes, then numbers."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    return header.pop(HEADER, None) or {}, header, memoryview(content)[end:]


def _sha256(about: Mapping[str, object], content: bytes) -> str:
    """Compute the SHA-256 of a file's parts, with something else said in it."""
    _, header, numbers = _parts(content)
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
            brings its own ``config``.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold what ``about`` says.
        ValueError: If ``about`` has a ``config``; or as ``require_own_config``, because
            nobody could load the file.
    """
    if "config" in about:
        raise ValueError("config must be the model's own, got another one")
    require_own_config(model)
    weights = dict(model.named_parameters())
    save_tensors(path, weights, {"config": asdict(model.config), **about})


def load_model(path: str | Path) -> Transformer:
    """Build the model that ``save_model`` wrote, in eval mode, on the CPU.

    Args:
        path: A ``safetensors`` file.

    Returns:
        The model, in torch's default dtype, as ``build_model`` makes it.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it cannot be read.
        ValueError: If the file is damaged, its configuration is none that this library
            knows, or its weights are of another configuration.
    """
    weights, about = load_tensors(path)
    if "config" not in about:
        raise ValueError(f"{path} holds no model: it has no configuration")
    try:
        require_type(ModernConfig, config=about["config"])
        config = plainest(ModernConfig(**about["config"]))
        _require_shown(config, weights)
        asked = _without_memory(config)
        _require_small_tables(asked)
    except (TypeError, ValueError, OverflowError, RuntimeError) as error:  # sizes, too
        raise ValueError(f"{path} has an unknown configuration: {error}") from error
    require_fit(dict(asked.named_parameters()), weights, source=path)
    model = build_model(config)  # now that the file is known to be as large
    load_weights(model, weights, source=path)
    return model.eval()


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, source: str | Path
) -> None:
    """Copy weights into a model, if every one of them fits.

    Args:
        model: Left as it was unless all weights fit.
        weights: By the names of ``named_parameters``.
        source: Where they come from, for the error.

    Raises:
        ValueError: If a name is missing or unknown, a shape differs, or a tensor is
            complex.
    """
    parameters = dict(model.named_parameters())
    require_fit(parameters, weights, source=source)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def require_own_config(model: Transformer) -> None:
    """Refuse a model that its configuration does not describe.

    Such as one that lost heads in some of its layers only.

    Args:
        model: Left as it was.

    Raises:
        ValueError: If the configuration asks for other names or shapes of weights, if
            they are complex, or if tables such as the sines are much larger than the
            weights: ``load_model`` refuses those, which a small forged file may claim.
    """
    asked = _without_memory(model.config)
    parameters = dict(asked.named_parameters())
    weights = dict(model.named_parameters())
    require_fit(parameters, weights, source="the model", to="its configuration")
    _require_small_tables(asked)


def _without_memory(config: TransformerConfig) -> Transformer:
    """Build a model of shapes alone, which takes no memory however large it is."""
    with torch.device("meta"):
        return build_model(config)


def _require_shown(config: TransformerConfig, weights: Mapping[str, Tensor]) -> None:
    """Refuse a configuration with a size that the weights do not show.

    Raises:
        ValueError: If a size is larger than every axis of the weights.
    """
    shapes = [weight.shape for weight in weights.values() if weight.numel()]
    sizes = [size for shape in shapes for size in shape]
    largest = max(sizes, default=0) + len(weights)
    claimed = {name: getattr(config, name) or 0 for name in SIZES}
    claimed["num_heads * d_k"] = config.num_heads * (getattr(config, "d_k", None) or 0)
    most = dict.fromkeys(claimed, largest) | {"num_layers": len(weights)}
    for name, size in (claimed | {"num_layers": config.num_layers}).items():
        if size > most[name]:
            raise ValueError(f"{name} must be at most {most[name]} here, got {size}")


def _require_small_tables(model: Transformer) -> None:
    """Refuse tables that are both large and larger than all weights together.

    Args:
        model: Its tables are the buffers, such as sines for each of ``max_len``
            positions.

    Raises:
        ValueError: If they hold more numbers than ``MOST_IN_TABLES`` and the weights.
    """
    numbers = sum(buffer.numel() for buffer in model.buffers())
    weights = sum(parameter.numel() for parameter in model.parameters())
    most = max(MOST_IN_TABLES, weights)
    if numbers > most:
        raise ValueError(
            f"max_len must make tables of at most {most:,} numbers, "
            f"got {model.config.max_len:,} and {numbers:,}"
        )


def require_fit(
    parameters: Mapping[str, Tensor],
    tensors: Mapping[str, Tensor],
    *,
    source: str | Path,
    to: str = "the model",
) -> None:
    """Refuse tensors that are not as many, by the same names and of the same shapes.

    Args:
        parameters: Of a model, by name.
        tensors: What shall fit them.
        source: Where they come from, for the error.
        to: What they shall fit, for the error.

    Raises:
        ValueError: If a name is missing or unknown, a shape differs, or a tensor is
            complex.
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
        if tensors[name].is_complex() and not parameter.is_complex():
            raise ValueError(
                f"{source} does not fit {to}: {name} must be real, "
                f"got {tensors[name].dtype}"
            )


def average_weights(
    checkpoints: Sequence[Mapping[str, Tensor]],
) -> dict[str, Tensor]:
    """Take the mean of each weight over several moments of one training run.

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
