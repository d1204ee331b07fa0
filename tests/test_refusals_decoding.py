"""Calls that transformer_lib.decoding refuses, and what it says."""

from math import inf, nan

import torch
from refusals import assert_refused, over

from transformer_lib.decoding import (
    beam_search,
    greedy_decode,
    next_probabilities,
    sample,
)
from transformer_lib.model import Transformer, TransformerConfig


def call(decode, length=3, **options):
    sizes = {"d_model": 6, "num_heads": 2, "d_ff": 5, "num_layers": 1, "max_len": 7}
    model = Transformer(TransformerConfig.base(11, **sizes))
    return decode(model, torch.ones(2, length, dtype=torch.int64), **options)


def share(top_p):
    return next_probabilities(torch.zeros(1, 3), top_p=top_p)


def heat(temperature):
    return call(sample, temperature=temperature)


@over(
    [
        (ValueError, "max_len long, got 8 and 7", lambda: call(greedy_decode, 8)),
        (ValueError, "at least 1, got 0", lambda: call(greedy_decode, max_len=0)),
        (ValueError, "model's, got 8 and 7", lambda: call(greedy_decode, max_len=8)),
        (TypeError, "whole number, got 2.5", lambda: call(greedy_decode, max_len=2.5)),
        (ValueError, "model's, got 9 and 7", lambda: call(beam_search, max_len=9)),
        (ValueError, "model's, got 10 and 7", lambda: call(sample, max_len=10)),
        (ValueError, "beam_size must be at", lambda: call(beam_search, beam_size=0)),
        (ValueError, "100], got 100.5", lambda: call(beam_search, alpha=100.5)),
        (ValueError, "100], got -inf", lambda: call(beam_search, alpha=-inf)),
        (ValueError, "100], got nan", lambda: call(beam_search, alpha=nan)),
        (ValueError, "top_k must be at least 1, got 0", lambda: call(sample, top_k=0)),
        (ValueError, "in [1e-9, 1e9], got 1e-10", lambda: heat(1e-10)),
        (ValueError, "in [1e-9, 1e9], got inf", lambda: heat(inf)),
        (ValueError, "in [1e-9, 1e9], got nan", lambda: heat(nan)),
        (ValueError, "in [1e-6, 1], got 9e-07", lambda: share(9e-7)),
        (ValueError, "in [1e-6, 1], got 1.5", lambda: share(1.5)),
        (ValueError, "in [1e-6, 1], got nan", lambda: share(nan)),
    ]
)
def test_a_bad_argument_is_named_with_its_value(error, text, call):
    assert_refused(error, text, call)
