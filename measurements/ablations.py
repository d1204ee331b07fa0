"""What each choice is worth: one thing changed at a time, on the grammar, three seeds.

    python measurements/ablations.py            # all that is not in the tables yet
    python measurements/ablations.py --factor heads

Every run is a small model trained for a fixed number of updates, too few to learn the
grammar wholly, so that differences show. What is recorded is in README.md. A run that
is in the table is not run again; the same seed on the same computer gives the same
numbers.
"""

import argparse
import math
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count, islice
from pathlib import Path
from typing import Any

import torch
from tables import add, read
from torch import Tensor

from transformer_lib.data import Batch, Pair, Tokenizer, token_batches
from transformer_lib.data.corpora.grammar import splits
from transformer_lib.model import (
    DecoderLayer,
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    fused_attention,
)
from transformer_lib.training import evaluate, train_step, warmup_rate
from transformer_lib.training.loop import TrainingConfig

HERE = Path(__file__).parent
SEEDS = (1, 2, 3)
MAX_TOKENS = 300  # of a batch
INTERVAL = 25  # updates between two rows

BASELINE = {"d_model": 64, "num_heads": 4, "d_ff": 128, "num_layers": 2, "dropout": 0.0}
BASELINE |= {"share_embeddings": True, "tie_output": True, "max_len": 64}


def unscaled_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, dropout: float
) -> Tensor:
    """Attend without dividing the scores by sqrt(d_k)."""
    return fused_attention(query * math.sqrt(query.size(-1)), key, value, mask, dropout)


def without_score_scale(model: Transformer) -> None:
    """Take sqrt(d_k) out of every attention layer."""
    for module in model.modules():
        if isinstance(module, MultiHeadAttention):
            module.attend = unscaled_attention


def without_embedding_scale(model: Transformer) -> None:
    """Take sqrt(d_model) out of both embeddings."""
    model.src_embedding.scale = model.tgt_embedding.scale = 1.0


def without_positions(model: Transformer) -> None:
    """Leave the encoder no order, and the decoder only what its mask tells."""
    for positions in (model.src_positions, model.tgt_positions):
        positions.table.zero_()


class SourceFirst(DecoderLayer):
    """A decoder layer that reads the source before it reads the target so far."""

    def forward(
        self,
        x: Tensor,
        memory: Tensor,
        mask: Tensor | None = None,
        memory_mask: Tensor | None = None,
        cache: None = None,
    ) -> Tensor:
        """Attend to the source, then the target so far, then transform each position.

        Args:
            x: Target vectors, shape (B, T, d_model).
            memory: The encoder's output, shape (B, S, d_model).
            mask: For the self-attention, as in ``DecoderLayer``.
            memory_mask: For the cross-attention, as in ``DecoderLayer``.
            cache: Must be None.

        Returns:
            Shape (B, T, d_model).
        """
        if cache is not None:
            raise ValueError("cache must be None, got one")
        x = self.cross_attention_residual(
            x, lambda x: self.cross_attention(x, memory, memory, memory_mask)
        )
        x = self.self_attention_residual(
            x, lambda x: self.self_attention(x, x, x, mask)
        )
        return self.feed_forward_residual(x, self.feed_forward)  # (B, T, d_model)


def source_first(model: Transformer) -> None:
    """Swap the two attentions of every decoder layer; the weights stay."""
    for layer in model.decoder.layers:
        layer.__class__ = SourceFirst


@dataclass(frozen=True)
class Run:
    """One way to build and train a model.

    Args:
        factor: The question that it belongs to.
        variant: Which answer it is.
        changes: To the baseline's configuration.
        alter: What is done to the model that no configuration offers.
        peak: The highest learning rate.
        warm_up: Rise to the peak for ``warmup_steps``; or else begin with it. Either
            way the rate falls as 1 / sqrt(step) after that many updates.
        warmup_steps: The update after which the rate falls.
        steps: Updates in all.
        smoothing: Of the labels.
    """

    factor: str
    variant: str
    changes: dict[str, Any] = field(default_factory=dict)
    alter: Callable[[Transformer], None] = lambda model: None
    peak: float = 0.0075
    warm_up: bool = True
    warmup_steps: int = 100
    steps: int = 250
    smoothing: float = 0.1

    def rate(self, step: int) -> float:
        """Give the learning rate of an update; the first is 1."""
        if not self.warm_up:
            step = max(step, self.warmup_steps)
        highest = warmup_rate(self.warmup_steps, 1, self.warmup_steps)
        return self.peak * warmup_rate(step, 1, self.warmup_steps) / highest


