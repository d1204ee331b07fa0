"""Say in which chapter's listing the notes of a function are that a reader steps into.

A listing records calls of functions that other chapters walk through; their notes are
not repeated.
"""

import re
from html import escape

from docutils import nodes

WALKED = re.compile(r'data-walk="([^"]+)"')
CALL = re.compile(r'(<template data-name="([^"]+)")')


def note_listings(app, doctree):
    """Note what the listings of a page walk through."""
    raws = [node.astext() for node in doctree.findall(nodes.raw)]
    walked = [name for raw in raws for name in WALKED.findall(raw)]
    app.env.metadata[app.env.docname]["walked"] = " ".join(walked)


def say_where(app, pagename, templatename, context, doctree):
    """Insert the address of the notes into the calls of a page."""
    if doctree is None or '<template data-name="' not in context.get("body", ""):
        return
    facts, titles = app.env.metadata, app.env.titles
    pages = {
        name: page
        for page in sorted(facts, reverse=True)  # the first chapter wins
        for name in facts[page].get("walked", "").split()
    }

    def insert(match):
        page = pages.get(match[2], pagename)
        if page == pagename:
            return match[0]
        address = f"{app.builder.get_relative_uri(pagename, page)}#walk={match[2]}"
        chapter = escape(titles[page].astext())
        return f'{match[1]} data-home="{address}" data-chapter="{chapter}"'

    context["body"] = CALL.sub(insert, context["body"])


def setup(app):
    app.connect("doctree-read", note_listings)
    app.connect("html-page-context", say_where)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
