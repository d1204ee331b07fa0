"""The model as data: every tensor of a pass, and the rule that computes it.

The drawing, the cards, the links, the words for screen readers, the JavaScript that
computes and the tests all read this one list.
"""

from dataclasses import dataclass
from itertools import accumulate

from transformer_lib.model import TransformerConfig

MODEL = "transformer_lib.model."
ATTENTION = MODEL + "attention:"
HEADS = ATTENTION + "MultiHeadAttention."
ATTEND = ATTENTION + "scaled_dot_product_attention"
RESIDUAL = MODEL + "residual:Residual.forward"
FEED_FORWARD = MODEL + "feed_forward:FeedForward.forward"
TRANSFORMER = MODEL + "transformer:Transformer."
RESIDUAL_LINES = {  # norm_first -> the line
    True: "return x + self.dropout(sublayer(self.norm(x)))  # (B, T, d_model)",
    False: "return self.norm(x + self.dropout(sublayer(x)))  # (B, T, d_model)",
}
NORM_LINE = "return x if self.norm is None else self.norm(x)  # (B, {}, d_model)"


@dataclass(frozen=True)
class Node:
    """One tensor of a pass, and how it is computed.

    Args:
        name: Such as ``encoder.0.self_attention.q``.
        label: The name in a few words.
        axes: What its axes count, such as ("head", "query", "key").
        sides: The sentence that its positions belong to, "source" or "target": one for
            its rows, and one for its keys if it has some.
        how: The rule, as ``engine.js`` calls it.
        of: Names of the nodes that the rule reads.
        weights: Name of the model's module that the rule reads, or "".
        line: The line of the library that computes it.
        where: The module and the function with that line.
        chapter: The notebook that explains it.
        says: What it is, in one sentence.
    """

    name: str
    label: str
    axes: tuple[str, ...]
    sides: tuple[str, ...]
    how: str
    of: tuple[str, ...]
    weights: str
    line: str
    where: str
    chapter: str
    says: str


