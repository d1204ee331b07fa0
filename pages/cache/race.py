"""Two decoders write a sentence, one with the cache and one without it."""

from collections.abc import Sequence

import torch

from bookkit.controls.control import Control, words_of
from transformer_lib.decoding import greedy_decode
from transformer_lib.model import Transformer
from transformer_lib.translation import Translator

MOST = 16  # tokens of a sentence, so that its cells fit a phone


def race_control(
    translator: Translator, english: Sequence[str], title: str = "The cache race"
) -> Control:
    """Let the reader race two decoders, one position at a time.

    Args:
        translator: Writes each sentence twice, greedily: with its cache and without.
            How many positions each step computes is counted in the first layer.
        english: The sentences, each with a translation of up to 16 tokens, EOS
            included. The control asks about the last one.
        title: The name of the control.

    Returns:
        A control with a cell for every position of every step, two counters, and a line
        for the reader's guess.

    Raises:
        ValueError: If there is no sentence, a translation is too long, or the two
            decoders write different translations.
    """
    if not english:
        raise ValueError("english must hold at least 1 sentence, got 0")
    races = [_race(translator, sentence) for sentence in english]
    sizes = [len(race["writes"]) for race in races]
    told = "\n".join(
        f"“{race['english']}” becomes “{race['german']}”: {size} steps, EOS included."
        for race, size in zip(races, sizes, strict=True)
    )
    return Control(
        "race",
        title,
        {"races": races},
        f"{told}\nWithout the cache, every step computes all positions again; with it, "
        f"every step computes one.\nHow many positions does the decoder without the "
        f"cache compute for {sizes[-1]} tokens?",
        beside=__file__,
    )


def _race(translator: Translator, english: str) -> dict:
    """Write one sentence in both ways."""
    tokenizer = translator.tokenizer
    src = torch.tensor([[*tokenizer.encode(english), tokenizer.eos_id]])
    runs = {name: _run(translator, src, name == "cached") for name in ("all", "cached")}
    if runs["all"][0] != runs["cached"][0]:
        raise ValueError(
            "both decoders must write the same, got "
            f"{runs['all'][0]} without the cache and {runs['cached'][0]} with it"
        )
    ids, steps = runs["all"][0], len(runs["all"][1])
    if not len(ids) < steps <= MOST:
        raise ValueError(
            f"a translation must end within {MOST} tokens, got {steps} for {english!r}"
        )
    tokens = [tokenizer.bos_id, *ids, tokenizer.eos_id]
    words = words_of(tokenizer, tokens)
    return {
        "english": english,
        "german": tokenizer.decode(ids),
        "reads": words[:-1],
        "writes": words[1:],
        "computed": [runs["all"][1], runs["cached"][1]],
    }


def _run(
    translator: Translator, src: torch.Tensor, use_cache: bool
) -> tuple[list[int], list[int]]:
    """Return the ids that are written, and the positions that each step computes."""
    model: Transformer = translator.model
    counts: list[int] = []
    hook = model.decoder.layers[0].self_attention.w_k.register_forward_pre_hook(
        lambda module, inputs: counts.append(inputs[0].size(1))
    )
    try:
        [ids] = greedy_decode(
            model,
            src,
            max_len=min(MOST, model.config.max_len),
            use_cache=use_cache,
        )
    finally:
        hook.remove()
    return ids, counts
