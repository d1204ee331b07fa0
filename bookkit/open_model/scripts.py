"""The JavaScript that computes the open model, beside the page."""

from bookkit.widgets.control import read
from transformer_lib.javascript import FILES, source

ENGINE = ("engine.js", "sums.js")


def engine() -> str:
    """Return the rules, on top of the model of ``transformer_lib.javascript``."""
    own = (read(name, "bookkit.open_model") for name in ENGINE)
    return "\n".join([*map(source, FILES), *own])


def worker() -> str:
    """Return the whole program of the worker; ``worker.js`` says what it answers."""
    return "\n".join([engine(), read("worker.js", "bookkit.open_model")])
