"""The sinusoidal table in the page, and the dot product of two positions."""

from bookkit.controls.control import Control
from transformer_lib.model import sinusoidal_table


def positions_control(
    d_model: int = 32, max_len: int = 64, positions: tuple[int, int] = (4, 11)
) -> Control:
    """Draw the table, a pair of its features, and two positions that can be dragged.

    Args:
        d_model: Width of a row, even.
        max_len: Number of positions. The two start in the first half, so that both can
            be moved on together.
        positions: Where the two stand at first.

    Returns:
        A control with the layout, the pair, the two positions, how far both are moved
        on, and the dot product of their rows beside that of every distance.

    Raises:
        ValueError: If ``d_model`` is odd, or a position is not in the first half.

    Source: Vaswani et al. (2017), section 3.5.
    """
    table = sinusoidal_table(max_len, d_model).double()
    t, s = positions
    half = max_len // 2
    if not (0 <= t < half and 0 <= s < half):
        raise ValueError(
            f"positions must be in the first half of {max_len}, got {t} and {s}"
        )
    return Control(
        "positions",
        "Positions as waves",
        {"d_model": d_model, "max_len": max_len, "t": t, "s": s},
        f"The rows of positions {t} and {s}, {abs(t - s)} apart, have the dot product "
        f"{table[t] @ table[s]:.3f}, like any two rows at this distance.",
        beside=__file__,
    )