def warm_up_runs(peak: float, steps: int, *norms: str) -> list[Run]:
    """With and without warm-up, in a model of twice the layers."""
    return [
        Run(
            f"warm-up to {peak}",
            f"{norm}-norm, {'with' if warm_up else 'without'} warm-up",
            {"num_layers": 4, "norm_first": norm == "pre"},
            peak=peak,
            warm_up=warm_up,
            warmup_steps=75,
            steps=steps,
        )
        for norm in norms
        for warm_up in (True, False)
    ]


RUNS = [
    *warm_up_runs(0.005, 200, "post", "pre"),
    Run("baseline", "baseline"),
    Run("norm", "pre-norm", {"norm_first": True}),
    Run("sqrt(d_k)", "missing", alter=without_score_scale),
    Run("sqrt(d_model)", "missing", alter=without_embedding_scale),
    Run("positions", "none", alter=without_positions),
    Run("positions", "concatenated", {"positions": "concatenated"}),
    Run("positions", "learned", {"positions": "learned"}),
    Run("embeddings", "separate", {"share_embeddings": False, "tie_output": False}),
    Run("smoothing", "0", smoothing=0.0),
    *(Run("heads", str(heads), {"num_heads": heads}) for heads in (1, 2, 8)),
    *(
        Run("length", layout, {"positions": layout}, steps=500)
        for layout in ("interleaved", "learned")
    ),
    *warm_up_runs(0.002, 400, "post"),
    Run("order", "source second", steps=1000),
    Run("order", "source first", alter=source_first, steps=1000),
]


@dataclass(frozen=True)
class Corpus:
    """Token ids of the grammar's sentences, in one vocabulary for both languages."""

    vocab_size: int
    train: list[Pair]
    validation: list[Pair]
    longer: list[Pair]
    words: list[int]  # English words of each longer sentence

    @classmethod
    def build(cls, train: int = 4000, validation: int = 250, longer: int = 500):
        """Draw the sentences and learn the subwords from those to train on."""
        drawn = splits(train=train, validation=validation, test=0, longer=longer)
        texts = [text for pair in drawn.train for text in pair]
        tokenizer = Tokenizer.train(texts, vocab_size=1000)
        encoded = [
            [
                (tokenizer.encode(english), tokenizer.encode(german))
                for english, german in s
            ]
            for s in (drawn.train, drawn.validation, drawn.longer)
        ]
        words = [len(english.split()) for english, _ in drawn.longer]
        return cls(tokenizer.vocab_size, *encoded, words)


def build_model(run: Run, seed: int, vocab_size: int) -> Transformer:
    """Build a run's model, altered as it says."""
    torch.manual_seed(seed)
    sizes = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size}
    model = Transformer(TransformerConfig(**(sizes | BASELINE | run.changes)))
    run.alter(model)
    return model


@torch.no_grad()
def right_tokens(model: Transformer, batch: Batch) -> tuple[Tensor, Tensor]:
    """Say of each target token whether it scores highest given the right past.

    Where all are right, greedy decoding writes the very same sentence.

    Returns:
        Right, and real (no padding), both shape (B, T).
    """
    model.eval()
    targets = batch.tgt[:, 1:]  # (B, T)
    right = model(batch.src, batch.tgt[:, :-1]).argmax(dim=-1) == targets
    return right, targets != model.config.pad_id


def exact_share(model: Transformer, batches: Iterable[Batch]) -> float:
    """Count the sentences that greedy decoding gets right to the last token."""
    judged = (right_tokens(model, batch) for batch in batches)
    exact = torch.cat([(right | ~real).all(dim=1) for right, real in judged])
    return exact.double().mean().item()


