"""From scores to a translation: greedy, at random, or by beam search."""

from transformer_lib.decoding.beam import (
    Extension,
    Hypothesis,
    beam_search,
    extend,
    length_penalty,
)
from transformer_lib.decoding.greedy import greedy_decode
from transformer_lib.decoding.prefixes import Prefixes, length_limits, write_until_ended
from transformer_lib.decoding.sampling import next_probabilities, sample

__all__ = [
    "Extension",
    "Hypothesis",
    "Prefixes",
    "beam_search",
    "extend",
    "greedy_decode",
    "length_limits",
    "length_penalty",
    "next_probabilities",
    "sample",
    "write_until_ended",
]
