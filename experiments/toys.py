"""Copy, reverse and sort, each learned in seconds, and what its attention looks at.

    python experiments/toys.py

Three seeds of each task. What is recorded is in README.md. A task and seed that is in
the table is not run again.
"""

import argparse
import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from transformer_lib.data.batching import Pair, make_batch, token_batches
from transformer_lib.data.toy import TASKS, toy_pairs
from transformer_lib.decoding import greedy_decode
from transformer_lib.inspection.recording import record_attention
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import Epoch, TrainingConfig, train

HERE = Path(__file__).parent
SEEDS = (1, 2, 3)
LONGEST = 8  # symbols
CROSS = "decoder.layers.0.cross_attention"  # its one head has to do it all


def train_toy(
    task: str,
    seed: int,
    epochs: int = 12,
    on_epoch: Callable[[Transformer, Epoch], None] = lambda model, epoch: None,
) -> tuple[Transformer, list[Epoch]]:
    """Train one layer with one head on a thousand new sequences an epoch."""
    torch.manual_seed(seed)
    config = TransformerConfig(
        src_vocab_size=20, tgt_vocab_size=20, d_model=64, num_heads=1, d_ff=128,
        num_layers=1, dropout=0.0, max_len=16,
    )  # fmt: skip
    model = Transformer(config)

    def batches(epoch: int):
        pairs = toy_pairs(task, 1000, seed=1000 * seed + epoch, longest=LONGEST)
        return token_batches(pairs, max_tokens=250, seed=epoch)

    validation = list(token_batches(held_out(task, 500, seed=0), max_tokens=5000))
    how = TrainingConfig(
        epochs=epochs, warmup_steps=100, factor=0.6, smoothing=0.0, average=4, seed=seed
    )
    history = train(
        model, batches, validation, how, on_epoch=lambda epoch: on_epoch(model, epoch)
    )
    return model.eval(), history


def held_out(task: str, count: int, seed: int) -> list[Pair]:
    """Draw sequences that training never sees."""
    return toy_pairs(task, count, seed, held_out=True, longest=LONGEST)


def exact_share(model: Transformer, pairs: Sequence[Pair]) -> float:
    """Count the answers that greedy decoding gets wholly right."""
    answers = greedy_decode(
        model, make_batch(pairs).src, bos_id=1, eos_id=2, max_len=16
    )
    right = [
        answer == target for answer, (_, target) in zip(answers, pairs, strict=True)
    ]
    return sum(right) / len(right)


@torch.no_grad()
def pattern_weights(model: Transformer, pairs: Sequence[Pair]) -> Tensor:
    """Give the weight of each answered symbol's own place in the source.

    Position t of the decoder reads symbol t - 1 of the answer (BOS at 0) and must write
    symbol t: that is the row which should look at ``src.index(tgt[t])``, position
    n - 1 - t of n symbols when reversing.

    Returns:
        A weight in [0, 1] for each symbol of each answer; the row that writes EOS is
        left out. One dimension.
    """
    batch = make_batch(pairs)
    with record_attention(model) as maps:
        model(batch.src, batch.tgt[:, :-1])
    answers = batch.tgt[:, 1:, None]  # (B, T, 1)
    place = (batch.src[:, None] == answers) & (answers > 2)  # (B, T, S)
    return maps[CROSS][:, 0][place]  # one for each symbol


def toy_rows(task: str, seed: int, epochs: int = 12, tests: int = 2000) -> list[dict]:
    """Train one toy; a row for each epoch, and one for the averaged weights."""
    began = time.process_time()
    rows = []

    def record(model: Transformer, epoch: Epoch, weights: str, pairs) -> None:
        was_training = model.training
        looked = pattern_weights(model.eval(), pairs)
        rows.append(
            {
                "task": task,
                "seed": seed,
                "weights": weights,
                "epoch": epoch.epoch,
                "step": epoch.step,
                "train_loss": f"{epoch.loss:.5f}",
                "validation_loss": f"{epoch.validation_loss:.5f}",
                "exact": f"{exact_share(model, pairs):.4f}",
                "sequences": len(pairs),
                "on_pattern": f"{looked.mean().item():.4f}",
                "least_on_pattern": f"{looked.min().item():.4f}",
                "cpu_seconds": f"{time.process_time() - began:.1f}",
            }
        )
        model.train(was_training)

    validation = held_out(task, 500, seed=0)
    model, history = train_toy(
        task, seed, epochs, lambda *now: record(*now, "epoch", validation)
    )
    record(model, history[-1], "average", held_out(task, tests, seed=1))
    return rows


def main(
    tasks: Sequence[str] = tuple(TASKS),
    seeds: Sequence[int] = SEEDS,
    path: Path = HERE / "toys.csv",
    **sizes: int,
) -> None:
    """Train what is not in the table yet, and write it there."""
    rows = []
    if path.exists():
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    for task in tasks:
        for seed in seeds:
            if (task, str(seed)) in {(row["task"], str(row["seed"])) for row in rows}:
                continue
            rows += toy_rows(task, seed, **sizes)
            unfinished = path.with_suffix(".part")
            with open(unfinished, "w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, rows[0], lineterminator="\n")
                writer.writeheader()
                writer.writerows(rows)
            unfinished.replace(path)
            print(*rows[-1].values(), flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    main()
