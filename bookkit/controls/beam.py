"""Beam search, step by step: what went on, what was dropped, what ended."""

import math
from collections.abc import Callable, Sequence

from torch import Tensor

from bookkit.controls.control import Control
from transformer_lib.decoding import Hypothesis

IMPOSSIBLE = 1e-9  # a token with a smaller share is one that the model rules out


def beam_control(
    steps: Sequence[Sequence[Hypothesis]],
    pieces: Callable[[Sequence[int]], Sequence[str]],
    source: Sequence[str] = (),
    weights: Sequence[Tensor] = (),
    title: str = "Beam search, step by step",
) -> Control:
    """Let the reader grow the tree of a beam search, token by token.

    Args:
        steps: What ``on_step`` of ``beam_search`` was given for one sentence, from its
            first step to its last.
        pieces: Makes a text for each id; "▁" begins a word, and words without it stand
            apart.
        source: The S tokens of the source, if the tree is to show ``weights``.
        weights: For every step the cross-attention weights of the hypotheses that were
            extended, shape (hypotheses, S).
        title: What the control is called.

    Returns:
        A control with a column for each token and the likeliest hypotheses on top. It
        holds the weights in hundredths. Where the beam is wider than there are tokens
        to choose from, the search fills it with impossible ones: they are counted, but
        not shown.

    Raises:
        ValueError: If there is no step, a hypothesis extends none that went on, or the
            weights are not those of the steps.
    """
    if not steps:
        raise ValueError("steps must hold at least one step, got 0")
    if len(weights) != (len(steps) if source else 0):
        raise ValueError(
            "weights must be as many as steps, and none without a source, "
            f"got {len(weights)} and {len(steps)}"
        )
    width = max(sum(not each.ended for each in step) for step in steps)
    root = {"token": "BOS", "text": "", "parent": None, "step": 0, "row": 0}
    nodes, looks = [root | {"log_prob": 0.0, "score": None}], []
    extended = {(): 0}  # what goes on, and the number of its node; None: not shown
    left_out, found = [0], []
    for number, step in enumerate(steps, 1):
        if source:
            expected = len(extended), len(source)
            looks.append(_hundredths(number, weights[number - 1], expected))
        going_on, ended, impossible = {}, 0, 0
        for each in step:
            before = tuple(each.tokens if each.ended else each.tokens[:-1])
            if before not in extended:
                raise ValueError(
                    f"steps must extend what went on before, got {each.tokens} "
                    f"in step {number}"
                )
            parent = extended[before]
            if parent is None or _share(each, nodes[parent]) < IMPOSSIBLE:
                if not each.ended:
                    going_on[tuple(each.tokens)] = None
                impossible += 1
                continue
            tokens = pieces(each.tokens)
            node = {"text": _text(tokens), "parent": parent, "step": number}
            if each.ended:
                node |= {"token": "EOS", "row": width + ended, "score": each.score}
                ended += 1
                found.append(each)
            else:
                node |= {"token": tokens[-1], "row": len(going_on), "score": None}
                going_on[tuple(each.tokens)] = len(nodes)
            nodes.append(node | {"log_prob": each.log_prob})
        extended = going_on
        left_out.append(impossible)
    found.sort(key=lambda each: each.score, reverse=True)
    lines = [f"{each.score:.2f}  {_text(pieces(each.tokens))}" for each in found]
    return Control(
        "beam",
        title,
        {"nodes": nodes, "source": list(source), "looks": looks, "left_out": left_out},
        "\n".join([f"{len(steps)} steps. What ended, by score:", *lines]),
        beside=__file__,
    )


def _share(extension: Hypothesis, node: dict) -> float:
    """Return the probability of the newest token."""
    return math.exp(extension.log_prob - node["log_prob"])


def _hundredths(step: int, weights: Tensor, expected: tuple[int, int]) -> list:
    """Round weights: short to write, exact enough."""
    if weights.shape != expected:
        raise ValueError(
            f"weights of step {step} must have shape (hypotheses, S) = {expected}, "
            f"got {tuple(weights.shape)}"
        )
    return (100 * weights).round().int().tolist()


def _text(tokens: Sequence[str]) -> str:
    joined = "" if any(token.startswith("▁") for token in tokens) else " "
    return joined.join(tokens).replace("▁", " ").strip() or "(empty)"
