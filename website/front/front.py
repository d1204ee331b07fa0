"""Say on each page where it is in the book, and show chapters on the front page.

What the front page shows of a chapter is taken from the chapter when the pages are
built: a listing or a control, its time, and whether it has a control.
"""

import re
from pathlib import PurePosixPath

from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxDirective

TIME = re.compile(r"Time (\d+) minutes")
CONTROL = 'class="control'
logger = logging.getLogger(__name__)


class borrowed(nodes.General, nodes.Element):
    """Stands for HTML that a cell of another page has shown."""


class Borrow(SphinxDirective):
    """Show the output of another page that contains a text: ``PAGE TEXT``."""

    required_arguments = 2
    final_argument_whitespace = True

    def run(self):
        page, text = self.arguments
        node = borrowed("", page=page, text=text)
        self.set_source_info(node)
        return [node]


def note_facts(app, doctree):
    """Note how long a chapter takes and whether it has a control."""
    facts = app.env.metadata[app.env.docname]
    for paragraph in doctree.findall(nodes.paragraph):
        if time := TIME.match(paragraph.astext()):
            raws = doctree.findall(nodes.raw)
            facts["minutes"] = int(time[1])
            facts["control"] = any(CONTROL in raw.astext() for raw in raws)
            return


def fill(app, doctree, docname):
    """Insert what a page borrows, and on the front page the facts of each chapter."""
    for node in list(doctree.findall(borrowed)):
        page, text = node["page"], node["text"]
        tree = app.env.get_doctree(page) if page in app.env.all_docs else nodes.raw()
        raws = (raw.astext() for raw in tree.findall(nodes.raw))
        html = next((raw for raw in raws if text in raw), "")
        if not html:
            logger.warning("%s shows nothing with %r", page, text, location=node)
        node.replace_self(nodes.raw("", html, format="html"))
    if docname != app.config.root_doc:
        return
    for item in doctree.findall(nodes.list_item):
        link = item[0][0]
        if isinstance(link, nodes.reference):
            page = PurePosixPath(docname).with_name(link["refuri"].partition(".")[0])
            facts = app.env.metadata[str(page)]
            item[0] += said(f"{facts['minutes']} min", "minutes")
            if facts["control"]:
                item[0] += said("control", "with-control")


def said(word, kind):
    return [nodes.Text(" "), nodes.inline("", word, classes=[kind])]


def places(contents):
    """Map each page to its place in the book."""
    numbered = [part for part in contents.root.subtrees if part.numbered]
    chapters = [name for part in numbered for name in part.items]
    found = {}
    for part in contents.root.subtrees:
        below = [tree for name in part.items for tree in contents[name].subtrees]
        for tree in (part, *below):
            found |= dict.fromkeys(tree.items, part.caption)
    for part in numbered:
        for name in part.items:
            number = chapters.index(name) + 1
            roman = part.caption.partition(" ")[0]
            found[name] = f"Part {roman} · chapter {number} of {len(chapters)}"
    return found


def say_place(app, pagename, templatename, context, doctree):
    """Write the place above the title of a page."""
    place = places(app.config.external_site_map).get(pagename)
    if place:
        is_chapter = "minutes" in app.env.metadata[pagename]
        line = f'<p class="place"{" data-chapter" * is_chapter}>{place}</p>\n<h1'
        context["body"] = context["body"].replace("<h1", line, 1)


def setup(app):
    app.add_node(borrowed)
    app.add_directive("borrow", Borrow)
    app.connect("doctree-read", note_facts)
    app.connect("env-updated", lambda app, env: [app.config.root_doc])
    app.connect("doctree-resolved", fill)
    app.connect("html-page-context", say_place)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
