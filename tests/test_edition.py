"""The reader's edition, which `make lab`, the downloads and the archive share."""

import base64
import re
import shutil
import threading
import tomllib
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from types import SimpleNamespace
from urllib.parse import unquote

import lxml.html
import nbformat
import pytest
from book_files import HTML, NOTEBOOKS, ROOT, code_cells, read_notebook, source
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from test_plain_notebooks import RAW, markdown

from bookkit import shipped
from website.edition import edition as made
from website.edition import lab, write

FOLDER = HTML / write.FOLDER
MOST = 1_250_000  # bytes: chapter 16 contains the model of its control


# -- One notebook ----------------------------------------------------------------------


def text(words, name="text", **metadata):
    return {"cell_type": "markdown", "id": name, "metadata": metadata, "source": words}


def code(words, name="code", outputs=(), hidden=False, **metadata):
    cell = {"cell_type": "code", "id": name, "source": words, "outputs": [*outputs]}
    metadata |= {"jupyter": {"source_hidden": True}} if hidden else {}
    return cell | {"metadata": metadata}


def edition(*cells, **options):
    """Turn cells below a title into those of the edition, below its first two."""
    title = text("# Attention\n\nWords.", "attention", label="ch-attention")
    return made.edition({"cells": [title, *cells]}, **options)["cells"][2:]


def test_the_first_two_cells_say_that_all_can_be_read_and_make_it_live():
    options = {"number": "3. ", "address": "https://example.org/book"}
    notebook = made.edition({"cells": [text("# Attention\n\nWords.")]}, **options)
    title, library, below = notebook["cells"]
    assert title["source"].startswith(
        "# 3. Attention\n\n> You can read this notebook as"
    )
    assert 'find_library(address="https://example.org/book"):' in library["source"]
    assert library["metadata"]["jupyter"] == {"source_hidden": True}
    assert below["source"] == "Words."
    nbformat.validate(nbformat.from_dict(notebook))


def test_hidden_code_says_what_it_is_and_nothing_is_for_the_build_alone():
    _, checks, figure, _, other = edition(
        code("# Checks: sums\nassert f", hidden=True, tags=["hide-cell"]),
        code("draw()", "figure", hidden=True, tags=["hide-input"]),
        text("**Fig. 3.1.** A figure.", "caption"),
        code("f()", "other", [new_output("stream", text="1")], True),
    )
    assert checks["source"] == "# Checks: sums\nassert f"
    assert figure["source"] == "# The code of Fig. 3.1\ndraw()"
    assert other["source"] == "# The code of what is below\nf()"
    for cell in (checks, figure, other):
        assert set(cell["metadata"]) == {"jupyter", "cellView"}


def test_links_lead_to_notebooks_terms_papers_and_above_what_is_drawn():
    figure = {"mystnb": {"figure": {"name": "fig-x"}}}
    below, _, place, _, _, last = edition(
        code("draw()", "drawn", hidden=True, **figure),
        text("**Fig. 3.1.** A figure.", "fig-x-caption"),
        code("control", "moves", hidden=True),
        text("**Control 3.1.** It moves.", "control-x-caption", label="control-x"),
        text(
            "[A (2017)](bibliography.md#a), [B](bibliography.md#b), "
            "[h](06_x.ipynb#fig-y), [key](glossary.md#key), [notation](notation.md), [w](https://example.org)",
            "links",
            label="place",
        ),
        papers={"a": "https://example.org/a"},
        terms={"key": "Found by it."},
    )
    assert below["source"] == 'Words.\n\n<a id="fig-x"></a>'
    assert place["source"].endswith('A figure.\n\n<a id="control-x"></a>')
    assert last["source"] == (
        '<a id="place"></a>\n\n[A (2017)](https://example.org/a), B, '
        '[h](06_x.ipynb#fig-y), [key](glossary.md#key "Found by it."), notation, '
        "[w](https://example.org)"
    )


def still(data):
    run = {"output_type": "execute_result", "execution_count": 3, "data": data}
    output = made.still(run, 'Two "boxes" <b>.')
    assert output["execution_count"] is None
    assert run["data"] is data  # the cache's own are left as they are
    return output["data"]


def test_a_figure_becomes_an_image_that_needs_no_trust_and_keeps_its_words():
    found = still({"image/svg+xml": ["<svg>", "é</svg>"], "text/plain": "<Figure>"})
    assert list(found) == ["text/plain", "text/html"]
    image = lxml.html.fromstring(found["text/html"])
    assert image.get("alt") == 'Two "boxes" <b>.'
    kind, _, drawn = image.get("src").partition(",")
    assert kind == "data:image/svg+xml;base64"
    assert base64.b64decode(drawn).decode() == "<svg>é</svg>"


def test_a_panel_shows_its_still_form():
    found = still({made.LIVE: {"model_id": "1"}, "text/html": "<p>still</p>"})
    assert list(found) == ["text/html"]
    assert found["text/html"].endswith("</style><p>still</p>")


