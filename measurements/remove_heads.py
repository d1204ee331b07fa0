"""What each attention head is worth: remove it, translate, and count BLEU again.

Run from the root of the repository, with the captions in place (`python -m
transformer_lib.translation download`). It takes some minutes on one core. A row that
is in the table is not computed again, so a run that was stopped goes on; after another
training, delete the table.

Rows: nothing removed; each head by itself; all heads of a layer; all of a kind.
"""

from collections.abc import Iterator
from pathlib import Path

import torch
from tables import add, read
from torch import Tensor
from tqdm import tqdm

from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.model import MultiHeadAttention, Transformer, fused_attention
from transformer_lib.translation import Translator
from transformer_lib.translation.run import measure

ROOT = Path(__file__).resolve().parents[1]
MODEL = ROOT / "models/multi30k-en-de"
TABLE = ROOT / "measurements/multi30k/remove_heads.csv"
PLACE = ("kind", "layer", "head")

Place = tuple[str, str, str]  # kind, layer, head: a number or "all"
NOTHING = ("none", "none", "none")


def attention_layers(model: Transformer) -> dict[str, list[MultiHeadAttention]]:
    """Sort the attention layers by kind, first to last."""
    decoder = model.decoder.layers
    return {
        "encoder": [layer.self_attention for layer in model.encoder.layers],
        "decoder": [layer.self_attention for layer in decoder],
        "cross": [layer.cross_attention for layer in decoder],
    }


def places(model: Transformer) -> Iterator[Place]:
    """Name what is removed, row by row."""
    yield NOTHING
    for kind, layers in attention_layers(model).items():
        for number, layer in enumerate(layers):
            for head in range(layer.num_heads):
                yield kind, str(number), str(head)
            yield kind, str(number), "all"
        yield kind, "all", "all"


def remove(model: Transformer, place: Place) -> None:
    """Set the output of some heads to zero; all others are as they were."""
    kind, layer, head = place
    for name, layers in attention_layers(model).items():
        for number, attention in enumerate(layers):
            if name == kind and layer in ("all", str(number)):
                attention.attend = without(slice(None) if head == "all" else int(head))
            else:
                attention.attend = fused_attention


def without(heads: int | slice):
    """Attend as always, and then silence these heads."""

    def attend(*inputs) -> Tensor:
        outputs = fused_attention(*inputs)  # (B, H, T, d_k)
        outputs[:, heads] = 0.0
        return outputs

    return attend


def main() -> None:
    """Measure what is not in the table yet."""
    torch.set_num_threads(1)
    translator = Translator.load(MODEL)
    pairs = multi30k("validation")
    done = {tuple(row[name] for name in PLACE) for row in read(TABLE)}
    for place in tqdm([p for p in places(translator.model) if p not in done]):
        remove(translator.model, place)
        bleu = round(measure(translator, pairs).bleu, 2)
        add(TABLE, [{**dict(zip(PLACE, place, strict=True)), "bleu": bleu}])


if __name__ == "__main__":
    main()
