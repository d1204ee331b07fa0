"""From scores to weights, for scores that the reader types."""

from collections.abc import Sequence

from transformer_lib.checks import require_positive
from transformer_lib.widgets.control import Control


def softmax_control(
    words: Sequence[str], scores: Sequence[float], d_k: int = 64
) -> Control:
    """Turn the scores of one query into weights, and let the reader change all of it.

    Args:
        words: What is asked, a word for each score.
        scores: How well each one matches, before any division.
        d_k: Width of a head, where the slider begins: the scores are divided by its
            root when the reader says so.

    Returns:
        A control with the scores, the width, a temperature, and the weights as bars.

    Raises:
        ValueError: If there is not a word for every score, or ``d_k`` is below 1.

    Source: Vaswani et al. (2017), section 3.2.1.
    """
    if len(words) != len(scores):
        raise ValueError(
            f"words and scores must be as many, got {len(words)} and {len(scores)}"
        )
    require_positive(d_k=d_k)
    pairs = ", ".join(
        f"{word} {score:g}" for word, score in zip(words, scores, strict=True)
    )
    return Control(
        "softmax",
        "From scores to weights",
        {"words": list(words), "scores": list(scores), "d_k": d_k},
        f"Scores: {pairs}. Their softmax is the weights, which sum to 1.",
    )
