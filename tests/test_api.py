"""The reference pages: all of the library is on them, and code leads to them."""

import importlib
import inspect
import pkgutil
import posixpath
import re
from dataclasses import MISSING, fields
from types import SimpleNamespace

import pytest
from book_files import BOOK, HTML, ROOT
from bs4 import BeautifulSoup
from docutils import nodes
from docutils.utils import new_document
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from sphinx.util.inventory import InventoryFile
from test_pages import built

import transformer_lib
from transformer_lib.model import TransformerConfig
from website.api import api
from website.links import code_links

HAVE_MOVED = {"transformer_lib.exercises", "transformer_lib.yours"}


def public_names():
    """Name the library's modules, and the classes and functions that they define."""
    found = pkgutil.walk_packages(transformer_lib.__path__, "transformer_lib.")
    for name in {module.name for module in found} - HAVE_MOVED:
        if "._" in name:
            continue
        yield name
        for member, value in vars(importlib.import_module(name)).items():
            described = inspect.isclass(value) or inspect.isfunction(value)
            if described and value.__module__ == name and not member.startswith("_"):
                yield f"{name}.{member}"


@pytest.mark.book
def test_every_module_class_and_function_has_a_place_in_the_reference():
    with built(HTML / "objects.inv").open("rb") as file:
        kinds = InventoryFile.load(file, "", posixpath.join)
    documented = {name for kind in kinds.values() for name in kind}
    missing = set(public_names()) - documented
    assert not missing, f"name them on a page, book/api_*.md: {sorted(missing)}"


def test_a_package_brings_its_modules_along_and_those_named_come_first():
    named = ["bookkit", "transformer_lib.data.corpora toy"]
    bookkit, package, *inside = api.modules(named)
    assert (bookkit, package) == ("bookkit", "transformer_lib.data.corpora")
    assert inside[0] == f"{package}.toy"
    files = (ROOT / "transformer_lib/data/corpora").glob("[!_]*.py")
    assert sorted(inside) == sorted(f"{package}.{path.stem}" for path in files)


def test_the_table_has_the_fields_of_the_config_in_order_with_their_defaults():
    text = (BOOK / "api_layers.md").read_text(encoding="utf-8").replace("1e-5", "1e-05")
    rows = re.findall(r'^\| `(\w+)` \| "?([^|"]+)"? \|', text, re.MULTILINE)
    assert rows == [
        (each.name, "must be given" if each.default is MISSING else str(each.default))
        for each in fields(TransformerConfig)
    ]


@pytest.mark.book
@pytest.mark.browser
def test_an_old_name_leads_to_the_new_one(tab):
    for old, new in {
        "inspection#module-bookkit.inspection": "module-bookkit.listing",
        "inspection#inspection-as-html": "listing-as-html",
        "pictures#bookkit.widgets.masks.mask_control": "pages.masks.masks.mask_control",
    }.items():
        page, anchor = old.split("#")
        tab.goto("about:blank")  # else a new anchor is no new page
        tab.goto(f"{built(HTML / 'book' / f'api_{page}.html').as_uri()}#{anchor}")
        tab.wait_for_url(f"**#{new}")
        assert tab.evaluate("(id) => document.getElementById(id) !== null", new)


# -- Links from code -----------------------------------------------------------------

PLACES = {
    "transformer_lib.model": "module-model",
    "transformer_lib.model.masks": "module-masks",
    "transformer_lib.model.masks.causal_mask": "causal_mask",
    "transformer_lib.model.transformer.Transformer": "Transformer",
    "transformer_lib.model.transformer.Transformer.encode": "encode",
    "bookkit.plotting": "module-plotting",
    "bookkit.plotting.plot_mask": "plot_mask",
}


def linked(code, html=""):
    """List what leads where on a page, and whether the keyboard stops at it."""
    shown = highlight(code, get_lexer_by_name("ipython3"), HtmlFormatter())
    shown = f'<div class="highlight-ipython3 notranslate">{shown}</div>'
    doctree = new_document("book/chapter")
    doctree += nodes.literal_block(code, code, language="ipython3")
    entries = {
        name: SimpleNamespace(docname="api", node_id=place)
        for name, place in PLACES.items()
    }
    app = SimpleNamespace(
        env=SimpleNamespace(get_domain=lambda _: SimpleNamespace(objects=entries)),
        builder=SimpleNamespace(get_relative_uri=lambda _, to: f"{to}.html"),
    )
    context = {"body": shown + html}
    code_links.link_code(app, "book/chapter", "page.html", context, doctree)
    page = BeautifulSoup(context["body"], "html.parser")
    return {
        (link.text, link["href"].removeprefix("api.html#"), link.get("tabindex"))
        for link in page.select("a.library-link")
    }


def test_what_a_cell_imports_leads_to_its_description_but_what_it_makes_nowhere():
    code = (
        "from transformer_lib.model import Transformer, causal_mask\n"
        "causal_mask(3)\n"
        "Transformer.encode.__doc__\n"
        "from bookkit import plotting as p\n"
        "p.plot_mask(x).axis('off')\n"
    )
    assert linked(code) == {
        ("transformer_lib.model", "module-model", None),
        ("Transformer", "Transformer", None),
        ("Transformer.encode", "encode", None),
        ("causal_mask", "causal_mask", None),
        ("causal_mask", "causal_mask", "-1"),  # the keyboard stops at the first
        ("p", "module-plotting", None),
        ("p.plot_mask", "plot_mask", None),
    }
    code = (
        "from transformer_lib.model import causal_mask\n"
        "from bookkit.plotting import plot_mask\n"
        "def causal_mask(size): ...\n"
        "draw(plot_mask=3)\n"
    )
    places = [place for _, place, _ in linked(code)]
    assert places.count("causal_mask") == 0
    assert places.count("plot_mask") == 1


def test_full_names_in_the_text_lead_to_their_description_unless_they_are_links():
    name = '<code class="{}docutils literal"><span class="pre">{}</span></code>'
    html = name.format("", "transformer_lib.model.masks")
    html += name.format("", "transformer_lib.x")
    html += f'<a href="x">{name.format("xref ", "transformer_lib.model.masks")}</a>'
    assert linked("", html) == {("transformer_lib.model.masks", "module-masks", None)}
