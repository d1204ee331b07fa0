"""The book's translator, for sentences that the reader types."""

from collections.abc import Sequence

from bookkit.widgets.control import Control, read
from transformer_lib.javascript import FILES, source

MEGABYTES = 3.9  # of weights, as the file has them
EXAMPLES = (
    "A brown dog runs across the beach.",
    "Two children are playing football in the park.",
    "A man with a guitar is singing on a stage.",
    "The stock market fell sharply.",
)


def translator_control(examples: Sequence[str] = EXAMPLES) -> Control:
    """Translate what the reader types, and show where every German token looked.

    The page fetches the weights when they are first needed, from the file that
    ``python -m transformer_lib.javascript`` makes, and computes by itself, beside the
    page's own thread. What it has written can be read while it writes, and be stopped.

    Args:
        examples: English sentences to click; the first stands in the line at first.

    Returns:
        A control with a line to type in, the search, the translation with the
        probability of each token, up to two others that the search found, and the
        cross-attention of every layer and head.

    Raises:
        ValueError: If there is no example.
    """
    if not examples:
        raise ValueError("examples must hold at least 1 sentence, got 0")
    return Control(
        "translator",
        "English to German, in this page",
        {
            "examples": list(examples),
            "megabytes": MEGABYTES,
            "worker": "\n".join([*map(source, FILES), read("translator_worker.js")]),
        },
        "Type an English sentence, and the book's own model translates it in the page, "
        f"such as: {examples[0]}",
    )
