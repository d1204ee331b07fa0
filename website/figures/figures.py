"""Insert SVG figures into their pages, so that the style of the page applies to them.

A cell produces each figure as a file; ``bookkit.svg`` makes it part of the
page.
"""

from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

from bookkit.colours import style_sheet
from bookkit.svg import inline

STYLE_SHEET = "_static/made/colours.css"


class picture(nodes.General, nodes.Element):
    """An SVG in the page. It is not a text node, so the search does not index it."""


class InlineFigures(SphinxPostTransform):
    """Replace each image that is an SVG file with the content of the file."""

    default_priority = 50
    formats = ("html",)

    def run(self):
        """Replace the images of a page."""
        page = self.env.docname.rpartition("/")[2]
        for number, image in enumerate(list(self.document.findall(nodes.image))):
            path = Path(self.app.srcdir, image["uri"])
            if path.suffix == ".svg" and path.is_file():
                svg = path.read_text(encoding="utf-8")
                html = inline(svg, image.get("alt", ""), f"{page}-{number}-")
                image.replace_self(picture("", html=html))


def write_colours(app):
    """Write the colour variables."""
    path = app.outdir / STYLE_SHEET
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(style_sheet(), encoding="utf-8")


def visit_picture(self, node):
    """Write the SVG to the page."""
    self.body.append(node["html"])


def setup(app):
    app.add_node(picture, html=(visit_picture, lambda self, node: None))
    app.add_post_transform(InlineFigures)
    app.connect("builder-inited", write_colours)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
