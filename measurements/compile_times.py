"""What ``torch.compile`` costs and gains on a CPU, for three pieces of the model.

Run from the root of the repository; it needs a C++ compiler and takes a few minutes on
one core. Times are those of the processor, so that other programs disturb them less:
the first call counts the compiler's processes as well; the others are medians over
rounds in which both sides take turns.
"""

import math
import os
import platform
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.files import write_csv
from transformer_lib.model import Transformer, TransformerConfig

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "measurements/compile_times.csv"
ROUNDS = 31
WIDTH, ROWS = 512, 2048


def gelu_by_hand(x: Tensor) -> Tensor:
    """GELU's approximation with tanh, one operation at a time."""
    return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def training_step(model: nn.Module) -> Callable[[], Tensor]:
    """Make a function that computes the loss and the gradients of one batch."""
    src, tgt = torch.randint(3, 1000, (2, 16, 24))

    def step() -> Tensor:
        logits = model(src, tgt[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tgt[:, 1:].flatten())
        loss.backward()
        return loss.detach()

    return step


def pieces() -> dict[str, tuple[Callable, Callable]]:
    """Name the pieces; of each, how to call it as it is, and compiled."""
    x, residual = torch.randn(2, ROWS, WIDTH)
    norm = nn.LayerNorm(WIDTH).requires_grad_(False)

    def add_norm(x: Tensor, residual: Tensor) -> Tensor:
        return norm(x + residual)

    sizes = {"d_model": 128, "num_heads": 4, "d_ff": 512, "num_layers": 2}
    model = Transformer(TransformerConfig.base(1000, dropout=0.0, **sizes))
    gelu, both = torch.compile(gelu_by_hand), torch.compile(add_norm)
    return {
        "GELU, one operation at a time": (lambda: gelu_by_hand(x), lambda: gelu(x)),
        "add and norm": (lambda: add_norm(x, residual), lambda: both(x, residual)),
        "training step": (training_step(model), training_step(torch.compile(model))),
    }


def processor_seconds() -> float:
    """Say how long this process and those that it waited for have computed."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def measure(plain: Callable, compiled: Callable) -> dict[str, float]:
    """Time the first compiled call, then both in turns; milliseconds of a call."""
    plain()
    start = processor_seconds()
    compiled()
    first = processor_seconds() - start
    times: dict[Callable, list[float]] = {plain: [], compiled: []}
    for _ in range(ROUNDS):
        for call, measured in times.items():
            start = time.thread_time()
            call()
            measured.append(1000 * (time.thread_time() - start))
    plain_ms, compiled_ms = map(statistics.median, times.values())
    return {
        "first_call_s": round(first, 1),
        "plain_ms": round(plain_ms, 2),
        "compiled_ms": round(compiled_ms, 2),
        "gain": round(plain_ms / compiled_ms, 2),
    }


def main() -> None:
    """Measure all pieces with an empty compiler cache, and store the table."""
    torch.set_num_threads(1)
    torch.manual_seed(17)
    with tempfile.TemporaryDirectory() as empty:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = empty
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        rows = [
            {"piece": name, **measure(*calls), "processor": platform.machine()}
            for name, calls in pieces().items()
        ]
    write_csv(TABLE, rows)
    for row in rows:
        print(row)


if __name__ == "__main__":
    main()
