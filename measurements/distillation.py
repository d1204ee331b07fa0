"""A smaller translator: what it learns from, and what it learns in the end.

    python measurements/distillation.py

Run from the root of the repository; a quarter of an hour of one core. A run that is in
the table is not run again, so a run that was stopped goes on.

The teacher is the shipped translator of the grammar. The student has half of its
parameters: one layer in each stack instead of two, and half the inner width. Others
begin with the teacher's own weights, pruned in two ways. Each way of learning has three
seeds. Nothing was chosen by the test sentences that judge.
"""

import time
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path

import torch
from tables import add, read
from torch import nn

from transformer_lib.data import Batch, token_batches
from transformer_lib.faster import shrink, soft_label_loss, soft_labels, teacher_pairs
from transformer_lib.faster.pruning import matrices, prune_smallest
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import evaluate, label_smoothed_loss
from transformer_lib.translation import Translator
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.run import encode_pairs, measure

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "measurements/distillation.csv"
MODEL = ROOT / "models/grammar-en-de"
TRUE, SENTENCES, MAX_TOKENS = 1000, 8000, 1200
UPDATES, SOFT = 600, 0.9
RATE, RATE_PRUNED = 5e-3, 2e-3  # at the peak; one is near the preset's, none was tuned
LABELLING = 60  # updates that take as long as translating 7,000 sentences
WITH_TEACHER = 1.4  # times as long as an update without
SIZES = {"d_model": 64, "num_heads": 4, "d_ff": 128, "num_layers": 1}


@dataclass(frozen=True)
class Way:
    """A way of learning.

    Args:
        data: "true 1,000", "true 8,000", "true 20,000", or "labelled": 1,000 true pairs
            and 7,000 sentences with the teacher's translation.
        updates: How often the weights are updated.
        temperature: Of the teacher's soft labels; None learns from the targets alone.
        pruned: Begin with the teacher, pruned to the size, and not with random weights.
        zeros: Begin with the whole teacher, with this share of the weights of its
            layers set to zero, the smallest ones. They stay zero.
    """

    data: str
    updates: int = UPDATES
    temperature: float | None = None
    pruned: bool = False
    zeros: float = 0.0


WAYS = {
    "1,000 true pairs": Way("true 1,000", UPDATES + LABELLING),
    "1,000 true, 7,000 labelled": Way("labelled"),
    "8,000 true pairs": Way("true 8,000"),
    "8,000 true pairs, longer": Way("true 8,000", round(WITH_TEACHER * UPDATES)),
    "8,000 true, soft labels": Way("true 8,000", temperature=1.0),
    "20,000 true pairs, longer": Way("true 20,000", round(WITH_TEACHER * UPDATES)),
    "pruned": Way("true 8,000", 0, pruned=True),
    "pruned, 8,000 true pairs": Way("true 8,000", pruned=True),
    "80 % zeros": Way("true 8,000", 0, zeros=0.8),
    "80 % zeros, 8,000 true pairs": Way("true 8,000", zeros=0.8),
}


@cache
def teacher() -> Translator:
    """Load who teaches."""
    return Translator.load(MODEL)


@cache
def pairs_of(data: str) -> list:
    """Give what a way learns from, as token ids."""
    true = Corpus().pairs("train")
    if data != "true 20,000":
        true = true[:SENTENCES]
    if data == "true 1,000":
        true = true[:TRUE]
    elif data == "labelled":
        sources = [source for source, _ in true[TRUE:]]
        true = [*true[:TRUE], *teacher_pairs(teacher().translate, sources)]
    return encode_pairs(teacher(), true, MAX_TOKENS)


def endless(pairs: list, seed: int) -> Iterator[Batch]:
    """Give batches, pass after pass, each in another order."""
    epoch = 0
    while True:
        epoch += 1
        yield from token_batches(pairs, MAX_TOKENS, seed=f"{seed} {epoch}")


def begin(way: Way, seed: int) -> Transformer:
    """Make the model as it is before it learns; zeros aside, all have the same size."""
    torch.manual_seed(seed)
    model = teacher().model
    if way.zeros:
        model = deepcopy(model)
        prune_smallest(model, way.zeros)
        return model
    if way.pruned:
        ranked = list(token_batches(pairs_of(way.data)[:200], MAX_TOKENS))
        return shrink(model, num_heads=2, d_ff=64, batches=ranked)
    size = teacher().tokenizer.vocab_size
    config = TransformerConfig.base(size, dropout=0.0, norm_first=True, **SIZES)
    return Transformer(config)


def learn(model: Transformer, way: Way, seed: int) -> None:
    """Update the weights as often as the way says."""
    if not way.updates:
        return
    rate = RATE_PRUNED if way.pruned or way.zeros else RATE
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=way.updates, pct_start=0.1
    )
    kept = [weight != 0 if way.zeros else 1 for weight in matrices(model)]
    model.train()
    batches = endless(pairs_of(way.data), seed)
    for _, batch in zip(range(way.updates), batches, strict=False):
        targets = batch.tgt[:, 1:]  # (B, T)
        logits = model(batch.src, batch.tgt[:, :-1])  # (B, T, V)
        soft = way.temperature is not None
        loss = label_smoothed_loss(logits, targets, 0, 0.0 if soft else 0.1)
        if soft:
            wanted = soft_labels(teacher().model, batch)
            apart = soft_label_loss(logits, wanted, targets, 0, way.temperature)
            loss = (1 - SOFT) * loss + SOFT * apart
        optimizer.zero_grad()
        (loss / (targets != 0).sum()).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        with torch.no_grad():
            for weight, mask in zip(matrices(model), kept, strict=True):
                weight *= mask
    model.eval()


def run(name: str, seed: int) -> dict:
    """Train one model, and say what came of it."""
    way = WAYS[name]
    pairs_of(way.data)  # the time of labelling is counted in updates
    model = begin(way, seed)
    start = time.thread_time()
    learn(model, way, seed)
    seconds = time.thread_time() - start
    translator = Translator(model.eval(), teacher().tokenizer)
    pairs = Corpus().pairs("test")
    encoded = encode_pairs(translator, pairs, MAX_TOKENS)
    batches = list(token_batches(encoded, MAX_TOKENS))
    scores = measure(translator, pairs)
    return {
        "way": name,
        "seed": seed,
        "updates": way.updates,
        "parameters": sum(
            (weight != 0).sum().item() if way.zeros else weight.numel()
            for weight in model.parameters()
        ),
        "cpu_seconds": round(seconds),
        "loss": round(evaluate(model, batches)[0], 4),
        "exact": round(scores.exact, 4),
        "bleu": round(scores.bleu, 2),
    }


def main(seeds: Sequence[int] = (1, 2, 3)) -> None:
    """Make the runs that are missing."""
    torch.set_num_threads(1)
    for seed, name in product(seeds, WAYS):
        key = {"way": name, "seed": str(seed)}
        if not any(key.items() <= row.items() for row in read(TABLE)):
            add(TABLE, [run(name, seed)])


if __name__ == "__main__":
    main()
