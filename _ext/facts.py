"""Show the facts about a chapter in few lines of its page.

In a notebook each fact is a paragraph of the first cell: **Paper**, **Library**,
**Time**, **Run**, **Try**. A page shows them together, without **Run**: that is for the
reader of the notebook.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

KINDS = "Paper", "Library", "Time", "Run", "Try"
NOT_SHOWN = "Run"


def kind_of(node):
    """Say which fact a paragraph tells, if it tells one."""
    if not isinstance(node, nodes.paragraph) or not node.children:
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
        if len(facts) < 2:
            for node in facts:
                if kind_of(node) == NOT_SHOWN:
                    section.remove(node)
            return
        box = nodes.container(classes=["facts"])
        section.insert(section.index(facts[0]), box)
        for node in facts:
            section.remove(node)
            kind = kind_of(node)
            if kind != NOT_SHOWN:
                node["classes"] += ["fact", f"fact-{kind.lower()}"]
                box += node


def setup(app):
    app.add_transform(GatherFacts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
