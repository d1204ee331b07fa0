"""How far a word reaches: the same small encoder with fewer and fewer pairs.

    python measurements/fewer_pairs.py

A text of 48 tokens holds one name, somewhere, among words that say nothing; at every
position the encoder shall say the name. Three layers, d_model 32, two heads, 300
updates of Adam, and three seeds for each kind of attention, eight for buckets. What is
drawn by chance, random blocks and the directions of buckets, is drawn anew for each
layer and each seed. Buckets come twice: with one projection for queries and keys, and
with two. The tables: the loss and the pairs of each run, and how often the name is
found, by its distance. Six minutes of one core. A run that is in the tables is not run
again.
"""

from collections.abc import Callable
from pathlib import Path

import torch
from tables import add, read
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.variants import (
    BlockAttention,
    FullAttention,
    LSHAttention,
    Variant,
    WindowAttention,
    use_attention,
)

TABLE = Path(__file__).with_suffix(".csv")
BY_DISTANCE = TABLE.with_name("fewer_pairs_by_distance.csv")
LENGTH, NAMES, WORDS, LAYERS, D_MODEL = 48, 8, 8, 3, 32
UPDATES, BATCH, SEEDS = 300, 32, 3
SEEDS_OF_BUCKETS = 8  # whose runs differ most
FIRST = 3  # after PAD, BOS and EOS

# Each makes a variant from the seed that chance, where there is any, begins with.
WAYS: dict[str, Callable[[int], Variant]] = {
    "full": lambda _: FullAttention(causal=False),
    "window of 5": lambda _: WindowAttention(5, causal=False),
    "window of 9": lambda _: WindowAttention(9, causal=False),
    "near and random blocks": lambda seed: BlockAttention(
        4, 1, 0, 1, seed, causal=False
    ),
    "near and global blocks": lambda _: BlockAttention(4, 1, 1, 0, causal=False),
    "buckets, query is key": lambda seed: LSHAttention(8, 2, 4, seed, causal=False),
    "buckets": lambda seed: LSHAttention(8, 2, 4, seed, causal=False),
}


class Finder(nn.Module):
    """An encoder, and at each position a score for every name."""

    def __init__(self, way: str, seed: int):
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
        if way == "buckets, query is key":
            for layer in self.model.encoder.layers:
                layer.self_attention.w_q = layer.self_attention.w_k
        variants = [WAYS[way](LAYERS * seed + layer) for layer in range(LAYERS)]
        use_attention(self.model, encoder=variants)

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


@torch.inference_mode()
def pairs(finder: Finder, count: int = 100) -> float:
    """Count the pairs of a layer, the mean over layers, heads and texts."""
    counts = []

    def note(attention: nn.Module, inputs: tuple[Tensor, ...]) -> None:
        key = attention._split_heads(attention.w_k(inputs[1]))
        equal = torch.zeros_like(key)  # so that every pair weighs something
        weights = attention.attend.explicit(equal, key, key)[1]
        counts.append((weights > 0).sum(dim=(-2, -1)).double().mean().item())

    layers = [layer.self_attention for layer in finder.model.encoder.layers]
    hooks = [layer.register_forward_pre_hook(note) for layer in layers]
    finder(texts(count, torch.Generator().manual_seed(0))[0])
    for hook in hooks:
        hook.remove()
    return sum(counts) / LAYERS


def train(way: str, seed: int, updates: int = UPDATES) -> Finder:
    """Train on new texts at each update."""
    torch.manual_seed(seed)
    finder, generator = Finder(way, seed), torch.Generator().manual_seed(1000 + seed)
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
    for seed in range(1, SEEDS_OF_BUCKETS + 1):
        for way in WAYS:
            if seed > SEEDS and "buckets" not in way:
                continue
            done = {(row["way"], row["seed"]) for row in read(BY_DISTANCE)}
            if (way, str(seed)) in done:
                continue
            finder = train(way, seed)
            loss, found = measure(finder)
            row = {"way": way, "seed": seed, "pairs": f"{pairs(finder):.0f}"}
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
