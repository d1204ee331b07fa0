"""Start the installed Chromium: for the PDF, the tests and a benchmark."""

import os

from playwright.sync_api import Browser, Playwright

from website.builder.programs import advice, find


def launch(playwright: Playwright, *options: str) -> Browser:
    """Start it without a window.

    Args:
        playwright: The Playwright that controls it.
        *options: Options of its command line.

    Returns:
        The browser.

    Raises:
        SystemExit: If Chromium is not installed.
    """
    program = find("chromium")
    if program is None:
        raise SystemExit(advice("chromium"))
    if getattr(os, "geteuid", lambda: 1)() == 0:
        options += ("--no-sandbox",)  # Chromium has no sandbox for root
    return playwright.chromium.launch(executable_path=program, args=options)
