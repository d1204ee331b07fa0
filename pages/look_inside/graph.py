"""The model as data: every tensor of a pass, and the rule that computes it.

The drawing, the cards, the links, the words for screen readers, the JavaScript that
computes and the tests all read this one list. ``kinds.csv`` says what nodes have in
common whose names end alike. It gives a line of code by its beginning, with the one of
post-norm behind a bar.
"""

import csv
import inspect
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from pkgutil import resolve_name

from transformer_lib.model import TransformerConfig

with Path(__file__).with_name("kinds.csv").open(encoding="utf-8") as table:
    KINDS = {kind.pop("kind"): kind for kind in csv.DictReader(table)}


@dataclass(frozen=True, kw_only=True)
class Node:
    """One tensor of a pass, and how it is computed.

    Args:
        name: Such as ``encoder.0.self_attention.q``.
        label: What it is, in a few words.
        axes: What its axes count, such as ("head", "query", "key").
        sides: The sentence that its positions belong to, "source" or "target": one for
            its rows, and one for its keys if it has some.
        how: The rule, as ``engine.js`` calls it.
        of: Names of the nodes that the rule reads.
        weights: Name of the model's module that the rule reads, or "".
        where: The module and the function that computes it, and
        line: the line there.
        chapter: The notebook that explains it.
        says: What it is, in one sentence.
    """

    name: str
    label: str
    axes: tuple[str, ...]
    sides: tuple[str, ...]
    how: str
    of: tuple[str, ...]
    weights: str = ""
    where: str
    line: str
    chapter: str
    says: str


@cache
def line_of(where: str, beginning: str) -> str:
    """Find the one line of a function with this beginning, as the notes of a walk do.

    Args:
        where: ``module:function``.
        beginning: Of the line, without its indentation.

    Returns:
        The line.

    Raises:
        ValueError: If no line begins so, or several do.
    """
    lines = map(str.strip, inspect.getsource(resolve_name(where)).splitlines())
    found = [line for line in lines if line.startswith(beginning)]
    if len(found) != 1:
        raise ValueError(f"{len(found)} lines of {where} begin with {beginning!r}")
    return found[0]


def graph(config: TransformerConfig) -> list[Node]:
    """List the tensors of a pass, each after those that it is computed from.

    Args:
        config: Of a model that the JavaScript knows (see ``pack``).

    Returns:
        The nodes, from the source's ids to the probabilities of the next word.
    """
    return _Graph(config).nodes


class _Graph:
    """Builds the list. Each method adds nodes and returns the name of the last one."""

    def __init__(self, config: TransformerConfig) -> None:
        self.nodes: list[Node] = []
        self.norm_first = config.norm_first
        x = self.embed("src", "source")
        for i in range(config.num_layers):
            x = self.sublayer(f"encoder.{i}.self_attention", "source", x)
            x = self.sublayer(f"encoder.{i}.feed_forward", "source", x)
        memory = self.finish("memory", "source", x, "encoder.norm")
        x = self.embed("tgt", "target")
        for i in range(config.num_layers):
            x = self.sublayer(f"decoder.{i}.self_attention", "target", x)
            x = self.sublayer(f"decoder.{i}.cross_attention", "target", x, memory)
            x = self.sublayer(f"decoder.{i}.feed_forward", "target", x)
        x = self.finish("decoder.output", "target", x, "decoder.norm")
        logits = self.add("logits", "target", x, weights="output")
        self.add("probabilities", "target", logits)

    def add(self, name: str, side: str, *of: str, keys: str = "", **others: str) -> str:
        """Add a node; its kind is its name, or as much of its end as KINDS knows.

        Args:
            name: Of the node.
            side: Of its rows.
            *of: What it is computed from.
            keys: The side of its keys, if it has some.
            **others: Fields of ``Node`` that differ from its kind's.
        """
        ends = accumulate(reversed(name.split(".")), lambda end, part: f"{part}.{end}")
        kind = KINDS[[end for end in ends if end in KINDS][-1]]
        axes = kind["axes"].replace("side", side).split()
        pre, _, post = kind["line"].partition(" | ")
        line = line_of(kind["where"], pre if self.norm_first else post or pre)
        sides = (side, keys) if keys else (side,)
        own = {"axes": tuple(axes), "line": line} | others
        self.nodes.append(Node(name=name, sides=sides, of=of, **kind | own))
        return name

    def embed(self, sentence: str, side: str) -> str:
        ids = self.add(f"{sentence}.ids", side)
        weights = f"{sentence}_embedding", f"{sentence}_positions"
        embedded = self.add(f"{sentence}.embedded", side, ids, weights=weights[0])
        positions = self.add(f"{sentence}.positions", side, weights=weights[1])
        return self.add(f"{sentence}.x", side, embedded, positions)

    def sublayer(self, at: str, side: str, x: str, memory: str = "") -> str:
        """Add a sublayer with its norm and its sum, the new residual stream."""
        module = at.replace("coder", "coder.layers")

        def norm(x: str) -> str:
            weights = f"{module}_residual.norm"
            return self.add(f"{at}.normed", side, x, weights=weights)

        read = norm(x) if self.norm_first else x
        if at.endswith("attention"):
            found = self.attention(at, module, side, read, memory)
        else:
            found = self.feed_forward(at, module, side, read)
        added = self.add(f"{at}.added", side, x, found)
        return added if self.norm_first else norm(added)

    def feed_forward(self, at: str, module: str, side: str, x: str) -> str:
        inner = self.add(f"{at}.inner", side, x, weights=f"{module}.w_1")
        active = self.add(f"{at}.active", side, inner)
        return self.add(f"{at}.output", side, active, weights=f"{module}.w_2")

    def attention(self, at: str, module: str, side: str, x: str, memory: str) -> str:
        asked, keys = (memory, "source") if memory else (x, side)
        q = self.add(f"{at}.q", side, x, weights=f"{module}.w_q")
        k = self.add(f"{at}.k", keys, asked, weights=f"{module}.w_k")
        v = self.add(f"{at}.v", keys, asked, weights=f"{module}.w_v")
        scores = self.add(f"{at}.scores", side, q, k, keys=keys)
        if side == "target" and not memory:
            scores = self.add(f"{at}.masked", side, scores, keys=keys)
        weights = self.add(f"{at}.weights", side, scores, keys=keys)
        attended = self.add(f"{at}.attended", side, weights, v)
        merged = self.add(f"{at}.merged", side, attended)
        return self.add(f"{at}.output", side, merged, weights=f"{module}.w_o")

    def finish(self, name: str, side: str, x: str, weights: str) -> str:
        """Add the final norm, which only pre-norm stacks have."""
        if self.norm_first:
            return self.add(name, side, x, weights=weights)
        return self.add(name, side, x, how="same")
