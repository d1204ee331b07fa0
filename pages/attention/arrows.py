"""Query, keys and values as arrows that the reader pulls."""

import math
from collections.abc import Sequence

from bookkit.controls.control import Control

Point = Sequence[float]


def arrows_control(
    words: Sequence[str],
    query: Point,
    key: Sequence[Point],
    value: Sequence[Point],
    axes: Sequence[str] = ("noun", "adjective", "red", "feminine"),
) -> Control:
    """Draw the query of the first word, and keys and values of all, as arrows to pull.

    The control asks four questions, one after another. The second and the third word
    play the parts of "red" and "cat" in them.

    Args:
        words: Three words.
        query: Of the first word, shape (2,).
        key: Of each word, shape (3, 2).
        value: Of each word, shape (3, 2).
        axes: What the axes mean: two for the query and the keys, two for the values.

    Returns:
        A control with both planes, the scores, the weights and the blend.

    Raises:
        ValueError: If there are not three words, three keys and three values.

    Source: Vaswani et al. (2017), section 3.2.1.
    """
    if not len(words) == len(key) == len(value) == 3:
        raise ValueError(
            "words, key and value must hold three each, got "
            f"{len(words)}, {len(key)} and {len(value)}"
        )
    scores = [query[0] * x + query[1] * y for x, y in key]
    powers = [math.exp(score) for score in scores]
    weights = [power / sum(powers) for power in powers]
    blend = [
        sum(weight * point[i] for weight, point in zip(weights, value, strict=True))
        for i in (0, 1)
    ]
    rows = [
        f"“{word}”: key ({key[i][0]:g}, {key[i][1]:g}), score {scores[i]:g}, "
        f"weight {100 * weights[i]:.0f} %, value ({value[i][0]:g}, {value[i][1]:g})"
        for i, word in enumerate(words)
    ]
    points = {
        "query": list(query),
        "key": [list(point) for point in key],
        "value": [list(point) for point in value],
    }
    return Control(
        "arrows",
        "Pull the arrows",
        {"words": list(words), "axes": list(axes), "start": points},
        f"The query of “{words[0]}” is ({query[0]:g}, {query[1]:g}).\n"
        + "\n".join(rows)
        + f"\nThe blend of the values is ({blend[0]:.2f}, {blend[1]:.2f}).",
        beside=__file__,
    )
