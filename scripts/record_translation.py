"""Record the translation with which the translator's control begins.

``python scripts/record_translation.py`` uses the weights that the page loads.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from bookkit.widgets import translator  # noqa: E402
from transformer_lib.javascript.weights import from_script, to_script  # noqa: E402
from transformer_lib.translation import Translator  # noqa: E402


def recorded() -> dict:
    """Translate the first example."""
    shipped = Translator.load(ROOT / "models" / "multi30k-en-de")
    packed = from_script(to_script(shipped))
    return translator.translated(packed, translator.EXAMPLES[0])


if __name__ == "__main__":
    file = ROOT / "bookkit" / "widgets" / translator.FIRST
    text = json.dumps(recorded(), ensure_ascii=False, separators=(",", ":"))
    file.write_text(text + "\n", encoding="utf-8")
