"""Show the facts about a chapter in few lines of its page.

In a notebook each fact is a paragraph of the first cell: **Paper**, **Library**,
**Time**, **Try**. A page shows them together. It leaves out the quote **Run** below the
title, which is for the reader of the notebook.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

KINDS = "Paper", "Library", "Time", "Try"
NOT_SHOWN = "Run"


def kind_of(node):
    """Say which fact a paragraph tells, if it tells one."""
    word = first_word(node)
    return word if word in KINDS else None


def first_word(node):
    """Return the bold word that a paragraph begins with, if it does."""
    if not isinstance(node, nodes.paragraph):
        return None
    begin = next((part for part in node if part.astext()), None)
    return begin.astext() if isinstance(begin, nodes.strong) else None


def is_for_notebooks(node):
    """Whether this is the quote that says how to run the notebook."""
    return isinstance(node, nodes.block_quote) and first_word(node[0]) == NOT_SHOWN


class GatherFacts(SphinxTransform):
    """Put the facts that follow each other into one part of the page."""

    default_priority = 450  # after the notebook has become a document

    def apply(self):
        section = next(self.document.findall(nodes.section), None)
        for quote in [node for node in section or () if is_for_notebooks(node)]:
            section.remove(quote)
        facts = [node for node in section or () if kind_of(node)]
        if not facts:
            return
        box = nodes.container(classes=["facts"])
        section.insert(section.index(facts[0]), box)
        for node in facts:
            section.remove(node)
            node["classes"] += ["fact", f"fact-{kind_of(node).lower()}"]
            box += node


def setup(app):
    app.add_transform(GatherFacts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
