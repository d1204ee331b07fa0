"""Count, caption by caption, what BLEU adds up: for three ways to use one model.

Run from the root of the repository, with the captions in place:

    python measurements/multi30k_counts.py

The table holds no text. From its counts, BLEU can be computed for any selection of the
captions, and so for samples that are drawn from them.
"""

from collections.abc import Sequence
from pathlib import Path

from sacrebleu.metrics import BLEU

from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.files import write_csv
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.translation import Translator

ROOT = Path(__file__).resolve().parents[1]
COUNTS = ROOT / "measurements/multi30k/counts.csv"
SPLITS = ("validation", "test_2016")
metric = BLEU(lowercase=True, effective_order=True)  # counts do not depend on the order


def count(
    systems: dict[str, Sequence[str]], references: Sequence[str]
) -> list[dict[str, int | str]]:
    """Count the words of each reference and, for each system, its words and matches.

    Args:
        systems: Each system's translations, by its name.
        references: Their references, in the same order.

    Returns:
        A row for each caption: the words of its reference, and for each system its
        words and its right 1-grams to 4-grams, separated by spaces.
    """
    rows = []
    for i, reference in enumerate(references):
        row: dict[str, int | str] = {}
        for name, translations in systems.items():
            found = metric.sentence_score(translations[i], [reference])
            row["reference"] = found.ref_len
            row[name] = " ".join(map(str, (found.sys_len, *found.counts)))
        rows.append(row)
    return rows


def main() -> None:
    """Write the table."""
    trained = Translator.load(ROOT / "models/multi30k-en-de")
    packed = from_script(to_script(trained))  # the eight bits of the browser
    rows = []
    for split in SPLITS:
        sources, targets = zip(*multi30k(split), strict=True)
        references = [trained.tokenizer.clean(target) for target in targets]
        systems = {
            "greedy": trained.translate(sources),
            "beam 5": trained.translate(sources, 5),
            "beam 5 int8": packed.translate(sources, 5),
        }
        for name, written in systems.items():
            print(split, name, metric.corpus_score(written, [references]), flush=True)
        rows += [{"split": split, **row} for row in count(systems, references)]
    write_csv(COUNTS, rows)


if __name__ == "__main__":
    main()
