"""Score the mean of a run's last epochs' weights, for several numbers of epochs.

Run from the root of the repository, with the captions in place and runs whose
``training.safetensors`` still holds the last ten epochs (``--set average=10``):

    python measurements/multi30k_averages.py runs/before runs/after

A row that is there already is not measured again.
"""

import argparse
from pathlib import Path

from multi30k_scores import MAX_TOKENS
from tables import add, read

from transformer_lib.data import token_batches
from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.training import (
    average_weights,
    evaluate,
    load_tensors,
    load_weights,
)
from transformer_lib.training.run import STATE
from transformer_lib.translation import Translator
from transformer_lib.translation.run import encode_pairs, measure

AVERAGES = Path(__file__).resolve().parent / "multi30k/averages.csv"
COUNTS = (1, 3, 5, 10)


def main(folders: list[str], averages: Path = AVERAGES) -> None:
    """Add the rows that are missing; a run is named by its folder."""
    done = {(row["run"], int(row["epochs_averaged"])) for row in read(averages)}
    for folder in map(Path, folders):
        tensors, about = load_tensors(folder / STATE)
        translator = Translator.load(folder)
        model = translator.model
        recent = [
            {
                name: tensors[f"recent {age}/{name}"]
                for name, _ in model.named_parameters()
            }
            for age in range(min(about["training"]["average"], len(about["history"])))
        ]
        if len(recent) < max(COUNTS):
            raise ValueError(
                f"{folder} must hold {max(COUNTS)} epochs' weights, got {len(recent)}"
            )
        validation = encode_pairs(translator, multi30k("validation"), MAX_TOKENS)
        for count in COUNTS:
            if (folder.name, count) in done:
                continue
            load_weights(model, average_weights(recent[-count:]), source="the average")
            loss, _ = evaluate(model, token_batches(validation, MAX_TOKENS))
            bleu = measure(translator, multi30k("validation"), beam=5).bleu_lowercased
            row = {"run": folder.name, "epochs": len(about["history"])}
            row |= {"epochs_averaged": count, "loss": f"{loss:.4f}"}
            add(averages, [{**row, "bleu_lc_13a": f"{bleu:.4f}"}])
            print(folder.name, count, f"{loss:.4f} {bleu:.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", help="runs with their training state")
    main(**vars(parser.parse_args()))
