"""A figure as part of a page, where the page's looks reach it.

Matplotlib draws a figure for white paper. In a page it is transparent, its words are in
the page's font, and the colours that ``bookkit.colours`` declares are
variables, so that the dark theme has its own. What that declaration does not know keeps
its colour if it is strong, and gets a dark twin of the same hue if it is a pale box
under words. A heat map is turned as a whole, with the words on it: the style sheets do
that.
"""

import base64
import colorsys
import io
import re
import xml.etree.ElementTree as ET

from PIL import Image

from bookkit.colours import COLOURS, variables

NAMES = {light: name for name, (light, _) in reversed(variables().items())}
INK, PAPER = COLOURS["ink"][0], COLOURS["paper"][0]
QUIET, RULE = COLOURS["quiet"][0], COLOURS["rule"][0]
PIXELS = 100 / 72  # a figure has points, a hundred pixels of the page are an inch of it
READABLE = 9  # pixels: where its words would be smaller, a figure scrolls instead
SHAPES = {"path", "rect", "circle", "ellipse", "polygon", "polyline", "use"}
PAINTS = ("fill", "stroke", "stop-color")
KEPT = ("fill-opacity", "stroke-opacity", "opacity", "stroke-width", "stroke-dasharray")
KEPT += ("stroke-dashoffset", "stroke-linejoin", "stroke-linecap", "font-size")
KEPT += ("font-weight", "font-style", "text-anchor", "marker-end", "marker-start")
LINK = "{http://www.w3.org/1999/xlink}href"
NUMBER = re.compile(r"-?\d+\.\d+")
POINTED = re.compile(r"(?<=url\(#)[^)]+")


def inline(svg: str, alt: str, prefix: str) -> str:
    """Make the element of a page from a file of SVG.

    Args:
        svg: The file's text.
        alt: What the figure shows, in words.
        prefix: What its names inside begin with, so that no two figures share one.

    Returns:
        HTML: a ``div`` of the class ``picture``.
    """
    root = ET.fromstring(svg)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    if root.find("g[@id='figure_1']") is not None:
        _drop_background(root)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag in ("metadata", "style", "title", "desc"):
                parent.remove(child)
            elif child.tag == "image":
                _draw_cells(parent, child)
    images = [
        _extent(image)
        for image in root.iter("image")
        if image.get("transform", "").startswith("matrix")
    ]
    defined = {part for defs in root.iter("defs") for part in defs.iter()}
    for element in root.iter():
        _restyle(element, images, element in defined)
        _simplify(element)
    _rename(root, prefix)
    _flatten(root)

    left, top, width, height = map(float, root.get("viewBox").split())
    least = width * min(READABLE / _smallest(root), PIXELS)
    root.attrib = {
        "role": "img",
        "aria-label": alt,
        "viewBox": f"{left:g} {top:g} {width:g} {height:g}",
        "width": f"{width * PIXELS:.0f}",
        "height": f"{height * PIXELS:.0f}",
        "style": f"min-width:{least:.0f}px",
    }
    text = re.sub(r">\s+<", "><", ET.tostring(root, encoding="unicode"))
    return f'<div class="picture"><div>{text}</div></div>'


def _drop_background(root: ET.Element) -> None:
    """Take the white paper away that matplotlib puts under a figure and its axes."""
    for group in root.iter("g"):
        name = group.get("id", "")
        if name == "figure_1" or name.startswith("axes_"):
            first = next(iter(group), None)
            if first is not None and first.get("id", "").startswith("patch_"):
                shapes = [shape.get("style", "") for shape in first]
                if all(_declarations(style) == {"fill": PAPER} for style in shapes):
                    group.remove(first)


def _draw_cells(parent: ET.Element, image: ET.Element) -> None:
    """Draw an image of the book's own colours, which a mask is, as cells."""
    link = image.attrib.pop(LINK, None) or image.get("href", "")
    image.set("href", link.replace("\n", ""))
    image.attrib.pop("style", None)
    image.attrib.pop("id", None)
    data = base64.b64decode(link.partition(",")[2])
    pixels = Image.open(io.BytesIO(data)).convert("RGBA")
    seen = pixels.getcolors(2) or []
    colours = {f"#{r:02x}{g:02x}{b:02x}": (r, g, b, a) for _, (r, g, b, a) in seen}
    if not colours or not all(
        name in NAMES and rgba[3] == 255 for name, rgba in colours.items()
    ):
        return
    group = ET.Element("g", transform=image.get("transform", ""))
    group.set("shape-rendering", "crispEdges")
    for name, rgba in colours.items():
        cells = [
            f"M{i % pixels.width} {i // pixels.width}h1v1h-1z"
            for i, pixel in enumerate(pixels.get_flattened_data())
            if pixel == rgba
        ]
        group.append(ET.Element("path", d="".join(cells), style=f"fill: {name}"))
    parent[list(parent).index(image)] = group


