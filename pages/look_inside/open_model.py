"""One sentence through a trained model, from its ids to the next word, in the page."""

import base64
import json
from collections.abc import Sequence
from dataclasses import asdict
from html import escape

import torch
from torch import Tensor

from bookkit.colours import COLOURS
from bookkit.controls.control import Control, read
from pages.look_inside.graph import Node, graph
from pages.look_inside.overview import box_of, boxes, overview, picture_of
from pages.look_inside.recording import record
from transformer_lib.decoding import greedy_decode
from transformer_lib.javascript import FILES, source
from transformer_lib.javascript.weights import from_script, pack, to_script
from transformer_lib.model import TransformerConfig
from transformer_lib.translation import Translator

LIBRARY = ("tokenizer.js", "decoding.js", "weights.js")
ENGINE = ("engine.js", "worker.js")
SCRIPTS = (
    "run.js",
    "cells.js",
    "drawing.js",
    "sums.js",
    "address.js",
    "what_if.js",
    "tour.js",
    "engine_client.js",
)


def open_model_control(
    translator: Translator,
    sentences: Sequence[str],
    larger: TransformerConfig,
    captions: Sequence[str],
) -> Control:
    """Let the reader follow a sentence through a model, number by number.

    Args:
        translator: A small one, since the page holds its weights; its model is one that
            ``pack`` knows.
        sentences: English. The first one is recorded, and shown before the page
            computes anything.
        larger: Of the model whose weights the page can load.
        captions: Sentences for that one.

    Returns:
        The control.

    Raises:
        ValueError: If there is no sentence, or as ``pack``.
    """
    if not sentences:
        raise ValueError("sentences must be at least 1, got 0")
    exact = from_script(to_script(translator))  # the weights of the page
    model, tokenizer = exact.model, exact.tokenizer
    src = torch.tensor([[*tokenizer.encode(sentences[0]), tokenizer.eos_id]])
    [ids] = greedy_decode(model, src)
    tgt = torch.tensor([[tokenizer.bos_id, *ids]])
    values = record(model, src, tgt)
    nodes = graph(model.config)
    tour = json.loads(read("tour_steps.json", __file__))
    german = tokenizer.decode(ids)
    return Control(
        "open_model",
        "The open model",
        {
            "graph": [asdict(node) for node in nodes],
            "config": asdict(model.config),
            "sentences": list(sentences),
            "recording": {
                name: packed(values[name])
                for name in at_first(tour, nodes, model.config.num_layers)
            },
            "larger": {
                "graph": [asdict(node) for node in graph(larger)],
                "config": asdict(larger),
                "map": overview(larger.num_layers),
                "sentences": list(captions),
            },
            "written": [*ids, tokenizer.eos_id],
            "hidden": _rgb(COLOURS["hidden"][0]),
            "tour": tour,
            "worker": "\n".join(
                [*map(source, FILES), *(read(name, __file__) for name in ENGINE)]
            ),
            "packed": {
                "tokenizer": json.loads(translator.tokenizer.to_json()),
                **pack(translator.model),
            },
        },
        f"The model reads “{sentences[0]}” and writes “{german}”.",
        scripts=(*map(source, LIBRARY), *(read(name, __file__) for name in SCRIPTS)),
        html=first_state(sentences[0], german, nodes, model.config.num_layers),
        beside=__file__,
    )


def at_first(tour: Sequence[dict], nodes: Sequence[Node], layers: int) -> list[str]:
    """Name the nodes that the page shows before it has computed anything.

    These are the pictures of the drawing and the nodes of the tour, with both parts of
    a sum of vectors. What is as long as the vocabulary is left to the page.
    """
    named = {step["state"]["node"] for step in tour} | {"src.ids", "tgt.ids"}
    named |= {picture_of(box["name"]) for box in boxes(layers)}
    for node in nodes:
        if node.name in named and node.how == "add":
            named |= set(node.of)
    return [n.name for n in nodes if n.name in named and n.axes[-1] != "word"]


def packed(value: Tensor) -> dict[str, object]:
    """Pack a tensor as JSON can hold it: its shape, and 16 bits for each number."""
    numbers = value.detach().numpy()
    data = base64.b64encode(numbers.astype("<f2").tobytes()).decode()
    return {"shape": list(value.shape), "data": data}


def first_state(english: str, german: str, nodes: Sequence, layers: int) -> str:
    """Write what is on the page where no script runs: the drawing, and every step.

    A box of the drawing leads to the first step in it.
    """
    first = {box_of(node.name, layers): node.name for node in reversed(nodes)}
    ids = {name: f' id="node={box}"' for box, name in first.items()}
    steps = "".join(
        f"<li{ids.get(node.name, '')}><b>{escape(node.label)}</b> "
        f"({escape(node.name)}): {escape(node.says)}</li>"
        for node in nodes
    )
    return (
        f"<div>{overview(layers)}<p>The model reads “{escape(english)}” and writes "
        f'“<span lang="de">{escape(german)}</span>”.</p><ol>{steps}</ol></div>'
    )


def _rgb(colour: str) -> list[int]:
    return [int(colour[i : i + 2], 16) for i in (1, 3, 5)]
