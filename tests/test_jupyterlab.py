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
from book_files import BOOK, read_notebook, source
from nbformat.sign import NotebookNotary
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from playwright.sync_api import expect
from test_control_contract import all_controls
from test_widget_beam import STEPS, pieces

from bookkit.controls.beam import beam_control
from pages.attention.softmax import softmax_control
from pages.heads.split import split_control
from pages.masks.masks import mask_control
from website.edition.edition import KERNEL, edition
from website.edition.lab import QUIET

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
    """A JupyterLab that runs: its address, its notebooks, and what it trusts."""

    address: str
    books: Path
    notary: NotebookNotary

    def save(self, name, cells, trusted=True):
        """Save a notebook."""
        notebook = new_notebook(cells=cells, metadata=KERNEL)
        nbformat.write(notebook, self.books / name)
        if trusted:
            self.notary.sign(notebook)

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
    names = "config", "data", "runtime", "books"
    folders = {name: top / name for name in names}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    own = {f"JUPYTER_{name.upper()}_DIR": str(path) for name, path in folders.items()}
    books = f"--ServerApp.root_dir={folders['books']}"
    options = [*OPTIONS, f"--port={port}", books]
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
        notary = NotebookNotary(data_dir=str(folders["data"]))
        yield Lab(address, folders["books"], notary)
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
    outputs = shown([*keyed, *others])
    lab.save("controls.ipynb", [new_code_cell("...", outputs=outputs)])
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
ANSWER = "<details>\n<summary>Answer</summary>\n\nIt is $2$, or two.\n\n</details>"


def chapter():
    """The cells of an edition: text, set-up, a control, a figure, and an exercise."""
    control = softmax_control(["a", "b"], [1.0, 2.0], d_k=4)
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="90"/>'
    figure = new_output("display_data", data={"image/svg+xml": svg})
    look = {"mystnb": {"image": {"alt": "a figure"}}}
    caption = {"label": "control-softmax"}
    hidden = {"jupyter": {"source_hidden": True}}
    cells = [
        new_markdown_cell("# A chapter\n\n**Try** [pull](#control-softmax)"),
        new_code_cell("# Set-up\nimport os", metadata=hidden),
        new_markdown_cell(ANSWER),
        *(new_markdown_cell(f"## Part {i}\n\n{TEXT}") for i in range(20)),
        new_code_cell("control", outputs=shown([control])),
        new_markdown_cell("**Control 1.1.** It moves.", metadata=caption),
        new_code_cell("1 + 1", outputs=[figure], metadata=look),
    ]
    return nbformat.from_dict(edition({"cells": cells})).cells


@pytest.mark.slow
def test_a_notebook_of_the_edition_opens_folded_live_and_unchanged(lab, browser):
    lab.save("chapter.ipynb", chapter())
    (lab.books / "start.md").write_text("# Words\n\n[a chapter](chapter.ipynb)\n")
    tab = browser.new_page(viewport={"width": 1800, "height": 900})
    tab.set_default_timeout(1000 * SECONDS)
    tab.goto(f"{lab.address}/lab/tree/start.md?reset")
    expect(tab.locator(".jp-MarkdownViewer h1")).to_contain_text("Words")
    with tab.expect_websocket(lambda socket: "/channels" in socket.url):
        tab.get_by_role("link", name="a chapter").click()
    folded = tab.locator(".jp-NotebookPanel .jp-InputPlaceholder")
    expect(folded).to_contain_text(["# Run this cell first.", "# Set-up"])
    tab.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').wait_for()
    text = tab.locator(".jp-MarkdownOutput > p").first
    expect(text).to_have_css("max-width", re.compile(r"\d+px"))
    assert text.bounding_box()["width"] < 700

    answer = tab.locator("details p", has_text="or two.")
    answer.wait_for(state="attached")
    expect(answer).to_be_hidden()
    tab.locator("summary", has_text="Answer").click()
    expect(answer).to_be_visible()
    control = tab.locator(".control.c-live")
    tab.get_by_role("link", name="pull").click()
    expect(control).to_be_in_viewport()
    assert tab.get_by_alt_text("a figure").evaluate("i => i.naturalWidth") == 90
    # Closing it would ask nothing, and nothing that only authors need is shown.
    assert tab.locator(".jp-mod-dirty").count() == 0
    expect(tab.get_by_role("menuitem", name="Nbgrader")).to_have_count(0)
    tab.close()


@pytest.mark.slow
def test_without_trust_it_shows_figures_and_the_words_of_controls(lab, browser):
    lab.save("download.ipynb", chapter()[-3:], trusted=False)
    tab = lab.open(browser, "download.ipynb")
    figure = tab.get_by_alt_text("a figure")
    figure.wait_for()
    assert figure.evaluate("image => image.naturalWidth") == 90
    expect(tab.get_by_text("Shown as it starts.")).to_be_visible()
    assert tab.locator(".control.c-live").count() == 0
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
    lab.save("laboratory.ipynb", list(map(new_code_cell, plain)))
    tab = lab.open(browser, "laboratory.ipynb")
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
