import functools
import http.server
import sys
import threading
from urllib.parse import urlsplit

import pytest
import torch
from book_files import HTML, ROOT
from playwright.sync_api import sync_playwright

sys.path.append(str(ROOT / "scripts"))

from chromium import launch

OFFLINE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"


@pytest.fixture(autouse=True)
def double_precision_and_a_seed():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server():
    handler = functools.partial(Quiet, directory=HTML)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="module")
def browser():
    options = f"--host-resolver-rules={OFFLINE}", "--disable-background-networking"
    with sync_playwright() as playwright:
        chromium = launch(playwright, *options)
        yield chromium
        chromium.close()


@pytest.fixture
def tab(browser):
    """A tab of the browser that notes its errors and its requests to other hosts."""
    opened = browser.new_page(viewport={"width": 1400, "height": 900})
    opened.faults = []
    opened.on(
        "console",
        lambda said: said.type == "error" and opened.faults.append(said.text),
    )
    opened.on("pageerror", lambda error: opened.faults.append(str(error)))
    opened.on(
        "request",
        lambda asked: is_elsewhere(asked.url) and opened.faults.append(asked.url),
    )
    yield opened
    opened.close()


@pytest.fixture
def show(tab):
    """Show a control on a page of its own, twice, and give the second."""

    def show(control):
        html = control._repr_html_()
        tab.set_content(f"<!doctype html><html lang='en'><body>{html}{html}</body>")
        return tab.locator(".control").last

    yield show
    assert tab.faults == []


def is_elsewhere(url):
    address = urlsplit(url)
    local = address.scheme in ("file", "data", "blob", "about")
    return not local and address.hostname != "127.0.0.1"
