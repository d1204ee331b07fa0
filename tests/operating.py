"""What the tests of controls do again and again."""

import re

from playwright.sync_api import expect


def press(control, name):
    control.get_by_role("button", name=name, exact=True).click()


def move(control, name, value):
    control.get_by_role("slider", name=name).fill(str(value))


def says(control, pattern=""):
    """Wait until a control says something like this; return all that it says."""
    told = control.locator(".c-says")
    expect(told).to_have_text(re.compile(pattern or "."))
    return told.inner_text()
