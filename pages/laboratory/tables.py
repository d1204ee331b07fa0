"""Positions and masks: the tables that the model adds, and those that it obeys."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bookkit.plotting import plot_mask, plot_signed
from pages.laboratory.panel import Panel, choose, slide, tick, write
from transformer_lib.model import causal_mask, padding_mask, sinusoidal_table

MOST_TOKENS = 12
PAD = "PAD"


def positions_panel() -> Panel:
    """Let the reader change the table of sines."""
    return Panel(
        "Positions",
        positions,
        move={"here": 4},
        length=slide("positions", [8, 16, 32, 64, 128], 32),
        width=slide("d_model", [4, 8, 15, 16, 32, 64], 32),
        layout=choose("layout", ["interleaved", "concatenated"], "interleaved"),
        here=slide("compare with position", range(0, 128, 4), 16),
    )


def positions(
    length: int, width: int, layout: str, here: int
) -> tuple[Axes, Axes, str]:
    """Draw the table, and how much each row is like one of them.

    Raises:
        ValueError: If the table cannot have this width, or has no such position.
    """
    if here >= length:
        raise ValueError(f"position must be below {length}, got {here}")
    table = sinusoidal_table(length, width, layout).float()  # (length, width)
    size = {"figsize": (3.3, 2.9)}
    drawn = plot_signed(
        table,
        ax=Figure(
            **size, label="The table of sines, a row for each position"
        ).subplots(),
        label="value",
    )
    drawn.set(xlabel="feature", ylabel="position")
    alike = table @ table[here] / (width / 2)  # (length)
    ax = Figure(**size, label=f"How much each row is like row {here}").subplots()
    ax.plot(alike)
    ax.set(xlabel="position", ylabel=f"likeness to position {here}", ylim=(-1.05, 1.05))
    others = alike.clone()
    others[here] = -torch.inf
    return (
        drawn,
        ax,
        (
            f"Every row has the length √{width / 2:g}. Most like position {here} is "
            f"{int(others.argmax())}, with {others.max():.2f}."
        ),
    )


def masks_panel() -> Panel:
    """Let the reader combine the two masks."""
    return Panel(
        "Masks",
        masks,
        move={"sentence": "PAD PAD BOS die Katze liest"},
        sentence=write("Tokens", "BOS die Katze liest PAD PAD"),
        causal=tick("causal", True),
        padding=tick("padding", True),
    )


def masks(sentence: str, causal: bool, padding: bool) -> tuple[Axes, str]:
    """Draw the masks of the library over the reader's tokens; PAD is padding.

    Raises:
        ValueError: If there is no token or too many.
    """
    tokens = sentence.split()
    if not 1 <= len(tokens) <= MOST_TOKENS:
        raise ValueError(f"tokens must be 1 to {MOST_TOKENS}, got {len(tokens)}")
    size = len(tokens)
    mask = torch.ones(1, 1, size, size, dtype=torch.bool)  # (1, 1, T, T)
    if causal:
        mask = mask & causal_mask(size)
    if padding:
        ids = torch.tensor([[token != PAD for token in tokens]]).long()
        mask = mask & padding_mask(ids, pad_id=0)
    mask = mask[0, 0]  # (T, T)
    ax = Figure(
        figsize=(3.8, 3.8), label="The mask: which token may attend to which"
    ).subplots()
    blind = int((~mask.any(dim=1)).sum())
    return plot_mask(mask, tokens, tokens, ax), (
        f"{int(mask.sum())} of {size**2} pairs may attend. "
        + (
            f"{blind} of {size} rows may attend to nothing."
            if blind
            else "Every row may attend to something."
        )
    )
