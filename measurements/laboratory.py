"""The recorded runs of the training laboratory: with warm-up, and without.

    python measurements/laboratory.py

Half a minute on one core. The page shows them, and a notebook draws them beside the
reader's own. A run that is in the table is not run again.
"""

from dataclasses import asdict
from pathlib import Path

import torch
from tables import add, read

from pages.laboratory.training import UPDATES, Choices, Run

TABLE = Path(__file__).parent / "laboratory.csv"
RUNS = [Choices(warm_up=0), Choices(warm_up=100)]


def rows_of(choices: Choices, updates: int) -> list[dict]:
    """Train, and give a row for each measurement."""
    run, rows = Run(choices), []
    for _ in range(updates):
        run.advance()
        if run.curve.steps[len(rows) :]:
            rows.append(
                {
                    **asdict(choices),
                    "step": run.step,
                    "validation_loss": f"{run.curve.losses[-1]:.4f}",
                    "speed": f"{run.curve.speed:.0f}",
                    "translation": run.curve.translation,
                }
            )
    return rows


def main() -> None:
    """Train what is not in the table yet."""
    torch.set_num_threads(1)
    done = {(row["norm"], row["warm_up"]) for row in read(TABLE)}
    for choices in RUNS:
        if (choices.norm, str(choices.warm_up)) not in done:
            add(TABLE, rows_of(choices, UPDATES))


if __name__ == "__main__":
    main()
