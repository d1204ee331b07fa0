"""Let the listings of a page share what they can.

A listing records calls of functions that other chapters walk through: the page links to
the notes there. Each listing brings its style and its script, for JupyterLab; a page
needs the first style and the last script.
"""

import re
from html import escape

from docutils import nodes

WALKED = re.compile(r'data-walk="([^"]+)"')
STYLE = re.compile(r'(?<=line by line">)<style>.*?</style>', re.DOTALL)
SCRIPT = re.compile(r"(?<=</div>)<script>/\* The arrow keys.*?</script>", re.DOTALL)
CALL = re.compile(r'(<template data-name="([^"]+)")')


def note_listings(app, doctree):
    """Note what the listings of a page walk through."""
    raws = [node.astext() for node in doctree.findall(nodes.raw)]
    walked = [name for raw in raws for name in WALKED.findall(raw)]
    app.env.metadata[app.env.docname]["walked"] = " ".join(walked)


def share(app, pagename, templatename, context, doctree):
    """Insert the address of the notes into the calls of a page; drop what is double."""
    if doctree is None or 'class="walk"' not in context.get("body", ""):
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

    body = CALL.sub(insert, context["body"])
    styles, scripts = list(STYLE.finditer(body)), list(SCRIPT.finditer(body))
    doubles = sorted([*styles[1:], *scripts[:-1]], key=re.Match.start, reverse=True)
    for double in doubles:
        body = body[: double.start()] + body[double.end() :]
    context["body"] = body


def setup(app):
    app.connect("doctree-read", note_listings)
    app.connect("html-page-context", share)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
