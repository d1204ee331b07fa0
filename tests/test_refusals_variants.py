"""Calls that transformer_lib.variants refuses, and what it says.

What every kind of attention refuses is in test_variant_contract.py.
"""

from dataclasses import replace

import torch
from refusals import assert_refused, over
from torch import nn

from transformer_lib.data.corpora.shapes import random_clouds
from transformer_lib.decoding import greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.model import Transformer, causal_mask, record_attention
from transformer_lib.variants import (
    AlibiAttention,
    Classifier,
    DecoderAlone,
    EncoderAlone,
    FullAttention,
    GatedFeedForward,
    GraphAttention,
    GroupedAttention,
    LSHAttention,
    ModernConfig,
    ModernTransformer,
    NoPositions,
    NystromAttention,
    PatchEmbedding,
    RotaryAttention,
    WindowAttention,
    continue_tokens,
    cut_into_patches,
    edge_mask,
    mask_tokens,
    masked_token_loss,
    mean_over_tokens,
    rotation_table,
    use_attention,
    window_mask,
)

B, H, T, S, D_K, PAD = 2, 3, 7, 11, 5, 0
SIZES = {"d_model": 12, "num_heads": H, "d_ff": 5, "num_layers": 1, "max_len": S}
BOTH = ModernConfig(src_vocab_size=13, tgt_vocab_size=17, **SIZES)
READER, WRITER = replace(BOTH, tgt_vocab_size=None), replace(BOTH, src_vocab_size=None)
BACK, ALL = WindowAttention(3, causal=True), WindowAttention(3, causal=False)
FULL, ALIBI = FullAttention(causal=False), {"positions": "alibi"}
LONG, ROTARY = torch.zeros(1, S + 1, 12), RotaryAttention(12, 3, 3, max_len=S)
PICTURES, TEXTS = torch.zeros(B, 3, 6, 6), torch.zeros(B, S, 5)


def asked(attend, *shape, mask=None, dropout=0.0):
    x = torch.zeros(shape or (B, H, T, D_K))
    attend(x, x, x, mask, dropout)


def fewer_queries(attend):
    attend(*(torch.zeros(1, 1, t, D_K) for t in (1, T, T)))


def ones(*shape):
    return torch.ones(shape, dtype=torch.bool)


def model(config=BOTH, **choices):
    return ModernTransformer(replace(config, **choices)).eval()


def while_recorded(model):
    with record_attention(model):
        use_attention(model, encoder=ALL)


def with_another_layer(model):
    model.decoder.layers[0].cross_attention = nn.Identity()
    use_attention(model, cross=FULL)


def fast(model):
    greedy_decode(FastDecoder(model.eval()), torch.full((1, S), 3))


def written(*prompts, **choices):
    continue_tokens(DecoderAlone(WRITER), prompts, **choices)


def hidden(**changes):
    ids = {"mask_id": 3, "special_ids": [PAD, 1, 2], "vocab_size": 13}
    mask_tokens(torch.full((B, S), 5), **{**ids, **changes})


def loss(judged, length=S):
    masked_token_loss(torch.zeros(B, length, 13), torch.ones(B, S).long(), judged, PAD)


