"""Write the reader's edition, with a page to start from, where downloads lie."""

import json
import re
from pathlib import Path
from zipfile import ZipFile

import nbformat
from jupyter_cache import get_cache
from pybtex.database import parse_file

from transformer_lib.files import atomic_write
from website.bundle.bundle import NAME, add, add_project
from website.edition.edition import edition
from website.links.notebook_links import label_of, slug, upgrade

FOLDER = "_sources/book"
ARCHIVE = f"_sources/{NAME}.zip"
ROLE = re.compile(r"\{(\w+)\}`([^`<]+?)(?: <([^`]*)>)?`")
TERM = re.compile(r"^(\S.*)\n((?:  .*\n|\n)+)", re.MULTILINE)
ABOUT = re.compile(r"^\d+\. \{ref\}`([\w-]+)`: (.*)$", re.MULTILINE)
NEEDS = re.compile(r"^\| \{ref\}`([\w-]+)` \| ([^|]+?) \|", re.MULTILINE)
HEAD = "| chapter | about | minutes | needs |\n|---|---|---|---|\n"
START = """# The Transformer, Line by Line

**[Look inside the model](open_model.ipynb)** first: type a sentence, press a number,
and see what it is made of and which line of code made it.

Every notebook can be read as it is. Change a cell and run it with Shift+Enter; *Run >
Run All Cells* runs a whole chapter. Hints, answers and the code of figures are folded;
click to open them. The [glossary](glossary.md) explains the terms. What you change is
yours: a new build never overwrites it.
"""


def write(app, exception):
    """Replace the copies that Sphinx made of the notebooks and of the glossary."""
    cache = Path(app.outdir).parent / ".jupyter_cache"
    if exception or app.builder.name != "html" or not cache.is_dir():
        return
    book, folder = Path(app.srcdir, "book"), Path(app.outdir, FOLDER)
    bibliography = parse_file(book / "references.bib").entries
    papers = {key: entry.fields.get("url") for key, entry in bibliography.items()}
    papers = {key: address for key, address in papers.items() if address}
    terms = {slug(term): first_words(meaning) for term, meaning in glossary(book)}
    address = app.config.html_theme_options.get("repository_url", "")
    titles = {}
    for path in sorted(book.glob("*.ipynb")):
        number = number_of(path.name)
        titles[label_of(path)] = path.name, number + title_of(path)
        copy, source = folder / path.name, path.read_text("utf-8")
        if copy.is_file() and copy.read_text("utf-8") == source:
            notebook = with_outputs(source, path.parent, cache)
            made = edition(notebook, number, address, papers, terms)
            copy.write_text(json.dumps(made, indent=1, ensure_ascii=False), "utf-8")
    (folder / "glossary.md").write_text(plain_glossary(book, titles), "utf-8")
    (folder / "start.md").write_text(start_page(app, book, titles), "utf-8")
    if address:  # for Binder, which installs what stands there
        library = f"transformer-line-by-line[chapters] @ git+{address}\n"
        Path(app.outdir, "requirements.txt").write_text(library, "utf-8")
    with atomic_write(Path(app.outdir, ARCHIVE)) as part, ZipFile(part, "w") as file:
        for path in files(folder):
            add(file, f"notebooks/{path.name}", path.read_bytes())
        add_project(file, Path(app.srcdir))


def files(folder):
    """List the files of the edition; the sources of other pages lie there, too."""
    return [
        *sorted(folder.glob("*.ipynb")),
        folder / "glossary.md",
        folder / "start.md",
    ]


def offer_all(app, pagename, templatename, context, doctree):
    """Add all notebooks, with what runs them, to the menu of downloads."""
    for group in context.get("header_buttons", []):
        if group["label"] == "download-buttons" and doctree:
            group["buttons"].insert(
                1,
                {
                    "type": "link",
                    "url": context["pathto"](ARCHIVE, 1),
                    "text": "all notebooks and the library",
                    "icon": "fas fa-download",
                    "tooltip": "Unpack it and run: make lab",
                    "label": "download-notebooks-button",
                },
            )


def with_outputs(source, folder, cache):
    """Add the outputs of the build to a notebook, which is JSON."""
    notebook = json.loads(source)
    upgraded = nbformat.reads(upgrade(source, folder), as_version=4)
    _, executed = get_cache(str(cache)).merge_match_into_notebook(upgraded)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    done = [cell for cell in executed.cells if cell.cell_type == "code"]
    for cell, after in zip(cells, done, strict=True):
        cell["outputs"] = after["outputs"]
    return notebook


def number_of(name):
    """Return the number of a chapter, as its title begins in a notebook."""
    number = re.match(r"0?(\d+|[a-z])_", name)
    return f"{number[1].upper()}. " if number else ""


def title_of(path):
    """Return the title of a notebook."""
    first = json.loads(path.read_text("utf-8"))["cells"][0]["source"]
    return "".join(first).partition("\n")[0].removeprefix("# ")


def glossary(book):
    """List the terms of the glossary, each with its meaning."""
    text = (book / "glossary.md").read_text("utf-8").partition("```{glossary}\n")[2]
    return TERM.findall(text.rpartition("```")[0])


def first_words(meaning):
    """Return the first paragraph of a meaning without markup."""
    words = " ".join(meaning.strip().partition("\n\n")[0].split())
    return ROLE.sub(r"\2", words).replace('"', "'").replace("`", "")


def plain_glossary(book, titles):
    """Write the glossary without the markup of the pages."""

    def lead(role):
        kind, text, name = role.groups()
        if kind == "term":
            return f"[{text}](#{slug(name or text)})"
        file, title = titles.get(text, ("", text))
        return f"[{title}]({file})" if file else title

    entries = [
        f'<a id="{slug(term)}"></a>\n\n**{term}** {" ".join(meaning.split())}'
        for term, meaning in glossary(book)
    ]
    return ROLE.sub(lead, "\n\n".join(["# Glossary", *entries])) + "\n"


def start_page(app, book, titles):
    """List the chapters, what they are about, how long they take and what they need."""
    about = dict(ABOUT.findall((book / "intro.md").read_text("utf-8")))
    needs = dict(NEEDS.findall((book / "teaching.md").read_text("utf-8")))
    text = START
    for part in app.config.external_site_map.root.subtrees:
        rows = ""
        for page in part.items:
            path = book / f"{Path(page).name}.ipynb"
            label = label_of(path) if path.is_file() else None
            if label in about:
                file, title = titles[label]
                minutes = app.env.metadata[page]["minutes"]
                rows += f"| [{title}]({file}) | {about[label]} "
                rows += f"| {minutes} | {needs[label]} |\n"
        if rows:
            text += f"\n## {part.caption}\n\n{HEAD}{rows}"
    return text


def setup(app):
    app.connect("html-page-context", offer_all, priority=600)
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
