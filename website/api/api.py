"""Write the reference from docstrings, with autodoc, autosummary and napoleon.

A page of the reference names packages and modules, one a line, in ``{modules}``. A
package brings along every module in it, so a new module needs no entry. The words after
its name say which modules come first: ``transformer_lib.data tokenizer toy``. The page
above lists the modules of all these pages where it says ``{overview}``, and one page
shows the code of the whole model where it says ``{whole_model}``.
"""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

from sphinx.ext.napoleon import GoogleDocstring

from website.api.whole_model import whole_model

LIBRARIES = "transformer_lib", "bookkit"  # described alone: their parts fill many pages
NAMED = re.compile(r"^```{modules}\n(.+?)\n```$", re.DOTALL | re.MULTILINE)
OVERVIEW = "```{overview}\n```\n"
WHOLE = "```{whole_model}\n```\n"
OPENING = re.compile(r"\((.+)\)=\n# (.+)\n\n((?:.+\n)+)")  # label, title, paragraph
MODULE = """\
## `{short}`

```{{eval-rst}}
.. automodule:: {name}
```
"""
GROUP = """\
## {{ref}}`{title} <{label}>`

{paragraph}
```{{eval-rst}}
.. autosummary::

   {names}
```
"""


def modules(lines):
    """Expand the lines of ``{modules}`` to the full names of modules."""
    for line in lines:
        name, *first = line.split()
        if name == "pages":
            yield from pages()
            continue
        path = getattr(importlib.import_module(name), "__path__", ())
        inside = [] if name in LIBRARIES else pkgutil.walk_packages(path, f"{name}.")
        public = [module.name for module in inside if "._" not in module.name]
        yield from dict.fromkeys([name, *(f"{name}.{word}" for word in first), *public])


def pages():
    """List the modules of the pages, except exercises, which have the answers."""
    for path in sorted(Path(__file__).parents[2].glob("pages/*/*.py")):
        if path.stem not in ("exercises", "record_translation"):
            yield f"pages.{path.parent.name}.{path.stem}"


def describe(named):
    """Describe modules, each under a heading."""
    return "\n".join(
        MODULE.format(name=name, short=name.partition(".")[2] or name)
        for name in modules(named[1].splitlines())
    )


def summarize(path):
    """List the modules of a page, each with its first sentence."""
    text = path.read_text(encoding="utf-8")
    label, title, paragraph = OPENING.match(text).groups()
    names = "\n   ".join(modules("\n".join(NAMED.findall(text)).splitlines()))
    return GROUP.format(label=label, title=title, paragraph=paragraph, names=names)


def write(app, docname, content):
    """Write the modules into a page that Sphinx is about to read."""
    if OVERVIEW in content[0]:
        below = app.config.external_site_map[docname].child_files()
        paths = [app.env.doc2path(page) for page in below]
        for path in paths:
            app.env.note_dependency(path)
        groups = "\n".join(summarize(Path(path)) for path in paths)
        content[0] = content[0].replace(OVERVIEW, groups)
    if WHOLE in content[0]:
        listing = f"```python\n{whole_model()}```\n"
        content[0] = content[0].replace(WHOLE, listing)
    content[0] = NAMED.sub(describe, content[0])


def follow_old_names(app, pagename, templatename, context, doctree):
    """Make links to old names lead to the new ones."""
    if pagename.startswith("book/api"):
        app.add_js_file("moved.js")


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
    app.connect("source-read", write)
    app.connect("html-page-context", follow_old_names)
    app.connect("autodoc-skip-member", choose_members)
    app.connect("autodoc-process-docstring", mark_examples, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
