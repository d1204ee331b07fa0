"""Panels, as far as they go without a notebook: what they run, and what they show."""

import subprocess
import sys

import matplotlib.pyplot as plt
import pytest
from book_files import ROOT
from bs4 import BeautifulSoup

from bookkit.controls.control import KIT
from bookkit.listing import walk
from bookkit.plotting import plot_lines, use_book_style
from pages.attention.softmax import softmax_control
from pages.laboratory.panel import (
    PANEL_STYLE,
    Panel,
    Table,
    choose,
    press,
    slide,
    tick,
    write,
)
from transformer_lib.model import causal_mask


@pytest.fixture(autouse=True)
def book_style():
    with plt.rc_context():
        use_book_style()
        yield


def grown(size, power, shifted, name):
    numbers = [i**power + shifted for i in range(size)]
    return plot_lines(range(size), {name: numbers}), f"{name}: {numbers[-1]}"


def growing(run=grown, **options):
    return Panel(
        "Growth",
        run,
        size=slide("size", [2, 4, 8], 4),
        power=choose("power", [1, 2], 1),
        shifted=tick("shifted"),
        name=write("name", "last"),
        **options,
    )


def move(panel, **values):
    """Do what the page does: send all values, of a choice its number."""
    panel._live.values = panel._live.values | values


def parsed(html):
    return BeautifulSoup(html, "html.parser")


def test_a_panel_runs_its_function_with_what_the_inputs_say():
    panel, messages = growing(), []
    panel._live.observe(messages.append, names="state")
    assert panel.values == {"size": 4, "power": 1, "shifted": False, "name": "last"}
    assert panel.words == "last: 3"
    move(panel, size=2, power=1, shifted=True, name="<script>")
    assert panel.values == {"size": 8, "power": 2, "shifted": True, "name": "<script>"}
    assert repr(panel) == "Growth\n<script>: 50"
    (message,) = messages  # words and picture go to the page together
    assert message["new"]["words"] == panel.words
    assert "<svg" in message["new"]["html"]
    assert "<script>" not in panel._repr_html_()


def test_a_figure_is_drawn_in_the_page_described_by_its_label_or_the_words_and_closed():
    def labelled(**_):
        axes = plot_lines([0, 1], {"": [0, 1]})
        axes.figure.set_label("A rising line")
        return axes, "up"

    one, other = parsed(growing().html), parsed(growing(labelled).html)
    assert one.svg["aria-label"] == "last: 3"
    assert other.svg["aria-label"] == "A rising line"
    assert plt.get_fignums() == []
    names = [{part["id"] for part in each(id=True)} for each in (one, other)]
    assert names[0].isdisjoint(names[1])


def test_listings_controls_and_tables_show_themselves_and_text_stays_text():
    listing, control = walk(causal_mask, 3), softmax_control(["a"], [1.0])
    table = Table(["run", "loss"], [["<1>", "2.5"], ["2", "1.5"]])
    page = parsed(Panel("All", lambda: (listing, control, table, "<i>", "all")).html)
    assert page.select_one("[data-walk]")
    assert page.select_one("[data-control=softmax]")
    assert page.find_all("pre")[-1].text == "<i>"
    rows = page.select_one("table.c-rows")
    assert [cell.text for cell in rows.select("th[scope=col]")] == ["run", "loss"]
    assert [cell.text for cell in rows.select("th[scope=row]")] == ["<1>", "2"]
    assert [cell.text for cell in rows.select("td")] == ["2.5", "1.5"]


def test_an_error_is_a_sentence_and_the_last_good_result_stays_dimmed():
    def run(size, **others):
        if size > 2:
            raise ValueError(*[sentence] * (size == 8))
        return "fine", "all is well"

    sentence = "size must be 1, got 2"
    panel = growing(run)
    assert panel.wrong == "ValueError: "  # which has no message
    move(panel, size=0)
    move(panel, size=2)
    good = "all is well", "<pre>fine</pre>"
    assert (panel.words, panel.html, panel.wrong) == (*good, sentence)
    assert panel._live.state.items() >= {"words": good[0], "html": good[1]}.items()
    assert repr(panel) == f"Growth\n{sentence}"
    still = parsed(panel._repr_html_())
    assert still.select_one(".c-wrong").text == sentence
    assert still.select_one(".c-shown.c-old").text == "fine"
    move(panel, size=0)
    assert (panel.words, panel.wrong) == ("all is well", "")


def test_a_result_without_words_is_refused_in_the_panel():
    for result, kind in {None: "NoneType", (): "an empty"}.items():
        wrong = Panel("Mute", lambda result=result: result).wrong
        assert wrong.startswith("TypeError: run must return words, or words last")
        assert kind in wrong


def test_a_button_and_any_thread_may_answer_and_a_button_is_no_argument_of_run():
    panel = Panel(
        "Button",
        lambda size: f"moved: {size}",
        size=slide("size", [1, 2], 1),
        go=press("Go", lambda size: f"pressed: {size}"),
    )
    panel._live._handle_custom_msg({"press": "go"}, [])
    assert panel.words == "pressed: 1"
    panel.answer(lambda **_: ("later", "done"))
    assert (panel.words, panel.html) == ("done", "<pre>later</pre>")


