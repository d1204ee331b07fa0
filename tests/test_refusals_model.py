"""Calls that transformer_lib.model refuses, and what it says."""

from dataclasses import asdict, replace
from math import inf, nan

import pytest
import torch
from refusals import assert_refused, over

from transformer_lib.model import (
    DecoderCache,
    FeedForward,
    MultiHeadAttention,
    PositionalEncoding,
    Residual,
    SelfAttentionCache,
    TokenEmbedding,
    Transformer,
    TransformerConfig,
    causal_mask,
    fused_attention,
    padding_mask,
    scaled_dot_product_attention,
    sinusoidal_table,
)
from transformer_lib.variants import ModernConfig, RMSNorm

CONFIG = TransformerConfig(
    src_vocab_size=19, tgt_vocab_size=23, d_model=12, num_heads=3, max_len=11
)
X = torch.zeros(2, 5, 12, dtype=torch.float64)
IDS = torch.ones(2, 5, dtype=torch.int64)


def made(**choices):
    small = {"d_ff": 17, "num_layers": 2}
    return Transformer(replace(CONFIG, **small | choices))


def embedded(ids):
    return TokenEmbedding(13, 5, 3)(ids)


def decoded(cache):
    memory = torch.zeros(2, 5, 12, dtype=torch.float64)
    return made().decode(IDS[:, :1], memory, padding_mask(IDS, 0), cache)


def placed(x, start=0):
    return PositionalEncoding(12, 17, "learned")(x, start)


@over(
    [
        (ValueError, "got 10 and 3", lambda: MultiHeadAttention(10, 3)),
        (ValueError, "d_model must be at least 1", lambda: MultiHeadAttention(-6, 3)),
        (ValueError, "num_heads must be at least 1", lambda: MultiHeadAttention(6, 0)),
        (ValueError, "got 1.0", lambda: MultiHeadAttention(6, 3, dropout=1.0)),
        (ValueError, "d_model must be at least 1, got 0", lambda: FeedForward(0, 3)),
        (ValueError, "d_ff must be at least 1, got -2", lambda: FeedForward(3, -2)),
        (ValueError, "in [0, 1), got 1", lambda: FeedForward(3, 5, dropout=1)),
        (
            ValueError,
            "activation must be one of relu, gelu, gelu_tanh, silu, got swish",
            lambda: FeedForward(3, 5, activation="swish"),
        ),
        (ValueError, "[0, 1), got -0.5", lambda: Residual(RMSNorm(3), dropout=-0.5)),
        (ValueError, "d_model must be at least 1, got 0", lambda: RMSNorm(0)),
        (ValueError, "eps must be at least 0, got -1", lambda: RMSNorm(5, eps=-1)),
        (ValueError, "x must be 5 wide, got 1", lambda: RMSNorm(5)(X[..., :1])),
        (ValueError, "size must be at least 0, got -3", lambda: causal_mask(-3)),
        (ValueError, "(B, S), got (7,)", lambda: padding_mask(torch.ones(7), 0)),
        # Positions and embeddings
        (ValueError, "must be even to interleave", lambda: sinusoidal_table(17, 7)),
        (ValueError, "got learned", lambda: sinusoidal_table(17, 6, "learned")),
        (ValueError, "got rotary", lambda: PositionalEncoding(6, 17, "rotary")),
        (ValueError, "max_len must be", lambda: PositionalEncoding(6, 0, "learned")),
        (ValueError, "d_model must be at", lambda: PositionalEncoding(-2, 7)),
        (ValueError, "max_len long, got 18 and 17", lambda: placed(X, 13)),
        (ValueError, "start must be at least 0, got -1", lambda: placed(X, -1)),
        (ValueError, "x must be 12 wide, got 1", lambda: placed(X[..., :1])),
        (IndexError, "from 0 to 12, got -1 to 1", lambda: embedded(2 * IDS.tril() - 1)),
        (IndexError, "from 0 to 12, got 13 to 13", lambda: embedded(13 * IDS)),
        (TypeError, "integer token ids, got torch.float64", lambda: embedded(X)),
        (ValueError, "vocab_size must be at least 1", lambda: TokenEmbedding(0, 5, 3)),
        (ValueError, "d_model must be at least 1", lambda: TokenEmbedding(13, -1, 3)),
        (ValueError, "got 13 and 13", lambda: TokenEmbedding(13, 5, 13)),
        (ValueError, "got -1 and 13", lambda: TokenEmbedding(13, 5, -1)),
        # A model
        (
            ValueError,
            "num_layers must be at least 1, got 0",
            lambda: made(num_layers=0),
        ),
        (ValueError, "got -0.5", lambda: made(attention_dropout=-0.5)),
        (ValueError, "[0, 1), got 2", lambda: made(feed_forward_dropout=2)),
        (ValueError, "src_vocab_size must be int", lambda: made(src_vocab_size=None)),
        (ValueError, "num_layers must be int, got True", lambda: made(num_layers=True)),
        (ValueError, "num_heads must be int, got 2.0", lambda: made(num_heads=2.0)),
        (ValueError, "dropout must be float, got False", lambda: made(dropout=False)),
        (ValueError, "bias must be bool, got 'no'", lambda: made(bias="no")),
        (
            ValueError,
            "src_vocab_size must be int | None, got 1.5",
            lambda: ModernConfig(**asdict(CONFIG) | {"src_vocab_size": 1.5}),
        ),
        (ValueError, "differ from pad_id, got 0 and 0", lambda: made(bos_id=0)),
        (ValueError, "below tgt_vocab_size, got 23", lambda: made(bos_id=23)),
        (ValueError, "eos_id must be below", lambda: made(eos_id=-1)),
        (
            ValueError,
            "norm_eps must be at least 0, got nan",
            lambda: made(norm_eps=nan),
        ),
        (ValueError, "norm_eps must be finite, got inf", lambda: made(norm_eps=inf)),
        (ValueError, "got 19 and 23", lambda: made(share_embeddings=True)),
        (TypeError, "got torch.float64", lambda: made()(IDS, IDS.double())),
        (ValueError, "of at least 1, got (2, 0)", lambda: made()(IDS[:, :0], IDS)),
        (ValueError, "of at least 1, got (2,)", lambda: made()(IDS, IDS[:, 0])),
        (ValueError, "got 15 and 11", lambda: made()(IDS, IDS.repeat(1, 3))),
        (ValueError, "argument 2 is longer", lambda: decoded(DecoderCache(3))),
        (
            ValueError,
            "one new position with a cache, got 5",
            lambda: MultiHeadAttention(12, 3)(X, X, X, cache=SelfAttentionCache()),
        ),
    ]
)
def test_a_bad_argument_is_named_with_its_value(error, text, call):
    assert_refused(error, text, call)


@pytest.mark.parametrize("attend", [scaled_dot_product_attention, fused_attention])
@over(
    [
        (TypeError, "mask must be boolean, got torch.int64", (X, X, X, IDS)),
        (ValueError, "same length, got 5 and 4", (X, X, X[:, 1:])),
        (ValueError, "same width, got 12 and 11", (X, X[..., 1:], X)),
        (ValueError, "got (2,), (1,) and (2,)", (X, X[:1], X)),
        (ValueError, "at least one position, got 0", (X, X[:, :0], X[:, :0])),
        (
            ValueError,
            "broadcast to the scores, got (5,) and (2, 5, 5)",
            (X, X, X, torch.ones(5, dtype=torch.bool)),
        ),
    ]
)
def test_what_does_not_fit_is_refused_by_both_attentions(attend, error, text, call):
    assert_refused(error, text, lambda: attend(*call))
