"""Remove what a page does not use, or what would make it ask another host.

Jupyter Book always loads sphinx-thebe. This book does not use it, and its script
contains the address of a CDN, so both of its scripts are removed. The theme's fonts of
icons are removed because the pages draw their icons (``scripts/fontawesome.js``).
"""

import shutil
from pathlib import Path


def drop_thebe(app, pagename, templatename, context, doctree):
    """Remove the two scripts of sphinx-thebe from a page."""
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "THEBE_JS_URL" not in (getattr(script, "attributes", {}).get("body") or "")
        and "sphinx-thebe" not in str(script)
    ]


def drop_fonts(app, exception):
    """Remove the fonts of icons from the static files."""
    fonts = Path(app.outdir, "_static", "vendor", "fontawesome")
    shutil.rmtree(fonts, ignore_errors=True)


def setup(app):
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("build-finished", drop_fonts)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
