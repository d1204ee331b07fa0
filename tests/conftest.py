import functools
import http.server
import os
import random
import signal
import threading
from urllib.parse import urlsplit

import pytest
import torch
from book_files import HTML, ROOT
from hypothesis import HealthCheck, settings
from hypothesis.configuration import set_hypothesis_home_dir
from playwright.sync_api import Page, expect, sync_playwright

from website.builder.chromium import launch

if not torch.cuda.is_available():  # Triton asks when it is imported
    os.environ["TRITON_INTERPRET"] = "1"

PATIENCE = 300_000  # milliseconds until a test gives up, on however slow a computer
WINDOW = {"width": 1400, "height": 900}
OFFLINE = "MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"

set_hypothesis_home_dir(ROOT / ".cache" / "hypothesis")
settings.register_profile(
    "ordinary",
    derandomize=True,  # the same examples each time
    database=None,
    deadline=None,
    # A model takes its time; a fixture that many examples share is meant so.
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile(
    "sweep", settings.get_profile("ordinary"), derandomize=False, print_blob=True
)


def pytest_addoption(parser):
    parser.addoption("--update", action="store_true", help="write golden files anew")


def pytest_runtest_setup():
    """Take being told to end as an interrupt: fixtures end what they have started.

    Before each test, since some libraries leave the signal as it was in the beginning.
    A shell that runs the tests in the background makes them, and the programs that they
    start, ignore Ctrl-C.
    """
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.default_int_handler)


# These run commands, experiments, answers or the examples of the README.
PROGRAMS = {
    "test_translation",
    "test_commands",
    "test_exercises",
    "test_experiments",
    "test_marks",
    "test_project",
    "test_your_transformer",
}


@pytest.hookimpl(tryfirst=True)  # before hypothesis looks at its seed
def pytest_configure(config):
    """Make the tests of `pytest -m sweep` large, and different each time."""
    config.sweeping = config.option.markexpr == "sweep"
    settings.load_profile("sweep" if config.sweeping else "ordinary")
    if config.sweeping and config.option.hypothesis_seed is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config):
    if config.sweeping:
        return f"sweep: again with --hypothesis-seed={config.option.hypothesis_seed}"
    return None


@pytest.hookimpl(tryfirst=True)  # before -m looks at the marks
def pytest_collection_modifyitems(config, items):
    """Mark what needs a browser or runs programs."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.browser)
        if item.path.stem in PROGRAMS:
            item.add_marker(pytest.mark.program)


@pytest.fixture(scope="session")
def seed(pytestconfig):
    """Where the random numbers of a test begin that draws its own."""
    return int(pytestconfig.option.hypothesis_seed) if pytestconfig.sweeping else 0


@pytest.fixture(autouse=True)
def double_precision_and_a_seed():
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def heads(request):
    """A query, a key and a value for an attention, of the module's sizes."""
    sizes = request.module
    rows = sizes.B, sizes.H, sizes.S
    return tuple(torch.randn(*rows, d) for d in (sizes.D_K, sizes.D_K, sizes.D_V))


@pytest.fixture
def padding(request):
    """A mask of keys: the first sentence begins late, the second one ends early."""
    padding = torch.ones(request.module.B, 1, 1, request.module.S, dtype=torch.bool)
    padding[0, ..., :5] = padding[1, ..., -4:] = False
    return padding


@pytest.fixture(scope="module")
def one_thread():
    """Small tensors gain nothing from more, and a child that was forked has one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="session")
def server():
    handler = functools.partial(Quiet, directory=HTML)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser():
    options = f"--host-resolver-rules={OFFLINE}", "--disable-background-networking"
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        try:
            chromium = launch(playwright, *options)
        except SystemExit as error:  # which pytest would take for its own end
            pytest.fail(str(error), pytrace=False)
        yield chromium
        chromium.close()


# What a test does to a tab with these outlives the page that the tab shows.
LASTING = {
    "add_init_script",
    "clock",
    "close",
    "context",
    "expect_popup",
    "on",
    "route",
}


class Tab(Page):
    """A tab that notes whether something lasting was done to it."""

    def __getattribute__(self, name):
        if name in LASTING:
            self.is_spent = True
        return super().__getattribute__(name)


def open_tab(browser):
    opened = browser.new_page(viewport=WINDOW)
    opened.set_default_timeout(PATIENCE)
    opened.on(
        "console",
        lambda said: said.type == "error" and opened.faults.append(said.text),
    )
    opened.on("pageerror", lambda error: opened.faults.append(str(error)))
    opened.on(
        "request",
        lambda asked: is_elsewhere(asked.url) and opened.faults.append(asked.url),
    )
    opened.on("framenavigated", lambda frame: opened.hosts.add(urlsplit(frame.url)[:2]))
    opened.__class__ = Tab
    opened.is_spent = False
    opened.faults, opened.hosts = [], set()
    return opened


LEAVE = """() => {
  try {
    for (const storage of [localStorage, sessionStorage]) storage.clear();
    Storage.prototype.setItem = () => {};  // the theme's, when a reader leaves
  } catch { /* a page without an address has none */ }
}"""


def tidy(tab):
    """Make a tab as good as new."""
    tab.evaluate(LEAVE)
    tab.goto("about:blank")
    tab.mouse.move(-1, -1)
    tab.emulate_media(
        media="null", color_scheme="null", reduced_motion="null", forced_colors="null"
    )
    if tab.viewport_size != WINDOW:
        tab.set_viewport_size(WINDOW)
    tab.faults, tab.hosts = [], set()


@pytest.fixture(scope="session")
def tabs(browser):
    """The tab, if there is one, that the next test may use again."""
    return []


@pytest.fixture
def tab(request, browser, tabs):
    """A tab that notes its errors and its requests to other hosts, and is as new.

    To open one takes longer than most tests, so it comes from the test before, unless
    that failed, did something lasting to it, or left two stores to clear.
    """
    opened = tabs.pop() if tabs else open_tab(browser)
    failed = request.session.testsfailed
    yield opened
    stores = opened.hosts - {("about", "")}
    if opened.is_spent or len(stores) > 1 or request.session.testsfailed > failed:
        opened.close()
    else:
        tidy(opened)
        tabs.append(opened)


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
