"""Weights for the browser: 8-bit integers, in one script.

It is a script because a page that was opened from a disk may load nothing else.
"""

import base64
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import nn

from transformer_lib.data import Tokenizer
from transformer_lib.faster import fast_decoder
from transformer_lib.faster.known_parts import require_plain
from transformer_lib.faster.quantization import dequantize, quantize_rows
from transformer_lib.files import atomic_write
from transformer_lib.model import (
    Encoder,
    EncoderLayer,
    PositionalEncoding,
    TokenEmbedding,
    Transformer,
)
from transformer_lib.training import instantiate, load_weights, require_own_config
from transformer_lib.translation import Translator
from transformer_lib.translation.translator import ALPHA
from transformer_lib.variants import FAMILIES

ACTIVATIONS = ("relu", "gelu_tanh", "silu")  # that the JavaScript knows
KNOWN = fast_decoder.KNOWN | {Encoder, EncoderLayer, nn.Embedding}
KNOWN |= {TokenEmbedding, PositionalEncoding}
BEFORE, AFTER = "document.currentScript.translator = ", ";\n"


def pack(model: Transformer) -> dict[str, object]:
    """Pack a model's weights as data that JSON can hold.

    The matrices are quantized, vectors stay as they are.

    Args:
        model: An encoder and a decoder with the paper's attention and norm, positions
            in the interleaved layout, an activation other than the exact ``"gelu"``,
            and widths divisible by 4, as the JavaScript needs them.

    Returns:
        Its ``family`` and ``config``, and the ``shapes``, ``floats`` and ``integers``
        that the function ``unpackWeights`` of ``weights.js`` starts from.

    Raises:
        ValueError: If the model is another, holds a part that the JavaScript does not
            know, or is not as its configuration says.
    """
    config = model.config
    if not isinstance(model, Transformer):
        kind = type(model).__name__
        raise ValueError(f"the model must be a Transformer, got a {kind}")
    if config.positions != "interleaved":
        raise ValueError(f"positions must be interleaved, got {config.positions!r}")
    if config.activation not in ACTIVATIONS:
        raise ValueError(
            f"activation must be one of {', '.join(ACTIVATIONS)} in the JavaScript, "
            f"got {config.activation}"
        )
    if not getattr(config, "scale_embeddings", True):
        raise ValueError("scale_embeddings must be True in the JavaScript, got False")
    require_plain(model.named_modules(), KNOWN)
    groups = getattr(config, "num_key_heads", None)
    if groups not in (None, config.num_heads):
        raise ValueError(f"num_key_heads must be num_heads or None, got {groups}")
    if config.d_model % 4 or config.d_ff % 4:
        raise ValueError(
            "d_model and d_ff must be divisible by 4, "
            f"got {config.d_model} and {config.d_ff}"
        )
    require_own_config(model)
    d_k = getattr(config, "d_k", None) or config.d_model // config.num_heads
    width = config.num_heads * d_k
    if width % 4:
        raise ValueError(f"num_heads * d_k must be divisible by 4, got {width}")
    shapes, floats, integers = {}, [], []
    for name, weight in model.named_parameters():
        shapes[name] = tuple(weight.shape)
        scale = weight.detach()
        if weight.dim() == 2:
            values, scale = quantize_rows(scale)
            integers.append(values.numpy().tobytes())
        floats.append(scale.numpy().astype("<f4").tobytes())
    return {
        "family": type(model).__name__,
        "config": asdict(config),
        "shapes": shapes,
        "floats": base64.b64encode(b"".join(floats)).decode(),
        "integers": base64.b64encode(b"".join(integers)).decode(),
    }


def to_script(translator: Translator) -> str:
    """Pack a translator into a script that hands it to the page that loads it.

    The same translator gives the same text.

    Args:
        translator: Its model is one that ``pack`` knows.

    Returns:
        JavaScript. When a ``<script>`` element has loaded it, the element's property
        ``translator`` is what the JavaScript class ``Translator`` starts from.
    """
    tokenizer = json.loads(translator.tokenizer.to_json())
    packed = {"alpha": ALPHA, "tokenizer": tokenizer, **pack(translator.model)}
    text = json.dumps(packed, ensure_ascii=False, separators=(",", ":"))
    return BEFORE + text + AFTER


def from_script(text: str) -> Translator:
    """Read the same weights back, for PyTorch.

    Args:
        text: What ``to_script`` returned.

    Returns:
        A translator with exactly the weights that the browser computes with.

    Raises:
        ValueError: If the text is something else.
    """
    if not (text.startswith(BEFORE) and text.endswith(AFTER)):
        raise ValueError(f"text must be a packed translator, got {text[:40]!r}")
    packed = json.loads(text.removeprefix(BEFORE).removesuffix(AFTER))
    floats = np.frombuffer(base64.b64decode(packed["floats"]), "<f4")
    integers = np.frombuffer(base64.b64decode(packed["integers"]), "i1")
    weights = {}
    for name, shape in packed["shapes"].items():
        weight, floats = torch.tensor(floats[: shape[0]]), floats[shape[0] :]
        if len(shape) == 2:
            values, integers = np.split(integers, [shape[0] * shape[1]])
            weight = dequantize(torch.tensor(values).view(shape), weight)
        weights[name] = weight
    model = instantiate(packed, FAMILIES)
    load_weights(model, weights, source="the script")
    tokenizer = Tokenizer.from_json(json.dumps(packed["tokenizer"]))
    return Translator(model.eval(), tokenizer)


def write_script(folder: str | Path, path: str | Path) -> None:
    """Pack the translator in a folder into a file, whole or not at all.

    Args:
        folder: What ``Translator.save`` wrote.
        path: The script, replaced if it is there.
    """
    text = to_script(Translator.load(folder))
    with atomic_write(path) as unfinished:
        unfinished.write_text(text, encoding="utf-8")
