"""Set apart what answers a question that begins with **Predict.**

It is the first output after the question, and the first paragraph below its cell. On a
page, ``predictions.js`` covers it until a reader asks for it; the reader's edition of a
notebook folds it.
"""

from docutils import nodes
from sphinx.transforms import SphinxTransform

QUESTION = "**Predict.**"


def is_question(node):
    """Whether a node asks for a prediction."""
    if not isinstance(node, nodes.paragraph):
        return False
    first = next((part for part in node if part.astext()), None)
    return isinstance(first, nodes.strong) and first.astext() == "Predict."


def is_cell(node):
    return isinstance(node, nodes.container) and "cell" in node["classes"]


class SetAnswersApart(SphinxTransform):
    """Give what answers each question its class."""

    default_priority = 500

    def apply(self):
        for number, question in enumerate(list(self.document.findall(is_question))):
            classes = ["predicted", f"prediction-{number}"]
            parent, in_cell, is_shown, is_told = question.parent, False, False, False
            for node in parent[parent.index(question) + 1 :]:
                is_over = is_question(node) or isinstance(node, nodes.section)
                if is_over or (is_shown and (is_told or is_cell(node))):
                    break
                if is_cell(node):
                    in_cell = True
                    for part in node:
                        if "cell_output" in part["classes"]:
                            part["classes"] += classes
                            is_shown = True
                elif in_cell and not is_told:
                    is_told = True
                    told = nodes.container(classes=classes)
                    node.replace_self(told)
                    told += node


def setup(app):
    app.add_transform(SetAnswersApart)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
