"""Attention over the reader's own words, with all its choices."""

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor, nn

from bookkit.listing import walk
from bookkit.listing.listing import Walk
from bookkit.plotting import plot_attention, plot_signed
from pages.laboratory.panel import Panel, choose, slide, write
from transformer_lib.model import (
    MultiHeadAttention,
    causal_mask,
    scaled_dot_product_attention,
)

MOST_WORDS = 10
WIDTHS, HEADS, TEMPERATURES = [4, 8, 16, 32, 64], [1, 2, 3, 4, 8], [0.1, 0.25, 0.5, 1]
TEMPERATURES += [2, 4, 10]
MASKS = ["none", "causal", "hide the last word", "hide everything"]


def attention_panel() -> Panel:
    """Let the reader run a layer of attention on a sentence.

    Returns:
        A panel with the scores and the weights of a head, and the call line by line.
    """
    return Panel(
        "Attention laboratory",
        attend,
        move={"temperature": 0.1},
        sentence=write("Words", "the cat reads a red book"),
        width=slide("d_model", WIDTHS, 16),
        heads=slide("heads", HEADS, 2),
        head=slide("show head", range(max(HEADS)), 0),
        temperature=slide("temperature", TEMPERATURES, 1),
        mask=choose("mask", MASKS, "none"),
        seed=slide("seed", range(10), 0),
    )


def attend(
    sentence: str,
    width: int,
    heads: int,
    head: int,
    temperature: float,
    mask: str,
    seed: int,
) -> tuple[Axes, Axes, Walk, str]:
    """Run a fresh layer over a sentence, each word a random vector of its own.

    Args:
        sentence: Up to ten words; the same word has the same vector.
        width: The layer's ``d_model``.
        heads: Its number of heads.
        head: The head to show, from 0.
        temperature: The scores are divided by it and by the root of d_k.
        mask: One of ``MASKS``.
        seed: The seed of the random numbers.

    Returns:
        The scores, the weights, the listing of the call, and the weights in words.

    Raises:
        ValueError: If there are no words or too many, or the layer cannot have these
            heads or lacks the one to show.
    """
    words = sentence.split()
    if not 1 <= len(words) <= MOST_WORDS:
        raise ValueError(f"words must be 1 to {MOST_WORDS}, got {len(words)}")
    with torch.random.fork_rng([]), torch.no_grad():
        torch.manual_seed(seed)
        layer = MultiHeadAttention(width, heads)
        for parameter in layer.parameters():
            if parameter.dim() > 1:
                nn.init.xavier_uniform_(parameter)
        vectors = {word: torch.randn(width) for word in words}
    if head >= heads:
        raise ValueError(f"head must be below the number of heads, got {head}, {heads}")
    x = torch.stack([vectors[word] for word in words])[None]  # (1, T, width)
    seen = {}

    def attend_line_by_line(q: Tensor, k: Tensor, v: Tensor, *rest) -> Tensor:
        q = q / temperature
        seen["scores"] = q @ k.mT / q.size(-1) ** 0.5  # (1, H, T, T)
        seen["call"] = walk(scaled_dot_product_attention, q, k, v, *rest)
        return seen["call"].result[0]

    layer.attend = attend_line_by_line
    with torch.no_grad():
        layer.eval()(x, x, x, mask_over(len(words), mask))
    weights = seen["call"].result[1][0, head]  # (T, T)
    scores = seen["scores"][0, head]  # (T, T)
    pictures = []
    for plot, values, label in (
        (plot_signed, scores, "score"),
        (plot_attention, weights, "weight"),
    ):
        figure = Figure(
            figsize=(3.4, 3), label=f"Head {head}: a {label} for each pair of words"
        )
        pictures.append(plot(values, words, words, figure.subplots(), label=label))
    return *pictures, seen["call"], said(words, weights)


def mask_over(size: int, name: str) -> Tensor | None:
    """Make the mask of a name, shape (1, 1, size, size)."""
    if name == "none":
        return None
    if name == "causal":
        return causal_mask(size)
    mask = torch.ones(1, 1, size, size, dtype=torch.bool)
    mask[..., -1 if name == "hide the last word" else slice(None)] = False
    return mask


def said(words: list[str], weights: Tensor) -> str:
    """Say what the last word attends to most, and how sharp the weights are."""
    most, where = weights[-1].max(dim=0)
    if not most:
        return f"“{words[-1]}” may look at nothing: all its weights are 0, none is nan."
    sharp = weights.amax(dim=-1).mean()
    return (
        f"“{words[-1]}” looks most at “{words[where]}”, with {most:.2f} of its weight. "
        f"The largest weight of a row is {sharp:.2f} on average."
    )