# -- Without the library ---------------------------------------------------------------


def test_without_the_library_a_run_shows_all_again_and_says_one_sentence(
    tmp_path, monkeypatch
):
    error = ["an error", "of before"]
    picture = {"text/html": "<b>a</b>", "text/plain": "a"}
    cells = [
        new_markdown_cell("# Title"),
        new_code_cell(made.FIRST_CELL.read_text().replace("bookkit", "no_such_thing")),
        new_code_cell("import absent", outputs=[new_output("stream", text="x")]),
        new_code_cell("%%time\nf()\n", outputs=[new_output("display_data", picture)]),
        new_code_cell("f()", outputs=[new_output("stream", text="first")]),
        new_code_cell("f()", outputs=[new_output("stream", text="second")]),
        new_code_cell("g()", outputs=[new_output("error", traceback=error)]),
    ]
    notebook = new_notebook(cells=cells)
    nbformat.write(notebook, tmp_path / "a.ipynb")

    def run(**options):
        client = NotebookClient(nbformat.from_dict(notebook), **options)
        return [c.outputs for c in code_cells(client.execute(cwd=str(tmp_path)))]

    monkeypatch.setenv("JPY_SESSION_NAME", str(tmp_path / "a.ipynb"))
    notebook.cells.append(new_code_cell("print(1 + 1)"))  # a cell that a reader wrote
    notebook.cells.append(new_code_cell("import absent_too"))
    # The same kernel once more, as after a change: edited, saved, all run again.
    notebook.cells += [notebook.cells[i] for i in (1, -1, 2)]
    (said,), *shown, (own,), (wrong, why), (again,), after, (kept,) = run()
    assert (again.text, after[0].output_type, kept.data) == (
        said.text,
        "error",
        {"text/plain": "x"},
    )
    sentence = "The library is not here (the downloads of this page have it)"
    assert said.text.startswith(f"{sentence}, so unchanged cells show what they showed")
    assert [[o.data for o in outputs] for outputs in shown] == [
        [{"text/plain": "x"}],
        [picture],
        [{"text/plain": "first"}],
        [{"text/plain": "second"}],
        [{"text/plain": "an error\nof before"}],
    ]
    assert own.text == "2\n"
    assert (wrong.output_type, why.text) == ("error", f"{sentence}.\n")
    # Elsewhere the first cell stops the others, whose outputs then stay.
    monkeypatch.delenv("JPY_SESSION_NAME")
    (stopped,), *_ = run(allow_errors=True)
    assert stopped.traceback[0].endswith("so no cell runs, and nothing is lost.")


# -- The edition of the book -----------------------------------------------------------


@pytest.mark.book
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_of_the_edition_is_the_chapter_without_what_only_the_build_reads(
    path,
):
    project, notebook = read_notebook(path), read_notebook(FOLDER / path.name)
    nbformat.validate(nbformat.from_dict(notebook))
    assert (FOLDER / path.name).stat().st_size < MOST
    words = "\n".join(map(source, markdown(notebook)))
    for pattern in RAW.values():
        assert not re.search(pattern, words, re.MULTILINE)
    assert "<!--" not in words
    for cell in code_cells(notebook):
        assert set(cell["metadata"]) <= {"jupyter", "cellView"}
        if "cellView" in cell["metadata"]:
            assert source(cell).startswith("# ")
    # Nothing is lost: code that runs, or code of an answer.
    everything = "\n".join(map(source, notebook["cells"]))
    for cell in code_cells(project):
        assert source(cell) in everything, cell["id"]
    outputs = [o for cell in code_cells(notebook) for o in cell["outputs"]]
    kinds = {kind for output in outputs for kind in output.get("data", {})}
    assert kinds <= {"text/plain", "text/html", "text/markdown"}
    drawn = [
        c for c in code_cells(project) if "figure" in c["metadata"].get("mystnb", {})
    ]
    html = "".join(str(o["data"].get("text/html")) for o in outputs if "data" in o)
    assert html.count('src="data:image/svg+xml') >= len(drawn)


@pytest.mark.book
def test_every_link_of_the_edition_leads_somewhere():
    texts = {path.name: path.read_text("utf-8") for path in FOLDER.glob("*.md")}
    texts = {name: texts[name] for name in ("glossary.md", "start.md")}
    for path in NOTEBOOKS:
        cells = markdown(read_notebook(FOLDER / path.name))
        texts[path.name] = "\n\n".join(map(source, cells))
    places = {
        name: re.findall(r'<a id="([^"]+)"', words) for name, words in texts.items()
    }
    for name, words in texts.items():
        links = re.findall(r"(?<!!)\]\(([^)\s]+)[\s)]", words)
        for link in links:
            if not link.startswith("http"):
                file, _, place = unquote(link).partition("#")
                assert (file or name) in texts, (name, link)
                assert not place or place in places[file or name], (name, link)
    start = texts["start.md"]
    assert start.index("(open_model.ipynb)") < start.index("## I The pieces")
    for path in NOTEBOOKS:
        assert f"]({path.name})" in start, path.name
    assert "[3. Attention](03_attention.ipynb) | how a word takes" in start
    assert "{" not in texts["glossary.md"]


