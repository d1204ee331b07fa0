"""Show the still form of a panel in a page, and nothing that needs a kernel.

MyST-NB writes the state of every widget to the page and loads scripts for it from
another host. This book needs neither. All pages share the style sheet of the panels.
"""

from pages.laboratory.panel import PANEL_STYLE

STYLE_SHEET = "_static/made/panels.css"


def drop_state(app, pagename, templatename, context, doctree):
    """Remove the state of the widgets from a page."""
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "widget-state" not in str(getattr(script, "attributes", {}).get("type"))
    ]


def write_style(app):
    """Write the style sheet."""
    path = app.outdir / STYLE_SHEET
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PANEL_STYLE, encoding="utf-8")


def setup(app):
    app.connect("html-page-context", drop_state, priority=900)
    app.connect("builder-inited", write_style)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
