"""Where each head looks: recorded maps, to be read token by token."""

from collections.abc import Mapping, Sequence
from fnmatch import filter as matching

from torch import Tensor

from bookkit.controls.control import Control
from transformer_lib.data import SPECIAL_TOKENS

# The kinds of attention: the names of their layers, what asks, and what is asked.
KINDS = {
    "encoder": ("encoder.*.self_attention", "source", "source"),
    "decoder": ("decoder.*.self_attention", "target", "target"),
    "cross": ("decoder.*.cross_attention", "target", "source"),
}


def heads_control(
    maps: Mapping[str, Tensor],
    source: Sequence[Sequence[str]],
    target: Sequence[Sequence[str]],
    title: str = "Where each head looks",
) -> Control:
    """Let the reader ask every head of a model where a token looks.

    Args:
        maps: What ``record_attention`` kept of one pass over a batch: the names of the
            layers to their weights, shape (B, H, T, S).
        source: B sentences as the encoder read them: tokens, without padding.
        target: B translations from BOS to EOS, without padding. The decoder read all
            but the last token, and was to write all but the first.
        title: What the control is called.

    Returns:
        A control with all heads as small maps to pick from, and the tokens of a
        sentence, coloured by the weights of the picked one. It holds the weights in
        hundredths.

    Raises:
        ValueError: If there is no map, one is of no layer of an encoder or a decoder,
            or its shape is not that of the tokens.
    """
    if len(source) != len(target) or not source:
        raise ValueError(
            "source and target must be as many, at least one each, "
            f"got {len(source)} and {len(target)}"
        )
    if not maps:
        raise ValueError("maps must hold a layer, got none: has the model run?")
    tokens = {"source": source, "target": [each[:-1] for each in target]}
    layers = {kind: matching(maps, pattern) for kind, (pattern, *_) in KINDS.items()}
    if unknown := maps.keys() - {name for names in layers.values() for name in names}:
        raise ValueError(
            f"maps must be of an encoder or a decoder, got {unknown.pop()!r}"
        )
    for kind, (_, asks, asked) in KINDS.items():
        for name in layers[kind]:
            _require_fit(name, maps[name], tokens[asks], tokens[asked])
    sentences = [
        {
            "text": _text(source[i]),
            "source": list(source[i]),
            "target": list(target[i]),
            "maps": {
                kind: [
                    _hundredths(maps[name][i], tokens[asks][i], tokens[asked][i])
                    for name in layers[kind]
                ]
                for kind, (_, asks, asked) in KINDS.items()
                if layers[kind]
            },
        }
        for i in range(len(source))
    ]
    count = sum(weights.size(1) for weights in maps.values())
    texts = "\n".join(sentence["text"] for sentence in sentences)
    return Control(
        "heads",
        title,
        sentences,
        f"The attention weights of {count} heads, for each token of:\n{texts}",
        beside=__file__,
    )


def _require_fit(name: str, weights: Tensor, asks: Sequence, asked: Sequence) -> None:
    """Refuse a map that is not (B, H, T, S) for these sentences, H aside."""
    expected = len(asks), max(map(len, asks)), max(map(len, asked))
    if weights.dim() != 4 or (len(weights), *weights.shape[2:]) != expected:
        raise ValueError(
            f"{name} must have shape (B, H, T, S) with (B, T, S) = {expected}, "
            f"as the tokens have, got {tuple(weights.shape)}"
        )


def _hundredths(weights: Tensor, asks: Sequence, asked: Sequence) -> list:
    """Leave padding out of (H, T, S), and round: short to write, exact enough."""
    return (100 * weights[:, : len(asks), : len(asked)]).round().int().tolist()


def _text(tokens: Sequence[str]) -> str:
    words = (token for token in tokens if token not in SPECIAL_TOKENS)
    return "".join(words).replace("▁", " ").strip()
