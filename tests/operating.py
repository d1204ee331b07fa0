"""Reading a control, and moving its parts, with a finger too."""

import re
from contextlib import contextmanager

from playwright.sync_api import expect


def press(control, name, times=1):
    button = control.get_by_role("button", name=name, exact=True)
    for _ in range(times):
        button.click(force=times > 1)  # it may be disabled before the last


def move(control, name, value):
    control.get_by_role("slider", name=name).fill(str(value))


def says(control, pattern=""):
    """Wait until a control says something like this; return all that it says."""
    told = control.locator(".c-says")
    expect(told).to_have_text(re.compile(pattern or "."))
    return told.inner_text()


def asks(control):
    return control.locator(".c-asks").inner_text()


def answers(control):
    return control.locator(".c-answers > span").inner_text()


def status(control):
    return control.get_by_role("status").inner_text()


@contextmanager
def on_a_phone(browser, made):
    """Show a control on a page that is longer than a phone, and give the control."""
    context = browser.new_context(
        viewport={"width": 400, "height": 850}, has_touch=True, is_mobile=True
    )
    page = context.new_page()
    head = "<meta name=viewport content='width=device-width'><body style='margin: 8px'>"
    below = "<p style='height: 2000px'>"
    page.set_content(f"<!doctype html><html lang=en>{head}{made._repr_html_()}{below}")
    yield page.locator(".control")
    context.close()


def draw(control, path, is_lifted=True):
    """Put a finger on the first point of a path, and move it to all others."""
    page = control.page
    finger = page.context.new_cdp_session(page)
    events = [("touchStart", path[:1]), *(("touchMove", [at]) for at in path[1:])]
    for kind, at in [*events, ("touchEnd", [])] if is_lifted else events:
        points = [{"x": x, "y": y} for x, y in at]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.evaluate("new Promise((drawn) => requestAnimationFrame(drawn))")
