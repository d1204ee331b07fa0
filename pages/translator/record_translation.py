"""Record the translation with which the translator's control begins.

``python -m pages.translator.record_translation`` uses the weights that the page loads.
"""

import json
from pathlib import Path

from bookkit.controls import translator
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.translation import Translator

ROOT = Path(__file__).resolve().parents[2]


def recorded() -> dict:
    """Translate the first example."""
    shipped = Translator.load(ROOT / "models" / "multi30k-en-de")
    packed = from_script(to_script(shipped))
    return translator.translated(packed, translator.EXAMPLES[0])


if __name__ == "__main__":
    file = ROOT / "bookkit" / "controls" / translator.FIRST
    text = json.dumps(recorded(), ensure_ascii=False, separators=(",", ":"))
    file.write_text(text + "\n", encoding="utf-8")
