"""Link names that code cells import from the library, and its full names in the text.

The links lead to the reference pages. A name that the chapter also defines itself is
not linked, because either of the two may be meant.
"""

import ast
import importlib
import inspect
import re

from docutils import nodes

LIBRARY = ("transformer_lib", "bookkit", "pages")
CODE = re.compile(r'<div class="highlight-i?python3?[ "].*?</pre>', re.DOTALL)
DOT = '<span class="o">.</span>'
# A name, or several joined by dots, but not the name of an argument.
NAMES = re.compile(
    rf'<span class="nn?">[\w.]+</span>(?:{re.escape(DOT)}<span class="n">\w+</span>)*'
    r'(?!<span class="o">=)'
)
LITERAL = re.compile(  # not a link already
    rf'<code class="docutils [^>]*><span class="pre">((?:{"|".join(LIBRARY)})[\w.]+)'
    r"</span></code>"
)
TAG = re.compile(r"<[^>]+>")


def home(module, name):
    """The full name of what a package hands on, where it is defined."""
    value = getattr(importlib.import_module(module), name, None)
    if inspect.isclass(value) or inspect.isfunction(value):
        return f"{value.__module__}.{value.__qualname__}"
    return f"{module}.{name}"


def imported(doctree):
    """Map the names in a page's code cells to what they mean in the library."""
    names, own = {}, set()
    for block in doctree.findall(nodes.literal_block):
        try:
            tree = ast.parse(block.astext())
        except SyntaxError:  # not Python, or a fault shown on purpose
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module.startswith(LIBRARY):
                names[node.module] = node.module
                for name in node.names:
                    names[name.asname or name.name] = home(node.module, name.name)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                own.add(node.name)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                own.add(node.id)
    return {name: full for name, full in names.items() if name not in own}


def link_code(app, pagename, templatename, context, doctree):
    """Insert the links into a page."""
    if doctree is None or "body" not in context:
        return
    objects = app.env.get_domain("py").objects
    names, linked = imported(doctree), set()

    def link(html, full):
        page = app.builder.get_relative_uri(pagename, objects[full].docname)
        # The keyboard stops at the first of its kind; the mouse can take any.
        stop = ' tabindex="-1"' if full in linked else ""
        linked.add(full)
        address = f"{page}#{objects[full].node_id}"
        return f'<a class="library-link" href="{address}"{stop}>{html}</a>'

    def link_names(match):
        spans = match[0].split(DOT)
        first, *rest = (TAG.sub("", span) for span in spans)
        for end in range(len(spans) if first in names else 0, 0, -1):
            full = ".".join([names[first], *rest[: end - 1]])
            if full in objects:
                return DOT.join([link(DOT.join(spans[:end]), full), *spans[end:]])
        return match[0]

    def link_literal(match):
        return link(match[0], match[1]) if match[1] in objects else match[0]

    body = LITERAL.sub(link_literal, context["body"])
    context["body"] = CODE.sub(lambda code: NAMES.sub(link_names, code[0]), body)


def setup(app):
    app.connect("html-page-context", link_code)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
