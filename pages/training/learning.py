"""A recorded training run, to be moved through update by update."""

from collections.abc import Mapping, Sequence

from bookkit.controls.control import Control

RUNS = {"yes": "with warm-up", "no": "without warm-up"}
TOLD_EVERY = 100  # updates, where no script runs

Row = Mapping[str, str]


def learning_control(curves: Sequence[Row], words: Sequence[Row]) -> Control:
    """Let the reader follow what a model writes, and where it looks, as it learns.

    Args:
        curves: The rows of ``measurements/learning.csv``.
        words: Those of ``measurements/learning_words.csv``, of one seed. The control
            asks about the last word of the first update.

    Returns:
        A control with the loss, what is written, the cross-attention, and three
        questions.

    Raises:
        ValueError: If a run lacks a word or an update that another one has.
    """
    seed = words[0]["seed"]
    names = list(dict.fromkeys(row["word"] for row in words))
    updates = list(dict.fromkeys(int(row["update"]) for row in words))
    runs = [_run(run, seed, curves, words, names, updates) for run in RUNS]
    last = [
        [float(row["exact"]) for row in curves
         if row["warmup"] == run and int(row["update"]) == updates[-1]
         and row["seed"] != seed]
        for run in RUNS
    ]  # fmt: skip
    asked = names[-1]
    told = [
        f"{RUNS[run]}, update {update}: loss {found['loss'][i]:.2f}, writes "
        f"“{found['words'][asked]['writes'][i]}”"
        for run, found in zip(RUNS, runs, strict=True)
        for i, update in enumerate(updates)
        if update % TOLD_EVERY == 0
    ]
    return Control(
        "learning",
        "Watch it learn",
        {
            "updates": updates,
            "words": names,
            "runs": runs,
            "others": last,
        },
        f"A model learns to write words backwards: “{asked}” should become "
        f"“{asked[::-1]}”.\n" + "\n".join(told),
        beside=__file__,
    )


def _run(
    run: str,
    seed: str,
    curves: Sequence[Row],
    words: Sequence[Row],
    names: Sequence[str],
    updates: Sequence[int],
) -> dict:
    """Gather what was recorded of one run."""
    of_run = [row for row in curves if (row["warmup"], row["seed"]) == (run, seed)]
    found = {
        name: [row for row in words if (row["warmup"], row["word"]) == (run, name)]
        for name in names
    }
    for rows in (of_run, *found.values()):
        if [int(row["update"]) for row in rows] != list(updates):
            raise ValueError(
                f"each run must have the same {len(updates)} updates for every word, "
                f"got {len(rows)} rows for warmup={run!r}"
            )
    return {
        "loss": [float(row["loss"]) for row in of_run],
        "exact": [float(row["exact"]) for row in of_run],
        "words": {
            name: {key: [row[key] for row in rows] for key in ("writes", "weights")}
            for name, rows in found.items()
        },
    }
