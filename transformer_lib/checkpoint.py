"""Weights on disk: one file, whole or not there at all, and never a pickle."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor, nn

from transformer_lib.files import whole_file
from transformer_lib.model import Transformer, TransformerConfig


def save_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]
) -> None:
    """Write named tensors and what there is to say about them into one file.

    Args:
        path: A ``safetensors`` file, replaced if it is there.
        tensors: Any shapes and dtypes.
        about: What JSON can hold.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold what ``about`` says.
    """
    tensors = {name: tensor.contiguous() for name, tensor in tensors.items()}
    metadata = {name: json.dumps(value) for name, value in about.items()}
    with whole_file(path) as unfinished:
        unfinished.write_bytes(save(tensors, metadata))


def load_tensors(path: str | Path) -> tuple[dict[str, Tensor], dict[str, object]]:
    """Read what ``save_tensors`` wrote.

    Args:
        path: A ``safetensors`` file.

    Returns:
        The tensors, on the CPU, and what was said about them.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is cut off or something else, or its header cannot be
            read.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no checkpoint {path}")
    try:
        with safe_open(path, "pt") as file:
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            about = file.metadata() or {}
        return tensors, {name: json.loads(value) for name, value in about.items()}
    except (SafetensorError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a whole checkpoint: {error}") from error


def save_model(path: str | Path, model: Transformer, **about: object) -> None:
    """Write a model's weights and its configuration into one file.

    A table that two layers share is written once.

    Args:
        path: A ``safetensors`` file, replaced if it is there.
        model: Its weights are written in the dtype they have.
        **about: What else to keep, as JSON; ``load_tensors`` returns it.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold what ``about`` says.
    """
    weights = dict(model.named_parameters())
    save_tensors(path, weights, {"config": asdict(model.config), **about})


def load_model(path: str | Path) -> Transformer:
    """Build the model that ``save_model`` wrote, in eval mode, on the CPU.

    Args:
        path: A ``safetensors`` file.

    Returns:
        The model, in torch's default dtype.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If the file is damaged, its configuration is none that this library
            knows, or its weights are of another configuration.
    """
    weights, about = load_tensors(path)
    if "config" not in about:
        raise ValueError(f"{path} holds no model: it has no configuration")
    try:
        model = Transformer(TransformerConfig(**about["config"]))
    except (TypeError, ValueError) as error:
        raise ValueError(f"{path} has an unknown configuration: {error}") from error
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
        ValueError: If a name is missing or unknown, or a shape differs.
    """
    parameters = dict(model.named_parameters())
    missing, unknown = parameters.keys() - weights, weights.keys() - parameters
    if missing or unknown:
        raise ValueError(
            f"{source} does not fit the model: missing {sorted(missing)[:3]}, "
            f"unknown {sorted(unknown)[:3]}"
        )
    for name, parameter in parameters.items():
        if parameter.shape != weights[name].shape:
            raise ValueError(
                f"{source} does not fit the model: {name} must have shape "
                f"{tuple(parameter.shape)}, got {tuple(weights[name].shape)}"
            )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


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
