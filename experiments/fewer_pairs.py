"""How far a word reaches: the same small encoder with fewer and fewer pairs.

    python experiments/fewer_pairs.py

A text of 48 tokens holds one name, somewhere, among words that say nothing; at every
position the encoder shall say the name. Three layers, d_model 32, two heads, 300
updates of Adam, and three seeds for each kind of attention. The tables: the loss and
the pairs of each run, and how often the name is found, by its distance. Two minutes of
one core. A run that is in the tables is not run again.
"""

from collections.abc import Sequence
from pathlib import Path

import torch
from tables import add, read
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.variants import (
    Variant,
    block_attention,
    full_attention,
    use_attention,
    window_attention,
)

TABLE = Path(__file__).with_suffix(".csv")
BY_DISTANCE = TABLE.with_name("fewer_pairs_by_distance.csv")
LENGTH, NAMES, WORDS, LAYERS, D_MODEL = 48, 8, 8, 3, 32
UPDATES, BATCH, SEEDS = 300, 32, (1, 2, 3)
FIRST = 3  # after PAD, BOS and EOS

WAYS: dict[str, Sequence[Variant]] = {
    "full": [full_attention(causal=False)] * LAYERS,
    "window of 5": [window_attention(5, causal=False)] * LAYERS,
    "window of 9": [window_attention(9, causal=False)] * LAYERS,
    "near and random blocks": [
        block_attention(4, 1, 0, 1, layer, causal=False) for layer in range(LAYERS)
    ],
    "near and global blocks": [block_attention(4, 1, 1, 0, causal=False)] * LAYERS,
}


class Finder(nn.Module):
    """An encoder, and at each position a score for every name."""

    def __init__(self, way: str):
        super().__init__()
        config = TransformerConfig(
            src_vocab_size=FIRST + NAMES + WORDS,
            tgt_vocab_size=FIRST,
            d_model=D_MODEL,
            num_heads=2,
            d_ff=64,
            num_layers=LAYERS,
            dropout=0.0,
            max_len=LENGTH,
            norm_first=True,
        )
        self.model = Transformer(config)
        self.scores = nn.Linear(D_MODEL, NAMES)
        use_attention(self.model, encoder=WAYS[way])

    def forward(self, tokens: Tensor) -> Tensor:
        """Score the names at each position, (B, T) to (B, T, NAMES)."""
        return self.scores(self.model.encode(tokens))


def texts(count: int, generator: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
    """Draw texts, (count, LENGTH), the names and the places where they stand."""
    draw = {"generator": generator}
    tokens = torch.randint(
        FIRST + NAMES, FIRST + NAMES + WORDS, (count, LENGTH), **draw
    )
    names = torch.randint(NAMES, (count,), **draw)
    places = torch.randint(LENGTH, (count,), **draw)
    tokens[range(count), places] = FIRST + names
    return tokens, names, places


def pairs(way: str) -> float:
    """Count the pairs of a layer, the mean over the layers."""
    heads = torch.zeros(3, 1, 1, LENGTH, 1)
    weights = [variant.explicit(*heads)[1] for variant in WAYS[way]]
    return sum((each > 0).sum().item() for each in weights) / LAYERS


def train(way: str, seed: int, updates: int = UPDATES) -> Finder:
    """Train on new texts at each update."""
    torch.manual_seed(seed)
    finder, generator = Finder(way), torch.Generator().manual_seed(1000 + seed)
    optimizer = torch.optim.Adam(finder.parameters(), lr=3e-3)
    falling = torch.optim.lr_scheduler.OneCycleLR(optimizer, 3e-3, updates)
    for _ in range(updates):
        tokens, names, _ = texts(BATCH, generator)
        scores = finder(tokens).flatten(0, 1)
        loss = F.cross_entropy(scores, names.repeat_interleave(LENGTH))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(finder.parameters(), 1.0)
        optimizer.step()
        falling.step()
    return finder


@torch.inference_mode()
def measure(finder: Finder, count: int = 1000) -> tuple[float, list[float]]:
    """Measure the loss, and the share of names found by distance, on other texts."""
    tokens, names, places = texts(count, torch.Generator().manual_seed(0))
    scores = torch.cat([finder(part) for part in tokens.split(100)])  # (B, T, NAMES)
    wanted = names[:, None].expand(-1, LENGTH)
    loss = F.cross_entropy(scores.flatten(0, 1), wanted.flatten()).item()
    found = scores.argmax(dim=-1) == wanted
    distance = (torch.arange(LENGTH) - places[:, None]).abs()
    return loss, [found[distance == d].double().mean().item() for d in range(LENGTH)]


def main() -> None:
    """Train and test what is not in the tables yet."""
    torch.set_num_threads(1)
    for seed in SEEDS:
        for way in WAYS:
            done = {(row["way"], row["seed"]) for row in read(BY_DISTANCE)}
            if (way, str(seed)) in done:
                continue
            loss, found = measure(train(way, seed))
            row = {"way": way, "seed": seed, "pairs": f"{pairs(way):.0f}"}
            add(TABLE, [row | {"loss": f"{loss:.3f}"}])
            about = {"way": way, "seed": seed}
            shares = enumerate(found)
            add(BY_DISTANCE, [about | {"distance": d, "found": f"{f:.3f}"}
                              for d, f in shares])  # fmt: skip
            print(
                f"{way}, seed {seed}: loss {loss:.3f}, {row['pairs']} pairs", flush=True
            )


if __name__ == "__main__":
    main()
