"""Make the notebook that readers open of one that the build has executed.

Nothing in it is for the build alone. A figure is an image, because Jupyter removes an
SVG from a notebook that it does not trust; of a control it then shows the words. Hidden
code begins with a line that says what it is, which JupyterLab shows.
"""

import base64
import copy
import json
import platform
import re
from html import escape
from itertools import pairwise
from pathlib import Path

from pages.laboratory.panel import PANEL_STYLE
from website.folds.predictions import QUESTION
from website.links.notebook_links import CAPTION, CONTROL_CAPTION, PLAIN

LIVE = "application/vnd.jupyter.widget-view+json"  # needs the kernel that made it
FIGURE = "image/svg+xml"
FIRST_CELL = Path(__file__).with_name("first_cell.py")
FIRST_WORDS = """{title}

> You can read this notebook as it is: it shows what every cell produced. *Run > Run All
> Cells* brings its controls to life and lets you change cells: the first one finds the
> library or installs it, and if it can't, nothing is lost."""
HIDDEN = {"jupyter": {"source_hidden": True}, "cellView": "form"}  # this is Colab's
DETAILS = "<details>\n<summary>The answer</summary>\n\n{}\n\n</details>"
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


def edition(notebook, number="", address="", papers=(), terms=()):
    """Turn an executed notebook of the project into the one that readers open.

    Args:
        notebook: The notebook, with outputs.
        number: What its title begins with, such as ``"3. "``.
        address: Where the project lies in the web, if anywhere.
        papers: The address of each paper that notebooks cite, by its key.
        terms: What each term of the glossary means, by its name in links.

    Returns:
        The notebook. No cell has a number, because the reader's kernel has not run it.
    """
    first, *rest = notebook["cells"]
    title, _, below = "".join(first["source"]).partition("\n")
    words = FIRST_WORDS.format(title=f"# {number}{title.removeprefix('# ')}")
    library = FIRST_CELL.read_text("utf-8").strip()
    library = library.replace('address=""', f'address="{address}"')
    cells = [
        text("edition-title", words),
        code("edition-library", library, [], HIDDEN),
        text(first["id"], lead(below.strip(), papers, terms)),
    ]
    asked = words_wait = output_waits = False  # a prediction, and what answers it
    for cell, after in pairwise([*rest, text("end", "")]):
        words, label = "".join(cell["source"]), cell["metadata"].get("label")
        if cell["cell_type"] == "markdown":
            words = lead(words, papers, terms)
            if words_wait and not words.startswith(("#", QUESTION)):
                answer, gap, others = words.partition("\n\n")
                words = DETAILS.format(answer) + gap + others
                words_wait = bool(CAPTION.match(answer))
            asked = words.rpartition("\n\n")[2].startswith(QUESTION)
            if label and not CONTROL_CAPTION.match(words):
                words = f'<a id="{label}"></a>\n\n{words}'
            cells.append(text(cell["id"], words))
            continue
        caption = "".join(after["source"])
        look = cell["metadata"].get("mystnb", {})
        label = look.get("figure", {}).get("name")
        if CONTROL_CAPTION.match(caption):
            label = after["metadata"]["label"]
            asked = False  # the reader tries it out
        if label:  # what links lead to stands above the output
            if cells[-1]["cell_type"] == "code":
                cells.append(text(f"{cell['id']}-place", ""))
            cells[-1]["source"] += f'\n\n<a id="{label}"></a>'
        output_waits = asked or output_waits
        words_wait = asked or (words_wait and output_waits)
        metadata, asked = {}, False
        if cell["metadata"].get("jupyter", {}).get("source_hidden"):
            metadata = copy.deepcopy(HIDDEN)
            if not words.startswith("# "):
                called = re.match(r"\*\*(.*?)\.\*\*", caption)
                what = called[1] if called else "what is below"
                words = f"# The code of {what}\n{words}"
        alt = look.get("image", {}).get("alt", "")
        is_shown = "remove-output" not in cell["metadata"].get("tags", ())
        outputs = [still(output, alt) for output in cell["outputs"] if is_shown]
        if output_waits and outputs:
            metadata.setdefault("jupyter", {})["outputs_hidden"] = True
            output_waits = False
        cells.append(code(cell["id"], words, outputs, metadata))
    return {"cells": cells, "metadata": KERNEL, "nbformat": 4, "nbformat_minor": 5}


def text(name, words):
    return {"cell_type": "markdown", "id": name, "metadata": {}, "source": words}


def code(name, words, outputs, metadata):
    cell = {"cell_type": "code", "execution_count": None, "id": name}
    return cell | {"metadata": metadata, "outputs": outputs, "source": words}


def lead(words, papers, terms):
    """Let links lead to papers, to terms and their meaning, and to other notebooks."""

    def link(found):
        said, file, name = found.groups()
        if file == "bibliography.md" and name in papers:
            return f"[{said}]({papers[name]})"
        if file == "glossary.md" and name in terms:  # the meaning shows under the mouse
            return f'[{said}](glossary.md#{name} "{terms[name]}")'
        return found[0] if not file or file.endswith(".ipynb") else said

    return PLAIN.sub(link, words)


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
