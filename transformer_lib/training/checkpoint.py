"""Checkpoints: weights in one file, written whole or not at all, never a pickle."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor, nn

from transformer_lib.checks import require_between, require_finite, require_one_of
from transformer_lib.files import atomic_write
from transformer_lib.model import Transformer, TransformerParts

Families = Mapping[str, type[TransformerParts]]

PLAIN: Families = {"Transformer": Transformer}
MOST_IN_TABLES = 2**26  # such as sines, which are computed, so that no file shows them


def save_tensors(
    path: str | Path, tensors: Mapping[str, Tensor], about: Mapping[str, object]
) -> None:
    """Write named tensors, and a description of them, into one file.

    Equal input gives an identical file.

    Args:
        path: A ``safetensors`` file, replaced if it is there.
        tensors: Any shapes, any dtypes that safetensors has. A tensor with two names
            is written twice.
        about: The description; anything that JSON can hold.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold ``about``.
    """
    copies = {
        name: tensor.clone(memory_format=torch.contiguous_format)
        for name, tensor in tensors.items()
    }
    # One entry: several would be written in an order that changes from run to run.
    content = save(copies, {"about": json.dumps(about)})
    with atomic_write(path) as unfinished:
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
        ValueError: If the file is cut off or not a checkpoint.
    """
    content = Path(path).read_bytes()
    try:
        tensors = dict(sorted(load(content).items()))  # theirs change from run to run
        header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
        entries = header["__metadata__"]
        if "checked" in entries:  # an older file, which has a checksum beside it
            return tensors, json.loads(entries["checked"])["about"]
        return tensors, json.loads(entries["about"])
    except (SafetensorError, LookupError, ValueError) as error:
        raise ValueError(
            f"{path} is not a whole checkpoint as save_tensors writes it: {error}"
        ) from error


def save_model(path: str | Path, model: TransformerParts, **about: object) -> None:
    """Write a model's weights, its family and its configuration into one file.

    A table that two layers share is written once.

    Args:
        path: A ``safetensors`` file, replaced if it is there.
        model: Its weights are written in the dtype they have.
        **about: What else to keep, as JSON; ``load_tensors`` returns it. The model
            adds the name of its class, as ``family``, and its ``config``.

    Raises:
        OSError: If the file cannot be written, as when the disk is full.
        TypeError: If JSON cannot hold ``about``, or it has a ``family`` or
            a ``config``.
        ValueError: As ``require_own_config``, because nobody could load the file.
    """
    require_own_config(model)
    family = type(model).__name__
    about = dict(family=family, config=asdict(model.config), **about)
    save_tensors(path, dict(model.named_parameters()), about)


def load_model(path: str | Path, families: Families = PLAIN) -> TransformerParts:
    """Build the model that ``save_model`` wrote, in eval mode, on the CPU.

    Args:
        path: A ``safetensors`` file.
        families: The classes that the model may have, by name; ``variants.FAMILIES``
            has all of this library's.

    Returns:
        The model, in torch's default dtype.

    Raises:
        FileNotFoundError: If there is no such file.
        OSError: If it cannot be read.
        ValueError: If the file is cut off, its family or configuration is missing or
            unknown, or asks for a larger model than its weights; or as ``require_fit``.
    """
    weights, about = load_tensors(path)
    try:
        require_between(1, len(weights), num_layers=about["config"]["num_layers"])
        with torch.device("meta"):  # without memory, which a small file could claim
            claimed = instantiate(about, families)
        tables = sum(buffer.numel() for buffer in claimed.buffers())
        if tables > MOST_IN_TABLES:
            raise ValueError(
                "numbers in tables of max_len positions must be at most "
                f"{MOST_IN_TABLES}, got {tables}"
            )
    except Exception as error:  # a stranger's choices may raise anything
        raise ValueError(f"{path} has an unknown configuration: {error}") from error
    require_fit(dict(claimed.named_parameters()), weights, source=path)
    model = instantiate(about, families)
    load_weights(model, weights, source=path)
    return model.eval()


def instantiate(about: Mapping[str, Any], families: Families) -> TransformerParts:
    """Build a model from its description, with new weights.

    Args:
        about: Its ``family`` and ``config``, as ``save_model`` writes them.
        families: The classes that it may have, by name.

    Raises:
        ValueError: If the family is unknown; or as the model.
        TypeError: If the config has a field that the family does not have.
    """
    name = about["family"] if "family" in about else _family_of(about["config"])
    require_one_of(families, family=name)
    family = families[name]
    return family(family.config_type(**about["config"]))


def _family_of(config: Mapping[str, Any]) -> str:
    """Infer the family from the config, for older files, which do not name it."""
    if "norm" not in config:
        return "Transformer"
    if config["src_vocab_size"] is None:
        return "DecoderAlone"
    if config["tgt_vocab_size"] is None:
        return "EncoderAlone"
    return "ModernTransformer"


def load_weights(
    model: nn.Module, weights: Mapping[str, Tensor], *, source: str | Path
) -> None:
    """Copy weights into a model, if every one of them fits.

    Args:
        model: Left as it was unless all weights fit.
        weights: By the names of ``named_parameters``.
        source: Where the tensors come from, for the error.
    """
    parameters = dict(model.named_parameters())
    require_fit(parameters, weights, source=source)
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def require_own_config(model: TransformerParts) -> None:
    """Refuse a model that its configuration does not describe.

    For example, one that lost heads in some of its layers only.

    Args:
        model: Left as it was.

    Raises:
        ValueError: If the configuration asks for other names or shapes of weights.
    """
    with torch.device("meta"):  # without memory
        described = dict(type(model)(model.config).named_parameters())
    weights = dict(model.named_parameters())
    require_fit(described, weights, source="the model", to="its configuration")


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
            numbers are not floating-point, infinite or nan.
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
        if not tensors[name].is_floating_point():
            raise ValueError(
                f"{source} does not fit {to}: {name} must be floating-point, "
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
