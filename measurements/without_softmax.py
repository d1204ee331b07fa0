"""What attention without the softmax learns: looking things up, and the grammar.

    python measurements/without_softmax.py

Looking up: a text holds pairs of a name and a number, such as *Anna has 3*, each pair
one token, and after them four names, for each of which an encoder of one layer shall
say the number. The more pairs, the more sharply it must look. Wider and longer: with
the most pairs, heads of more widths and more updates. The grammar: the small translator
of ``distillation.py`` from scratch, with other attention in both stacks. Three seeds of
each; a quarter of an hour of one core. What is in a table is not run again.
"""

import time
from itertools import product
from pathlib import Path

import torch
from distillation import Way, begin, learn, teacher
from tables import add, read
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.translation import Translator
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.run import measure
from transformer_lib.variants import (
    FullAttention,
    LinearAttention,
    NystromAttention,
    PerformerAttention,
    Variant,
    use_attention,
)

TABLE = Path(__file__).with_suffix(".csv")
WIDER = TABLE.with_name("without_softmax_wider.csv")
GRAMMAR = TABLE.with_name("without_softmax_grammar.csv")
SEEDS = (1, 2, 3)
PAIRS, ASKED, NAMES, NUMBERS = (4, 16, 32), 4, 32, 4
FIRST = 3  # after PAD, BOS and EOS
HEADS, WIDTH, UPDATES, BATCH, RATE = 2, 8, 400, 32, 1e-2
FEATURES, LANDMARKS = 64, 8
WIDTHS, LONGER = (8, 16, 32), (400, 1600)  # of a head; updates

WAYS: dict[str, Variant] = {
    "softmax": FullAttention(causal=False),
    "linear": LinearAttention(causal=False),
    "Performer": PerformerAttention(FEATURES, 77, causal=False),
    "Nystrom": NystromAttention(LANDMARKS),
}
IN_GRAMMAR: dict[str, dict[str, Variant]] = {
    "softmax": {},
    "linear in both": {
        "encoder": LinearAttention(causal=False),
        "decoder": LinearAttention(causal=True),
    },
    "linear everywhere": {
        "encoder": LinearAttention(causal=False),
        "decoder": LinearAttention(causal=True),
        "cross": LinearAttention(causal=False),
    },
}


class Reader(nn.Module):
    """An encoder of one layer, and at each position a score for every number."""

    def __init__(self, way: str, width: int = WIDTH) -> None:
        super().__init__()
        d_model = HEADS * width
        config = TransformerConfig(
            src_vocab_size=FIRST + NAMES * NUMBERS + NAMES,
            tgt_vocab_size=FIRST,
            d_model=d_model,
            num_heads=HEADS,
            d_ff=64,
            num_layers=1,
            dropout=0.0,
            max_len=max(PAIRS) + ASKED,
            norm_first=True,
        )
        self.model = Transformer(config)
        self.scores = nn.Linear(d_model, NUMBERS)
        use_attention(self.model, encoder=WAYS[way])

    def forward(self, tokens: Tensor) -> Tensor:
        """Score the numbers where names are asked for, to (B, ASKED, NUMBERS)."""
        return self.scores(self.model.encode(tokens)[:, -ASKED:])


def texts(count: int, pairs: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw texts, (count, pairs + ASKED), and the numbers wanted, (count, ASKED)."""
    names = torch.rand(count, NAMES, generator=generator).argsort(dim=1)[:, :pairs]
    numbers = torch.randint(NUMBERS, (count, pairs), generator=generator)
    asked = torch.randint(pairs, (count, ASKED), generator=generator)
    told = FIRST + names * NUMBERS + numbers
    questions = FIRST + NAMES * NUMBERS + names.gather(1, asked)
    return torch.cat([told, questions], dim=1), numbers.gather(1, asked)


def train(
    way: str, pairs: int, seed: int, updates: int = UPDATES, width: int = WIDTH
) -> Reader:
    """Train on new texts at each update."""
    torch.manual_seed(seed)
    reader, generator = Reader(way, width), torch.Generator().manual_seed(1000 + seed)
    optimizer = torch.optim.Adam(reader.parameters(), lr=RATE)
    falling = torch.optim.lr_scheduler.OneCycleLR(optimizer, RATE, updates)
    for _ in range(updates):
        tokens, wanted = texts(BATCH, pairs, generator)
        loss = F.cross_entropy(reader(tokens).flatten(0, 1), wanted.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(reader.parameters(), 1.0)
        optimizer.step()
        falling.step()
    return reader


@torch.inference_mode()
def found(reader: Reader, pairs: int, count: int = 1000) -> float:
    """Measure the share of numbers found, on other texts."""
    tokens, wanted = texts(count, pairs, torch.Generator().manual_seed(0))
    return (reader(tokens).argmax(dim=-1) == wanted).double().mean().item()


def look_up(way: str, pairs: int, seed: int) -> dict:
    """Train one reader, and say what it finds."""
    share = found(train(way, pairs, seed), pairs)
    return {"way": way, "pairs": pairs, "seed": seed, "found": f"{share:.3f}"}


def look_wider(way: str, width: int, updates: int, seed: int) -> dict:
    """Train one reader with heads of another width, or for longer."""
    pairs = max(PAIRS)
    share = found(train(way, pairs, seed, updates, width), pairs)
    row = {"way": way, "width": width, "updates": updates, "seed": seed}
    return row | {"found": f"{share:.3f}"}


def translate(way: str, seed: int, updates: int = 600) -> dict:
    """Train one translator of the grammar, and judge it by the test sentences."""
    setting = Way("true 8,000", updates)
    model = begin(setting, seed)
    use_attention(model, **IN_GRAMMAR[way])
    start = time.thread_time()
    learn(model, setting, seed)
    seconds = time.thread_time() - start
    translator = Translator(model.eval(), teacher().tokenizer)
    scores = measure(translator, Corpus().pairs("test"))
    return {
        "way": way,
        "seed": seed,
        "updates": updates,
        "cpu_seconds": round(seconds),
        "exact": round(scores.exact, 3),
        "bleu": round(scores.bleu, 1),
    }


def main() -> None:
    """Make the runs that are missing."""
    torch.set_num_threads(1)
    for seed in SEEDS:
        for pairs, way in product(PAIRS, WAYS):
            key = {"way": way, "pairs": str(pairs), "seed": str(seed)}
            if not any(key.items() <= row.items() for row in read(TABLE)):
                add(TABLE, [look_up(way, pairs, seed)])
        for updates, width, way in product(LONGER, WIDTHS, ("softmax", "linear")):
            choice = {"way": way, "width": width, "updates": updates, "seed": seed}
            key = {name: str(value) for name, value in choice.items()}
            if not any(key.items() <= row.items() for row in read(WIDER)):
                add(WIDER, [look_wider(**choice)])
        for way in IN_GRAMMAR:
            key = {"way": way, "seed": str(seed)}
            if not any(key.items() <= row.items() for row in read(GRAMMAR)):
                add(GRAMMAR, [translate(way, seed)])


if __name__ == "__main__":
    main()
