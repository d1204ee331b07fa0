"""Byte-pair encoding, one merge at a time, on the reader's own text."""

import json
from collections.abc import Sequence
from itertools import pairwise

from bookkit.controls.control import Control
from transformer_lib.data import SPECIAL_TOKENS, Tokenizer
from transformer_lib.data.tokenizer import BYTES
from transformer_lib.javascript import source


def merges_control(tokenizer: Tokenizer, texts: Sequence[str]) -> Control:
    """Let the reader step through the merges that cut a text into tokens.

    Args:
        tokenizer: Its vocabulary is the special tokens, the bytes, and then what the
            merges make, in their order, as ``Tokenizer.train`` leaves it.
        texts: Examples to press; the first one is shown at first.

    Returns:
        A control with a line to type in, a slider over the merges, and the tokens with
        their ids.

    Raises:
        ValueError: If there is no example, or the vocabulary is in another order.
    """
    if not texts:
        raise ValueError("texts must hold at least 1 text, got 0")
    model = json.loads(tokenizer.to_json())["model"]
    joined = ["".join(pair) for pair in model["merges"]]
    tokens = dict.fromkeys([*SPECIAL_TOKENS, *BYTES, *joined])
    if model["vocab"] != {token: i for i, token in enumerate(tokens)}:
        raise ValueError(
            "the vocabulary must be in the order of the merges, got another one"
        )
    steps = "\n".join(_steps(model["merges"], texts[0]))
    return Control(
        "merges",
        "From text to ids, merge by merge",
        {
            "texts": list(texts),
            "first": [*SPECIAL_TOKENS, *BYTES],
            "merges": "\n".join(map(" ".join, model["merges"])),
        },
        f"The merges of “{texts[0]}”, the one that was learned first before the others:"
        f"\n{steps}\nIds: {' '.join(map(str, tokenizer.encode(texts[0])))}",
        scripts=(source("tokenizer.js"),),
        beside=__file__,
    )


def _steps(merges: Sequence[Sequence[str]], text: str) -> list[str]:
    """Write out the pieces of a word in letters after each merge."""
    ranks = {tuple(pair): rank for rank, pair in enumerate(merges)}
    pieces = list("Ġ" + text.replace(" ", "Ġ"))
    lines = [" ".join(pieces)]
    while known := [pair for pair in pairwise(pieces) if pair in ranks]:
        first, joined = min(known, key=ranks.get), []
        for piece in pieces:
            if joined and (joined[-1], piece) == first:
                joined[-1] += piece
            else:
                joined.append(piece)
        pieces = joined
        lines.append(" ".join(pieces))
    return [line.replace("Ġ", "▁") for line in lines]
