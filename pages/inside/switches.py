"""The heads of a model as switches: what does it write without some of them?"""

import json
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from bookkit.controls.control import Control, read, words_of
from transformer_lib.decoding import greedy_decode
from transformer_lib.javascript import FILES, source
from transformer_lib.javascript.weights import from_script, pack, to_script
from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    fused_attention,
    record_attention,
)
from transformer_lib.translation import Translator

SHADES = 9  # of a cell in a map, written as the digits 0 to 8
KINDS = ("Encoder", "Decoder", "Cross-attention")


def attention_layers(model: Transformer) -> list[tuple[str, MultiHeadAttention]]:
    """List the attention layers in the order of the switches.

    Args:
        model: Of any size.

    Returns:
        The name of each layer in ``record_attention``, and the layer: those of the
        encoder, the decoder's self-attention, and its cross-attention.
    """
    kinds = (
        ("encoder", "self_attention"),
        ("decoder", "self_attention"),
        ("decoder", "cross_attention"),
    )
    return [
        (f"{stack}.layers.{i}.{kind}", getattr(layer, kind))
        for stack, kind in kinds
        for i, layer in enumerate(getattr(model, stack).layers)
    ]


def switches_control(translator: Translator, sentences: Sequence[str]) -> Control:
    """Let the reader switch heads off, and translate again without them.

    A head that is off contributes zeros to ``w_o``. The page computes in a worker, with
    greedy search, and starts it at the first press.

    Args:
        translator: A small one, since the page holds its weights; its model is one that
            ``pack`` knows.
        sentences: English. The game asks about the first two.

    Returns:
        A control with a map for each head as its switch, the translation of a sentence
        with and without these heads, the probability that is left to the first
        translation, and a game: find the head that matters most.

    Raises:
        ValueError: If there are fewer than 2 sentences, or as ``pack``.
    """
    if len(sentences) < 2:
        raise ValueError(f"sentences must be at least 2, got {len(sentences)}")
    exact = from_script(to_script(translator))  # the weights of the page
    rows = [_sentence(exact, english) for english in sentences]
    config = exact.model.config
    heads = len(attention_layers(exact.model)) * config.num_heads
    first = rows[0]
    return Control(
        "switches",
        "Switch heads off",
        {
            "sentences": rows,
            "kinds": KINDS,
            "layers": config.num_layers,
            "heads": config.num_heads,
            "worker": "\n".join(
                [*map(source, FILES), read("switches_worker.js", __file__)]
            ),
            "packed": {
                "tokenizer": json.loads(translator.tokenizer.to_json()),
                **pack(translator.model),
            },
        },
        f"{heads} heads translate "
        f"“{first['english']}” as “{first['german']}”, with a probability of "
        f"{100 * first['probability']:.0f} %. Which one head matters most?",
        beside=__file__,
    )


@torch.no_grad()
def _sentence(translator: Translator, english: str) -> dict[str, object]:
    """Translate with all heads, and find the head that is missed most."""
    model, tokenizer = translator.model, translator.tokenizer
    src = torch.tensor([[*tokenizer.encode(english), tokenizer.eos_id]])
    [ids] = greedy_decode(model, src)
    target = [*ids, tokenizer.eos_id]
    with record_attention(model) as maps:
        probability = _probability(model, src, target, tokenizer.bos_id)
    layers = attention_layers(model)
    words = [
        words_of(tokenizer, tokens)
        for tokens in (src[0].tolist(), [tokenizer.bos_id, *ids])
    ]
    without = []
    for _, layer in layers:
        usual = layer.attend
        for head in range(layer.num_heads):
            layer.attend = _without(head)
            without.append(_probability(model, src, target, tokenizer.bos_id))
        layer.attend = usual
    return {
        "english": english,
        "german": tokenizer.decode(ids),
        "src": src[0].tolist(),
        "target": target,
        "words": words,
        "probability": probability,
        "maps": [_shades(each) for name, _ in layers for each in maps[name][0]],
        "most": without.index(min(without)),
    }


def _without(head: int) -> Callable[..., Tensor]:
    def attend(*inputs: Tensor) -> Tensor:
        outputs = fused_attention(*inputs)  # (B, H, T, d_k)
        outputs[:, head] = 0.0
        return outputs

    return attend


def _probability(
    model: Transformer, src: Tensor, target: list[int], bos_id: int
) -> float:
    """Multiply the probabilities of all tokens of a translation, EOS included."""
    logits = model(src, torch.tensor([[bos_id, *target[:-1]]]))[0]
    logits[:, model.config.pad_id] = -torch.inf  # never written
    shares = logits.log_softmax(-1).gather(1, torch.tensor(target)[:, None])
    return shares.sum().exp().item()


def _shades(weights: Tensor) -> list[str]:
    """Write a map (T, S) as a line of digits for each row."""
    shades = ((SHADES - 1) * weights).round().int().tolist()
    return ["".join(map(str, row)) for row in shades]
