"""Score trained translators on Multi30k: every seed, every test set, several beams.

Run from the root of the repository, with the captions in place and a folder for each
trained model:

    python experiments/multi30k_scores.py runs/seed-1 runs/seed-2 runs/seed-3

The test sets see only greedy decoding and the beam fixed beforehand; the others are
tried on the validation set. A row that is there already is not measured again.
"""

import argparse
from pathlib import Path

from tables import add, read

from transformer_lib.data.multi30k import multi30k
from transformer_lib.translation import Translator
from transformer_lib.translation.run import measure

SCORES = Path(__file__).resolve().parent / "multi30k/scores.csv"
TESTS = ("test_2016", "test_2017", "mscoco")
QUOTED = (1, 5)  # 1 is greedy
TRIED = (1, 2, 3, 5, 10)  # on the validation set
METRICS = {
    "bleu_13a": "bleu",
    "bleu_lc_13a": "bleu_lowercased",
    "chrf": "chrf",
    "exact": "exact",
}


def main(folders: list[str], scores: Path = SCORES) -> None:
    """Add the rows that are missing; the folder's name ends in its seed."""
    done = {(row["seed"], row["split"], row["decoding"]) for row in read(scores)}
    for folder in folders:
        translator, seed = Translator.load(folder), folder.rpartition("-")[2]
        plan = [("validation", beam) for beam in TRIED]
        plan += [(split, beam) for split in TESTS for beam in QUOTED]
        for split, beam in plan:
            decoding = "greedy" if beam == 1 else f"beam {beam}"
            if (seed, split, decoding) in done:
                continue
            found = measure(translator, multi30k(split), beam)
            run = {"seed": seed, "split": split, "decoding": decoding}
            add(
                scores,
                [
                    {**run, "metric": metric, "score": f"{getattr(found, name):.4f}"}
                    for metric, name in METRICS.items()
                ],
            )
            print(seed, split, decoding, f"{found.bleu_lowercased:.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", help="trained models, one for each seed")
    main(parser.parse_args().folders)
