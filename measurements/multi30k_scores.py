"""Score trained translators on Multi30k: by the loss, and by several ways to decode.

Run from the root of the repository, with the captions in place and a folder for each
trained model:

    python measurements/multi30k_scores.py runs/seed-1 runs/seed-2
    python measurements/multi30k_scores.py --tests runs/seed-1 runs/seed-2

The first helps to choose: it tries widths and length penalties of a beam on the
validation set. The second adds the test sets, which see only greedy decoding and the
beam that was chosen. A row that is there already is not measured again.
"""

import argparse
from collections.abc import Iterable
from pathlib import Path

from tables import add, read

from transformer_lib.data import token_batches
from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.training import evaluate
from transformer_lib.translation import Translator
from transformer_lib.translation.run import encode_pairs, measure

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
SEEN = 3000  # training pairs whose loss is measured
MAX_TOKENS = 1250


def losses(translator: Translator) -> Iterable[tuple[str, str, float]]:
    """Measure the loss without dropout, where it was learned and where not.

    With it goes the number of tokens in a target sentence, EOS counted: by token,
    losses of different vocabularies cannot be compared.
    """
    splits = {"train": multi30k("train")[:SEEN], "validation": multi30k("validation")}
    for split, sentences in splits.items():
        pairs = encode_pairs(translator, sentences, MAX_TOKENS)
        loss, _ = evaluate(translator.model, token_batches(pairs, MAX_TOKENS))
        yield split, "loss", loss
        yield split, "tokens", sum(len(tgt) + 1 for _, tgt in pairs) / len(pairs)


def main(folders: list[str], tests: bool, scores: Path = SCORES) -> None:
    """Add the rows that are missing; a run is named by its folder."""
    done = {(row["run"], row["split"], row["decoding"]) for row in read(scores)}
    for folder in map(Path, folders):
        translator, name = Translator.load(folder), folder.name
        if (name, "validation", "none") not in done:
            rows = []
            for split, metric, value in losses(translator):
                row = {"run": name, "split": split, "decoding": "none"}
                rows.append({**row, "metric": metric, "score": f"{value:.4f}"})
            add(scores, rows)
        plan = [("validation", how) for how in TRIED]
        if tests:
            plan += [(split, how) for split in TESTS for how in (GREEDY, CHOSEN)]
        for split, (beam, alpha) in plan:
            decoding = "greedy" if beam == 1 else f"beam {beam} alpha {alpha}"
            if (name, split, decoding) in done:
                continue
            found = measure(translator, multi30k(split), beam, alpha)
            row = {"run": name, "split": split, "decoding": decoding}
            add(
                scores,
                [
                    {**row, "metric": metric, "score": f"{getattr(found, field):.4f}"}
                    for metric, field in METRICS.items()
                ],
            )
            print(name, split, decoding, f"{found.bleu_lowercased:.2f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folders", nargs="+", help="trained models")
    parser.add_argument("--tests", action="store_true", help="the test sets, too")
    main(**vars(parser.parse_args()))
