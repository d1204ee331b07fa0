"""Fold each section whose heading begins with certain words; a click opens it.

The fold contains everything up to the next heading of the same or a higher level.
"""

import re

from docutils import nodes
from sphinx.environment.adapters.toctree import document_toc
from sphinx.transforms import SphinxTransform

HEADING = re.compile(r"(Going deeper|The rest of the module)(?![\w-])")


def is_fold(node):
    return isinstance(node, nodes.section) and "fold" in node


class MarkFolds(SphinxTransform):
    """Find the folds of a page."""

    default_priority = 500

    def apply(self):
        for section in self.document.findall(nodes.section):
            is_title = section.parent is self.document
            if HEADING.match(section[0].astext()) and not is_title:
                section["fold"] = True


def draw_folds(app, doctree, docname):
    """Put the tags of each fold around its content."""
    for fold in list(doctree.findall(is_fold)):
        title, *held = fold.children
        begin, end = '<details class="fold"><summary>', "</summary>"
        fold[:] = [tag(begin), title, tag(end), *held, tag("</details>")]


def tag(html):
    return nodes.raw("", html, format="html")


def leave_out_of_contents(app, pagename, templatename, context, doctree):
    """Remove the folds and the sections in them from "On this page"."""
    folds = list(doctree.findall(is_fold)) if doctree else []
    if not folds:
        return
    contents = document_toc(app.env, pagename, app.tags)
    anchors = {f"#{fold['ids'][0]}" for fold in folds}
    for link in list(contents.findall(nodes.reference)):
        item = link.parent.parent
        if link["refuri"] in anchors and item.parent:
            item.parent.remove(item)
    for part in list(contents.findall(nodes.bullet_list)):
        if not part.children:
            part.parent.remove(part)
    context["toc"] = app.builder.render_partial(contents)["fragment"]


def setup(app):
    app.add_transform(MarkFolds)
    app.connect("doctree-resolved", draw_folds)
    app.connect("html-page-context", leave_out_of_contents)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
