"""Let notebooks be plain Markdown, which reads well wherever they are opened.

Before Sphinx reads a notebook, its links become the references that they mean, so that
the build numbers, names and checks them:

* ``[chapter 3](03_attention.ipynb)`` and ``[a table](10_training.ipynb#label)``
* ``[Fig. 3.1](#fig-idea)`` or ``[Fig. 3.1](03_attention.ipynb#fig-idea)``
* ``[keys](glossary.md#key)``, a term of the glossary
* ``[Vaswani et al. (2017)](bibliography.md#vaswani2017)``, or in brackets
  ``([Press and Wolf, 2017](bibliography.md#press2017))``
* the Markdown cell ``**Fig. 3.1.** ...`` after a figure, its caption
* ``[Control 3.1](#control-arrows)`` or ``[pull the arrows](#control-arrows)``, and the
  Markdown cell ``**Control 3.1.** ...`` after a control, its caption
* ``> **Note.** ...`` and ``> **Warning.** ...``
* the ``label`` in a cell's metadata, which other pages refer to
* the first line of a folded cell, ``# Checks: the shelf``, the words of its fold
"""

import json
import re
from functools import cache
from pathlib import Path

LINK = r"\[([^\]]*)\]\(([\w./-]*?)(?:#([\w.-]+))?\)"
CITED = r"\[[^\]]*\]\(bibliography\.md#[\w-]+\)"
IN_BRACKETS = re.compile(rf"\({CITED}(?:; {CITED})*\)")
KEY = re.compile(r"md#([\w-]+)")
PLAIN = re.compile(rf"(?<![!`\w]){LINK}")
CAPTION = re.compile(r"\*\*Fig\. [\w.]+\*\* ")
CONTROL_CAPTION = re.compile(r"\*\*Control [\w.]+\*\* ")
ADMONITION = re.compile(r"^> \*\*(Note|Warning)\.\*\* (.*(?:\n>.*)*)", re.MULTILINE)


def slug(term: str) -> str:
    """Turn a term of the glossary into the name that links use."""
    return re.sub(r"[^a-z0-9]+", "-", term.lower()).strip("-")


@cache
def terms(glossary: Path) -> dict[str, str]:
    """Map the names that links use to the terms of the glossary."""
    text = glossary.read_text("utf-8").partition("```{glossary}\n")[2]
    found = re.findall(r"^(?!```)(\S.*)$", text, re.MULTILINE)
    return {slug(term): term for term in found}


@cache
def label_of(path: Path) -> str:
    """Read the label of a page."""
    text = path.read_text("utf-8")
    if path.suffix == ".ipynb":
        return json.loads(text)["cells"][0]["metadata"]["label"]
    return re.match(r"\(([\w-]+)\)=", text)[1]


def reference(match: re.Match, folder: Path) -> str:
    """Turn a link into the reference that it means; others stay."""
    text, file, name = match.groups()
    if file == "glossary.md" and name:
        return f"{{term}}`{text} <{terms(folder / file).get(name, name)}>`"
    if file == "bibliography.md" and name:
        return f"{{cite:t}}`{name}`"
    if name and name.startswith("fig-"):
        return f"{{numref}}`{name}`"
    if name and name.startswith("control-"):
        by_number = text.startswith("Control ")
        return f"{{numref}}`{name}`" if by_number else f"{{ref}}`{text} <{name}>`"
    if file and (folder / file).is_file():
        return f"{{ref}}`{text} <{name or label_of(folder / file)}>`"
    return match[0]


def upgrade_text(text: str, folder: Path) -> str:
    """Upgrade the Markdown of a cell."""
    text = ADMONITION.sub(
        lambda found: "```{{{}}}\n{}\n```".format(
            found[1].lower(), re.sub(r"^> ?", "", found[2], flags=re.MULTILINE)
        ),
        text,
    )
    text = IN_BRACKETS.sub(
        lambda found: "{cite:p}`" + ",".join(KEY.findall(found[0])) + "`", text
    )
    return PLAIN.sub(lambda match: reference(match, folder), text)


def upgrade(source: str, folder: Path) -> str:
    """Turn a plain notebook into the one that Sphinx reads.

    Args:
        source: The notebook, as JSON.
        folder: Where it and the pages that it refers to lie.

    Returns:
        The same notebook with references, and its captions with their figures.
    """
    notebook = json.loads(source)
    cells = []
    for cell in notebook["cells"]:
        if cell["cell_type"] == "markdown":
            text = "".join(cell["source"])
            figure = cells and cells[-1]["metadata"].get("mystnb", {}).get("figure")
            if figure and "caption" not in figure and CAPTION.match(text):
                figure["caption"] = upgrade_text(CAPTION.sub("", text, 1), folder)
                continue
            text = upgrade_text(text, folder)
            label = cell["metadata"].get("label")
            if CONTROL_CAPTION.match(text):
                caption = CONTROL_CAPTION.sub("", text, count=1)
                text = f"```{{control}} {label}\n{caption}\n```"
            elif label:
                text = f"({label})=\n{text}"
            cell["source"] = text
        elif "hide-cell" in cell["metadata"].get("tags", ()):
            title = cell["source"][0].removeprefix("# ").strip()
            shown = {"code_prompt_show": title, "code_prompt_hide": title}
            cell["metadata"]["mystnb"] = shown
        cells.append(cell)
    notebook["cells"] = cells
    return json.dumps(notebook)


def read(app, docname, content):
    """Upgrade a notebook that Sphinx is about to read."""
    path = Path(app.env.doc2path(docname))
    if path.suffix == ".ipynb":
        content[0] = upgrade(content[0], path.parent)


def setup(app):
    app.connect("source-read", read)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
