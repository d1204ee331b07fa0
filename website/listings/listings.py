"""Let the listings of the book share what they can.

A listing records calls of functions that other chapters walk through: the page links to
the notes there. Each listing brings its style and its script, for JupyterLab; the pages
load them from two files instead.
"""

import re
from html import escape

from docutils import nodes

MADE = "made/listings"
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
    """Insert the address of the notes into the calls of a page; drop what is shared."""
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
    context["body"] = SCRIPT.sub("", STYLE.sub("", body))
    app.add_css_file(f"{MADE}.css")
    app.add_js_file(f"{MADE}.js", loading_method="defer")


def write(app):
    """Write what the listings share."""
    from bookkit.listing import as_html

    for ending, text in (("css", as_html.STYLE), ("js", as_html.SCRIPT)):
        path = app.outdir / "_static" / f"{MADE}.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def setup(app):
    app.connect("builder-inited", write)
    app.connect("doctree-read", note_listings)
    app.connect("html-page-context", share)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
