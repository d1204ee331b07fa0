"""Remove what would make a page send a request to another host.

Jupyter Book always loads sphinx-thebe. This book does not use it, and its script
contains the address of a CDN, so both of its scripts are removed.
"""


def drop_thebe(app, pagename, templatename, context, doctree):
    """Remove the two scripts of sphinx-thebe from a page."""
    context["script_files"] = [
        script
        for script in context.get("script_files", [])
        if "THEBE_JS_URL" not in (getattr(script, "attributes", {}).get("body") or "")
        and "sphinx-thebe" not in str(script)
    ]


def setup(app):
    app.connect("html-page-context", drop_thebe, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