# -- A working copy --------------------------------------------------------------------


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))  # what is trusted
    edition = tmp_path / "edition"
    edition.mkdir()
    (edition / "glossary.md").write_text("# Glossary")
    build(edition, "1")
    return tmp_path / "notebooks", edition


def build(edition, words):
    for name in ("a", "b"):
        nbformat.write(
            new_notebook(cells=[new_code_cell(words)]), edition / f"{name}.ipynb"
        )


def texts(folder):
    return {
        path.stem: source(read_notebook(path)["cells"][0])
        for path in sorted(folder.glob("*.ipynb"))
    }


def test_a_new_build_renews_what_nobody_changed_and_never_what_a_reader_did(folders):
    notebooks, edition = folders
    assert lab.update(notebooks, edition) == []
    assert texts(notebooks) == {"a": "1", "b": "1"}
    mine = new_notebook(cells=[new_code_cell("mine")])
    nbformat.write(mine, notebooks / "a.ipynb")
    assert lab.update(notebooks, edition) == []  # the same build: nothing is newer
    build(edition, "2")
    for _ in range(2):  # it is named as long as it lies there
        (told,) = lab.update(notebooks, edition)
        assert "You changed [a.ipynb](a.ipynb)." in told
        assert "[a-new.ipynb](a-new.ipynb)" in told
        assert texts(notebooks) == {"a": "mine", "a-new": "2", "b": "2"}
    build(edition, "3")
    lab.update(notebooks, edition)
    assert texts(notebooks) == {"a": "mine", "a-new": "3", "b": "3"}
    nbformat.write(mine, notebooks / "a-new.ipynb")
    build(edition, "4")
    lab.update(notebooks, edition)
    assert texts(notebooks) == {
        "a": "mine",
        "a-new": "mine",
        "a-new-new": "4",
        "b": "4",
    }


def test_a_copy_that_was_stopped_or_was_there_before_is_the_readers(folders):
    notebooks, edition = folders
    notebooks.mkdir()
    nbformat.write(new_notebook(cells=[new_code_cell("mine")]), notebooks / "a.ipynb")
    lab.update(notebooks, edition)
    assert texts(notebooks) == {"a": "mine", "a-new": "1", "b": "1"}


def test_notebooks_that_somebody_ran_in_the_book_are_named(tmp_path):
    (tmp_path / "book").mkdir()
    for name, count in (("a", 3), ("b", None)):
        notebook = new_notebook(cells=[new_code_cell("1", execution_count=count)])
        nbformat.write(notebook, tmp_path / "book" / f"{name}.ipynb")
    (told,) = lab.changed_in_book(tmp_path)
    assert told == "[book/a.ipynb](../book/a.ipynb) was changed there."


# -- What chapters read ----------------------------------------------------------------


def test_the_model_of_captions_is_fetched_by_checksum_or_not_at_all(
    tmp_path, monkeypatch, capsys
):
    """A folder with a file that was changed, then with the real ones."""
    web = tmp_path / "web"
    remote = web / "raw/main/models" / shipped.CAPTIONS
    shutil.copytree(ROOT / "models" / shipped.CAPTIONS, remote)
    right = (remote / "run.json").read_bytes()
    (remote / "run.json").write_bytes(right + b" ")
    handler = partial(SimpleHTTPRequestHandler, directory=str(web))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        source = f"Source, http://127.0.0.1:{server.server_port}"
        told = SimpleNamespace(get_all=lambda name: [source])
        monkeypatch.setattr(shipped, "metadata", lambda name: told)
        monkeypatch.setattr(shipped, "CACHE", tmp_path / "cache")
        with pytest.raises(ValueError, match="SHA256 hash of downloaded file"):
            shipped.fetch()
        assert not (tmp_path / "cache" / shipped.CAPTIONS).exists()
        (remote / "run.json").write_bytes(right)
        folder = shipped.fetch()
        server.shutdown()
    assert "/models/multi30k-en-de/README.md" in capsys.readouterr().out
    monkeypatch.setattr(shipped, "TOP", tmp_path / "installed")
    assert shipped.shipped(shipped.CAPTIONS) == folder
    assert (folder / "run.json").read_bytes() == right


def test_the_project_says_its_address_in_two_places_alike(monkeypatch):
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    config = (ROOT / "_config.yml").read_text("utf-8")
    (address,) = re.findall(r'^  url: "?([^"\s]*)', config, re.MULTILINE)
    assert project.get("urls", {}).get("Source", "") == address
    if not address:
        with pytest.raises(SystemExit, match="no address"):
            shipped.fetch()
