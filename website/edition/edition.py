"""Write the reader's edition: the notebooks that people open, wherever they open them.

A page's download, ``make lab`` and ``make bundle`` have the same files. They are the
notebooks of the project with the outputs of the build, and without anything that only
the build understands:

* Hints and answers are in ``<details>``, which JupyterLab, VS Code, Colab and code
  hosts fold. Set-up and checks are one folded cell each, which begins with its title;
  VS Code and code hosts show it open.
* Links lead to other notebooks, to the glossary, and to papers on the web.
* A figure is an image, because Jupyter removes an SVG from a notebook that it does not
  trust. Of a control it then shows the words.
* Below the title, one cell finds the library (``first_cell.py``).
"""

import base64
import json
import platform
import re
import textwrap
from html import escape
from itertools import pairwise
from pathlib import Path

from pages.laboratory.panel import PANEL_STYLE
from website.folds.folds import END, HEADING
from website.links.notebook_links import CONTROL_CAPTION, PLAIN

LIVE = "application/vnd.jupyter.widget-view+json"  # needs the kernel that made it
FIGURE = "image/svg+xml"
FIRST_CELL = Path(__file__).with_name("first_cell.py")
FIRST_WORDS = """{title}

> You can read this notebook as it is: it shows what every cell produced. To change and
> run cells, {open}run the next one first: it finds the library or installs it."""
HERE = "open it in a checkout or an unpacked archive of the project, and "
CAPTIONS = "multi30k-en-de"  # a model with its own terms
TOLD = " The model of captions comes only with a checkout or an archive of the project"
FETCH = ", or with `!python -m bookkit.shipped`"
FOLDED = {
    "jupyter": {"source_hidden": True},
    "cellView": "form",
}  # the latter is Colab's
# What a kernel tells JupyterLab, which asks to save a notebook that does not have it.
KERNEL = {
    "kernelspec": {
        "display_name": "Python 3 (ipykernel)",
        "language": "python",
        "name": "python3",
    },
    "language_info": {
        "codemirror_mode": {"name": "ipython", "version": 3},
        "file_extension": ".py",
        "mimetype": "text/x-python",
        "name": "python",
        "nbconvert_exporter": "python",
        "pygments_lexer": "ipython3",
        "version": platform.python_version(),
    },
}
DETAILS = "<details>"
# Jupyter removes style sheets and scripts from a notebook that it does not trust. A
# listing then needs this; beside its own style sheet it changes nothing.
SANITISED = {
    '" hidden>': '" hidden="hidden">',  # without a value, it would be removed, too
    '<div class="w-foot">': '<div class="w-foot" hidden="hidden">',
    '<ol class="w-lines" role="list">': '<ol class="w-lines" style="list-style: none">',
    '<ul class="w-made" role="list">': '<ul class="w-made" style="list-style: none">',
    "<code><span": '<code style="display: block; padding: 0; background: none"><span',
    'style="--indent:': 'style="display: block; white-space: pre-wrap; --indent:',
}
TITLE = re.compile(r"(#+) (.*)")


def edition(notebook, number="", address="", papers=()):
    """Turn an executed notebook of the project into the one that readers open.

    Args:
        notebook: The notebook, with outputs.
        number: What its title begins with, such as ``"3. "``.
        address: Where the project lies in the web, if anywhere.
        papers: The address of each paper that notebooks cite, by its key.

    Returns:
        The notebook. No cell has a number, because the reader's kernel has not run it.
    """
    first, *rest = notebook["cells"]
    title, _, text = source(first).partition("\n")
    title = f"# {number}{title.removeprefix('# ')}"
    words = FIRST_WORDS.format(title=title, open="" if address else HERE)
    if any(f'shipped("{CAPTIONS}")' in source(cell) for cell in rest):
        words += TOLD + FETCH * bool(address) + "."
    opening = markdown("edition-title", words)
    library = FIRST_CELL.read_text("utf-8")
    library = library.replace('address=""', f'address="{address}"').strip()
    cells = [markdown(first["id"], text.strip()), *map(with_outputs, rest)]
    cells = anchored(named(folded(pieces(cells))))
    for cell in cells:
        if cell["cell_type"] == "markdown":
            cell["source"] = PLAIN.sub(
                lambda found: link(found, papers), cell["source"]
            )
    cells = [opening, code("edition-library", library, [], FOLDED), *cells]
    return {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}


def markdown(name, text):
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": text}


def code(name, text, outputs, metadata):
    made = {"cell_type": "code", "execution_count": None, "id": name}
    return made | {"metadata": metadata, "outputs": outputs, "source": text}


def source(cell):
    return "".join(cell["source"])


def with_outputs(cell):
    """Return a cell of the project without what only the build reads."""
    label = cell["metadata"].get("label")
    if cell["cell_type"] == "markdown":
        return markdown(cell["id"], source(cell)) | {"label": label}
    look = cell["metadata"].get("mystnb", {})
    alt = look.get("image", {}).get("alt", "")
    is_shown = "remove-output" not in cell["metadata"].get("tags", ())
    outputs = [still(output, alt) for output in cell["outputs"] if is_shown]
    is_hidden = cell["metadata"].get("jupyter", {}).get("source_hidden")
    made = code(cell["id"], source(cell), outputs, FOLDED if is_hidden else {})
    return made | {"label": look.get("figure", {}).get("name")}


