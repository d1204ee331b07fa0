"""Adapt autodoc and napoleon to the docstrings of this library."""

import inspect

from sphinx.ext.napoleon import GoogleDocstring


def choose_members(app, what, name, obj, skip, options):
    """Show all public classes and functions of a module, and the members of a class.

    Classes and functions without a description are shown too, because they exist. The
    fields of a named tuple are left out, because its docstring describes them.
    """
    if what == "module" and not name.startswith("_"):
        return skip and not (inspect.isclass(obj) or inspect.isroutine(obj))
    return skip or (inspect.getdoc(obj) or "").startswith("Alias for field number")


def mark_examples(app, what, name, obj, options, lines):
    """Render an indented block after a paragraph as an example."""
    for number in range(len(lines) - 1, 1, -1):
        above, between, line = lines[number - 2 : number + 1]
        if line.startswith("    ") and not between and above[:1].strip():
            lines[number:number] = [".. code-block:: python", ""]


def returns_without_type(self, preprocess_types=False):
    """Read ``Returns:`` as text, because the type is in the signature."""
    lines = self._dedent(self._consume_to_next_section())
    return [("", "", lines)] if lines else []


def setup(app):
    GoogleDocstring._consume_returns_section = returns_without_type
    GoogleDocstring._parse_attribute_docstring = GoogleDocstring._consume_to_end
    app.connect("autodoc-skip-member", choose_members)
    app.connect("autodoc-process-docstring", mark_examples, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
