"""Fold each section whose heading begins with certain words; a click opens it.

The fold contains everything up to the next heading of the same or a higher level, or up
to ``<!-- end of fold -->``; what follows that belongs to the section around it.
"""

import re

from docutils import nodes
from sphinx.environment.adapters.toctree import document_toc
from sphinx.transforms import SphinxTransform
from sphinx.util import logging

WORDS = "Going deeper|The rest of the module"
HEADING = re.compile(rf"({WORDS})(?![\w-])")
END = "<!-- end of fold -->"
ALMOST_END = re.compile(r"<!--\W*end\b.*\bfold", re.IGNORECASE)
UNSEEN = (nodes.title, nodes.comment, nodes.target)
logger = logging.getLogger(__name__)


def is_fold(node):
    return isinstance(node, nodes.section) and "fold" in node


class MarkFolds(SphinxTransform):
    """Find the folds of a page, and end each where its text says so."""

    default_priority = 500

    def apply(self):
        for section in self.document.findall(nodes.section):
            is_title = section.parent is self.document
            if HEADING.match(section[0].astext()) and not is_title:
                section["fold"] = True
        for mark in list(self.document.findall(nodes.raw)):
            if mark.astext().strip() == END:
                self.end_fold(mark)
            elif ALMOST_END.search(mark.astext()):
                logger.warning("alone in its paragraph: %s", END, location=mark)
        for fold in self.document.findall(is_fold):
            if all(isinstance(part, UNSEEN) for part in fold):
                name = fold[0].astext()
                logger.warning("nothing is in the fold %r", name, location=fold)

    def end_fold(self, mark):
        """Move what follows an end mark out of the innermost fold around it."""
        within, fold = [], mark.parent
        while isinstance(fold, nodes.section) and not is_fold(fold):
            within, fold = [*within, fold], fold.parent
        if not is_fold(fold):
            logger.warning("no fold ends here: %s", END, location=mark)
            return
        place, after = mark, []
        for section in [*within, fold]:
            at = section.index(place)
            after += section[at + 1 :]
            del section[at + 1 :]
            place = section
        at = fold.parent.index(fold)
        fold.parent[at + 1 : at + 1] = after
        mark.parent.remove(mark)


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
