"""Start the Chromium that this computer has: for the PDF, the tests, a measurement."""

import os
import shutil

from playwright.sync_api import Browser, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome")


def launch(playwright: Playwright, *options: str) -> Browser:
    """Start it, without a window.

    Args:
        playwright: What drives it.
        *options: Of the command line.

    Returns:
        The browser.

    Raises:
        SystemExit: If there is none.
    """
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        raise SystemExit("This needs Chromium; on Debian: apt install chromium")
    if getattr(os, "geteuid", lambda: 1)() == 0:
        options += ("--no-sandbox",)  # it has no sandbox for root
    return playwright.chromium.launch(executable_path=program, args=options)
