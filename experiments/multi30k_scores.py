"""Score trained translators on Multi30k: every seed, every test set, several beams.

Run from the root of the repository, with the captions in place and a folder for each
trained model:

    python experiments/multi30k_scores.py runs/seed-1 runs/seed-2 runs/seed-3

The test sets see only greedy decoding and the beam that the validation set chose, where
several widths and length penalties are tried. A row that is there already is not
measured again.
"""

import argparse
from pathlib import Path

from tables import add, read

from transformer_lib.data.multi30k import multi30k
from transformer_lib.translation import Translator
from transformer_lib.translation.run import measure

SCORES = Path(__file__).resolve().parent / "multi30k/scores.csv"
TESTS = ("test_2016", "test_2017", "mscoco")
GREEDY, CHOSEN = (1, 0.0), (5, 1.4)  # a beam and its alpha
TRIED = [GREEDY, *((5, alpha) for alpha in (0.6, 1.0, 1.4, 1.8))]
TRIED += [(beam, alpha) for beam in (2, 10) for alpha in (0.6, 1.4)]
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
        plan = [("validation", how) for how in TRIED]
        plan += [(split, how) for split in TESTS for how in (GREEDY, CHOSEN)]
        for split, (beam, alpha) in plan:
            decoding = "greedy" if beam == 1 else f"beam {beam} alpha {alpha}"
            if (seed, split, decoding) in done:
                continue
            found = measure(translator, multi30k(split), beam, alpha)
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
