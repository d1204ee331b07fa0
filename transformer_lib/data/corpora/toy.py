"""Copy, reverse and sort: tasks whose answer, and whose attention map, are known."""

import random
import zlib

from transformer_lib.checks import (
    require_not_negative,
    require_one_of,
    require_positive,
)

SPECIAL_IDS = 3  # 0, 1 and 2 are PAD, BOS and EOS; symbols begin here

TASKS = {"copy": list, "reverse": lambda src: src[::-1], "sort": sorted}


def toy_pairs(
    task: str,
    count: int,
    seed: int,
    held_out: bool = False,
    vocab_size: int = 20,
    shortest: int = 3,
    longest: int = 10,
) -> list[tuple[list[int], list[int]]]:
    """Draw source sequences and their answers; a new seed draws new ones.

    No symbol comes twice in a sequence, so each symbol of the answer has one place in
    the source, where a perfect attention map points. A checksum holds out about a tenth
    of all sequences: training never sees them, whatever its seeds.

    Args:
        task: ``"copy"``, ``"reverse"`` or ``"sort"``.
        count: How many pairs; sequences may repeat.
        seed: The same seed gives the same pairs; use the number of the epoch.
        held_out: True draws from the tenth kept for testing, False from the rest.
        vocab_size: Number of ids, PAD, BOS and EOS (0, 1, 2) among them.
        shortest: The fewest symbols in a sequence.
        longest: The most symbols in a sequence.

    Returns:
        Pairs (src, tgt) of equally long lists of ids, without BOS and EOS.

    Raises:
        ValueError: If ``task`` is unknown, a size is out of range, or the sizes leave
            no such sequence.
    """
    require_one_of(TASKS, task=task)
    require_not_negative(count=count)
    require_positive(shortest=shortest)
    if longest < shortest:
        raise ValueError(
            f"longest must be at least shortest, got {longest} and {shortest}"
        )
    if vocab_size - SPECIAL_IDS < longest:
        raise ValueError(
            f"vocab_size must be at least longest + {SPECIAL_IDS}, "
            f"got {vocab_size} and {longest}"
        )
    rng = random.Random(seed)
    symbols = range(SPECIAL_IDS, vocab_size)
    pairs = []
    for _ in range(1_000 + 100 * count):
        if len(pairs) == count:
            return pairs
        src = rng.sample(symbols, rng.randint(shortest, longest))
        if (zlib.crc32(repr(src).encode()) % 10 == 0) == held_out:
            pairs.append((src, TASKS[task](src)))
    raise ValueError(
        f"vocab_size and longest leave too few sequences for held_out={held_out}, "
        f"got {vocab_size} and {longest}"
    )
