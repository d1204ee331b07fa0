"""From scores to weights, for scores that the reader types."""

from collections.abc import Sequence

from bookkit.controls.control import Control

WIDTHS = [2**power for power in range(10)]


def softmax_control(
    words: Sequence[str], scores: Sequence[float], d_k: int = 64
) -> Control:
    """Turn the scores of one query into weights, and let the reader change all of it.

    Args:
        words: What is asked, a word for each score.
        scores: How well each one matches, in a head of width 1. The scores of a wider
            head are larger by the root of its width, as those of random numbers are.
        d_k: Width of the head, where the slider begins.

    Returns:
        A control with the scores, the width, the division by its root, a temperature,
        and the weights as bars.

    Raises:
        ValueError: If there is not a word for every score, or ``d_k`` is not a power of
            two from 1 to 512.

    Source: Vaswani et al. (2017), section 3.2.1.
    """
    if len(words) != len(scores):
        raise ValueError(
            f"words and scores must be as many, got {len(words)} and {len(scores)}"
        )
    if d_k not in WIDTHS:
        raise ValueError(f"d_k must be a power of two up to {WIDTHS[-1]}, got {d_k}")
    pairs = ", ".join(
        f"{word} {score * d_k**0.5:g}"
        for word, score in zip(words, scores, strict=True)
    )
    return Control(
        "softmax",
        "From scores to weights",
        {"words": list(words), "scores": list(scores), "widths": WIDTHS, "d_k": d_k},
        f"Scores at d_k = {d_k}: {pairs}. Softmax makes weights of them, with sum 1.",
        beside=__file__,
    )
