"""The JavaScript that computes the open model, beside the page."""

from bookkit.widgets.control import read
from transformer_lib.javascript import FILES, source


def worker() -> str:
    """Return the program of the worker; ``worker.js`` says what it answers."""
    own = (read(name, "bookkit.open_model") for name in ("engine.js", "worker.js"))
    return "\n".join([*map(source, FILES), *own])
