"""The model as data: every tensor of a pass, and the rule that computes it.

The drawing, the cards, the links, the words for screen readers, the JavaScript that
computes and the tests all read this one list.
"""

from dataclasses import asdict, dataclass
from itertools import accumulate

from transformer_lib.model import TransformerConfig

MODEL = "transformer_lib.model."
ATTENTION = MODEL + "attention:"
MULTI_HEAD = ATTENTION + "MultiHeadAttention."
ATTEND = ATTENTION + "scaled_dot_product_attention"
RESIDUAL = MODEL + "residual:Residual.forward"
FEED_FORWARD = MODEL + "feed_forward:FeedForward.forward"
TRANSFORMER = MODEL + "transformer:Transformer."
RESIDUAL_LINES = {  # norm_first -> the line
    True: "return x + self.dropout(sublayer(self.norm(x)))  # (B, T, d_model)",
    False: "return self.norm(x + self.dropout(sublayer(x)))  # (B, T, d_model)",
}
VECTORS, HEADS = ("side", "feature"), ("head", "side", "feature")
MAPS = ("head", "query", "key")
NORM_LINE = "return x if self.norm is None else self.norm(x)  # (B, {}, d_model)"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What nodes of a kind have in common.

    Args:
        label: Their name in a few words.
        axes: What their axes count, such as ("head", "query", "key"); "side" stands for
            the side of the rows.
        how: The rule, as ``engine.js`` calls it.
        where: The module and the function that computes them, and
        line: the line there.
        chapter: The notebook that explains it.
        says: What they are, in one sentence.
    """

    label: str
    axes: tuple[str, ...]
    how: str
    where: str
    line: str
    chapter: str
    says: str


@dataclass(frozen=True, kw_only=True)
class Node(Kind):
    """One tensor of a pass, and how it is computed.

    Args:
        name: Such as ``encoder.0.self_attention.q``.
        sides: The sentence that its positions belong to, "source" or "target": one for
            its rows, and one for its keys if it has some.
        of: Names of the nodes that the rule reads.
        weights: Name of the model's module that the rule reads, or "".
    """

    name: str
    sides: tuple[str, ...]
    of: tuple[str, ...]
    weights: str = ""


KINDS = {
    "embedded": Kind(
        label="Embeddings",
        axes=VECTORS,
        how="lookup",
        where=MODEL + "embedding:TokenEmbedding.forward",
        line="vectors = self.table(tokens) * self.scale  # (B, S, d_model)",
        chapter="01_text_to_tensors",
        says="Each token's row of the table, times the root of the width.",
    ),
    "positions": Kind(
        label="Positions",
        axes=VECTORS,
        how="positions",
        where=MODEL + "positions:sinusoidal_table",
        line="table = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)",
        chapter="02_positions",
        says="A row of sines and cosines that says where a token stands.",
    ),
    "x": Kind(
        label="Embeddings and positions",
        axes=VECTORS,
        how="add",
        where=MODEL + "positions:PositionalEncoding.forward",
        line="return x + self.table[start:end]  # (B, T, d_model)",
        chapter="02_positions",
        says="What each token is, plus where it stands: the residual stream begins.",
    ),
    "normed": Kind(
        label="Normalised",
        axes=VECTORS,
        how="norm",
        where=RESIDUAL,
        line="",  # of RESIDUAL_LINES
        chapter="06_sublayers",
        says="Each vector, shifted and scaled to mean 0 and variance 1.",
    ),
    "q": Kind(
        label="Queries",
        axes=HEADS,
        how="heads",
        where=MULTI_HEAD + "forward",
        line="q = self._split_heads(self.w_q(query))  # (B, H, T, d_k)",
        chapter="04_many_heads",
        says="What each position looks for, in every head.",
    ),
    "k": Kind(
        label="Keys",
        axes=HEADS,
        how="heads",
        where=MULTI_HEAD + "_project",
        line="k = self._split_heads(self.w_k(key))  # (B, H, S, d_k)",
        chapter="04_many_heads",
        says="How each position can be found, in every head.",
    ),
    "v": Kind(
        label="Values",
        axes=HEADS,
        how="heads",
        where=MULTI_HEAD + "_project",
        line="v = self._split_heads(self.w_v(value))  # (B, H, S, d_k)",
        chapter="04_many_heads",
        says="What each position contributes, in every head.",
    ),
    "scores": Kind(
        label="Scores",
        axes=MAPS,
        how="dot",
        where=ATTEND,
        line="scores = scores / math.sqrt(query.size(-1))",
        chapter="03_attention",
        says="How well a query matches a key: their product over the root of d_k.",
    ),
    "masked": Kind(
        label="Masked scores",
        axes=MAPS,
        how="mask",
        where=ATTEND,
        line='scores = scores.masked_fill(~mask, float("-inf"))',
        chapter="05_masks",
        says="The scores, with minus infinity where a position would see the future.",
    ),
    "weights": Kind(
        label="Weights",
        axes=MAPS,
        how="softmax",
        where=ATTEND,
        line="weights = scores.softmax(dim=-1)",
        chapter="03_attention",
        says="How each query divides its attention among the keys: a row sums to 1.",
    ),
    "attended": Kind(
        label="Blended values",
        axes=HEADS,
        how="blend",
        where=ATTEND,
        line="return F.dropout(weights, dropout) @ value, weights"
        "  # (..., T, d_v), (..., T, S)",
        chapter="03_attention",
        says="The mean of the values, weighted by the attention, in every head.",
    ),
    "merged": Kind(
        label="Heads side by side",
        axes=VECTORS,
        how="merge",
        where=MULTI_HEAD + "_merge_heads",
        line="return heads.transpose(1, 2).flatten(-2)  # (B, T, d_model)",
        chapter="04_many_heads",
        says="What all heads found for a position, as one vector.",
    ),
    "output": Kind(
        label="Output",
        axes=VECTORS,
        how="linear",
        where=MULTI_HEAD + "forward",
        line="return self.w_o(self._merge_heads(heads))  # (B, T, d_model)",
        chapter="04_many_heads",
        says="The heads, mixed: what the attention will add to the residual stream.",
    ),
    "inner": Kind(
        label="Inner features",
        axes=("side", "inner"),
        how="linear",
        where=FEED_FORWARD,
        line="inner = self.activation(self.w_1(x))  # (B, T, d_ff)",
        chapter="06_sublayers",
        says="Each vector, widened by the first matrix.",
    ),
    "active": Kind(
        label="Active features",
        axes=("side", "inner"),
        how="activate",
        where=FEED_FORWARD,
        line="inner = self.activation(self.w_1(x))  # (B, T, d_ff)",
        chapter="06_sublayers",
        says="The inner features after the activation: ReLU sets negative ones to 0.",
    ),
    "feed_forward.output": Kind(
        label="Output",
        axes=VECTORS,
        how="linear",
        where=FEED_FORWARD,
        line="return self.w_2(self.dropout(inner))  # (B, T, d_model)",
        chapter="06_sublayers",
        says="Narrowed again: what the network will add to the residual stream.",
    ),
    "added": Kind(
        label="Residual stream",
        axes=VECTORS,
        how="add",
        where=RESIDUAL,
        line="",  # of RESIDUAL_LINES
        chapter="06_sublayers",
        says="The stream so far, plus what this sublayer found.",
    ),
    "src.ids": Kind(
        label="Source tokens",
        axes=("side",),
        how="given",
        where=TRANSFORMER + "encode",
        line="x = self.src_positions(self.src_embedding(src))  # (B, S, d_model)",
        chapter="01_text_to_tensors",
        says="The sentence, cut into tokens; each is a number of the vocabulary.",
    ),
    "tgt.ids": Kind(
        label="Target tokens",
        axes=("side",),
        how="given",
        where=TRANSFORMER + "decode",
        line="x = self.tgt_positions(self.tgt_embedding(tgt), start)"
        "  # (B, T, d_model)",
        chapter="01_text_to_tensors",
        says="What is written so far, after the token that begins every translation.",
    ),
    "memory": Kind(
        label="Memory",
        axes=VECTORS,
        how="norm",
        where=MODEL + "encoder:Encoder.forward",
        line=NORM_LINE.format("S"),
        chapter="07_encoder",
        says="What the encoder hands over, once: every cross-attention reads it.",
    ),
    "decoder.output": Kind(
        label="Output of the decoder",
        axes=VECTORS,
        how="norm",
        where=MODEL + "decoder:Decoder.forward",
        line=NORM_LINE.format("T"),
        chapter="08_decoder",
        says="The residual stream after the last layer, normalised.",
    ),
    "logits": Kind(
        label="Logits",
        axes=("side", "word"),
        how="linear",
        where=TRANSFORMER + "decode",
        line="return self.output(x)  # (B, T, tgt_vocab_size)",
        chapter="09_transformer",
        says="A score for every word of the vocabulary as the next one.",
    ),
    "probabilities": Kind(
        label="Probabilities",
        axes=("side", "word"),
        how="chances",
        where="transformer_lib.decoding.sampling:next_probabilities",
        line="probabilities = logits.softmax(dim=-1)",
        chapter="12_decoding",
        says="How likely each word is as the next one; padding is never written.",
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

    def add(self, name: str, side: str, *of: str, **others: str) -> str:
        """Add a node; its kind is its name, or as much of its end as KINDS knows.

        Args:
            name: Of the node.
            side: Of its rows.
            *of: What it is computed from.
            **others: ``keys``, the side of its keys, and any field of ``Node``.
        """
        ends = accumulate(reversed(name.split(".")), lambda end, part: f"{part}.{end}")
        kind = [KINDS[end] for end in ends if end in KINDS][-1]
        keys = others.pop("keys", None)
        fields = asdict(kind) | others
        fields["axes"] = tuple(side if axis == "side" else axis for axis in kind.axes)
        fields["line"] = kind.line or RESIDUAL_LINES[self.norm_first]
        sides = (side, keys) if keys else (side,)
        self.nodes.append(Node(name=name, sides=sides, of=of, **fields))
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