WRONG_KINDS = [
    ("mask must be boolean, got torch.f", lambda: asked(BACK, mask=torch.ones(T))),
    ("a tensor or a CausalMask, got a str", lambda: asked(BACK, mask="causal")),
    ("s.0.cross_attention must be a MultiHeadA", lambda: with_another_layer(model())),
    ("a TransformerConfig, got a ModernConfig", lambda: Transformer(BOTH)),
    ("judged must be boolean, got torch.f", lambda: loss(torch.ones(B, S))),
    ("mask must be boolean, got torch.f", lambda: mean_over_tokens(TEXTS, TEXTS)),
]
ATTENTION = [
    ("shape (B, H, T, d_k), got (3, 7, 5)", lambda: asked(BACK, 3, 7, 5)),
    ("got (1, 1, 7, 7)", lambda: asked(BACK, mask=causal_mask(T))),
    ("(2, 1, 1, 7) with WindowA", lambda: asked(BACK, mask=ones(B, H, 1, T))),
    ("dropout must be in [0, 1), got 1.0", lambda: asked(BACK, dropout=1.0)),
    ("have 4 heads, got 3", lambda: asked(AlibiAttention(4, causal=True))),
    ("num_heads must be at least 1, got 0", lambda: AlibiAttention(0, causal=True)),
    ("buckets must be even, got 3", lambda: LSHAttention(3, 1, 1, causal=True)),
    ("with landmarks, got 1 and 7", lambda: fewer_queries(NystromAttention(8))),
    ("width must be at least 1, got 0", lambda: window_mask(3, 3, 0, causal=True)),
    ("at most keys, got 5 and 3", lambda: window_mask(5, 3, 2, causal=True)),
]
PLACES = [
    ("encoder must be None", lambda: use_attention(DecoderAlone(WRITER), encoder=ALL)),
    ("cross must be None", lambda: use_attention(EncoderAlone(READER), cross=FULL)),
    ("decoder must be None for a", lambda: use_attention(nn.Identity(), decoder=BACK)),
    ("no other attention, got recording", lambda: while_recorded(model())),
    ("replaced, got AlibiA", lambda: use_attention(model(**ALIBI), decoder=BACK)),
]
CONFIGS = [
    ("norm must be one of layer, rms, got batch", lambda: model(norm="batch")),
    ("rotary, alibi, none, got rope", lambda: model(positions="rope")),
    ("given, got None and None", lambda: model(READER, src_vocab_size=None)),
    ("share embeddings, got 13 and None", lambda: model(READER, share_embeddings=True)),
    ("bos_id must differ from pad_id, got 1 and 1", lambda: model(pad_id=1)),
    ("for an encoder alone, got 17", lambda: EncoderAlone(BOTH)),
    ("for a decoder alone, got 13", lambda: DecoderAlone(BOTH)),
    ("known here, got a EncoderAlone", lambda: fast(EncoderAlone(READER))),
    ("max_len long, got 12 and 11", lambda: NoPositions(S)(LONG)),
    ("max_len long, got 12 and 11", lambda: ROTARY(LONG, LONG, LONG)),
]
LAYERS = [
    ("num_key_heads must be at least 1, got 0", lambda: GroupedAttention(30, 6, 0)),
    ("by num_key_heads, got 6 and 4", lambda: GroupedAttention(30, 6, 4)),
    ("by num_heads, got 30 and 4", lambda: GroupedAttention(30, 4, 2)),
    ("d_k must be at least 1, got 0", lambda: GroupedAttention(10, 3, 3, d_k=0)),
    ("d_k must be even to be turned in pairs, got 5", lambda: rotation_table(3, 5)),
    ("max_len must be at least 1, got 0", lambda: rotation_table(0, 4)),
    ("d_ff must be at least 1, got 0", lambda: GatedFeedForward(5, 0)),
    ("dropout must be in [0, 1), got 1", lambda: GatedFeedForward(5, 7, dropout=1)),
    ("activation must", lambda: GatedFeedForward(5, 7, activation="swiglu")),
    ("num_layers must be at least 1, got 0", lambda: GraphAttention(5, 1, 0)),
    ("channels must be at least 1, got 0", lambda: PatchEmbedding(2, 0, 5)),
    ("num_classes must be at least 1", lambda: Classifier(nn.Identity(), None, 5, 0)),
]
TOKENS = [
    ("prompt 1 must have 1 to 11 tokens, got 0", lambda: written([1], [])),
    ("prompt 0 must have 1 to 11 tokens, got 12", lambda: written([3] * 12)),
    ("prompt 0 must not hold PAD, got 0", lambda: written([1, 0])),
    ("max_len must be in [1, 11], got 12", lambda: written([1], max_len=12)),
    ("top_k must be at least 1, got 0", lambda: written([1], top_k=0)),
    ("got src_vocab_size 13", lambda: continue_tokens(model(), [[1]])),
    ("share must be in [0, 1), got 1.0", lambda: hidden(share=1.0)),
    ("at most 1 together, got 0.8 and 0.3", lambda: hidden(random=0.3)),
    ("at most 1 together, got -0.5 and 0.1", lambda: hidden(masked=-0.5)),
    ("special ids, got 4 and [0, 1, 2, 3]", lambda: hidden(vocab_size=4)),
    ("shape of tokens, got (2, 5) and (2, 11)", lambda: loss(ones(B, 5))),
    ("logits must have the shape", lambda: loss(ones(B, S), length=5)),
]
BEYOND_TEXT = [
    ("width), got (3, 6, 6)", lambda: cut_into_patches(PICTURES[0], 2)),
    ("got 2 and 5 x 6", lambda: cut_into_patches(PICTURES[:, :, 1:], 2)),
    ("got 2 and 6 x 5", lambda: cut_into_patches(PICTURES[..., 1:], 2)),
    ("size must be at least 1, got 0", lambda: cut_into_patches(PICTURES, 0)),
    ("must have 1 channels, got 3", lambda: PatchEmbedding(2, 1, 5)(PICTURES)),
    ("got (2, 1, 11, 11)", lambda: mean_over_tokens(TEXTS, ones(B, 1, S, S))),
    ("got (1, 1, 1, 1)", lambda: mean_over_tokens(TEXTS, ones(1, 1, 1, 1))),
    ("nodes below 3, got 0 and 3", lambda: edge_mask([(0, 3)], 3)),
    ("nodes below 3, got -1 and 0", lambda: edge_mask([(-1, 0)], 3)),
    ("must be pairs of nodes, got (0, 1, 2)", lambda: edge_mask([(0, 1, 2)], 3)),
    ("num_points must be", lambda: random_clouds(3, 0, torch.Generator())),
]
WRONG_VALUES = [*ATTENTION, *PLACES, *CONFIGS, *LAYERS, *TOKENS, *BEYOND_TEXT]
REFUSED = [(TypeError, *row) for row in WRONG_KINDS]
REFUSED += [(ValueError, *row) for row in WRONG_VALUES]


@over(REFUSED)
def test_a_bad_argument_is_named_with_both_values(error, text, call):
    assert_refused(error, text, call)
