"""One word of a sentence exchanged: which vectors of the encoder move, and when."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from bookkit.controls.control import Control
from transformer_lib.model import Transformer
from transformer_lib.translation import Translator


def context_control(
    translator: Translator, sentence: str, exchanges: Mapping[str, Sequence[str]]
) -> Control:
    """Let the reader exchange one word, and see how far each vector moves, and when.

    The control asks about the first exchange of the last word and of the second word.

    Args:
        translator: A trained one, in eval mode.
        sentence: Its words must all be single tokens.
        exchanges: To each word of the sentence the words that may take its place.

    Returns:
        A control with the sentence, the distances, the translations and two questions.

    Raises:
        ValueError: If a word is cut into several tokens.
    """
    words = sentence.split()
    before, [german] = _steps(translator, words), translator.translate([sentence])
    lengths = before.norm(dim=-1)
    table = []
    for i, word in enumerate(words):
        for new in exchanges[word]:
            changed = [*words[:i], new, *words[i + 1 :]]
            moved = (_steps(translator, changed) - before).norm(dim=-1) / lengths
            [says] = translator.translate([" ".join(changed)])
            rows = moved[:, : len(words)].mul(100).round().int().tolist()
            table.append({"at": i, "word": new, "moved": rows, "german": says})
    asked = next(each for each in table if each["at"] == len(words) - 1)
    return Control(
        "context",
        "Exchange a word, see who notices",
        {"words": words, "german": german, "exchanges": table},
        f"“{sentence}” becomes “{german}”.\nIf “{asked['word']}” takes the place of "
        f"“{words[-1]}”, it becomes “{asked['german']}”. In which step of the encoder "
        f"does the vector of “{words[-3]}” first change?",
        beside=__file__,
    )


def _steps(translator: Translator, words: Sequence[str]) -> Tensor:
    """Return the vectors after the lookup and each sublayer, (steps, S, d_model)."""
    text = " ".join(words)
    ids = translator.tokenizer.encode(text)
    if len(ids) != len(words):
        raise ValueError(
            f"each word must be one token, got {len(ids)} tokens for {text!r}"
        )
    model: Transformer = translator.model
    kept = []

    def keep(module: nn.Module, inputs: tuple, output: Tensor) -> None:
        kept.append(output[0])

    sublayers = [
        sublayer
        for layer in model.encoder.layers
        for sublayer in (layer.self_attention_residual, layer.feed_forward_residual)
    ]
    hooks = [sublayer.register_forward_hook(keep) for sublayer in sublayers]
    source = torch.tensor([[*ids, translator.tokenizer.eos_id]])
    with torch.no_grad():
        kept.append(model.src_positions(model.src_embedding(source))[0])
        model.encode(source)
    for hook in hooks:
        hook.remove()
    return torch.stack(kept)
