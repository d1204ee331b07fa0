"""Calls that transformer_lib.faster refuses, and what it says."""

import math
from functools import partial

import torch
from refusals import assert_refused, over
from torch import nn

from transformer_lib.data import make_batch
from transformer_lib.faster import (
    LossScaler,
    QuantizedLinear,
    ScaleConfig,
    autocast,
    disagreement,
    flash_attention,
    prune_smallest,
    quantize,
    quantize_rows,
    remove_features,
    remove_heads,
    shrink,
    soft_label_loss,
    soft_labels,
)
from transformer_lib.faster.quantization import largest_inputs
from transformer_lib.faster.scaling import Machine, ModelSize, Split
from transformer_lib.model import (
    FeedForward,
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
)
from transformer_lib.variants import AlibiAttention

SIZES = {"d_model": 6, "num_heads": 3, "d_ff": 11, "num_layers": 2, "max_len": 16}
CONFIG = TransformerConfig.base(13, **SIZES)
MODEL, NAN = Transformer(CONFIG), math.nan
BATCHES = [make_batch([([3, 4, 5], [6, 7])])]
LINEAR, ONES = nn.Linear(7, 11), torch.ones(3, 7)
WIDE, TWO, BILINEAR = nn.Linear(133_145, 1), nn.Linear(6, 2), nn.Bilinear(2, 3, 5)
LOGITS, TARGETS = torch.zeros(2, 3, 7), torch.ones(2, 3, dtype=torch.int64)
SHORT = torch.zeros(2, 5, 11), torch.zeros(2, 7, 11), torch.zeros(2, 7, 11)
W_1, W_2 = "encoder.layers.1.feed_forward.w_1", "encoder.layers.1.feed_forward.w_2"
W_Q = "encoder.layers.0.self_attention.w_q"


class Other(nn.Module):
    """Computes what a FeedForward does, and is none."""

    def __init__(self, inside):
        super().__init__()
        self.w_1, self.w_2 = inside.w_1, inside.w_2

    def forward(self, x):
        return self.w_2(self.w_1(x))


def quantized(change=lambda layer: None, largest=None):
    """Quantize a model with a change in one feed-forward network."""
    model = Transformer(CONFIG)
    change(model.encoder.layers[1].feed_forward)
    if largest is not None:
        names = [n for n, part in model.named_modules() if type(part) is nn.Linear]
        largest = dict.fromkeys(names, 1.0) | largest
        largest = {n: value for n, value in largest.items() if value is not None}
    return quantize(model, largest)


def shrunk(num_heads=2, d_ff=7, change=lambda layer: None):
    model = Transformer(CONFIG).eval()
    change(model.encoder.layers[0])
    shrink(model, num_heads, d_ff, BATCHES)


def hooked(layer):
    layer.w_2.register_forward_hook(print)


def of_other_kind(layer):
    layer.feed_forward = Other(layer.feed_forward)


def without_heads(heads, change=lambda attention: None):
    attention = MultiHeadAttention(6, 3)
    change(attention)
    remove_heads(attention, heads)


def distilled(logits=LOGITS, teacher=LOGITS, targets=TARGETS, temperature=1.0):
    soft_label_loss(logits, teacher, targets, 0, temperature)


def put(name, value):
    return lambda part: setattr(part, name, value)


def sized(**changes):
    names = "parameters d_model d_ff d_kv attentions feed_forwards vocab_size".split()
    return partial(ModelSize, **dict.fromkeys(names, 2) | changes)


def machine(**changes):
    names = "operations memory inside between workers".split()
    return partial(Machine, **dict.fromkeys(names, 2) | changes)


