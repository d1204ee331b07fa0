"""What changed since 2017: one choice at a time against the paper's, on the grammar.

    python measurements/since_2017.py

Run from the root of the repository; half an hour of one core. A run that is in the
table is not run again, so a run that was stopped goes on.

Every model is small, has as many parameters as the others (within one in a hundred: an
inner width makes up for what a choice saves or costs), and gets the same sentences,
updates and rates. Nothing was tuned for any of them. It learns from sentences of at
most 8 words, and is judged on others of at most 8, and on sentences of 9 to 11.
"""

import time
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import torch
from tables import add, read

from transformer_lib.data import Batch, Pair, Tokenizer, token_batches
from transformer_lib.data.corpora.grammar import sentence_pairs
from transformer_lib.model import Transformer, inference
from transformer_lib.training import evaluate, label_smoothed_loss
from transformer_lib.variants import ModernConfig, ModernTransformer

TABLE = Path(__file__).with_suffix(".csv")
TOKENIZER = Path(__file__).resolve().parents[1] / "models/grammar-en-de/tokenizer.json"
TRAINED, HELD_OUT, LONGEST, LONGER = 10_000, 500, 8, 11  # sentences; words
VOCABULARY = 1000  # of the tokenizer
UPDATES, MAX_TOKENS, RATE = 350, 400, 5e-3
SIZES = {"d_model": 64, "num_heads": 4, "d_ff": 128, "num_layers": 2, "max_len": 64}

WAYS: dict[str, dict[str, Any]] = {
    "2017": {},
    "pre-norm": {"norm_first": True},
    "RMSNorm": {"norm": "rms"},
    "SwiGLU": {"gated": True, "activation": "silu", "d_ff": 86},
    "no biases": {"bias": False, "d_ff": 131},
    "rotary": {"positions": "rotary"},
    "ALiBi": {"positions": "alibi"},
    "no positions": {"positions": "none"},
    "2 key heads": {"num_key_heads": 2, "d_ff": 176},
    "1 key head": {"num_key_heads": 1, "d_ff": 200},
    "all, as in Llama": {
        "norm_first": True,
        "norm": "rms",
        "gated": True,
        "activation": "silu",
        "bias": False,
        "positions": "rotary",
        "num_key_heads": 2,
        "d_ff": 120,
    },
}


def drawn() -> dict[str, list[tuple[str, str]]]:
    """Draw what is learned from, and what judges."""
    short = sentence_pairs(TRAINED + HELD_OUT, 0, 2, LONGEST)
    longer = sentence_pairs(HELD_OUT, 1, LONGEST + 1, LONGER)
    return {"train": short[:TRAINED], "short": short[TRAINED:], "longer": longer}


@cache
def sentences() -> dict[str, list[Pair]]:
    """Turn what was drawn into token ids."""
    encode = Tokenizer.load(TOKENIZER).encode
    return {
        name: [(encode(source), encode(target)) for source, target in pairs]
        for name, pairs in drawn().items()
    }


def build(way: str, seed: int) -> Transformer:
    """Make the model as it is before it learns."""
    torch.manual_seed(seed)
    choices = SIZES | {"dropout": 0.0} | WAYS[way]
    return ModernTransformer(ModernConfig.base(VOCABULARY, **choices))


def endless(seed: int) -> Iterator[Batch]:
    """Give batches, pass after pass, each in another order."""
    epoch = 0
    while True:
        epoch += 1
        yield from token_batches(
            sentences()["train"], MAX_TOKENS, seed=f"{seed} {epoch}"
        )


def learn(model: Transformer, seed: int, updates: int) -> None:
    """Update the weights; the rate rises for a fifth of the updates, then falls."""
    optimizer = torch.optim.Adam(model.parameters(), betas=(0.9, 0.98), eps=1e-9)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, RATE, total_steps=updates, pct_start=0.2, cycle_momentum=False
    )
    model.train()
    for _, batch in zip(range(updates), endless(seed), strict=False):
        targets = batch.tgt[:, 1:]  # (B, T)
        loss = label_smoothed_loss(model(batch.src, batch.tgt[:, :-1]), targets, 0, 0.1)
        optimizer.zero_grad()
        (loss / (targets != 0).sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
    model.eval()


def judge(model: Transformer, pairs: Sequence[Pair]) -> tuple[float, float]:
    """Measure the loss of a token, and the share of sentences with all tokens right."""
    batches = list(token_batches(pairs, 4 * MAX_TOKENS))
    right = 0
    with inference(model):
        for batch in batches:
            targets = batch.tgt[:, 1:]  # (B, T)
            guesses = model(batch.src, batch.tgt[:, :-1]).argmax(dim=-1)  # (B, T)
            right += int(((guesses == targets) | (targets == 0)).all(dim=1).sum())
    return evaluate(model, batches)[0], right / len(pairs)


def run(way: str, seed: int, updates: int) -> dict[str, Any]:
    """Train one model, and say what came of it."""
    model = build(way, seed)
    sentences()  # drawn once, outside of the time
    start = time.thread_time()
    learn(model, seed, updates)
    seconds = time.thread_time() - start
    loss, exact = judge(model, sentences()["short"])
    longer_loss, longer_exact = judge(model, sentences()["longer"])
    return {
        "way": way,
        "seed": seed,
        "updates": updates,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "cpu_seconds": round(seconds),
        "loss": round(loss, 4),
        "exact": round(exact, 4),
        "longer_loss": round(longer_loss, 4),
        "longer_exact": round(longer_exact, 4),
    }


def main(seeds: Sequence[int] = range(1, 7), updates: int = UPDATES) -> None:
    """Make the runs that are missing."""
    torch.set_num_threads(1)
    for seed, way in product(seeds, WAYS):
        key = {"way": way, "seed": str(seed)}
        if not any(key.items() <= row.items() for row in read(TABLE)):
            row = run(way, seed, updates)
            add(TABLE, [row])
            print(*row.values(), flush=True)


if __name__ == "__main__":
    main()
