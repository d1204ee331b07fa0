"""What zeros cost: a product with a matrix that is partly zero, stored in two ways.

    python measurements/sparse_times.py

Run from the root of the repository; half a minute. The table is written anew.

Each row compares 256 vectors times a square matrix, of which a share is zero at random:
as it is, and in CSR, where only what is not zero is stored, each with its column. Times
are processor times of one thread, medians of rounds in which all take turns, divided by
the time of the same product without a zero.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import torch
from torch import Tensor

from transformer_lib.files import write_csv

TABLE = Path(__file__).parent / "sparse_times.csv"
SIZES, SHARES, TOKENS = (64, 256, 1024), (0.5, 0.8, 0.9, 0.95, 0.99), 256


def in_csr(matrix: Tensor) -> Tensor:
    """Store only what is not zero; torch warns that this is in beta state."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return matrix.to_sparse_csr()


def size_in_bytes(sparse: Tensor) -> int:
    """Count the numbers, their columns, and where each row begins."""
    parts = (sparse.values(), sparse.col_indices(), sparse.crow_indices())
    return sum(part.nbytes for part in parts)


def ratios(runs: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Give the time of each as a multiple of the first one's, median of rounds."""
    found = []
    for _ in range(rounds):
        seconds = []
        for run in runs:
            start = time.thread_time()
            run()
            seconds.append(time.thread_time() - start)
        found.append([each / seconds[0] for each in seconds])
    return [median(column) for column in zip(*found, strict=True)]


def row(size: int, share: float, rounds: int = 15) -> dict:
    """Measure one size and one share of zeros."""
    full, x = torch.randn(size, size), torch.randn(TOKENS, size)
    zeros = full.masked_fill(torch.rand(size, size) < share, 0.0)
    sparse = in_csr(zeros)
    rows = x.T.contiguous()
    calls = max(1, 4096 // size)

    def often(product: Callable[[], Tensor]) -> Callable[[], object]:
        return lambda: [product() for _ in range(calls)]

    runs = [
        often(lambda: x @ full.T),
        often(lambda: x @ zeros.T),
        often(lambda: sparse @ rows),
    ]
    _, with_zeros, in_rows = ratios(runs, rounds)
    return {
        "size": size,
        "share of zeros": share,
        "time with zeros": round(with_zeros, 2),
        "time in CSR": round(in_rows, 2),
        "bytes in CSR": round(size_in_bytes(sparse) / full.nbytes, 2),
    }


def main() -> None:
    """Measure every size and share."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    write_csv(TABLE, [row(size, share) for size in SIZES for share in SHARES])


if __name__ == "__main__":
    with torch.inference_mode():
        main()
