"""The book's translator, for sentences that the reader types."""

import json
from collections.abc import Sequence

import torch

from bookkit.controls.control import Control, read
from transformer_lib.decoding import beam_search
from transformer_lib.javascript import FILES, source
from transformer_lib.model import record_attention
from transformer_lib.translation import Translator
from transformer_lib.translation.translator import ALPHA

MEGABYTES = 3.9  # of weights, as the file has them
EXAMPLES = (
    "A brown dog runs across the beach.",
    "Two children are playing football in the park.",
    "A man with a guitar is singing on a stage.",
    "The stock market fell sharply.",
)
FIRST = "translator_first.json"  # pages/translator/record_translation.py writes it


def translator_control(examples: Sequence[str] = EXAMPLES) -> Control:
    """Translate what the reader types, and show where every German token looked.

    The page fetches the weights when they are first needed, from the file that
    ``python -m transformer_lib.javascript`` makes, and computes by itself, beside the
    page's own thread. What it has written can be read while it writes, and be stopped.

    Args:
        examples: English sentences to press; the first stands in the line at first. The
            recorded translation of the first default one is shown at the beginning.

    Returns:
        A control with a line to type in, the search, the translation with the
        probability of each token, up to two others that the search found, and the
        cross-attention of every layer and head.

    Raises:
        ValueError: If there is no example.
    """
    if not examples:
        raise ValueError("examples must hold at least 1 sentence, got 0")
    return Control(
        "translator",
        "English to German, in this page",
        {
            "examples": list(examples),
            "megabytes": MEGABYTES,
            "first": json.loads(read(FIRST)) if examples[0] == EXAMPLES[0] else None,
            "worker": "\n".join([*map(source, FILES), read("translator_worker.js")]),
        },
        "Type an English sentence, and the book's own model translates it in the page, "
        f"such as: {examples[0]}",
        beside=__file__,
    )


def translated(translator: Translator, english: str, beam: int = 5) -> dict:
    """Translate a sentence, with what the control shows.

    Args:
        translator: The translator whose weights the page loads.
        english: The sentence.
        beam: Hypotheses of the beam search.

    Returns:
        The hypotheses, the tokens, the probability of each German one, and the
        cross-attention of every layer and head, rounded to what the page writes.
    """
    model, tokenizer = translator.model, translator.tokenizer
    src = torch.tensor([[*tokenizer.encode(english), tokenizer.eos_id]])
    [found] = beam_search(model, src, beam_size=beam, alpha=ALPHA)
    target = [*found[0].tokens, *[tokenizer.eos_id] * found[0].ended]
    tgt = torch.tensor([[tokenizer.bos_id, *target[:-1]]])
    with torch.no_grad(), record_attention(model) as maps:
        logits = model(src, tgt)[0]
    logits[:, tokenizer.pad_id] = float("-inf")
    shares = logits.softmax(-1).gather(1, torch.tensor(target)[:, None])[:, 0]
    layers = range(model.config.num_layers)
    cross = [maps[f"decoder.layers.{i}.cross_attention"][0] for i in layers]

    def rounded(values: torch.Tensor, digits: int) -> list:
        return values.double().round(decimals=digits).tolist()

    return {
        "found": [
            {"text": tokenizer.decode(each.tokens), "score": round(each.score, 2)}
            for each in found
        ],
        "probabilities": rounded(shares, 4),
        "source": tokenizer.pieces(src[0].tolist()),
        "target": tokenizer.pieces(target),
        "cross": [rounded(weights, 3) for weights in cross],
    }
