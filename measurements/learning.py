"""A model learns to write words backwards, with warm-up and without it.

    python measurements/learning.py

Three seeds each, measured after every tenth update. Of the first seed, a second table
holds what it writes and where its cross-attention looks. A run that is in the table is
not run again.
"""

import argparse
from collections.abc import Iterator, Sequence
from itertools import count, islice
from pathlib import Path

import torch
from tables import add, read
from toys import cross_weights, exact_share

from transformer_lib.data import Batch, Pair, make_batch, token_batches
from transformer_lib.data.corpora.toy import SPECIAL_IDS, toy_pairs
from transformer_lib.decoding import greedy_decode
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import TrainingConfig, evaluate, train_step

HERE = Path(__file__).parent
SEEDS = (1, 2, 3)
PEAK, WARMUP, UPDATES, EVERY = 0.0075, 100, 400, 10
WORDS = ("melon", "pleading")  # training never draws them
LETTERS = "abcdefghijklmnopq"  # ids 3 to 19
CONFIG = TransformerConfig(
    src_vocab_size=20, tgt_vocab_size=20, d_model=64, num_heads=1, d_ff=128,
    num_layers=1, dropout=0.0, max_len=16,
)  # fmt: skip


def with_warmup(update: int) -> float:
    return PEAK * min(update / WARMUP, (WARMUP / update) ** 0.5)


def without_warmup(update: int) -> float:
    return PEAK * min(1.0, (WARMUP / update) ** 0.5)


RATES = {"yes": with_warmup, "no": without_warmup}


def spell(ids: Sequence[int]) -> str:
    """Write ids as letters, and BOS as a dot."""
    return "".join("·" if i < SPECIAL_IDS else LETTERS[i - SPECIAL_IDS] for i in ids)


def pair_of(word: str) -> Pair:
    ids = [LETTERS.index(letter) + SPECIAL_IDS for letter in word]
    return ids, ids[::-1]


def new_batches(seed: int) -> Iterator[Batch]:
    """Draw a thousand new sequences again and again, like chapter 10."""
    for epoch in count(1):
        pairs = toy_pairs("reverse", 1000, seed=1000 * seed + epoch, longest=8)
        yield from token_batches(pairs, max_tokens=250, seed=epoch)


def word_row(model: Transformer, word: str) -> dict[str, object]:
    """Write a word backwards, and note where the model looks for the right answer.

    The weights are two digits each, in hundredths, row by row; 99 also stands for 1.
    """
    batch = make_batch([pair_of(word)])
    (written,) = greedy_decode(model, batch.src, max_len=16)
    weights = cross_weights(model, batch)[0].flatten().tolist()  # (T * S)
    return {
        "word": word,
        "writes": spell(written),
        "weights": "".join(f"{min(round(100 * weight), 99):02}" for weight in weights),
    }


def run(warmup: str, seed: int, updates: int) -> tuple[list[dict], list[dict]]:
    """Train one model; a row for each measurement, and one for each word in it."""
    torch.manual_seed(seed)
    model = Transformer(CONFIG)
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    plain = TrainingConfig(smoothing=0.0)
    held_out = toy_pairs("reverse", 300, seed=0, held_out=True, longest=8)
    validation = list(token_batches(held_out, max_tokens=5000))
    rows, words = [], []

    def measure(update: int) -> None:
        about = {"warmup": warmup, "seed": seed, "update": update}
        rows.append(about | {
            "loss": f"{evaluate(model, validation)[0]:.3f}",
            "exact": f"{exact_share(model, held_out):.3f}",
        })  # fmt: skip
        words.extend(about | word_row(model, word) for word in WORDS)

    measure(0)
    for update, batch in enumerate(islice(new_batches(seed), updates), start=1):
        train_step(model, optimizer, batch, RATES[warmup](update), plain)
        if update % EVERY == 0:
            measure(update)
    return rows, words


def main(
    seeds: Sequence[int] = SEEDS, folder: Path = HERE, updates: int = UPDATES
) -> None:
    """Train what is not in the table yet, and write it there."""
    curves, spelled = folder / "learning.csv", folder / "learning_words.csv"
    done = {(row["warmup"], row["seed"]) for row in read(curves)}
    for seed in seeds:
        for warmup in RATES:
            if (warmup, str(seed)) in done:
                continue
            rows, words = run(warmup, seed, updates)
            if seed == seeds[0]:
                add(spelled, words)
            add(curves, rows)
            print(*rows[-1].values(), flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    main()
