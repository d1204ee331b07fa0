"""How long a product of two matrices takes in each type, on this processor.

    python measurements/product_times.py "AMD EPYC, AVX-512 with bfloat16"

Twice: with all that the processor can do, and told to use AVX2 only, which shows what
an older one does. Milliseconds of one thread's processor time, medians of nine.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from tables import add

TABLE = Path(__file__).parent / "product_times.csv"
OLDER = {"ONEDNN_MAX_CPU_ISA": "AVX2", "ATEN_CPU_CAPABILITY": "avx2"}
SIZES, TYPES = (256, 512), ("float32", "bfloat16", "float16")


def milliseconds(size: int, dtype: torch.dtype) -> float:
    """Time the product of a square matrix with itself."""
    a, times = torch.randn(size, size).to(dtype), []
    for _ in range(10):  # the first is not counted
        began = time.thread_time()
        a @ a
        times.append(time.thread_time() - began)
    return 1000 * statistics.median(times[1:])


def main(processor: str) -> None:
    """Add this processor's rows to the table, then those of an older one."""
    torch.set_num_threads(1)
    instructions = torch.backends.cpu.get_cpu_capability()
    about = {"processor": processor, "instructions": instructions}
    rows = [
        {**about, "size": size, "type": name, "milliseconds": f"{measured:.2f}"}
        for size in SIZES
        for name in TYPES
        for measured in [milliseconds(size, getattr(torch, name))]
    ]
    add(TABLE, rows)
    if not OLDER.items() <= os.environ.items():
        again = [sys.executable, __file__, processor]
        subprocess.run(again, env=os.environ | OLDER, check=True)


if __name__ == "__main__":
    main(sys.argv[1])