# Kind of node -> label, rule, where, line, chapter, words.
KINDS = {
    "embedded": (
        "Embeddings",
        "lookup",
        MODEL + "embedding:TokenEmbedding.forward",
        "vectors = self.table(tokens) * self.scale  # (B, S, d_model)",
        "01_text_to_tensors",
        "Each token's row of the table, times the root of the width.",
    ),
    "positions": (
        "Positions",
        "positions",
        MODEL + "positions:sinusoidal_table",
        "table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)",
        "02_positions",
        "A row of sines and cosines that says where a token stands.",
    ),
    "x": (
        "Embeddings and positions",
        "add",
        MODEL + "positions:PositionalEncoding.forward",
        "return x + self.table[start:end]  # (B, T, d_model)",
        "02_positions",
        "What each token is, plus where it stands: the residual stream begins here.",
    ),
    "normed": (
        "Normalised",
        "norm",
        RESIDUAL,
        "",  # depends on the order of norm and sum
        "06_sublayers",
        "Each vector, shifted and scaled to mean 0 and variance 1.",
    ),
    "q": (
        "Queries",
        "heads",
        HEADS + "forward",
        "q = self._split_heads(self.w_q(query))  # (B, H, T, d_k)",
        "04_many_heads",
        "What each position looks for, in every head.",
    ),
    "k": (
        "Keys",
        "heads",
        HEADS + "_project",
        "k = self._split_heads(self.w_k(key))  # (B, H, S, d_k)",
        "04_many_heads",
        "How each position can be found, in every head.",
    ),
    "v": (
        "Values",
        "heads",
        HEADS + "_project",
        "v = self._split_heads(self.w_v(value))  # (B, H, S, d_k)",
        "04_many_heads",
        "What each position contributes, in every head.",
    ),
    "scores": (
        "Scores",
        "dot",
        ATTEND,
        "scores = scores / math.sqrt(query.size(-1))",
        "03_attention",
        "How well each query matches each key: their product over the root of d_k.",
    ),
    "masked": (
        "Masked scores",
        "mask",
        ATTEND,
        'scores = scores.masked_fill(~mask, float("-inf"))',
        "05_masks",
        "The scores, with minus infinity wherever a position would see the future.",
    ),
    "weights": (
        "Weights",
        "softmax",
        ATTEND,
        "weights = scores.softmax(dim=-1)",
        "03_attention",
        "How each query divides its attention among the keys: a row sums to 1.",
    ),
    "attended": (
        "Blended values",
        "blend",
        ATTEND,
        "return F.dropout(weights, dropout) @ value, weights"
        "  # (..., T, d_v), (..., T, S)",
        "03_attention",
        "The mean of the values, weighted by the attention, in every head.",
    ),
    "merged": (
        "Heads side by side",
        "merge",
        HEADS + "_merge_heads",
        "return heads.transpose(1, 2).flatten(-2)  # (B, T, d_model)",
        "04_many_heads",
        "What all heads found for a position, as one vector.",
    ),
    "output": (
        "Output of the attention",
        "linear",
        HEADS + "forward",
        "return self.w_o(self._merge_heads(heads))  # (B, T, d_model)",
        "04_many_heads",
        "The heads, mixed: what the attention will add to the residual stream.",
    ),
    "inner": (
        "Inner features",
        "linear",
        FEED_FORWARD,
        "inner = self.activation(self.w_1(x))  # (B, T, d_ff)",
        "06_sublayers",
        "Each vector, widened by the first matrix.",
    ),
    "active": (
        "Active features",
        "activate",
        FEED_FORWARD,
        "inner = self.activation(self.w_1(x))  # (B, T, d_ff)",
        "06_sublayers",
        "The inner features after the activation: ReLU sets negative ones to 0.",
    ),
    "feed_forward.output": (
        "Output of the feed-forward network",
        "linear",
        FEED_FORWARD,
        "return self.w_2(self.dropout(inner))  # (B, T, d_model)",
        "06_sublayers",
        "Narrowed again: what the network will add to the residual stream.",
    ),
    "added": (
        "Residual stream",
        "add",
        RESIDUAL,
        "",  # depends on the order of norm and sum
        "06_sublayers",
        "The stream so far, plus what this sublayer found.",
    ),
    "src.ids": (
        "Source tokens",
        "given",
        TRANSFORMER + "encode",
        "x = self.src_positions(self.src_embedding(src))  # (B, S, d_model)",
        "01_text_to_tensors",
        "The sentence, cut into tokens; each is a number of the vocabulary.",
    ),
    "tgt.ids": (
        "Target tokens",
        "given",
        TRANSFORMER + "decode",
        "x = self.tgt_positions(self.tgt_embedding(tgt), start)  # (B, T, d_model)",
        "01_text_to_tensors",
        "What is written so far, after the token that begins every translation.",
    ),
    "memory": (
        "Memory",
        "norm",
        MODEL + "encoder:Encoder.forward",
        NORM_LINE.format("S"),
        "07_encoder",
        "What the encoder hands over: every cross-attention reads it.",
    ),
    "decoder.output": (
        "Output of the decoder",
        "norm",
        MODEL + "decoder:Decoder.forward",
        NORM_LINE.format("T"),
        "08_decoder",
        "The residual stream after the last layer, normalised for the output layer.",
    ),
    "logits": (
        "Logits",
        "linear",
        TRANSFORMER + "decode",
        "return self.output(x)  # (B, T, tgt_vocab_size)",
        "09_transformer",
        "A score for every word of the vocabulary as the next one.",
    ),
    "probabilities": (
        "Probabilities",
        "chances",
        "transformer_lib.decoding.sampling:next_probabilities",
        "probabilities = logits.softmax(dim=-1)",
        "12_decoding",
        "How likely each word is as the next one; padding is never written.",
    ),
}


def graph(config: TransformerConfig) -> list[Node]:
    """List the tensors of a pass, each after those that it is computed from.

    Args:
        config: Of a model that the JavaScript knows (see ``pack``).

    Returns:
        The nodes, from the source's ids to the probabilities of the next word.
    """
    return _Graph(config).nodes


