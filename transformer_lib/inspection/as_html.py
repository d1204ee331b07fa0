"""A walk as a page."""

from html import escape


def render(walk) -> str:
    return f"<pre data-walk={escape(walk.name)}>{escape(repr(walk))}</pre>"