# -- Without a kernel ----------------------------------------------------------------


def test_a_page_gets_the_still_form_and_a_notebook_the_view_too():
    data, _ = growing(move={"size": 8, "name": "<moved>"})._repr_mimebundle_()
    view = "application/vnd.jupyter.widget-view+json"
    assert data.keys() == {view, "text/html", "text/plain"}
    still = parsed(data["text/html"])
    assert still.section["aria-label"] == "Growth"
    assert still.select("input, script, style") == []
    assert "JupyterLab" in still.select_one(".c-hint").text
    fold = still.details.extract()  # what one move does
    rows = [row.text for row in still.find_all("li")]
    assert rows == ["size 4", "power 1", "shifted False", "name last"]
    assert [row.text for row in fold.select("li")] == ["size 8", "name <moved>"]
    assert fold.select_one(".c-says").text == "<moved>: 7"
    assert len(fold.select("svg")) == 1
    page = parsed(growing(still=softmax_control(["a"], [1.0]))._repr_html_())
    assert page.select_one("[data-control=softmax]")
    assert "JupyterLab" in page.find_all("p")[-1].text


def test_who_wants_only_controls_need_not_wait_for_the_widgets():
    code = "import sys, pages.attention.softmax as _; print(*sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pages.attention.softmax" in told.stdout.split()
    assert not {"anywidget", "ipywidgets"} & set(told.stdout.split())


# -- In a browser, with a kernel that does what the test says ------------------------

MODEL = """
window.sent = [];
window.state = { words: "first", wrong: "", html: "<script>window.ran = 1<\\/script>" };
const data = { title: "Growth", values: { size: 1, name: "a" }, inputs: [
  { name: "size", kind: "slide", label: "size", choices: ["2", "4", "8"] },
  { name: "name", kind: "write", label: "name", choices: [] },
  { name: "go", kind: "press", label: "Go", choices: [] }] };
const model = {
  get: (name) => (name === "state" ? window.state : data[name]),
  set: (name, value) => window.sent.push(value),
  save_changes: () => {},
  send: (message) => window.sent.push(message),
  on: (name, heard) => {
    window.answer = (state) => { window.state = state; heard(); };
  },
};
render({ model, el: document.body });
"""


@pytest.fixture
def page(tab):
    """A tab with a panel whose kernel is ``window.answer``."""
    tab.clock.install()
    panel = (ROOT / "pages/laboratory/panel.js").read_text("utf-8")
    script = f"<script type=module>{KIT}\n{panel}\n{MODEL}</script>"
    tab.set_content(f"<!doctype html><html lang=en><body>{script}")
    tab.get_by_role("slider").wait_for()
    yield tab
    assert tab.faults == []


def answer(page, words="", wrong="", html=""):
    state = {"words": words, "wrong": wrong, "html": html}
    page.evaluate("state => answer(state)", state)


def test_an_input_sends_all_values_and_a_line_waits_until_it_is_typed(page):
    page.get_by_role("slider", name="size").press("ArrowRight")
    assert page.evaluate("sent") == [{"size": 2, "name": "a"}]
    page.get_by_label("name").press("End")
    page.get_by_label("name").press_sequentially("bc")
    assert len(page.evaluate("sent")) == 1
    page.clock.fast_forward(1000)
    assert page.evaluate("sent").pop() == {"size": 2, "name": "abc"}
    page.get_by_role("button", name="Go").click()
    assert page.evaluate("sent").pop() == {"press": "go"}
    assert len(page.evaluate("sent")) == 3


def test_beside_an_error_the_last_good_result_stays_as_it_was_and_is_dimmed(page):
    page.add_style_tag(content=PANEL_STYLE)
    assert page.evaluate("ran") == 1  # a script in what is shown
    assert page.get_by_role("status").last.inner_text() == "first"
    good = {"words": "two", "html": "<input aria-label=mine>"}
    answer(page, **good)
    page.get_by_label("mine").fill("typed")
    old = page.locator(".c-old")
    assert old.count() == 0
    answer(page, **good, wrong="size must be 2")
    assert page.get_by_role("alert").inner_text() == "size must be 2"
    assert old.count() == 2
    assert page.get_by_label("mine").input_value() == "typed"
    assert page.get_by_role("status").last.inner_text() == "two"
    assert float(old.last.evaluate("part => getComputedStyle(part).opacity")) < 1
    answer(page, "three", html="new")
    assert old.count() == 0
    assert page.locator(".c-shown").inner_text() == "new"


def test_a_kernel_that_does_not_answer_is_no_silence(page):
    alert, busy = page.get_by_role("alert"), page.locator("[aria-busy]")
    page.get_by_role("button", name="Go").click()
    page.clock.fast_forward(9000)
    assert (alert.inner_text(), busy.count()) == ("", 1)
    answer(page, "in time")
    page.clock.fast_forward(20_000)
    assert (alert.inner_text(), busy.count()) == ("", 0)
    page.get_by_role("button", name="Go").click()
    page.clock.fast_forward(11_000)
    assert "run this cell again" in alert.inner_text()
    answer(page, "late")
    assert (alert.inner_text(), busy.count()) == ("", 0)