def endless_batches(pairs: Sequence[Pair], seed: int) -> Iterator[Batch]:
    """Go through the pairs again and again, in a new order each time."""
    for epoch in count(1):
        yield from token_batches(pairs, MAX_TOKENS, seed=f"{seed} {epoch}")


def train_run(run: Run, seed: int, corpus: Corpus) -> tuple[Transformer, list[dict]]:
    """Train one model; a row for every ``INTERVAL`` updates."""
    began = time.process_time()
    model = build_model(run, seed, corpus.vocab_size)
    config = TrainingConfig(smoothing=run.smoothing)
    optimizer = torch.optim.Adam(
        model.parameters(), betas=(0.9, 0.98), eps=1e-9, fused=True
    )
    validation = list(token_batches(corpus.validation, 8 * MAX_TOKENS))
    batches = endless_batches(corpus.train, seed)
    rows = []
    for start in range(0, run.steps, INTERVAL):
        total, tokens = 0.0, 0
        updates = islice(batches, min(INTERVAL, run.steps - start))
        for step, batch in enumerate(updates, start + 1):
            loss, seen = train_step(model, optimizer, batch, run.rate(step), config)
            total, tokens = total + loss, tokens + seen
        loss, accuracy = evaluate(model, validation)
        rows.append(
            {
                "factor": run.factor,
                "variant": run.variant,
                "seed": seed,
                "step": step,
                "rate": f"{run.rate(step):.6f}",
                "train_loss": f"{total / tokens:.4f}",
                "validation_loss": f"{loss:.4f}",
                "validation_accuracy": f"{accuracy:.4f}",
                "exact": f"{exact_share(model, validation):.4f}",
                "cpu_seconds": f"{time.process_time() - began:.1f}",
            }
        )
    return model, rows


def length_rows(run: Run, seed: int, model: Transformer, corpus: Corpus) -> list[dict]:
    """Judge a trained model on longer sentences; a row for each number of words."""
    trained = max(len(target) + 1 for _, target in corpus.train)  # target positions
    rows = []
    for words in sorted(set(corpus.words)):
        pairs = [
            pair
            for pair, length in zip(corpus.longer, corpus.words, strict=True)
            if length == words
        ]
        numbers = dict.fromkeys(
            ("sentences", "exact", "tokens", "right", "beyond", "beyond_right"), 0
        )
        for batch in token_batches(pairs, 8 * MAX_TOKENS):
            right, real = right_tokens(model, batch)
            right = right & real  # (B, T)
            numbers["sentences"] += len(right)
            numbers["exact"] += int((right == real).all(dim=1).sum())
            numbers["tokens"] += int(real.sum())
            numbers["right"] += int(right.sum())
            numbers["beyond"] += int(real[:, trained:].sum())
            numbers["beyond_right"] += int(right[:, trained:].sum())
        rows.append({"variant": run.variant, "seed": seed, "words": words, **numbers})
    return rows


def main(
    runs: Sequence[Run],
    corpus: Corpus,
    seeds: Sequence[int] = SEEDS,
    folder: Path = HERE,
) -> None:
    """Train what is not in the tables yet, and write it there."""
    curves, lengths = folder / "ablations.csv", folder / "lengths.csv"
    for run in runs:
        for seed in seeds:
            key = (run.factor, run.variant, str(seed))
            done = {
                (row["factor"], row["variant"], row["seed"]) for row in read(curves)
            }
            if key in done:
                continue
            model, rows = train_run(run, seed, corpus)
            if run.factor == "length":
                add(lengths, length_rows(run, seed, model, corpus))
            add(curves, rows)
            print(*key, *list(rows[-1].values())[3:], flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    factors = dict.fromkeys(run.factor for run in RUNS)
    parser.add_argument("--factor", choices=factors, help="run only this one")
    chosen = parser.parse_args().factor
    torch.set_num_threads(1)
    main([run for run in RUNS if chosen in (None, run.factor)], Corpus.build())
