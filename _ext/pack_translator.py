"""Pack the trained translator for the browser, before the static files are copied.

The result is not committed, so it cannot differ from the model, which is.
"""

from pathlib import Path

MODEL, SCRIPT = "models/multi30k-en-de", "book/_static/made/translator.js"


def pack(app):
    """Write the script, if this book has the model."""
    root = Path(app.srcdir)
    if (root / MODEL).is_dir():
        from transformer_lib.javascript.weights import write_script

        write_script(root / MODEL, root / SCRIPT)


def setup(app):
    app.connect("builder-inited", pack)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
