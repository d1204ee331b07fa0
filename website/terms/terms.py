"""The terms of the glossary: the chapter that explains each, and what pages show of it.

The last paragraph of a definition is a reference to that chapter, its home. One script
holds all terms, for the cards that pages show and for the search.
"""

import json
import re
from html import escape

from docutils import nodes
from sphinx import addnodes
from sphinx.util import logging

GLOSSARY = "book/glossary"
SCRIPT = "made/terms.js"
logger = logging.getLogger(__name__)


def entries(doctree):
    """List the entries of the glossary: name, definition, and the link to its home."""
    for glossary in doctree.findall(addnodes.glossary):
        for item in glossary.findall(nodes.definition_list_item):
            name, definition = item[0], item[-1]
            last = definition[-1]
            links = list(last.findall(nodes.reference))
            alone = len(links) == 1 and links[0].astext() == last.astext()
            yield name, definition, links[0] if alone else None


def home_of(app, link):
    """Name the page that a link of the glossary leads to."""
    address = link.get("refuri", "").partition("#")[0]
    pages = app.env.found_docs if address else ()
    to = app.builder.get_relative_uri
    return next((page for page in pages if to(GLOSSARY, page) == address), None)


def title_of(app, page):
    """Give the title of a page, as in "Chapter 3: Attention"."""
    title = app.env.titles[page].astext()
    number = app.env.toc_secnumbers.get(page, {}).get("")
    return f"Chapter {number[0]}: {title}" if number else title


def name_homes(app, doctree, docname):
    """Name the chapter in each link to a home, and put letters above the terms."""
    if docname != GLOSSARY:
        return
    letters = {}
    for name, definition, link in entries(doctree):
        word = name.astext()
        letters.setdefault(word[0].upper(), name["ids"][0])
        home = link and home_of(app, link)
        if not home:
            text = "the definition of %r does not end with a reference to its chapter"
            logger.warning(text, word, location=name)
            continue
        definition[-1]["classes"].append("home")
        link["home"] = home
        link[:] = [nodes.Text(title_of(app, home))]
    links = "".join(
        f'<li><a href="#{place}">{letter}</a></li>'
        for letter, place in sorted(letters.items())
    )
    strip = f'<nav class="letters" aria-label="Letters"><ul>{links}</ul></nav>'
    for glossary in list(doctree.findall(addnodes.glossary)):
        at = glossary.parent.index(glossary)
        glossary.parent.insert(at, nodes.raw("", strip, format="html"))


def html_of(node):
    """Write a definition in a few tags, without links."""
    if isinstance(node, nodes.Text):
        return escape(node)
    if isinstance(node, nodes.math):
        formula = escape(node.astext()).replace("\\infty", "∞").replace("-", "−")
        raised = re.sub(r"\^(.)", r"<sup>\1</sup>", formula)
        return f"<i>{raised}</i>"
    inside = "".join(map(html_of, node.children))
    for kind, tag in ((nodes.emphasis, "em"), (nodes.literal, "code")):
        if isinstance(node, kind):
            return f"<{tag}>{inside}</{tag}>"
    return inside


def write_script(app, builder):
    """Write the terms when chapters have their numbers, and before there are pages."""
    if GLOSSARY not in app.env.found_docs or builder.format != "html":
        return
    doctree = app.env.get_and_resolve_doctree(GLOSSARY, builder)
    terms, titles = {}, {}
    for name, definition, link in entries(doctree):
        if link is None or "home" not in link:
            continue  # name_homes has warned
        titles[link["home"]] = link.astext()
        text = " ".join(map(html_of, definition[:-1]))
        terms[name["ids"][0]] = [name.astext(), " ".join(text.split()), link["home"]]
    known = {"glossary": GLOSSARY, "terms": terms, "titles": titles}
    path = app.outdir / "_static" / SCRIPT
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
    path.write_text(f"const GLOSSARY = {text};\n", encoding="utf-8")


def add_scripts(app, pagename, templatename, context, doctree):
    """Load the terms where a page has some, and in the search."""
    if "std-term" in context.get("body", "") or pagename == "search":
        app.add_js_file(SCRIPT, loading_method="defer")
        script = "ranking.js" if pagename == "search" else "cards.js"
        app.add_js_file(script, loading_method="defer")


def setup(app):
    app.connect("doctree-resolved", name_homes)
    app.connect("write-started", write_script)
    app.connect("html-page-context", add_scripts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
