"""Copy, reverse and sort, each learned in seconds, and what its attention looks at.

    python measurements/toys.py

Three seeds of each task. What is recorded is in README.md. A task and seed that is in
the table is not run again.
"""

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import torch
from tables import add, read
from torch import Tensor

from transformer_lib.data import Batch, Pair, make_batch, token_batches
from transformer_lib.data.corpora.toy import SPECIAL_IDS, toy_pairs
from transformer_lib.decoding import greedy_decode
from transformer_lib.model import Transformer, TransformerConfig, record_attention
from transformer_lib.training import train
from transformer_lib.training.loop import Epoch, TrainingConfig

HERE = Path(__file__).parent
SEEDS = (1, 2, 3)
EPOCHS = {"copy": 12, "reverse": 12, "sort": 16}
LONGEST = 8  # symbols
CROSS = "decoder.layers.0.cross_attention"  # its one head has to do it all


def train_toy(
    task: str,
    seed: int,
    epochs: int,
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
    return model, history


def held_out(task: str, count: int, seed: int) -> list[Pair]:
    """Draw sequences that training never sees."""
    return toy_pairs(task, count, seed, held_out=True, longest=LONGEST)


def exact_share(model: Transformer, pairs: Sequence[Pair]) -> float:
    """Count the answers that greedy decoding gets wholly right."""
    answers = greedy_decode(model, make_batch(pairs).src, max_len=16)
    right = [
        answer == target for answer, (_, target) in zip(answers, pairs, strict=True)
    ]
    return sum(right) / len(right)


@torch.no_grad()
def cross_weights(model: Transformer, batch: Batch) -> Tensor:
    """Record which source position each answered symbol looks at, shape (B, T, S).

    Row t has read symbol t - 1 of the answer (BOS at 0) and must write symbol t, the
    last row EOS.
    """
    with record_attention(model) as maps:
        model(batch.src, batch.tgt[:, :-1])
    return maps[CROSS][:, 0]  # (B, T, S)


def pattern_weights(model: Transformer, pairs: Sequence[Pair]) -> Tensor:
    """Give the weight of each answered symbol's own place in the source.

    Symbol t stands at ``src.index(tgt[t])``: in n symbols to reverse, at n - 1 - t.

    Returns:
        A weight in [0, 1] for each symbol of each answer, in one dimension; the row
        that writes EOS is left out.
    """
    batch = make_batch(pairs)
    answers = batch.tgt[:, 1:, None]  # (B, T, 1)
    place = (batch.src[:, None] == answers) & (answers >= SPECIAL_IDS)  # (B, T, S)
    return cross_weights(model, batch)[place]


def toy_rows(
    task: str, seed: int, epochs: int, tests: int = 2000
) -> tuple[Transformer, list[dict]]:
    """Train one toy; a row for each epoch, and one for the averaged weights."""
    began = time.process_time()
    rows = []

    def record(model: Transformer, pairs: Sequence[Pair], **about) -> None:
        looked = pattern_weights(model, pairs)
        about |= {
            "exact": f"{exact_share(model, pairs):.4f}",
            "sequences": len(pairs),
            "on_pattern": f"{looked.mean().item():.4f}",
            "least_on_pattern": f"{looked.min().item():.4f}",
            "cpu_seconds": f"{time.process_time() - began:.1f}",
        }
        rows.append({"task": task, "seed": seed, **about})

    def on_epoch(model: Transformer, epoch: Epoch) -> None:
        record(
            model,
            held_out(task, 500, seed=0),
            weights="epoch",
            epoch=epoch.epoch,
            step=epoch.step,
            train_loss=f"{epoch.loss:.5f}",
            validation_loss=f"{epoch.validation_loss:.5f}",
        )

    model, history = train_toy(task, seed, epochs, on_epoch)
    last = {"epoch": epochs, "step": history[-1].step}
    losses = {"train_loss": "", "validation_loss": ""}
    record(model, held_out(task, tests, seed=1), weights="average", **last, **losses)
    return model, rows


def map_rows(task: str, model: Transformer) -> list[dict]:
    """Spell out the attention map of one sequence; a row for each weight."""
    pairs = [pair for pair in held_out(task, 100, seed=1) if len(pair[0]) == LONGEST]
    batch = make_batch(pairs[:1])
    return [
        {
            "task": task,
            "row": t,
            "writes": batch.tgt[0, t + 1].item(),
            "column": s,
            "looks_at": batch.src[0, s].item(),
            "weight": f"{weight:.4f}",
        }
        for t, row in enumerate(cross_weights(model, batch)[0].tolist())
        for s, weight in enumerate(row)
    ]


def main(
    seeds: Sequence[int] = SEEDS,
    folder: Path = HERE,
    epochs: Mapping[str, int] = EPOCHS,
) -> None:
    """Train what is not in the table yet, and write it there."""
    curves, maps = folder / "toys.csv", folder / "toy_maps.csv"
    for task in epochs:
        for seed in seeds:
            if (task, str(seed)) in {
                (row["task"], row["seed"]) for row in read(curves)
            }:
                continue
            model, rows = toy_rows(task, seed, epochs[task])
            if seed == seeds[0]:
                add(maps, map_rows(task, model))
            add(curves, rows)
            print(*rows[-1].values(), flush=True)


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    torch.set_num_threads(1)
    main()