REFUSED = [
    # Quantization
    (TypeError, "bits must be a whole number", lambda: quantize_rows(ONES, 2.5)),
    (ValueError, "bits must be in [2, 8], got 1", lambda: quantize_rows(ONES, 1)),
    (ValueError, "bits must be in [2, 8], got 9", lambda: quantize_rows(ONES, 9)),
    (ValueError, "positive and finite, got 0.0", lambda: QuantizedLinear(LINEAR, 0.0)),
    (ValueError, "positive and finite, got nan", lambda: QuantizedLinear(LINEAR, NAN)),
    (ValueError, "at most 133144, got 133145", lambda: QuantizedLinear(WIDE)),
    (
        ValueError,
        "x must be 7 wide, got 1",
        lambda: QuantizedLinear(LINEAR)(ONES[:, :1]),
    ),
    (ValueError, "x must be finite", lambda: QuantizedLinear(LINEAR, 1.0)(ONES / 0)),
    (ValueError, f"got a Bilinear as {W_1}", lambda: quantized(put("w_1", BILINEAR))),
    (ValueError, f"got a hook at {W_2}", lambda: quantized(hooked)),
    (ValueError, f"got a QuantizedLinear as {W_Q}", lambda: quantize(quantized())),
    (ValueError, f"must have {W_1}", lambda: quantized(largest={W_1: None})),
    (ValueError, f"{W_2}: largest must be", lambda: quantized(largest={W_2: 0.0})),
    (ValueError, "(0, 1], got 0.0", lambda: largest_inputs({}, 0.0)),
    (ValueError, "(0, 1], got 1.5", lambda: largest_inputs({}, 1.5)),
    (ValueError, "w_1 must be finite", lambda: largest_inputs({"w_1": [ONES / 0]})),
    # Pruning
    (
        ValueError,
        "share must be in [0, 1), got 1.0",
        lambda: prune_smallest(MODEL, 1.0),
    ),
    (ValueError, "1 of 6 features must stay", lambda: without_heads([0, 1, 2])),
    (
        ValueError,
        "at least 1 of 11 features must stay, got 0",
        lambda: remove_features(FeedForward(5, 11), torch.arange(11)),
    ),
    (
        ValueError,
        "remove heads, got 2 and 6",
        lambda: without_heads([0], put("w_k", TWO)),
    ),
    (
        ValueError,
        "positions in its heads to remove some, got AlibiAttention(",
        lambda: without_heads([0], put("attend", AlibiAttention(3, causal=False))),
    ),
    (ValueError, "num_heads must be in [1, 3], got 4", lambda: shrunk(num_heads=4)),
    (ValueError, "d_ff must be in [1, 11], got 0", lambda: shrunk(d_ff=0)),
    (
        ValueError,
        "the smaller model does not fit",
        lambda: shrunk(change=of_other_kind),
    ),
    # Distillation
    (ValueError, "[1e-9, 1e5], got 0.0", lambda: distilled(temperature=0.0)),
    (ValueError, "[1e-9, 1e5], got 110000.0", lambda: distilled(temperature=1.1e5)),
    (ValueError, "[1e-9, 1e5], got nan", lambda: distilled(temperature=NAN)),
    (ValueError, "got (2, 2, 7), (2, 3, 7) and", lambda: distilled(LOGITS[:, :2])),
    (ValueError, "and (2, 2)", lambda: distilled(targets=TARGETS[:, :2])),
    (ValueError, "got training mode", lambda: soft_labels(MODEL, BATCHES[0])),
    # Training at scale
    (
        ValueError,
        "(2, 3, 7) and (2, 2)",
        lambda: disagreement(LOGITS, TARGETS[:, 1:], 0),
    ),
    (
        ValueError,
        "even number of rows",
        lambda: disagreement(LOGITS[1:], TARGETS[1:], 0),
    ),
    (ValueError, "accumulate must be at least 1", lambda: ScaleConfig(accumulate=0)),
    (ValueError, "r_drop must be at least 0", lambda: ScaleConfig(r_drop=-1.0)),
    (ValueError, "precision must be one of", lambda: ScaleConfig(precision="half")),
    (ValueError, "epochs must be at least 1, got 0", lambda: ScaleConfig(epochs=0)),
    (
        ValueError,
        "float16, got float8",
        lambda: autocast(torch.device("cpu"), "float8"),
    ),
    (ValueError, "factor must be at least 1, got 0.5", lambda: LossScaler(0.5)),
    (ValueError, "interval must be at least 0, got -1", lambda: LossScaler(2, -1)),
    # Attention by blocks
    (ValueError, "block must be at least 1", lambda: flash_attention(*SHORT, block=0)),
    (ValueError, "queries, got 7 and 5", lambda: flash_attention(*SHORT, causal=True)),
    # On paper
    (ValueError, "data must be at least 1, got 0", lambda: Split(data=0)),
    (ValueError, "tensor must be at least 1, got 0", lambda: Split(tensor=0)),
    (ValueError, "pipeline must be at least 1", lambda: Split(pipeline=0)),
    (ValueError, "parts must be at least 1, got 0", lambda: Split(parts=0)),
    (ValueError, "sharded must be one of", lambda: Split(sharded="some")),
    (ValueError, "d_kv must be at least 1, got 0", sized(d_kv=0)),
    (ValueError, "between must be above 0, got -1", machine(between=-1)),
    (ValueError, "reached must be at most 1, got 1.5", machine(reached=1.5)),
]


@over(REFUSED)
def test_a_bad_argument_is_named_with_what_it_was(error, text, call):
    assert_refused(error, text, call)
