"""Train several caption translators side by side on one GPU, a process each.

Run from the root of the repository, with the captions in place:

    python measurements/multi30k_side_by_side.py runs
    python measurements/multi30k_side_by_side.py runs seed-1 seed-2

One of these models does not keep a GPU busy. Each run is that of the command `train`,
and goes on like it where it was stopped; but products are made in TF32, Adam is fused,
and the losses are compiled, which changes the last digits alone.
"""

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from transformer_lib.faster import training_at_scale
from transformer_lib.translation.command import main as command

ONE_PASS = ("r_drop=0.0", "dropout=0.3")
RUNS = {f"seed-{seed}": (seed, ()) for seed in (1, 2, 3)}
RUNS |= {f"dropout-0.1-{seed}": (seed, ("dropout=0.1",)) for seed in (1, 2)}
RUNS |= {"one-pass-4096-1": (1, ONE_PASS)}


def compiled(loss: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Compile a loss for training."""
    fast = torch.compile(loss, dynamic=True)

    def choose(*args: object, **choices: object) -> Tensor:
        return (fast if torch.is_grad_enabled() else loss)(*args, **choices)

    return choose


def train(name: str, folder: Path) -> int:
    """Train one, in this process."""
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.optim.Adam = partial(torch.optim.Adam, fused=True)
    for loss in ("label_smoothed_loss", "disagreement"):
        setattr(training_at_scale, loss, compiled(getattr(training_at_scale, loss)))
    seed, choices = RUNS[name]
    which = ["--data", "multi30k", "--seed", str(seed), "--threads", "1"]
    where = ["--output", str(folder / name)]
    return command(["train", *which, *where, "--set", "precision=float32", *choices])


def main(folder: Path, names: list[str]) -> int:
    """Train the ones that are named, or all; several get a process each."""
    names = names or list(RUNS)
    if unknown := set(names) - RUNS.keys():
        sys.exit(f"names must be of {', '.join(RUNS)}; got {', '.join(unknown)}")
    if len(names) == 1:
        return train(names[0], folder)
    runs = [
        subprocess.Popen([sys.executable, __file__, folder, name]) for name in names
    ]
    statuses = [run.wait() for run in runs]
    return int(any(statuses))  # that of a killed one is below 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="where each run gets a folder")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(RUNS)}; default: all")
    sys.exit(main(**vars(parser.parse_args())))