def still(output, alt):
    """Return an output that needs neither a kernel nor the reader's trust."""
    output = json.loads(json.dumps(output))
    if "execution_count" in output:
        output["execution_count"] = None
    data = output.get("data", {})
    if data.pop(LIVE, None):  # the style of its still form, which pages share
        data["text/html"] = f"<style>{PANEL_STYLE}</style>" + "".join(data["text/html"])
    if FIGURE in data:
        svg = base64.b64encode("".join(data.pop(FIGURE)).encode()).decode()
        image = f"data:{FIGURE};base64,{svg}"
        data["text/html"] = f'<img alt="{escape(alt)}" src="{image}">'
    if "text/html" in data:
        html = "".join(data["text/html"])
        for before, after in SANITISED.items():
            html = html.replace(before, after)
        data["text/html"] = html
    return output


# -- Folds -----------------------------------------------------------------------------


def pieces(cells):
    """Split Markdown before each heading and at each end of a fold."""
    for cell in cells:
        if cell["cell_type"] == "code":
            yield cell
            continue
        parts, in_code = [[]], False
        for line in cell["source"].splitlines():
            in_code ^= line.startswith("```")
            if not in_code and (TITLE.match(line) or line == END):
                parts.append([])
            parts[-1].append(line)
        for number, lines in enumerate(filter(any, parts)):
            name = cell["id"] + f"-{number}" * (number > 0)
            yield cell | markdown(name, "\n".join(lines).strip())


def folded(cells):
    """Fold set-up, checks, hints and answers."""
    made, fold, level = [], [], 0
    for cell in [*cells, markdown("end", END)]:
        is_text = cell["cell_type"] == "markdown"
        title = TITLE.match(cell["source"]) if is_text else None
        ends = is_text and cell["source"].startswith(END)
        if fold and (ends or (title and len(title[1]) <= level)):
            closed, fold = close(fold), []
            if closed[0]["source"].startswith(DETAILS) and (
                made and made[-1]["source"].startswith(DETAILS)
            ):
                made[-1]["source"] += f"\n\n{closed[0]['source']}"
            else:
                made += closed
        if ends:
            cell = cell | {"source": cell["source"].removeprefix(END).strip()}
        word = title and HEADING.match(title[2])
        if word and word[1] in ("Set-up", "Checks", "Hint", "Answer"):
            fold, level = [cell], len(title[1])
        elif fold:
            fold.append(cell)
        elif cell["source"]:
            made.append(cell)
    return made


def close(fold):
    """Fold cells below a heading: code in one cell, words in ``<details>``."""
    heading, _, text = fold[0]["source"].partition("\n")
    title, fold[0]["source"] = TITLE.match(heading)[2], text.strip()
    is_code = [cell["cell_type"] == "code" for cell in fold]
    if title.startswith(("Hint", "Answer")) or not any(is_code):
        body = "\n\n".join(
            f"```python\n{cell['source']}\n```" if runs else cell["source"]
            for cell, runs in zip(fold, is_code, strict=True)
        )
        begin = f"{DETAILS}\n<summary>{title}</summary>\n\n"
        words = f"{begin}{body.strip()}\n\n</details>"
        return [markdown(fold[0]["id"], words)]
    made, lines = [], []
    for cell, runs in zip(fold, is_code, strict=True):
        lines += [cell["source"], ""] if runs else comment(cell["source"])
        if cell is fold[-1] or (runs and cell["outputs"]):
            text = "\n".join(lines).strip()
            outputs = cell.get("outputs", [])
            made.append(code(cell["id"], text, outputs, FOLDED) | {"title": title})
            lines = []
    return made


def comment(text):
    """Turn Markdown into lines of a comment."""
    for paragraph in text.strip().split("\n\n"):
        words = PLAIN.sub(r"\1", paragraph)
        yield from textwrap.wrap(words, 86, initial_indent="# ", subsequent_indent="# ")


def named(cells):
    """Begin each hidden cell with a line that says what its code draws."""
    for cell, below in pairwise([*cells, markdown("end", "")]):
        if CONTROL_CAPTION.match(below["source"]):
            cell["label"] = below.pop("label")
        if cell["metadata"]:
            caption = re.match(r"\*\*(.*?)\.\*\*", below["source"])
            what = "this listing" if "walk(" in cell["source"] else "this output"
            title = cell.pop("title", f"The code of {caption[1] if caption else what}")
            cell["source"] = f"# {title}\n{cell['source']}"
    return cells


# -- Links -----------------------------------------------------------------------------


def anchored(cells):
    """Place what links jump to: above a figure or control, and in a labelled cell."""
    made = []
    for cell in cells:
        if label := cell.pop("label", None):
            anchor = f'<a id="{label}"></a>'
            if cell["cell_type"] == "markdown":
                cell["source"] = f"{anchor}\n\n{cell['source']}"
            elif made and made[-1]["cell_type"] == "markdown":
                made[-1]["source"] += f"\n\n{anchor}"
            else:
                made.append(markdown(f"{cell['id']}-place", anchor))
        made.append(cell)
    return made


def link(found, papers):
    """Lead to a paper, or to a file of the edition; other pages are only named."""
    text, file, name = found.groups()
    if file == "bibliography.md" and name in papers:
        return f"[{text}]({papers[name]})"
    is_here = file in ("", "glossary.md") or file.endswith(".ipynb")
    return found[0] if is_here else text
