"""Put the figures that are SVG into their pages, where the page's looks reach them.

A figure comes from a cell as a file of its own; ``transformer_lib.svg`` makes a part of
the page of it.
"""

from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from transformer_lib.colours import style_sheet
from transformer_lib.svg import inline

STYLE_SHEET = "book/_static/made/colours.css"


class picture(nodes.General, nodes.Element):
    """An SVG as it stands in the page. It is no text, so that no search finds it."""


class InlineFigures(SphinxPostTransform):
    """Replace each image that is a file of SVG by what is in it."""

    default_priority = 50
    formats = ("html",)

    def run(self):
        """Look through a page."""
        page = self.env.docname.rpartition("/")[2]
        for number, image in enumerate(list(self.document.findall(nodes.image))):
            path = Path(self.app.srcdir, image["uri"])
            if path.suffix == ".svg" and path.is_file():
                svg = path.read_text(encoding="utf-8")
                html = inline(svg, image.get("alt", ""), f"{page}-{number}-")
                image.replace_self(picture("", html=html))


def write_colours(app):
    """Write the variables of the colours, before the static files are copied."""
    path = Path(app.srcdir, STYLE_SHEET)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(style_sheet(), encoding="utf-8")


def visit_picture(self, node):
    """Write the SVG into the page."""
    self.body.append(node["html"])


def setup(app):
    app.add_node(picture, html=(visit_picture, lambda self, node: None))
    app.add_post_transform(InlineFigures)
    app.connect("builder-inited", write_colours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
