"""Few labels: classifiers from scratch, and from guessing hidden or next words."""

import argparse
import copy
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from tables import add, read
from torch import Tensor, nn
from torch.nn import functional as F

from transformer_lib.data import pad
from transformer_lib.data.corpora.grammar import (
    NOUNS,
    PREPOSITIONS,
    PRONOUNS,
    sentence_pairs,
)
from transformer_lib.model import causal_mask, padding_mask
from transformer_lib.variants import (
    EncoderAlone,
    ModernConfig,
    mask_tokens,
    masked_token_loss,
)

TABLE = Path(__file__).with_suffix(".csv")
PAD, BOS, EOS, MASK = range(4)
SENTENCES, ASKED, CHOOSING = 8_000, 500, 200
LABELS, RATES, SEEDS = (16, 64, 256), (1e-3, 3e-3), 3
SHARES = {"80/10/10": (0.8, 0.1), "100/0/0": (1.0, 0.0)}  # hidden, changed
STARTS = ("from scratch", *SHARES, "next words")
BATCH, STEPS = 64, (500, 1_500)  # of pre-training; the first as in the chapter
SINGULAR = {*NOUNS, "he", "she"}
PLURAL = {noun.plural for noun in NOUNS.values()} | {"we", "they"}


def is_plural(words: list[str]) -> bool:
    """Whether the subject is: the first noun, but for one that a place in front has."""
    nouns = [word for word in words if word in SINGULAR | PLURAL]
    return nouns[words[0] in PREPOSITIONS] in PLURAL


class Corpus:
    """Sentences of one clause, in numbers, and the label of each."""

    def __init__(self) -> None:
        count = SENTENCES + ASKED + CHOOSING
        pairs = sentence_pairs(count, seed=0, clauses=1, longest=10)
        texts = [english.split() for english, _ in pairs]
        words = sorted({word for text in texts for word in text})
        ids = {word: i for i, word in enumerate(words, MASK + 1)}
        self.vocab_size = MASK + 1 + len(words)
        tokens = [[BOS, *(ids[word] for word in text), EOS] for text in texts]
        self.tokens = pad(tokens, PAD)
        self.labels = torch.tensor([int(is_plural(text)) for text in texts])
        assert set(PRONOUNS) <= SINGULAR | PLURAL


def fit(
    parameters: Iterator[nn.Parameter],
    loss_of: Callable[[], Tensor],
    steps: int,
    rate: float,
) -> None:
    """Take steps, with a warm-up over the first tenth."""
    optimizer = torch.optim.AdamW(parameters)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, rate, total_steps=steps, pct_start=0.1
    )
    for _ in range(steps):
        loss = loss_of()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()


def make_encoder(vocab_size: int) -> EncoderAlone:
    config = ModernConfig(
        src_vocab_size=vocab_size, tgt_vocab_size=None, d_model=64, num_heads=4,
        d_ff=128, num_layers=2, dropout=0.0, norm_first=True, max_len=24,
        tie_output=True,
    )  # fmt: skip
    return EncoderAlone(config)


def read_all(model: EncoderAlone, tokens: Tensor, past_only: bool) -> Tensor:
    """Turn tokens into vectors; with only the past in sight it is a decoder alone."""
    mask = padding_mask(tokens, PAD)  # (B, 1, 1, S)
    if past_only:
        mask = mask & causal_mask(tokens.size(1))
    x = model.src_positions(model.src_embedding(tokens))
    return model.encoder(x, mask)  # (B, S, d_model)


def pretrain(corpus: Corpus, start: str, steps: int) -> EncoderAlone:
    """Let a stack guess hidden words, or next ones; the labels are not used."""
    model = make_encoder(corpus.vocab_size)

    def loss() -> Tensor:
        rows = corpus.tokens[torch.randint(SENTENCES, (BATCH,))]
        if start == "next words":
            scores = model.output(read_all(model, rows[:, :-1], past_only=True))
            return F.cross_entropy(scores.mT, rows[:, 1:], ignore_index=PAD)
        masked, random = SHARES[start]
        ids, judged = mask_tokens(
            rows,
            mask_id=MASK,
            special_ids=(PAD, BOS, EOS),
            vocab_size=corpus.vocab_size,
            share=0.3,
            masked=masked,
            random=random,
        )
        return masked_token_loss(model(ids), rows, judged, PAD)

    if steps > 0:
        fit(model.parameters(), loss, steps=steps, rate=1e-2)
    return model


class Reader(nn.Module):
    """The mean of a stack's vectors, or the last of them, and a score an answer."""

    def __init__(
        self, encoder: EncoderAlone, past_only: bool = False, read_at: str = "mean"
    ) -> None:
        super().__init__()
        self.encoder, self.past_only, self.read_at = encoder, past_only, read_at
        self.output = nn.Linear(encoder.config.d_model, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        real = padding_mask(tokens, PAD)[:, 0, 0, :, None]  # (B, S, 1)
        vectors = read_all(self.encoder, tokens, self.past_only)  # (B, S, d_model)
        if self.read_at == "last":
            last = real.sum(dim=1)[:, 0] - 1  # (B,), where EOS stands
            return self.output(vectors[torch.arange(len(tokens)), last])  # (B, 2)
        return self.output((vectors * real).sum(dim=1) / real.sum(dim=1))  # (B, 2)


def fine_tune(
    corpus: Corpus, reader: Reader, rows: Tensor, rate: float
) -> dict[str, int]:
    """Train on the labels of ``rows``, and count the right answers elsewhere."""

    def loss() -> Tensor:
        some = rows[torch.randint(len(rows), (32,))]
        return F.cross_entropy(reader(corpus.tokens[some]), corpus.labels[some])

    fit(reader.parameters(), loss, steps=100, rate=rate)
    with torch.no_grad():
        answers = reader(corpus.tokens[SENTENCES:]).argmax(dim=-1)
    right = answers == corpus.labels[SENTENCES:]
    return {
        "right": right[:ASKED].sum().item(),
        "of": ASKED,
        "chosen_by": right[ASKED:].sum().item(),
        "chosen_of": CHOOSING,
    }


def runs(seeds: int) -> list[tuple[str, int, int]]:
    """Each start, the steps of its pre-training, and its seed."""
    return [
        (start, steps, seed)
        for steps in (0, *STEPS)
        for seed in range(seeds)
        for start in STARTS
        if (start == "from scratch") == (steps == 0)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=SEEDS)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    corpus = Corpus()
    done = {(row["start"], int(row["steps"]), int(row["seed"])) for row in read(TABLE)}
    for start, steps, seed in runs(arguments.seeds):
        if (start, steps, seed) in done:
            continue
        torch.manual_seed(seed)
        encoder = pretrain(corpus, start, steps)
        past_only = start == "next words"
        rows = []
        for read_at in ("mean", "last") if past_only else ("mean",):
            for count in LABELS:
                for rate in RATES:
                    torch.manual_seed(seed)  # the same sentences for every start
                    some = torch.randperm(SENTENCES)[:count]
                    reader = Reader(copy.deepcopy(encoder), past_only, read_at)
                    row = {"start": start, "steps": steps, "read_at": read_at}
                    row |= {"labels": count, "rate": rate, "seed": seed}
                    rows.append(row | fine_tune(corpus, reader, some, rate))
        add(TABLE, rows)


if __name__ == "__main__":
    main()