def _smallest(root: ET.Element) -> float:
    """Find the size of the smallest words, formulas aside."""
    sizes = [_declarations(text.get("style", "")) for text in root.iter("text")]
    sizes = [float(style.get("font-size", "10px")[:-2]) for style in sizes]
    return min(sizes, default=10)


def _extent(image: ET.Element) -> tuple[float, ...]:
    """Give left, top, right and bottom of an image, as its transform places it."""
    a, _, _, d, x, y = map(float, re.findall(r"-?[\d.]+", image.get("transform")))
    width, height = a * float(image.get("width")), d * float(image.get("height"))
    return (*sorted([x, x + width]), *sorted([y, y + height]))


def _restyle(element: ET.Element, images: list[tuple], defined: bool) -> None:
    """Give an element the page's font, and variables for the colours it knows.

    Args:
        element: What is drawn.
        images: The extents of the heat maps: words on them were chosen for what is
            under them.
        defined: Whether it is used elsewhere, in the colours that are given there.
    """
    text = element.tag in ("text", "tspan")
    style = _declarations(element.attrib.pop("style", ""))
    for name in (*PAINTS, *KEPT, "font-family"):
        if value := element.attrib.pop(name, None):
            style.setdefault(name, value)
    if element.tag in SHAPES | {"text"} and not defined:
        style.setdefault("fill", "#000000")  # as SVG itself has it
    over = text and any(_inside(element, image) for image in images)
    mono = text and "mono" in style.get("font-family", "").lower()
    if over or mono:
        element.set("class", "over" if over else "code")
    new = {}
    for name, value in style.items():
        if name in PAINTS:
            new |= {name: value} if over else _paint(name, value, text)
        elif name in KEPT:
            new[name] = value
    if new.get("fill-opacity") == "1":
        del new["fill-opacity"]
    if new:
        element.set("style", ";".join(f"{name}:{value}" for name, value in new.items()))


def _declarations(style: str) -> dict[str, str]:
    """Read a style attribute."""
    pairs = (part.partition(":") for part in style.split(";") if ":" in part)
    return {name.strip(): value.strip() for name, _, value in pairs}


def _inside(element: ET.Element, box: tuple[float, ...]) -> bool:
    """Whether a text begins on an image."""
    left, right, top, bottom = box
    x, y = float(element.get("x", "-1")), float(element.get("y", "-1"))
    return left <= x <= right and top <= y <= bottom


def _paint(name: str, value: str, text: bool) -> dict[str, str]:
    """Give what paints in this colour in either theme.

    Args:
        name: The property.
        value: Its colour.
        text: Whether it paints words.
    """
    colour = value.lower()
    if re.fullmatch("#[0-9a-f]{3}", colour):
        colour = "#" + "".join(2 * digit for digit in colour[1:])
    if not re.fullmatch("#[0-9a-f]{6}", colour):
        return {name: value}
    channels = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    hue, light, strong = colorsys.rgb_to_hls(*channels)
    if colour not in NAMES and max(channels) - min(channels) < 0.05:
        if light < 0.2:
            colour = INK
        elif light < 0.65:
            colour = QUIET
        elif name == "stroke":
            colour = RULE
    if colour in NAMES:
        return {name: f"var({NAMES[colour]})"}
    if name == "fill" and not text and light > 0.8:
        dark = colorsys.hls_to_rgb(hue, 0.2, min(strong, 0.35))
        twin = "#" + "".join(f"{round(255 * channel):02x}" for channel in dark)
        return {name: colour, "--dark": twin}
    return {name: colour}


def _simplify(element: ET.Element) -> None:
    """Round what is finer than a screen, and drop what turns nothing."""
    for name in ("d", "x", "y", "width", "height", "points"):
        if name in element.attrib:
            value = " ".join(element.get(name).split())
            element.set(name, NUMBER.sub(lambda n: f"{float(n[0]):.2f}", value))
    if element.get("transform", "").startswith("rotate(-0 "):
        del element.attrib["transform"]


def _rename(root: ET.Element, prefix: str) -> None:
    """Keep the names that something in the figure points to, and make them its own."""
    wanted = set()
    for element in root.iter():
        if link := element.attrib.pop(LINK, None):
            element.set("href", link)
        if element.get("href", "").startswith("#"):
            wanted.add(element.get("href")[1:])
        for value in element.attrib.values():
            wanted.update(POINTED.findall(value))
    new = {name: f"{prefix}{i}" for i, name in enumerate(sorted(wanted))}
    for element in root.iter():
        if (name := element.attrib.pop("id", None)) in new:
            element.set("id", new[name])
        for key, value in element.attrib.items():
            element.set(key, POINTED.sub(lambda name: new[name[0]], value))
        if element.get("href", "").startswith("#"):
            element.set("href", "#" + new[element.get("href")[1:]])


def _flatten(parent: ET.Element) -> None:
    """Take groups away that say nothing."""
    children = []
    for child in parent:
        _flatten(child)
        if child.tag == "g" and not child.attrib:
            children.extend(child)
        elif child.tag not in ("g", "defs") or len(child):
            children.append(child)
    parent[:] = children
