"""The colours of the book's drawings, each declared once, for light and for dark pages.

A colour has a meaning, and keeps it in the drawings of the chapters, on the front page,
in the figures and in the controls. A figure is drawn in the light colours; a page that
knows both puts a variable in the place of each: ``--book-attention`` for the fill that
attention has, ``--book-attention-line`` for its outline, ``--book-series-1`` for the
first line of a plot.
"""

# What a box is filled with: (light, dark).
COLOURS = {
    "attention": ("#d3e6f6", "#10344f"),
    "cross_attention": ("#b4d5ee", "#17486d"),  # the same hue, a little deeper
    "feed_forward": ("#d8efe6", "#0d3d30"),
    "norm": ("#fdf1dd", "#40310f"),  # add & norm
    "embedding": ("#e8dff0", "#35274a"),
    "output": ("#ded0eb", "#432f5f"),  # the hue of the embedding: it undoes it
    "source": ("#d2eef0", "#0f3b40"),
    "memory": ("#b0dee2", "#17535a"),  # the hue of the source: it is made of it
    "target": ("#fae0e7", "#4d1f2e"),
    "cache": ("#ece4d8", "#3a3126"),
    "right": ("#c6ebd5", "#0f4a2e"),  # what the model has written right
    "may_attend": ("#0072b2", "#4ba3df"),
    "hidden": ("#e6e6e6", "#2b3138"),
    "plain": ("#f3f4f6", "#22272e"),
    "paper": ("#ffffff", "#121212"),
    "ink": ("#1f2328", "#e6edf3"),
    "quiet": ("#57606a", "#9ea7b3"),
    "rule": ("#d0d7de", "#3d4650"),
}
# The outline and the arrows of what has one: (light, dark).
EDGES = {
    "attention": ("#0072b2", "#4ba3df"),
    "cross_attention": ("#005a8e", "#8cc8f2"),
    "feed_forward": ("#009e73", "#2fbf95"),
    "norm": ("#b07d1a", "#d3a347"),
    "embedding": ("#8a6aa8", "#b595d3"),
    "output": ("#74529a", "#c4a8e0"),
    "source": ("#18828c", "#46b3bd"),
    "memory": ("#0f6670", "#6cc8d1"),
    "target": ("#b8476e", "#e688a6"),
    "cache": ("#8b6a42", "#c2a27a"),
    "right": ("#116329", "#7ee2a0"),
    "plain": ("#57606a", "#9ea7b3"),
}
# The lines of a plot, in this order: (light, dark).
SERIES = (
    ("#0072b2", "#4ba3df"),
    ("#d55e00", "#f58a3c"),
    ("#009e73", "#2fbf95"),
    ("#cc79a7", "#de9dc2"),
)


def variables() -> dict[str, tuple[str, str]]:
    """Name every colour as a style sheet does: ``--book-NAME`` to (light, dark)."""
    named = {f"--book-{name}": both for name, both in COLOURS.items()}
    named |= {f"--book-{name}-line": both for name, both in EDGES.items()}
    named |= {f"--book-series-{i}": both for i, both in enumerate(SERIES, start=1)}
    return {name.replace("_", "-"): both for name, both in named.items()}


def style_sheet(light: str = ":root", dark: str = 'html[data-theme="dark"]') -> str:
    """Write the variables as CSS.

    Args:
        light: The selector of what has the light colours, and all colours on paper.
        dark: The selector of what has the dark ones on a screen.
    """

    def rules(selector: str, theme: int) -> str:
        pairs = (f"{name}: {both[theme]};" for name, both in variables().items())
        return f"{selector} {{ {' '.join(pairs)} }}"

    return f"{rules(light, 0)}\n@media screen {{ {rules(dark, 1)} }}\n"
