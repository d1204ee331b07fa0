"""Text and batches; the pairs to learn from are in ``corpora``."""

from transformer_lib.data.batching import Batch, Pair, make_batch, pad, token_batches
from transformer_lib.data.tokenizer import BYTES, SPECIAL_TOKENS, Tokenizer

__all__ = [
    "BYTES",
    "SPECIAL_TOKENS",
    "Batch",
    "Pair",
    "Tokenizer",
    "make_batch",
    "pad",
    "token_batches",
]
