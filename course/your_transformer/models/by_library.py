"""Adapters that call the library: the reference."""

from dataclasses import replace

from transformer_lib.decoding import greedy_decode
from transformer_lib.model import Transformer
from transformer_lib.model import causal_mask as causal_mask
from transformer_lib.model import padding_mask as padding_mask
from your_transformer import pieces

attention = pieces.attend
multi_head_attention = pieces.many_heads
feed_forward = pieces.forward
sublayer = pieces.surround
encoder = pieces.encode
decoder = pieces.decode
build = Transformer


def load(model, weights):
    model.load_state_dict(weights, strict=False)  # the tied tables have one name


def logits(model, src, tgt):
    return model(src, tgt)


def greedy(model, src, bos_id, eos_id, limit, use_cache=False):
    model.config = replace(model.config, bos_id=bos_id, eos_id=eos_id)
    return greedy_decode(model, src, max_len=limit, use_cache=use_cache)[0]


def greedy_cached(model, src, bos_id, eos_id, limit):
    return greedy(model, src, bos_id, eos_id, limit, use_cache=True)
