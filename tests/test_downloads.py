"""The notebooks that readers download: the project's, with the outputs of the build."""

import base64
import json

import lxml.html
import pytest
from book_files import HTML, NOTEBOOKS, code_cells, read_notebook

from website.lab import downloads

MOST = 1_250_000  # bytes: chapter 16 contains the model of its control


def one_cell(outputs, alt='Two "boxes" <b>.'):
    """A notebook, as JSON, and its code cell after a run."""
    look = {"mystnb": {"image": {"alt": alt}}}
    cell = {"cell_type": "code", "id": "x", "metadata": look, "source": ["x"]}
    cell |= {"execution_count": None, "outputs": []}
    notebook = {"cells": [{"cell_type": "markdown", "source": ["é"]}, cell]}
    text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
    return text, cell | {"execution_count": 3, "outputs": outputs}


def added(outputs):
    text, done = one_cell(outputs)
    (cell,) = code_cells(json.loads(downloads.add_outputs(text, [done])))
    return cell


def test_a_figure_becomes_an_image_that_needs_no_trust_and_keeps_its_words():
    data = {"image/svg+xml": ["<svg>", "é</svg>"], "text/plain": "<Figure>"}
    (output,) = added([{"output_type": "display_data", "data": data}])["outputs"]
    assert list(output["data"]) == ["text/plain", "text/html"]
    image = lxml.html.fromstring(output["data"]["text/html"])
    assert image.get("alt") == 'Two "boxes" <b>.'
    kind, _, drawn = image.get("src").partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(drawn).decode() == "<svg>é</svg>"


def test_a_panel_shows_its_still_form_and_no_cell_has_a_number():
    live = {downloads.LIVE: {"model_id": "1"}, "text/html": "<p>still</p>"}
    run = {"output_type": "execute_result", "execution_count": 3, "data": live}
    cell = added([run])
    (output,) = cell["outputs"]
    assert list(output["data"]) == ["text/html"]
    assert output["data"]["text/html"].endswith("</style><p>still</p>")
    assert (cell["execution_count"], output["execution_count"]) == (None, None)
    assert run["data"] is live  # the cache's own are left as they are
    assert list(live) == [downloads.LIVE, "text/html"]


def test_without_outputs_a_notebook_stays_as_it_is():
    text, done = one_cell([])
    assert downloads.add_outputs(text, [done]) == text


@pytest.mark.book
def test_a_download_is_the_notebook_of_the_project_with_its_outputs():
    for path in NOTEBOOKS:
        download = HTML / "_sources/book" / path.name
        notebook, project = read_notebook(download), read_notebook(path)
        outputs = [o for cell in code_cells(notebook) for o in cell["outputs"]]
        kinds = {kind for output in outputs for kind in output.get("data", {})}
        assert kinds <= {"text/plain", "text/html", "text/markdown"}, path.stem
        drawn = [cell for cell in code_cells(project) if "mystnb" in cell["metadata"]]
        html = "".join(str(o["data"].get("text/html")) for o in outputs if "data" in o)
        assert html.count('src="data:image/svg+xml') >= len(drawn), path.stem
        assert outputs
        assert download.stat().st_size < MOST, path.stem
        for cell in code_cells(notebook):
            cell["outputs"] = []
        assert notebook == project, path.stem
