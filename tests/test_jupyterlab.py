"""The controls in a real JupyterLab, which takes keys for itself wherever it may."""

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import nbformat
import pytest
from nbformat.sign import NotebookNotary, SQLiteSignatureStore
from nbformat.v4 import new_code_cell, new_notebook, new_output
from playwright.sync_api import expect
from test_widget_beam import STEPS, pieces

from transformer_lib.widgets.beam import beam_control
from transformer_lib.widgets.masks import mask_control
from transformer_lib.widgets.softmax import softmax_control

SECONDS = 60  # to wait at most, on a busy computer
OPTIONS = [
    "--no-browser",
    "--ip=127.0.0.1",
    "--allow-root",
    "--ServerApp.port_retries=0",
    "--IdentityProvider.token=",
    "--ServerApp.password=",
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
]


def save(controls, folder, data):
    """Save a notebook that shows the controls and is trusted: its scripts may run."""
    cells = [
        new_code_cell(
            "...",
            outputs=[
                new_output("display_data", data={"text/html": control._repr_html_()})
            ],
        )
        for control in controls
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = new_notebook(cells=cells, metadata={"kernelspec": kernel})
    nbformat.write(notebook, folder / "controls.ipynb")
    notary = NotebookNotary(
        data_dir=str(data),
        store_factory=lambda: SQLiteSignatureStore(str(data / "nbsignatures.db")),
    )
    notary.sign(nbformat.read(folder / "controls.ipynb", as_version=4))
    notary.store.close()


@pytest.fixture
def lab(tmp_path):
    """A JupyterLab of its own; its address, its notebooks' folder, and its data."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folders = {name: tmp_path / name for name in ("config", "data", "runtime", "books")}
    for folder in folders.values():
        folder.mkdir(mode=0o700)
    own = {f"JUPYTER_{name.upper()}_DIR": str(path) for name, path in folders.items()}
    save(
        [
            softmax_control(["a", "b"], [1.0, 2.0], d_k=4),
            mask_control(["a b", "c"], ["d e", "f"]),
            beam_control(STEPS, pieces),
        ],
        folders["books"],
        folders["data"],
    )
    books = f"--ServerApp.root_dir={folders['books']}"
    options = [*OPTIONS, f"--port={port}", books]
    log = (tmp_path / "log").open("w")
    server = subprocess.Popen(
        [sys.executable, "-m", "jupyterlab", *options],
        env=os.environ | own,
        stdout=log,
        stderr=log,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        wait_for(f"{address}/api", server)
        yield address
    finally:
        stop(server)
        log.close()


def stop(server):
    """End it, even where it waits for a kernel that has hardly begun."""
    server.terminate()
    try:
        server.wait(5)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()


def wait_for(address, server):
    for _ in range(10 * SECONDS):
        if server.poll() is not None:
            pytest.fail(f"JupyterLab ended with status {server.returncode}")
        try:
            return urllib.request.urlopen(address)
        except urllib.error.URLError:
            time.sleep(0.1)
    pytest.fail("JupyterLab does not answer")


def test_the_keys_of_a_control_reach_it_in_jupyterlab(lab, browser):
    tab = browser.new_page(viewport={"width": 1200, "height": 1600})
    tab.set_default_timeout(1000 * SECONDS)
    tab.goto(f"{lab}/lab/tree/controls.ipynb?reset")
    softmax, masks, beam = (
        tab.locator(f".control[data-control={name}].c-live")
        for name in ("softmax", "masks", "beam")
    )
    softmax.wait_for()

    width = softmax.get_by_role("slider", name="d_k")
    width.focus()
    for key, value in (("ArrowRight", "8"), ("ArrowUp", "16"), ("ArrowLeft", "8")):
        tab.keyboard.press(key)
        expect(width).to_have_attribute("aria-valuetext", value)
        expect(width).to_be_focused()

    code = masks.get_by_label("The code")
    code.focus()
    tab.keyboard.press("ArrowDown")
    expect(code).to_have_value("1")
    tick = masks.get_by_label("pad at the left")
    tick.focus()
    tab.keyboard.press("Space")
    expect(tick).to_be_checked()

    told = beam.locator(".c-says")
    beam.get_by_role("radio", name="der").focus()
    tab.keyboard.press("ArrowDown")
    expect(told).to_contain_text("“die”: ")
    tab.keyboard.press("ArrowRight")
    expect(told).to_contain_text("Step 2")
    beam.get_by_role("button", name="Next").focus()
    tab.keyboard.press("Enter")
    expect(told).to_contain_text("Step 3")
    tab.close()
