"""Add the outputs of the build to the notebooks that readers download.

The project's notebooks have none. Jupyter sanitises the outputs of a notebook from
elsewhere: of a control it shows the words, and of a figure in SVG nothing. So a figure
becomes an image in HTML, with its alt text.
"""

import base64
import json
from html import escape
from pathlib import Path

import nbformat
from jupyter_cache import get_cache

from pages.laboratory.panel import PANEL_STYLE
from website.links.notebook_links import upgrade

LIVE = "application/vnd.jupyter.widget-view+json"  # needs the kernel that made it
FIGURE = "image/svg+xml"


def add_outputs(source, executed):
    """Add outputs to a notebook.

    Args:
        source: The notebook, as JSON.
        executed: Its code cells after a run, in order.

    Returns:
        The same notebook with their outputs, as JSON. No cell has a number, because the
        reader's kernel has not run it.
    """
    notebook = json.loads(source)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for cell, done in zip(cells, executed, strict=True):
        alt = cell["metadata"].get("mystnb", {}).get("image", {}).get("alt", "")
        if "remove-output" not in cell["metadata"].get("tags", ()):
            cell["outputs"] = [still(output, alt) for output in done["outputs"]]
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


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
        link = f"data:{FIGURE};base64,{svg}"
        data["text/html"] = f'<img alt="{escape(alt)}" src="{link}">'
    return output


def write(app, exception):
    """Replace the copies that Sphinx made of the notebooks."""
    cache = Path(app.outdir).parent / ".jupyter_cache"
    if exception or app.builder.name != "html" or not cache.is_dir():
        return
    for path in sorted(Path(app.srcdir, "book").glob("*.ipynb")):
        copy = Path(app.outdir, "_sources", "book", path.name)
        source = path.read_text("utf-8")
        if copy.is_file() and copy.read_text("utf-8") == source:
            notebook = nbformat.reads(upgrade(source, path.parent), as_version=4)
            _, executed = get_cache(str(cache)).merge_match_into_notebook(notebook)
            code = [cell for cell in executed.cells if cell.cell_type == "code"]
            copy.write_text(add_outputs(source, code), "utf-8")


def setup(app):
    app.connect("build-finished", write)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
