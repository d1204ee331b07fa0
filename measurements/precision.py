"""The translator of the grammar, trained in float32, bfloat16 and float16.

    python measurements/precision.py runs

Run from the root of the repository. Each run has a folder of its own in the one that is
named, where it goes on if it was stopped. A run that is in the table is not run again.
"""

import argparse
from itertools import product
from pathlib import Path

import torch
from tables import add, read

from transformer_lib.faster.precision import PRECISIONS
from transformer_lib.training import load_tensors
from transformer_lib.training.run import STATE
from transformer_lib.translation.command import print_epoch
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.run import PRESETS, train_translator

TABLE = Path(__file__).parent / "precision.csv"


def run(corpus: Corpus, precision: str, seed: int, folder: Path, **changes) -> dict:
    """Train with the grammar's preset, and say what came of it."""
    recipe = {**PRESETS["grammar"], "precision": precision, "seed": seed, **changes}
    folder = folder / f"{precision}-{seed}"
    scores = train_translator(corpus, recipe, folder, on_epoch=print_epoch)
    _, about = load_tensors(folder / STATE)
    last = about["history"][-1]
    return {
        "precision": precision,
        "seed": seed,
        "updates": last["step"],
        "skipped": last["skipped"],
        "factor": last["factor"],
        "loss": round(last["loss"], 4),
        "validation_loss": round(last["validation_loss"], 4),
        "exact": scores.exact,
        "bleu": round(scores.bleu, 2),
    }


def main(folder: Path, seeds: list[int]) -> None:
    """Make the runs that are missing."""
    torch.set_num_threads(1)
    for seed, precision in product(seeds, PRECISIONS):
        name = {"precision": precision, "seed": str(seed)}
        if not any(name.items() <= row.items() for row in read(TABLE)):
            print(*name.values(), flush=True)
            add(TABLE, [run(Corpus(), precision, seed, folder)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where each run gets a folder")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1])
    main(**vars(parser.parse_args()))
