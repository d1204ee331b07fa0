"""The trained translator in plain JavaScript: the files, and the weights for them."""

from importlib.resources import files

FILES = ("tokenizer.js", "transformer.js", "decoding.js", "recording.js", "weights.js")


def source(name: str) -> str:
    """Return the text of one of the ``FILES``."""
    return files("transformer_lib.javascript").joinpath(name).read_text("utf-8")
