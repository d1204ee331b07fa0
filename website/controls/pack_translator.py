"""Pack the trained translator for the browser.

The result is not committed, so it cannot differ from the model, which is.
"""

from pathlib import Path

MODEL, SCRIPT = "models/multi30k-en-de", "_static/made/translator.js"


def pack(app):
    """Write the script, if this book has the model."""
    model = Path(app.srcdir, MODEL)
    if model.is_dir():
        from transformer_lib.javascript.weights import write_script

        write_script(model, app.outdir / SCRIPT)


def setup(app):
    app.connect("builder-inited", pack)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
