"""The decoder's mask as cells to paint, and what a trained model makes of it."""

from itertools import pairwise

from bookkit.colours import COLOURS
from bookkit.controls.control import Control, words_of
from transformer_lib.data import Tokenizer
from transformer_lib.javascript import source
from transformer_lib.javascript.weights import pack
from transformer_lib.model import Transformer

# The model in JavaScript, without tokenizer and search.
ENGINE = ("transformer.js", "weights.js")


def leak_control(
    peeking: Transformer,
    masked: Transformer,
    tokenizer: Tokenizer,
    english: str,
    german: str,
) -> Control:
    """Let the reader open and hide cells of the decoder's mask, and see what follows.

    The page computes the probability of each true next token under any mask, with the
    whole translation given (teacher forcing).

    Args:
        peeking: A model that was trained without the causal mask; ``pack`` must know
            it, and its matrices lose nothing if they are quantized.
        masked: The same, trained with the causal mask.
        tokenizer: Theirs. It must cut both sentences into whole words.
        english: What the encoder reads.
        german: Its translation, of at least 5 words.

    Returns:
        A control with the mask, the probabilities, a choice of the model, three
        finished masks, and a game of three levels.

    Raises:
        ValueError: If a word is cut into several tokens, or ``german`` is too short.
    """
    if len(german.split()) < 5:
        raise ValueError(f"german must have at least 5 words, got {german!r}")
    src, tgt = tokenizer.encode(english), tokenizer.encode(german)
    for text, ids in ((english, src), (german, tgt)):
        if len(text.split()) != len(ids):
            raise ValueError(
                f"each word must be one token, got {len(ids)} tokens for {text!r}"
            )
    tokens = [tokenizer.bos_id, *tgt, tokenizer.eos_id]
    words = words_of(tokenizer, tokens)
    rows = [
        f"{word} may look at {' '.join(words[: t + 1])}; the next word is {then}"
        for t, (word, then) in enumerate(pairwise(words))
    ]
    return Control(
        "leak",
        "Paint the mask, see the leak",
        {
            "models": [pack(peeking), pack(masked)],
            "english": english,
            "src": [*src, tokenizer.eos_id],
            "tokens": tokens,
            "words": words,
            "colours": {name: COLOURS[name] for name in ("may_attend", "hidden")},
        },
        f"The causal mask of the decoder that translates “{english}”.\n"
        + "\n".join(rows),
        scripts=tuple(map(source, ENGINE)),
        beside=__file__,
    )
