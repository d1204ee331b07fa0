"""Describe each page for search engines and for those who share a link to it.

Tags that need the address of the book, such as that of a preview picture, are written
only if ``html: baseurl`` in ``_config.yml`` names one.
"""

import re
from html import escape, unescape

from docutils import nodes

LONGEST = 200  # letters of a description
SERVICES = {
    "notebook_interface": "jupyterlab",
    "binderhub_url": "https://mybinder.org",
    "colab_url": "https://colab.research.google.com",
}
PICTURE = "_static/readme-page.png"


def describe(doctree):
    """Return the first sentences of a page."""
    first = next(
        (
            paragraph.astext()
            for paragraph in doctree.findall(nodes.paragraph)
            if not isinstance(paragraph.parent, nodes.Admonition | nodes.list_item)
            and len(paragraph.astext().split()) > 5
        ),
        "",
    )
    text = ""
    for sentence in re.split(r"(?<=[.?!])\s+", " ".join(first.split())):
        if text and len(text) + len(sentence) >= LONGEST:
            break
        text = f"{text} {sentence}".strip()
    return text if len(text) <= LONGEST else text[:LONGEST].rpartition(" ")[0] + " …"


def add_tags(app, pagename, templatename, context, doctree):
    """Write the description of a page and its tags for a preview."""
    if doctree is None:
        return
    description = describe(doctree)
    title = unescape(re.sub("<.*?>", "", context["title"]))
    tags = {
        "og:type": "article",
        "og:site_name": app.config.html_title,
        "og:title": title,
        "og:description": description,
        "twitter:card": "summary",
    }
    if base := app.config.html_baseurl:
        base = base.rstrip("/")
        tags |= {
            "og:url": f"{base}/{pagename}.html",
            "og:image": f"{base}/{PICTURE}",
            "twitter:card": "summary_large_image",
        }
    lines = [f'<meta name="description" content="{escape(description)}"/>']
    lines += [
        f'<meta {"property" if name.startswith("og:") else "name"}="{name}" '
        f'content="{escape(content)}"/>'
        for name, content in tags.items()
    ]
    context["metatags"] = context.get("metatags", "") + "\n".join(lines)


def offer_services(app, config):
    """Show buttons that run a notebook elsewhere, if the book has a public home.

    They open the reader's edition, which is published with the pages.
    """
    options = config.html_theme_options
    if options.get("repository_url"):
        options |= {"launch_buttons": SERVICES, "repository_branch": "gh-pages"}
        options["path_to_docs"] = "_sources"


def setup(app):
    app.connect("config-inited", offer_services)
    app.connect("html-page-context", add_tags)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
