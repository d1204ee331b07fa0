"""`make lab` shows the outputs of the build in chapters, and stores none of them."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from website.lab.chapters import Chapters

# Not the thread of the tests, which may have the loop of a browser, and always the
# same, as the store of trusted notebooks wants.
ALONE = ThreadPoolExecutor(1)


def wait_for(coroutine):
    return ALONE.submit(asyncio.run, coroutine).result()


HTML = "<script>live()</script>\n<p>two lines</p>\n"


def notebook():
    cells = [
        new_markdown_cell("# A", id="title"),
        new_code_cell("draw()", id="draw"),
        new_code_cell("x = 1", id="quiet"),
        new_code_cell("print(x)", id="print"),
    ]
    return new_notebook(cells=cells)


def show(cell, data=HTML):
    return [new_output("display_data", data={"text/html": data, "text/plain": cell})]


class Lab:
    """A contents manager over two folders: the book and what the build made of it."""

    def __init__(self, folder):
        self.book, self.made = folder / "book", folder / "made"
        self.book.mkdir()
        self.made.mkdir()
        with_outputs = notebook()
        with_outputs.cells[1].outputs = show("draw")
        with_outputs.cells[3].outputs = [new_output("stream", text="1\n")]
        nbformat.write(with_outputs, self.made / "a.ipynb")
        nbformat.write(notebook(), self.book / "a.ipynb")
        self.manager = Chapters(root_dir=str(self.book), executed=str(self.made))

    def open(self):
        """What JupyterLab gets, as JSON."""
        model = wait_for(self.manager.get("a.ipynb"))
        return json.loads(json.dumps(model["content"]))

    def save(self, content):
        model = {"type": "notebook", "content": content}
        wait_for(self.manager.save(model, "a.ipynb"))

    def stored(self, name="a.ipynb"):
        """The outputs in the file, by cell."""
        cells = nbformat.read(self.book / name, 4).cells
        return {cell.id: cell.outputs for cell in cells if cell.get("outputs")}


@pytest.fixture
def lab(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_DATA_DIR", str(tmp_path / "data"))  # what is trusted
    return Lab(tmp_path)


def outputs(content):
    return {cell["id"]: cell.get("outputs", []) for cell in content["cells"]}


def test_a_chapter_opens_with_the_outputs_of_the_build_and_stores_none_of_them(lab):
    before = (lab.book / "a.ipynb").read_bytes()
    content = lab.open()
    shown = outputs(content)
    assert shown["draw"] == show("draw")
    assert shown["print"][0]["text"] == "1\n"
    assert shown["quiet"] == []
    trusted = {c["id"]: c["metadata"].get("trusted") for c in content["cells"]}
    assert trusted == {"title": None, "draw": True, "quiet": False, "print": True}
    lab.save(content)
    assert (lab.book / "a.ipynb").read_bytes() == before
    assert outputs(lab.open())["draw"] == show("draw")
    lab.manager.executed = ""  # without a build a chapter opens as it is
    assert not any(outputs(lab.open()).values())


def test_what_the_reader_ran_is_kept_even_if_it_is_the_same(lab):
    content = lab.open()
    draw, text = content["cells"][1], content["cells"][3]
    draw["execution_count"] = 1
    text |= {"execution_count": 2, "outputs": [new_output("stream", text="2\n")]}
    lab.save(content)
    assert list(lab.stored()) == ["draw", "print"]
    assert outputs(lab.open()) == outputs(content)


def test_a_build_while_a_chapter_is_open_leaves_nothing_in_the_file(lab):
    content, made = lab.open(), lab.made / "a.ipynb"
    newer = notebook()
    newer.cells[1].outputs = show("drawn anew")
    nbformat.write(newer, made)
    lab.save(content)
    assert lab.stored() == {}
    content = lab.open()
    assert outputs(content)["draw"] == show("drawn anew")
    made.write_bytes(made.read_bytes()[:99])  # a build has half written it
    assert not any(outputs(lab.open()).values())
    lab.save(content)
    assert lab.stored() == {}
    assert lab.manager.built("../book/a.ipynb") == {}
    assert lab.manager.built(str(lab.book / "a.ipynb")) == {}


def test_a_changed_cell_loses_the_outputs_of_the_build_and_others_are_kept(lab):
    content = lab.open()
    content["cells"][1]["source"] = "draw(2)"
    content["cells"][2]["outputs"] = show("quiet", "<p>mine</p>")
    lab.save(content)
    assert lab.stored() == {"quiet": show("quiet", "<p>mine</p>")}
    shown = outputs(lab.open())
    assert shown["draw"] == []
    assert shown["print"] != []


def test_a_copy_of_a_chapter_keeps_what_it_shows(lab):
    wait_for(lab.manager.copy("a.ipynb", "b.ipynb"))
    assert list(lab.stored("b.ipynb")) == ["draw", "print"]


def test_the_list_of_files_shows_what_jupyterlab_can_show(lab):
    for name in ("api.md", "api_data.md", "references.bib", "notation.md", "a~"):
        (lab.book / name).touch()
    (lab.book / "_static").mkdir()
    listed = wait_for(lab.manager.get(""))["content"]
    assert {entry["name"] for entry in listed} == {"a.ipynb", "notation.md"}
    assert wait_for(lab.manager.get("api.md"))["content"] == ""  # a link opens it
