"""What autodoc and napoleon need to know about the docstrings of this library."""

import inspect

from sphinx.ext.napoleon import GoogleDocstring


def choose_members(app, what, name, obj, skip, options):
    """Show a module's public classes and functions all, and of a class what says more.

    A class or function without a description is shown as well: it exists. The fields of
    a named tuple are left out: its docstring has them, with more than their number.
    """
    if what == "module" and not name.startswith("_"):
        return skip and not (inspect.isclass(obj) or inspect.isroutine(obj))
    return skip or (inspect.getdoc(obj) or "").startswith("Alias for field number")


def mark_examples(app, what, name, obj, options, lines):
    """Make an indented block after a paragraph what its author meant: an example."""
    for number in range(len(lines) - 1, 1, -1):
        above, between, line = lines[number - 2 : number + 1]
        if line.startswith("    ") and not between and above[:1].strip():
            lines[number:number] = [".. code-block:: python", ""]


def returns_without_type(self, preprocess_types=False):
    """Take what is written under ``Returns:`` as text; the type is in the signature."""
    lines = self._dedent(self._consume_to_next_section())
    return [("", "", lines)] if lines else []


def setup(app):
    GoogleDocstring._consume_returns_section = returns_without_type
    GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end
    app.connect("autodoc-skip-member", choose_members)
    app.connect("autodoc-process-docstring", mark_examples, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
