"""Number the controls as figures are numbered, and give each its caption.

In a notebook the caption is the Markdown cell below the control. It begins with
``**Control 3.1.**``, and its label, ``control-NAME``, is what links name. ``plain``
turns the cell into the directive ``control``.
"""

import re

from docutils import nodes
from sphinx.transforms import SphinxTransform
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

APPENDIX = re.compile(r"book/([a-z])_")
CONTROL = "data-control="
logger = logging.getLogger(__name__)


class control(nodes.figure):
    """A control with its caption: a figure, numbered apart from the others."""


class ControlDirective(SphinxDirective):
    """The caption of the control above it: ``control-NAME``, and the text."""

    required_arguments = 1
    has_content = True

    def run(self):
        node = control("", names=[self.arguments[0]])
        self.set_source_info(node)
        self.state.document.note_explicit_target(node, node)
        text = nodes.Element()
        self.state.nested_parse(self.content, self.content_offset, text)
        caption = nodes.caption()
        self.set_source_info(caption)
        caption += [part for paragraph in text for part in paragraph]
        node += caption
        return [node]


class EncloseControls(SphinxTransform):
    """Move each control to its caption, so that a link leads to both."""

    default_priority = 400  # before the folds move anything

    def apply(self):
        for node in list(self.document.findall(control)):
            at = node.parent.index(node)
            above = node.parent[at - 1] if at else nodes.raw()
            raws = [raw.astext() for raw in above.findall(nodes.raw)]
            if not any(CONTROL in raw for raw in raws):
                name = node["names"][0]
                logger.warning("no control above the caption %s", name, location=node)
                continue
            node.parent.remove(above)
            node.insert(0, above)


def number_appendices(app, env):
    """Call the controls of appendix A A.1, A.2 and so on."""
    for page, numbers in env.toc_fignumbers.items():
        if letter := APPENDIX.match(page):
            for i, name in enumerate(numbers.get("control", {}), start=1):
                numbers["control"][name] = letter[1].upper(), i
    return []


def visit(self, node):
    self.body.append(self.starttag(node, "figure", CLASS="with-caption"))


def depart(self, node):
    self.body.append("</figcaption></figure>\n")


def setup(app):
    app.add_enumerable_node(control, "control", html=(visit, depart))
    app.add_directive("control", ControlDirective)
    app.add_transform(EncloseControls)
    # After Sphinx has numbered the figures of all pages.
    app.connect("env-get-updated", number_appendices, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
