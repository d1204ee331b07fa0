"""Controls and panels in a real JupyterLab, which takes keys wherever it may."""

import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import NamedTuple

import nbformat
import pytest
import torch
from axe import AXE
from book_files import BOOK, ROOT, read_notebook, source
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import expect
from test_control_contract import all_controls
from test_widget_beam import STEPS, pieces

from bookkit.controls.beam import beam_control
from pages.attention.softmax import softmax_control
from pages.heads.split import split_control
from pages.masks.masks import mask_control
from website.lab.downloads import still
from website.lab.lab import QUIET

SECONDS = 300  # to wait at most, on however slow a computer
OPTIONS = [
    "--no-browser",
    "--ip=127.0.0.1",
    "--allow-root",
    "--ServerApp.port_retries=0",
    "--IdentityProvider.token=",
    "--ServerApp.password=",
    *QUIET,
]


class Lab(NamedTuple):
    """A JupyterLab that runs: its address, its notebooks, and those of the build."""

    address: str
    books: Path
    executed: Path

    def save(self, name, cells, folder=None):
        """Save a notebook."""
        kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
        notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
        path = (folder or self.books) / name
        path.parent.mkdir(exist_ok=True)
        nbformat.write(notebook, path)

    def open(self, browser, name):
        """Open a notebook in a new tab, and wait until it has a kernel."""
        tab = browser.new_page(viewport={"width": 1200, "height": 1600})
        tab.set_default_timeout(1000 * SECONDS)
        with tab.expect_websocket(lambda socket: "/channels" in socket.url):
            tab.goto(f"{self.address}/lab/tree/{name}?reset")
        tab.locator(".jp-NotebookPanel-toolbar").wait_for()
        return tab


def shown(controls):
    """Outputs of one cell: what is in others and out of sight is not drawn."""
    htmls = [{"text/html": control._repr_html_()} for control in controls]
    return [new_output("display_data", data=html) for html in htmls]


