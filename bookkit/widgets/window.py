"""A window in the page: pairs that are computed, pairs that are used, and its reach."""

from bookkit.widgets.control import Control
from transformer_lib.variants import window_mask

LONGEST, DEEPEST = 32, 8


def window_control(length: int = 12, width: int = 3, layers: int = 2) -> Control:
    """Draw the pairs of a window behind a mask and by chunks, and what reaches whom.

    Args:
        length: Positions of the text, 2 to 32.
        width: Positions to one side that are seen, one's own counted, up to ``length``.
        layers: How many there are, up to 8.

    Returns:
        A control with these three, the position that asks, and whether it looks to both
        sides; with the scores that are computed in each way, and those that are used.

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
    heard = min(length, layers * (width - 1) + 1)
    return Control(
        "window",
        "A window, its pairs and its reach",
        given | {"longest": LONGEST, "deepest": DEEPEST},
        f"{length} positions, each of which sees itself and the {width - 1} before it: "
        f"{length**2} scores are computed behind a mask, and {used} are used.\n"
        f"After {layers} layers the last position has heard of {heard} positions.",
    )
