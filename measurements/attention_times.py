"""How long attention takes, with all its scores at once and by blocks.

Run from the root of the repository, on a computer that does nothing else; it takes a
minute on one core. Times are those of the processor, in milliseconds: for each way the
median over rounds in which all ways take turns.
"""

import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from transformer_lib.faster import flash_attention
from transformer_lib.files import write_csv
from transformer_lib.model import scaled_dot_product_attention

TABLE = Path(__file__).resolve().parents[1] / "measurements/attention_times.csv"
HEADS, D_K, LENGTHS, ROUNDS = 8, 64, (128, 256, 512, 1024, 2048), 9
WAYS: dict[str, Callable[..., Tensor | tuple]] = {
    "explicit": scaled_dot_product_attention,
    "blocks of 32": flash_attention,
    "blocks of 256": partial(flash_attention, block=256),
    "one kernel": F.scaled_dot_product_attention,
}


def measure(length: int, rounds: int = ROUNDS) -> dict[str, float]:
    """Time every way on the same queries, keys and values, (1, H, T, d_k) each."""
    heads = torch.randn(3, 1, HEADS, length, D_K)  # without the 1 torch takes no kernel
    times: dict[str, list[float]] = {name: [] for name in WAYS}
    for _ in range(rounds + 1):
        for name, attend in WAYS.items():
            start = time.thread_time()
            attend(*heads)
            times[name].append(1000 * (time.thread_time() - start))
    # The first round warms up.
    return {name: round(statistics.median(each[1:]), 2) for name, each in times.items()}


def main() -> None:
    """Measure all lengths and store the table."""
    torch.set_num_threads(1)
    torch.manual_seed(17)
    with torch.inference_mode():
        rows = [{"length": length, **measure(length)} for length in LENGTHS]
    write_csv(TABLE, rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
