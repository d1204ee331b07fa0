"""How likely is the empty translation, beside the beam's and the likeliest of all?

Run from the root of the repository, with the captions in place (`python -m
transformer_lib.translation download`, or MULTI30K_DIR names their folder). It takes
some minutes on one core. It stores numbers, no text.

Two causes are kept apart, length and strangeness. Single captions of every length are
what the model was trained on. Two captions joined to one text are stranger, and each
group of lengths has as many of them as it has single ones.

The likeliest translation of all is found by a search that loses nothing. Every further
token costs probability, so a beginning that is no likelier than the best translation
found so far can be dropped; every other one is followed.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from random import Random

import torch
from torch import Tensor
from tqdm import tqdm

from transformer_lib.data import pad
from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.decoding import Prefixes, beam_search
from transformer_lib.files import write_csv
from transformer_lib.model import Transformer, inference
from transformer_lib.translation import Translator

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "models/multi30k-en-de"
TABLE = ROOT / "measurements/silence.csv"
SPLITS = ("validation", "test_2016", "test_2017", "mscoco")  # never trained on
GROUP = 4  # tokens: 4 to 7, 8 to 11, ...
SHORTEST_JOINED = 16
EACH = 30  # texts of a kind in a group, at most
PAD, EOS = 0, 2

Found = tuple[float, list[int]]  # a log-probability and what was written


def choose(captions: Sequence[list[int]], each: int = EACH) -> Iterator[tuple]:
    """Draw texts: the number of captions that they consist of, and their ids."""
    random = Random(1)
    groups = defaultdict(list)
    for ids in captions:
        groups[len(ids) // GROUP].append(ids)
    for group in sorted(groups):
        chosen = random.sample(groups[group], min(each, len(groups[group])))
        yield from ((1, ids) for ids in chosen)
        missing = len(chosen) if group * GROUP >= SHORTEST_JOINED else 0
        while missing:
            first, second = random.sample(captions, 2)
            if (len(first) + len(second)) // GROUP == group:
                missing -= 1
                yield 2, first + second


def measure(model: Transformer, captions: int, ids: list[int]) -> dict[str, object]:
    """Compare three translations of a text by their log-probabilities."""
    src = pad([[*ids, EOS]], PAD)  # (1, S)
    with inference(model):
        first = Prefixes(model, src, use_cache=False).next_logits()  # (1, V)
    first = first.log_softmax(dim=-1)[0]  # (V)
    silence = first[EOS].item()
    beam = beam_search(model, src, alpha=0.0)[0][0]
    best, written = likeliest(
        model, src, max((silence, []), (beam.log_prob, beam.tokens))
    )
    return {
        "captions": captions,
        "tokens": len(ids),
        "silence": round(silence, 3),
        "rank": (first > silence).sum().item() + 1,
        "beam": round(beam.log_prob, 3),
        "beam_tokens": len(beam.tokens),
        "best": round(best, 3),
        "best_tokens": len(written),
    }


def likeliest(model: Transformer, src: Tensor, best: Found) -> Found:
    """Find the likeliest translation of all, given one that might be it.

    A beginning whose translation would be longer than the model's table is dropped.

    Args:
        model: A model with an encoder.
        src: One sentence, shape (1, S).
        best: The likeliest translation known so far.
    """
    with inference(model):
        prefixes = Prefixes(model, src, use_cache=True)
        log_probs = torch.zeros(1)  # (rows)
        while True:
            sums = prefixes.next_logits().log_softmax(dim=-1)  # (rows, V)
            sums += log_probs[:, None]
            log_prob, row = sums[:, EOS].max(dim=0)
            ended = (log_prob.item(), prefixes.tokens[row, 1:].tolist())
            best = max(best, ended)
            sums[:, EOS] = float("-inf")
            rows, tokens = (sums > best[0]).nonzero(as_tuple=True)
            if not len(rows) or prefixes.tokens.size(1) == model.config.max_len:
                return best
            log_probs = sums[rows, tokens]
            prefixes.select(rows)
            prefixes.append(tokens)


def main() -> None:
    """Measure all texts anew."""
    torch.set_num_threads(1)
    translator = Translator.load(MODEL)
    encode = translator.tokenizer.encode
    captions = [encode(source) for split in SPLITS for source, _ in multi30k(split)]
    texts = list(choose(captions))
    write_csv(TABLE, [measure(translator.model, *text) for text in tqdm(texts)])


if __name__ == "__main__":
    main()
