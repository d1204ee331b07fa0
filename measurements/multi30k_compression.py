"""Measure what eight bits cost in BLEU, and how fast Chromium translates with them.

Run from the root of the repository, with the captions in place and Chromium installed:

    python measurements/multi30k_compression.py

It takes the model in `models/multi30k-en-de` and replaces both tables. Nothing else
should run meanwhile, or the milliseconds mean little.
"""

import statistics
from pathlib import Path

from playwright.sync_api import sync_playwright

from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.files import write_csv
from transformer_lib.javascript import FILES, source
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.translation import Translator
from transformer_lib.translation.run import measure

ROOT = Path(__file__).resolve().parents[1]
from website.builder.chromium import launch  # noqa: E402

BLEU = ROOT / "measurements/multi30k/compression.csv"
BROWSER = ROOT / "measurements/multi30k/browser.csv"
BEAMS = {"greedy": 1, "beam 5": 5}
TIMED = 200  # captions of the validation set; two more warm the browser up
TRANSLATE = """([text, beam]) => {
  const began = performance.now();
  const translation = ours.translate(text, beam);
  return [translation, performance.now() - began];
}"""


def main() -> None:
    """Write both tables."""
    trained = Translator.load(ROOT / "models/multi30k-en-de")
    script = to_script(trained)
    packed = from_script(script)
    pairs = multi30k("validation")
    rows = [
        {"weights": weights, "decoding": name, "bleu_lc_13a": f"{score:.4f}"}
        for name, beam in BEAMS.items()
        for weights, translator in (("float32", trained), ("int8", packed))
        for score in [measure(translator, pairs, beam).bleu_lowercased]
    ]
    write_csv(BLEU, rows)
    print(*rows, sep="\n", flush=True)
    rows = in_browser(script, packed, [english for english, _ in pairs[: TIMED + 2]])
    write_csv(BROWSER, rows)
    print(*rows, sep="\n")


def in_browser(script: str, packed: Translator, captions: list[str]) -> list[dict]:
    """Translate in Chromium; compare with PyTorch, which has the same weights."""
    rows = []
    with sync_playwright() as playwright:
        chromium = launch(playwright)
        page = chromium.new_page()
        for name in FILES:
            page.add_script_tag(content=source(name))
        element = page.add_script_tag(content=script)
        page.evaluate("(e) => { window.ours = new Translator(e.translator); }", element)
        for name, beam in BEAMS.items():
            found = [page.evaluate(TRANSLATE, [text, beam]) for text in captions][2:]
            expected = packed.translate(captions[2:], beam)
            same = sum(
                text == its for (text, _), its in zip(found, expected, strict=True)
            )
            times = [time for _, time in found]
            rows.append(
                {
                    "decoding": name,
                    "captions": len(times),
                    "same_as_pytorch": same,
                    "median_ms": f"{statistics.median(times):.0f}",
                    "slowest_of_20_ms": f"{statistics.quantiles(times, n=20)[-1]:.0f}",
                }
            )
        chromium.close()
    return rows


if __name__ == "__main__":
    main()
