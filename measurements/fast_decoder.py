"""What the fast decoder gains, and each of its ideas, by the size of the batch.

    python measurements/fast_decoder.py
    python measurements/fast_decoder.py --keys    # only what becomes of the keys

Sentences of 15 to 20 tokens, random weights, a vocabulary of 8,000, 24 new tokens each,
one thread, batches of 1 to 100 sentences. In every round all ways run, in a new order
each time. The table gives the least time of a way divided by the least of the fast
decoder, since other programs can only add to it. Times are those of the processor. Each
way takes one idea back and keeps the others; the readable decoder has none of them.
With ``--keys``, a beam only: room in advance and unmoved keys are taken back one by one
and together, and the fast decoder is measured twice, which shows the noise.
"""

import argparse
import csv
import random
import time
from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from pathlib import Path
from unittest.mock import patch

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.faster import fast_decoder
from transformer_lib.faster.fast_decoder import FastCache, FastDecoder, FastLayer
from transformer_lib.model import Transformer, TransformerConfig

TABLE = Path(__file__).with_suffix(".csv")
KEYS_TABLE = TABLE.with_stem("fast_decoder_keys")
BATCHES, NEW_TOKENS, VOCABULARY, BEAM = (1, 3, 10, 30, 100), 24, 8000, 4
PAD = 0
SIZES = {
    128: {"num_heads": 4, "d_ff": 256, "num_layers": 4},
    256: {"num_heads": 8, "d_ff": 1024, "num_layers": 3},
    512: {"num_heads": 8, "d_ff": 2048, "num_layers": 6},
}


class ThreeProducts(FastLayer):
    """Query, key and value each by a product of its own."""

    def __init__(self, layer, sentences):
        super().__init__(layer, sentences)
        own = layer.self_attention
        parts = own.w_q, own.w_k, own.w_v
        self.w_qkv = lambda x: torch.cat([part(x) for part in parts], dim=-1)


class GrowingRoom(FastLayer):
    """No room in advance: every position copies all before it."""

    def _attend_to_past(self, x, length, past):
        self.room = F.pad(self.room[:, :, :, :length], (0, 0, 0, 0, 0, 1))
        return super()._attend_to_past(x, length, past)


class MovedKeys(FastCache):
    """Every row for itself: the source's keys copied, those of the target moved."""

    def select(self, rows: Tensor, *, same_memory: bool = False) -> None:
        if not same_memory:
            slots = torch.zeros(len(rows), self.length, dtype=torch.long)
            for layer in self.layers:
                layer.regroup(rows, slots, rows)
            self.hidden = self.hidden[rows]
            self._share(len(rows), 1)
            return
        for layer in self.layers:
            used = layer.room[:, :, :, : self.length]
            used.copy_(used.index_select(1, rows))


class CopiedKeys(MovedKeys):
    """As the readable cache: the rows of all keys and values are copied."""

    def select(self, rows: Tensor, *, same_memory: bool = False) -> None:
        if not same_memory:
            super().select(rows)
            return
        for layer in self.layers:
            layer.room = layer.room[:, :, :, : self.length].index_select(1, rows)


def moved_without_room() -> ExitStack:
    """Take changes 2 to 4 back."""
    stack = ExitStack()
    stack.enter_context(patch.object(fast_decoder, "FastLayer", GrowingRoom))
    stack.enter_context(patch.object(fast_decoder, "FastCache", CopiedKeys))
    return stack


def explicit(query, key, value, hidden, dropout=0.0):
    """Attend with the two products and the softmax of chapter 3."""
    scores = query @ key.transpose(2, 3) * query.size(3) ** -0.5
    if hidden is not None and hidden.dtype == torch.bool:  # the encoder's mask
        scores = scores.masked_fill(~hidden, float("-inf"))
    elif hidden is not None:
        scores += hidden
    return scores.softmax(dim=-1) @ value


WAYS = {
    "fast": nullcontext,
    "three products": lambda: patch.object(fast_decoder, "FastLayer", ThreeProducts),
    "no room reserved": lambda: patch.object(fast_decoder, "FastLayer", GrowingRoom),
    "keys moved": lambda: patch.object(fast_decoder, "FastCache", MovedKeys),
    "output by rows": lambda: patch.object(fast_decoder, "MANY", 1 + max(BATCHES)),
    "explicit attention": lambda: patch.object(
        F, "scaled_dot_product_attention", explicit
    ),
}

KEYS = {
    "fast": nullcontext,
    "fast again": nullcontext,
    "no room reserved": WAYS["no room reserved"],
    "keys moved": WAYS["keys moved"],
    "keys moved, no room": moved_without_room,
}


def batch(sentences: int) -> Tensor:
    """Source ids, shape (sentences, 20); lengths from 15 to 20."""
    src = torch.randint(2, VOCABULARY, (sentences, 20))
    lengths = 15 + torch.arange(sentences) % 6
    return src.masked_fill(torch.arange(20) >= lengths[:, None], PAD)


def measure(
    width: int,
    sentences: int,
    rounds: int,
    choices: dict[str, Callable] = WAYS,
    methods: tuple[str, ...] = ("greedy", "beam"),
) -> list[dict[str, object]]:
    """Run all ways in turn, by each method; give a row for each."""
    config = TransformerConfig.base(
        VOCABULARY, dropout=0.0, max_len=128, d_model=width, eos_id=PAD, **SIZES[width]
    )
    model, src = Transformer(config).eval(), batch(sentences)
    searches: dict[str, Callable] = {
        "greedy": lambda model: greedy_decode(model, src, max_len=NEW_TOKENS),
        "beam": lambda model: beam_search(
            model, src, max_len=NEW_TOKENS, beam_size=BEAM
        ),
    }
    searches = {method: searches[method] for method in methods}
    ways = ["readable", *choices]
    seconds: dict[tuple[str, str], list[float]] = {}
    for number in range(1 + rounds):  # the first is for warming up
        for method, search in searches.items():
            for way in random.sample(ways, len(ways)):
                with choices.get(way, nullcontext)():
                    start = time.process_time()
                    search(model if way == "readable" else FastDecoder(model))
                    if number > 0:
                        spent = time.process_time() - start
                        seconds.setdefault((method, way), []).append(spent)
    return [
        {
            "d_model": width,
            "sentences": sentences,
            "method": method,
            "way": way,
            "times the fast one's": round(min(spent) / min(seconds[method, "fast"]), 2),
            "ms a sentence": round(1000 * min(spent) / sentences, 1),
        }
        for method in searches
        for way in ways
        for spent in [seconds[method, way]]
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=16, help="more for small batches")
    parser.add_argument("--width", type=int, nargs="+", default=[128])
    parser.add_argument("--keys", action="store_true", help="only this comparison")
    arguments = parser.parse_args()
    path, chosen = TABLE, {}
    if arguments.keys:
        path, chosen = KEYS_TABLE, {"choices": KEYS, "methods": ("beam",)}
    torch.set_num_threads(1)
    torch.manual_seed(0)
    random.seed(0)
    rows = []
    for width in arguments.width:
        for sentences in BATCHES:
            rounds = arguments.rounds + min(24, 30 // sentences)
            rows += measure(width, sentences, rounds, **chosen)
            with path.open("w", newline="", encoding="utf-8") as file:
                writer = csv.DictWriter(file, rows[0])
                writer.writeheader()
                writer.writerows(rows)


if __name__ == "__main__":
    main()
