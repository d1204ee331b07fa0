"""Pack the trained models for the browser, before the static files are copied."""

from pathlib import Path


def pack(app):
    """Write the scripts of the models that this book has."""
    from bookkit.packed_models import pack_models

    pack_models(Path(app.srcdir))


def setup(app):
    app.connect("builder-inited", pack)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
