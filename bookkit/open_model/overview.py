"""The model as a drawing, with a link in each box to what it computes."""

from html import escape
from itertools import pairwise

WIDTH, BOX, HIGH, PITCH = 366, 132, 30, 40
COLUMNS = {"encoder": 98, "decoder": 268}  # the middle of each
TITLE = 26  # the height of a column's title
KINDS = {
    "self_attention": ("self-attention", "attention"),
    "cross_attention": ("cross-attention", "cross-attention"),
    "feed_forward": ("feed-forward", "feed-forward"),
}


def boxes(layers: int) -> list[dict[str, object]]:
    """Place the boxes of the drawing.

    Args:
        layers: Of the encoder, and of the decoder.

    Returns:
        For each box its ``name``, which is the beginning of the names of its nodes,
        its ``label``, its ``kind``, a name of ``bookkit.colours``, and its ``column``
        and ``row``, counted from below.
    """
    placed = []

    def place(column: str, *parts: tuple[str, str, str, float]) -> None:
        names = ("name", "label", "kind", "row")
        placed.extend(
            {"column": column, **dict(zip(names, part, strict=True))} for part in parts
        )

    for column, side, own in (
        ("encoder", "src", ("self_attention", "feed_forward")),
        ("decoder", "tgt", ("self_attention", "cross_attention", "feed_forward")),
    ):
        ids = "source ids" if side == "src" else "ids so far"
        place(column, (f"{side}.ids", ids, {"src": "source", "tgt": "target"}[side], 0))
        place(column, (side, "vectors", "embedding", 1))
        row = 2.3
        for layer in range(layers):
            for kind in own:
                place(column, (f"{column}.{layer}.{kind}", *KINDS[kind], row))
                row += 1
            row += 0.3
        if column == "encoder":
            place(column, ("memory", "memory", "memory", row))
        else:
            place(column, ("decoder.output", "last norm", "norm", row))
            place(column, ("logits", "scores", "output", row + 1))
            place(column, ("probabilities", "next word", "target", row + 2))
    return placed


def box_of(node: str, layers: int) -> str:
    """Return the name of the box that a node is in."""
    names = (box["name"] for box in boxes(layers))
    return max((n for n in names if node == n or node.startswith(f"{n}.")), key=len)


def overview(layers: int) -> str:
    """Draw the model as SVG.

    Args:
        layers: Of the encoder, and of the decoder.

    Returns:
        An ``<svg>`` with a link ``#node=NAME`` around each box.
    """
    places = boxes(layers)
    height = round(max(box["row"] for box in places) * PITCH) + HIGH + TITLE + 8

    def y(row: float) -> int:
        return round(height - 4 - HIGH - row * PITCH)

    parts = []
    for column, middle in COLUMNS.items():
        rows = sorted(box["row"] for box in places if box["column"] == column)
        for layer in range(layers):
            name = f"{column}.{layer}."
            own = [box["row"] for box in places if box["name"].startswith(name)]
            top, bottom = y(max(own)) - 6, y(min(own)) + HIGH + 6
            left, width = middle - BOX / 2 - 8, BOX + 16
            beside = left - 7 if column == "encoder" else left + width + 17
            parts.append(
                f'<rect class="o-frame" x="{left:g}" y="{top}" width="{width}" '
                f'height="{bottom - top}" rx="9"/><text class="o-layer" '
                f'transform="translate({beside:g} {(top + bottom) / 2:g}) rotate(-90)">'
                f"layer {layer}</text>"
            )
        parts.append(
            f'<text class="o-column" x="{middle}" y="{y(rows[-1]) - 9}">'
            f"{column.capitalize()}</text>"
        )
        for low, high in pairwise(rows):
            parts.append(
                f'<path class="o-arrow" d="M{middle} {y(low)}V{y(high) + HIGH + 1}"/>'
            )
    memory = next(box for box in places if box["name"] == "memory")
    across = (COLUMNS["encoder"] + COLUMNS["decoder"]) // 2
    right = COLUMNS["encoder"] + BOX // 2
    for box in places:
        if box["name"].endswith("cross_attention"):
            parts.append(
                f'<path class="o-arrow o-memory" d="M{right} {y(memory["row"]) + 15}'
                f'H{across}V{y(box["row"]) + 15}H{COLUMNS["decoder"] - BOX // 2 - 1}"/>'
            )
    for box in places:
        left, top = COLUMNS[box["column"]] - BOX / 2, y(box["row"])
        where = box["name"].split(".")
        spoken = f"{where[0]} layer {where[1]}, " if len(where) == 3 else ""
        parts.append(
            f'<a href="#node={box["name"]}" data-box="{box["name"]}" '
            f'aria-label="{escape(spoken + box["label"])}">'
            f'<rect x="{left:g}" y="{top}" width="{BOX}" height="{HIGH}" rx="6" '
            f'style="--fill: var(--book-{box["kind"]}); '
            f'--line: var(--book-{box["kind"]}-line)"/>'
            f'<text x="{left + BOX / 2:g}" y="{top + 20}">{escape(box["label"])}</text>'
            "</a>"
        )
    return (
        f'<svg class="o-map" viewBox="0 0 {WIDTH} {height}" role="group" '
        'aria-label="The model: encoder left, decoder right, memory between them">'
        '<defs><marker id="o-tip" viewBox="0 0 10 10" refX="9" refY="5" '
        'markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L10 5L0 10z"/>'
        f"</marker></defs>{''.join(parts)}</svg>"
    )
