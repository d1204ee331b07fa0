"""A window in the page: pairs that are computed, pairs that are used, and its reach."""

from bookkit.controls.control import Control
from transformer_lib.variants import window_mask

LONGEST, DEEPEST = 32, 8


def window_control(length: int = 12, width: int = 3, layers: int = 1) -> Control:
    """Draw the pairs of a window with a mask and in chunks, and what it reaches.

    Args:
        length: Positions of the text, 2 to 32.
        width: Positions to one side that are seen, including the query's own, up to
            ``length``.
        layers: How many there are, up to 8.

    Returns:
        A control with these three, the query's position, and whether it looks to both
        sides; with the scores that are computed in each way, and those that are used.
        It asks how many layers bring the first position to the last, and tests a guess.

    Raises:
        ValueError: If a number is not within its limits.

    Source: Beltagy et al. (2020), section 3.1.
    """
    limits = {"length": (2, LONGEST), "width": (1, length), "layers": (1, DEEPEST)}
    given = {"length": length, "width": width, "layers": layers}
    for name, (least, most) in limits.items():
        if not least <= given[name] <= most:
            raise ValueError(f"{name} must be {least} to {most}, got {given[name]}")
    used = window_mask(length, length, width, causal=True).sum().item()
    reached = min(length, layers * (width - 1) + 1)
    return Control(
        "window",
        "A window, its pairs and its reach",
        given | {"longest": LONGEST, "deepest": DEEPEST},
        f"{length} positions, each of which sees itself and the {width - 1} before it: "
        f"{length**2} scores are computed with a mask, and {used} are used.\n"
        f"After {layers} layer{'s' * (layers > 1)}, the last position depends on "
        f"{reached} positions.\nHow many layers until it depends on the first?",
        beside=__file__,
    )
