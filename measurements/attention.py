"""Time and memory of attention with fewer pairs or none, beside that with all of them.

    python measurements/attention.py
    python measurements/attention.py --rounds 3 --lengths 1024 4096

One sentence, 4 heads of width 64, a window of 128, blocks of 64, 4 rounds of 32 buckets
with a window of 32 in each, a Performer of 256 features, 32 landmarks; no gradients.
Causal, but where a name says that it looks to both sides. All ways run in one process
on one thread, one after the other in every round. Times are those of the thread on the
processor, so that other programs disturb them less; of each way the median is given,
and the median over the rounds of its time divided by that of the kernel that has all
pairs, with ``is_causal`` or to both sides. Memory is the peak of what one run
allocates, counted by the profiler; the inputs are not counted. The table is kept in
``measurements/attention_pairs.csv``, which chapters 23 and 24 draw.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch
from against_torch import peak_megabytes
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.files import write_csv
from transformer_lib.variants import (
    BlockAttention,
    LinearAttention,
    LSHAttention,
    NystromAttention,
    PerformerAttention,
    WindowAttention,
    window_mask,
)

TABLE = Path(__file__).resolve().parents[1] / "measurements/attention_pairs.csv"
LENGTHS = (128, 256, 512, 1024, 2048, 4096, 8192)
HEADS, D_K, WIDTH, BLOCK, FEATURES = 4, 64, 128, 64, 256
BUCKETS, ROUNDS, LANDMARKS = 32, 4, 32
FUSED, BOTH_SIDES = "all pairs", ", both sides"


def ways(length: int) -> dict[str, Callable[[], Tensor]]:
    """Everything to be measured, by its name in the table."""
    heads = torch.randn(3, 1, HEADS, length, D_K).unbind(0)
    band = window_mask(length, length, WIDTH, causal=True)
    window = WindowAttention(WIDTH, causal=True)
    blocks = BlockAttention(BLOCK, near=1, num_global=1, num_random=1, causal=True)
    hashed = LSHAttention(BUCKETS, ROUNDS, WIDTH // ROUNDS, causal=True)
    linear = LinearAttention(causal=True)
    performer = PerformerAttention(FEATURES, seed=1, causal=True)
    linear_both = LinearAttention(causal=False)
    landmarks = NystromAttention(LANDMARKS)
    return {
        FUSED: lambda: F.scaled_dot_product_attention(*heads, is_causal=True),
        "window as a mask": lambda: F.scaled_dot_product_attention(*heads, band),
        "window by chunks": lambda: window(*heads),
        "near, global and random blocks": lambda: blocks(*heads),
        "buckets": lambda: hashed(*heads),
        "linear by chunks": lambda: linear(*heads),
        "Performer": lambda: performer(*heads),
        FUSED + BOTH_SIDES: lambda: F.scaled_dot_product_attention(*heads),
        "linear" + BOTH_SIDES: lambda: linear_both(*heads),
        "landmarks" + BOTH_SIDES: lambda: landmarks(*heads),
    }


def compare(length: int, rounds: int) -> list[dict[str, object]]:
    """Measure all ways at one length, interleaved."""
    runs = ways(length)
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):  # the first is for warming up
        for name, run in runs.items():
            repeats = max(1, 1024 // length)
            start = time.thread_time()
            for _ in range(repeats):
                run()
            if number > 0:
                times[name].append(1000 * (time.thread_time() - start) / repeats)
    rows = []
    for name, run in runs.items():
        fused = FUSED + BOTH_SIDES if name.endswith(BOTH_SIDES) else FUSED
        pairs = zip(times[name], times[fused], strict=True)
        rows.append(
            {
                "length": length,
                "way": name,
                "ms": f"{statistics.median(times[name]):.2f}",
                "times all pairs": f"{statistics.median(a / b for a, b in pairs):.2f}",
                "MB": f"{peak_megabytes(run):.1f}",
            }
        )
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9, help="for each length")
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    rows = []
    print("| length | way | ms | times all pairs | MB |")
    print("|---" * 5 + "|")
    with torch.inference_mode():
        for length in arguments.lengths:
            for row in compare(length, arguments.rounds):
                rows.append(row)
                print("| " + " | ".join(map(str, row.values())) + " |", flush=True)
    if tuple(arguments.lengths) == LENGTHS:
        write_csv(TABLE, rows)


if __name__ == "__main__":
    main()