class _Graph:
    """Builds the list from the source to the probabilities."""

    def __init__(self, config: TransformerConfig) -> None:
        self.nodes: list[Node] = []
        self.norm_first = config.norm_first
        x = self.embed("src", "source")
        for i in range(config.num_layers):
            x = self.sublayer("encoder", i, "self_attention", "source", x)
            x = self.sublayer("encoder", i, "feed_forward", "source", x)
        memory = self.finish("memory", "source", x, "encoder.norm")
        x = self.embed("tgt", "target")
        for i in range(config.num_layers):
            x = self.sublayer("decoder", i, "self_attention", "target", x)
            x = self.sublayer("decoder", i, "cross_attention", "target", x, memory)
            x = self.sublayer("decoder", i, "feed_forward", "target", x)
        x = self.finish("decoder.output", "target", x, "decoder.norm")
        logits = self.vectors("logits", "target", x, weights="output", width="word")
        self.vectors("probabilities", "target", logits, width="word")

    def add(
        self,
        name: str,
        axes: tuple[str, ...],
        sides: tuple[str, ...],
        *of: str,
        weights: str = "",
        how: str | None = None,
    ) -> str:
        """Add a node; its kind is its name, or as much of its end as KINDS knows."""
        ends = accumulate(reversed(name.split(".")), lambda end, part: f"{part}.{end}")
        kind = [KINDS[end] for end in ends if end in KINDS][-1]
        label, rule, where, line, chapter, says = kind
        line = line or RESIDUAL_LINES[self.norm_first]
        rule = how or rule
        self.nodes.append(
            Node(
                name, label, axes, sides, rule, of, weights, line, where, chapter, says
            )
        )
        return name

    def vectors(
        self, name: str, side: str, *of: str, width: str = "feature", **choices: str
    ) -> str:
        """Add a node with one vector for each position."""
        return self.add(name, (side, width), (side,), *of, **choices)

    def heads(self, name: str, side: str, *of: str, **choices: str) -> str:
        """Add a node with one vector for each head and position."""
        return self.add(name, ("head", side, "feature"), (side,), *of, **choices)

    def embed(self, side: str, sentence: str) -> str:
        ids = self.add(f"{side}.ids", (sentence,), (sentence,))
        embedded, positions = (
            self.vectors(f"{side}.{name}", sentence, *of, weights=f"{side}_{module}")
            for name, of, module in (
                ("embedded", (ids,), "embedding"),
                ("positions", (), "positions"),
            )
        )
        return self.vectors(f"{side}.x", sentence, embedded, positions)

    def sublayer(
        self, stack: str, i: int, name: str, side: str, x: str, memory: str = ""
    ) -> str:
        """Add a sublayer with its norm and its sum; return the new residual stream."""
        at, module = f"{stack}.{i}.{name}", f"{stack}.layers.{i}.{name}"

        def norm(x: str) -> str:
            weights = f"{module}_residual.norm"
            return self.vectors(f"{at}.normed", side, x, weights=weights)

        inside = norm(x) if self.norm_first else x
        if name == "feed_forward":
            found = self.feed_forward(at, module, side, inside)
        else:
            found = self.attention(at, module, side, inside, memory)
        added = self.vectors(f"{at}.added", side, x, found)
        return added if self.norm_first else norm(added)

    def feed_forward(self, at: str, module: str, side: str, x: str) -> str:
        w_1, w_2 = f"{module}.w_1", f"{module}.w_2"
        inner = self.vectors(f"{at}.inner", side, x, weights=w_1, width="inner")
        active = self.vectors(f"{at}.active", side, inner, width="inner")
        return self.vectors(f"{at}.output", side, active, weights=w_2)

    def attention(self, at: str, module: str, side: str, x: str, memory: str) -> str:
        read, keys = (memory, "source") if memory else (x, side)
        q = self.heads(f"{at}.q", side, x, weights=f"{module}.w_q")
        k = self.heads(f"{at}.k", keys, read, weights=f"{module}.w_k")
        v = self.heads(f"{at}.v", keys, read, weights=f"{module}.w_v")
        map_ = ("head", "query", "key"), (side, keys)
        scores = self.add(f"{at}.scores", *map_, q, k)
        if side == "target" and not memory:
            scores = self.add(f"{at}.masked", *map_, scores)
        weights = self.add(f"{at}.weights", *map_, scores)
        attended = self.heads(f"{at}.attended", side, weights, v)
        merged = self.vectors(f"{at}.merged", side, attended)
        return self.vectors(f"{at}.output", side, merged, weights=f"{module}.w_o")

    def finish(self, name: str, side: str, x: str, weights: str) -> str:
        """Add the final norm, which only pre-norm stacks have."""
        if self.norm_first:
            return self.vectors(name, side, x, weights=weights)
        return self.vectors(name, side, x, how="same")