# List the cells of tables that are narrower than their words, and a section that is.
MEASURE = """section => [section, ...section.querySelectorAll("th, td")]
  .filter((part) => part.checkVisibility() && !part.closest(".c-unseen"))
  .filter((part) => part.textContent.trim())
  .filter((part) => getComputedStyle(part).fontSize !== "0px")
  .filter((part) => part.scrollWidth > part.clientWidth + 1)
  .map((part) => `${part.className}: ${part.textContent.trim().slice(0, 30)}`)"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """One JupyterLab for all tests."""
    top = tmp_path_factory.mktemp("lab")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    names = "config", "data", "runtime", "books", "executed"
    folders = {name: top / name for name in names}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    own = {f"JUPYTER_{name.upper()}_DIR": str(path) for name, path in folders.items()}
    paths = [str(ROOT), os.environ.get("PYTHONPATH")]  # of website.lab
    own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
    books = f"--ServerApp.root_dir={folders['books']}"
    executed = f"--Chapters.executed={folders['executed']}"
    options = [*OPTIONS, f"--port={port}", books, executed]
    log = (top / "log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        env=os.environ | own,
        stdout=log,
        stderr=log,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api", server)
        yield Lab(address, folders["books"], folders["executed"])
    finally:
        server.terminate()
        try:  # even where it waits for a kernel that has hardly begun
            server.wait(5)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()
        log.close()


def wait_for(address, server):
    for _ in range(10 * SECONDS):
        if server.poll() is not None:
            pytest.fail(f"JupyterLab ended with status {server.returncode}")
        try:
            return urllib.request.urlopen(address)
        except urllib.error.URLError:
            time.sleep(0.1)
    pytest.fail("JupyterLab does not answer")


@pytest.mark.slow
def test_all_controls_fit_and_get_their_keys_in_jupyterlab(lab, browser):
    keyed = [
        softmax_control(["a", "b"], [1.0, 2.0], d_k=4),
        mask_control(["a b", "c"], ["d e", "f"]),
        beam_control(STEPS, pieces),
        split_control(["a"], torch.ones(1, 4), *[torch.eye(4)] * 4, 2),
    ]
    names = [control.name for control in keyed]
    others = [control for control in all_controls() if control.name not in names]
    cell = new_code_cell("...")
    lab.save("controls.ipynb", [cell])
    cell.outputs = shown([*keyed, *others])
    lab.save("controls.ipynb", [cell], lab.executed)
    tab = lab.open(browser, "controls.ipynb")
    softmax, masks, beam = (
        tab.locator(f".control[data-control={name}].c-live")
        for name in ("softmax", "masks", "beam")
    )
    softmax.wait_for()
    for control in (*keyed, *others):
        section = tab.locator(f".control[data-control={control.name}].c-live")
        section.wait_for()
        assert section.evaluate(MEASURE) == [], control.name

    width = softmax.get_by_role("slider", name="d_k")
    width.focus()
    for key, value in (("ArrowRight", "8"), ("ArrowUp", "16"), ("ArrowLeft", "8")):
        tab.keyboard.press(key)
        expect(width).to_have_attribute("aria-valuetext", value)
        expect(width).to_be_focused()
    masks.get_by_label("The code").focus()
    tab.keyboard.press("ArrowDown")
    expect(masks.get_by_label("The code")).to_have_value("5")
    tick = masks.get_by_label("pad on the left")
    tick.focus()
    tab.keyboard.press("Space")
    expect(tick).to_be_checked()
    told = beam.locator(".c-says")
    beam.get_by_role("radio", name="der").focus()
    tab.keyboard.press("ArrowDown")
    expect(told).to_contain_text("“die”: ")
    beam.get_by_role("button", name="Next").focus()
    tab.keyboard.press("Enter")
    expect(told).to_contain_text("Step 2")
    # The question about news would have come within two seconds.
    assert tab.locator(".Toastify__toast").all_inner_texts() == []
    tab.close()


# -- A chapter as it opens -------------------------------------------------------------

TEXT = "A sentence that is long enough to fill several lines of a wide window. " * 5


def is_save(answer):
    return answer.request.method == "PUT" and "/contents/chapter" in answer.url


@pytest.mark.slow
def test_a_download_shows_figures_and_a_chapter_live_controls_and_is_saved_without(
    lab, browser
):
    control = softmax_control(["a", "b"], [1.0, 2.0], d_k=4)
    drawn = {"image/svg+xml": '<svg xmlns="http://www.w3.org/2000/svg" width="90"/>'}
    hidden = {"jupyter": {"source_hidden": True}}
    cells = [
        new_markdown_cell(f"# A chapter\n\n{TEXT}"),
        new_code_cell("@hidden\ndef draw(): ...", metadata=hidden),
        new_code_cell("control"),
        new_code_cell("1 + 1"),
    ]
    lab.save("chapter.ipynb", cells)
    figure = still(new_output("display_data", data=drawn), "a figure")
    cells[1].outputs = [nbformat.from_dict(figure)]
    cells[2].outputs = shown([control])
    cells[3].outputs = [new_output("execute_result", data={"text/plain": "2"})]
    lab.save("chapter.ipynb", cells, lab.executed)
    lab.save("download.ipynb", cells)
    for name in ("api_data.md", "notation.md"):
        (lab.books / name).write_text("# Words\n")

    tab = lab.open(browser, "download.ipynb")  # which nobody has trusted yet
    figure = tab.get_by_alt_text("a figure")
    figure.wait_for()
    assert figure.evaluate("image => image.naturalWidth") == 90
    expect(tab.get_by_text("Shown as it starts.")).to_be_visible()
    assert tab.locator(".control.c-live").count() == 0
    tab.close()

    # The chapter lies without outputs in the book; the build's has some.
    tab = lab.open(browser, "chapter.ipynb")
    tab.locator(".control.c-live").wait_for()
    assert tab.get_by_alt_text("a figure").evaluate("i => i.naturalWidth") == 90
    tab.set_viewport_size({"width": 1800, "height": 900})
    text = tab.locator(".jp-MarkdownOutput p").first
    expect(text).to_have_css("max-width", re.compile(r"\d+px"))
    assert text.bounding_box()["width"] < 700
    folded = tab.locator(".jp-InputPlaceholder").first
    expect(folded.locator(".jp-PlaceholderText")).to_be_hidden()
    content = folded.locator(".jp-Placeholder-contentContainer")
    told = content.evaluate("part => getComputedStyle(part, '::before').content")
    assert told == '"Show the code"'
    # Nothing is shown that is only for authors.
    files = tab.locator(".jp-DirListing-itemText")
    expect(files).to_contain_text(["chapter.ipynb", "download.ipynb", "notation.md"])
    expect(files.filter(has_text="api_data")).to_have_count(0)
    expect(tab.get_by_role("menuitem", name="Nbgrader")).to_have_count(0)

    tab.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for()
    tab.locator(".jp-CodeCell").nth(2).locator(".cm-content").click()
    tab.keyboard.press("Control+Enter")
    tab.locator('.jp-OutputPrompt:text("[1]:")').wait_for()
    with tab.expect_response(is_save):
        tab.keyboard.press("Control+s")
    saved = nbformat.read(lab.books / "chapter.ipynb", 4).cells
    _, figure, control, ran = (cell.get("outputs", []) for cell in saved)
    assert (figure, control) == ([], [])
    assert ran[0]["data"] == {"text/plain": "2"}
    files.filter(has_text="notation").dblclick()
    expect(tab.locator(".jp-MarkdownViewer h1")).to_contain_text("Words")
    tab.close()


# -- Panels: a kernel answers ----------------------------------------------------------

FIND = """async () => {
  const found = await axe.run(".jp-OutputArea-output", {resultTypes: ["violations"]});
  return found.violations
    .filter(({impact}) => ["serious", "critical"].includes(impact))
    .flatMap(({id, nodes}) => nodes.map(({target}) => `${id}: ${target.join(" ")}`));
}"""


class Panel:
    """A panel in a tab. What is out of sight JupyterLab takes out of the roles."""

    def __init__(self, tab, title):
        self.keyboard = tab.keyboard
        self.section = tab.locator(f'section.control[aria-label="{title}"]')
        self.says = self.section.locator("> .c-says")
        self.wrong = self.section.locator("> .c-wrong")
        self.section.scroll_into_view_if_needed()

    def move(self, name, *keys):
        """Press keys on an input, which keeps the focus whatever is drawn anew."""
        found = self.section.get_by_label(name).first
        found.focus()
        for key in keys:
            self.keyboard.press(key)
            expect(found).to_be_focused()

    def press(self, name):
        self.section.get_by_role("button", name=name, exact=True).click()


@pytest.mark.slow
def test_every_panel_fits_and_runs_the_real_code_in_jupyterlab(lab, browser):
    cells = read_notebook(BOOK / "b_laboratory.ipynb")["cells"]
    code = [source(cell) for cell in cells if cell["cell_type"] == "code"]
    plain = [text for text in code if "interactive_output" not in text]
    lab.save("book/laboratory.ipynb", list(map(new_code_cell, plain)))
    for folder in ("models", "measurements"):
        (lab.books / folder).symlink_to(ROOT / folder)
    tab = lab.open(browser, "book/laboratory.ipynb")
    tab.get_by_role("menuitem", name="Run", exact=True).click()
    tab.get_by_role("menuitem", name="Run All Cells", exact=True).click()

    panel = Panel(tab, "Attention laboratory")
    expect(panel.says).to_contain_text("looks most at “the”, with 0.30")
    panel.move("temperature", "ArrowLeft")
    expect(panel.says).not_to_contain_text("with 0.30")
    expect(panel.section.locator("svg[role=img]")).to_have_count(2)
    panel.move("heads", "ArrowRight")
    expect(panel.wrong).to_have_text(
        "d_model must be divisible by num_heads, got 16 and 3"
    )
    expect(panel.section.locator(".c-old svg[role=img]")).to_have_count(2)
    panel.move("heads", "ArrowRight")
    expect(panel.wrong).to_have_text("")
    expect(panel.section.locator("[data-walk]")).to_contain_text("1 × 4 × 6 × 4")

    panel = Panel(tab, "Training laboratory")
    expect(panel.says).to_contain_text("The next new run: post-norm, warm-up 0, seed 2")
    panel.move("warm-up", "End")
    panel.move("layers", "Home")
    expect(panel.says).to_contain_text("post-norm, warm-up 200, num_layers 1, seed 2")
    panel.press("Start a new run")
    rows = panel.section.locator("table.c-rows tr")
    updates = rows.nth(3).locator("td").nth(1)
    expect(updates).to_have_text(re.compile("[1-9]"))
    panel.press("Stop")
    expect(panel.says).to_contain_text("Stopped after")
    for section in tab.locator("section.control").all():
        section.scroll_into_view_if_needed()
        assert section.evaluate(MEASURE) == [], section.get_attribute("aria-label")
    tab.add_script_tag(path=AXE)
    assert tab.evaluate(FIND) == []
    tab.close()
