"""The shipped models as scripts, for the pages that compute with them."""

from pathlib import Path

from transformer_lib.javascript.weights import write_script

SCRIPTS = {
    "models/grammar-en-de": "grammar.js",
    "models/multi30k-en-de": "translator.js",
}


def pack_models(root: Path) -> None:
    """Write the scripts of the models that are there into ``book/_static/made``.

    They are not committed, so they cannot differ from the models, which are.

    Args:
        root: The folder of the book.

    Raises:
        OSError, ValueError: If a model is damaged, or a script cannot be written.
    """
    for model, script in SCRIPTS.items():
        if (root / model).is_dir():
            write_script(root / model, root / "book/_static/made" / script)
