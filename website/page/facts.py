"""Show the facts about a chapter in few lines of its page.

In a notebook each fact is a paragraph of the first cell: **Paper**, **Library**,
**Time**, **Try**. A page shows them together.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

KINDS = "Paper", "Library", "Time", "Try"


def kind_of(node):
    """Say which fact a paragraph tells, if it tells one."""
    if not isinstance(node, nodes.paragraph):
        return None
    begin = next((part for part in node if part.astext()), None)
    word = begin.astext() if isinstance(begin, nodes.strong) else None
    return word if word in KINDS else None


class GatherFacts(SphinxTransform):
    """Put the facts that follow each other into one part of the page."""

    default_priority = 450  # after the notebook has become a document

    def apply(self):
        section = next(self.document.findall(nodes.section), None)
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
