"""The model as a drawing, with a link in each box to what it computes.

A box has its name on the left. On the right the page paints a picture of its tensor.
"""

from html import escape
from itertools import pairwise

WIDTH, BOX, HIGH, PITCH = 484, 192, 30, 41
COLUMNS = {"encoder": 124, "decoder": 360}  # the middle of each
TITLE = 26  # the height of a column's title
PICTURE, PADDING = 72, 4  # the width of a box's picture, and the room around it
PICTURES = {  # the end of the names of boxes -> the tensor that stands for the box
    "attention": ".weights",
    "feed_forward": ".active",
    "src": ".x",
    "tgt": ".x",
    "memory": "",
    "decoder.output": "",
    "logits": "",
}
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
            row += 0.45
        if column == "encoder":
            place(column, ("memory", "memory", "memory", row))
        else:
            place(column, ("decoder.output", "last norm", "norm", row))
            place(column, ("logits", "logits", "output", row + 1))
            place(column, ("probabilities", "next word", "target", row + 2))
    return placed


def box_of(node: str, layers: int) -> str:
    """Return the name of the box that a node is in."""
    names = (box["name"] for box in boxes(layers))
    return max((n for n in names if node == n or node.startswith(f"{n}.")), key=len)


def picture_of(box: str) -> str:
    """Return the name of the node that stands for a box, or "" if it has words."""
    ends = (end for end in PICTURES if box.endswith(end))
    return next((box + PICTURES[end] for end in ends), "")


def overview(layers: int) -> str:
    """Draw the model as SVG.

    Args:
        layers: Of the encoder, and of the decoder.

    Returns:
        An ``<svg>`` with a link ``#node=NAME`` around each box. The ``<image>`` in it
        is empty, and so is the ``<text>`` in its place where the tensor is a word.
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
            top, bottom = y(max(own)) - 11, y(min(own)) + HIGH + 10
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
        for box in places:  # the residual stream goes past it and is added again
            if box["column"] == column and len(box["name"].split(".")) == 3:
                low, high = y(box["row"]) + HIGH + 6, y(box["row"]) - 6
                parts.append(
                    f'<path class="o-stream" d="M{middle} {low}h{-BOX / 2 - 4:g}V{high}'
                    f'H{middle - 4}"/><path class="o-plus" d="M{middle - 4} {high}'
                    'a4 4 0 1 0 8 0a4 4 0 1 0 -8 0h8m-4 -4v8"/>'
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
    for order, box in enumerate(places):
        left, top = COLUMNS[box["column"]] - BOX / 2, y(box["row"])
        right = left + BOX - PADDING
        content = (
            f'<image class="o-picture" data-of="{picture}" style="--order: {order}" '
            f'x="{right - PICTURE:g}" y="{top + PADDING}" width="{PICTURE}" '
            f'height="{HIGH - 2 * PADDING}" preserveAspectRatio="none"/>'
            if (picture := picture_of(box["name"]))
            else f'<text class="o-now" x="{right - 4:g}" y="{top + 20}"></text>'
        )
        where = box["name"].split(".")
        label, spoken = escape(box["label"]), ""
        if box["name"] in ("src", "tgt"):
            spoken = f' aria-label="{box["column"]}, {label}"'
        elif len(where) == 3:
            spoken = f' aria-label="{where[0]} layer {where[1]}, {label}"'
        parts.append(
            f'<a role="link" xlink:href="#node={box["name"]}" '
            f'data-box="{box["name"]}"{spoken}>'
            f'<rect x="{left:g}" y="{top}" width="{BOX}" height="{HIGH}" rx="6" '
            f'style="--fill: var(--book-{box["kind"]}); '
            f'--line: var(--book-{box["kind"]}-line)"/>'
            f'<text x="{left + 8:g}" y="{top + 20}">{label}</text>'
            f"{content}</a>"
        )
    return (
        f'<svg class="o-map" viewBox="0 0 {WIDTH} {height}" role="group" '
        'aria-label="The model: encoder left, decoder right, memory between them">'
        '<defs><marker id="o-tip" viewBox="0 0 10 10" refX="9" refY="5" '
        'markerWidth="6" markerHeight="6" orient="auto"><path d="M0 0L10 5L0 10z"/>'
        f"</marker></defs>{''.join(parts)}</svg>"
    )
