import math
import re

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import TokenEmbedding

B, S, D_MODEL, VOCAB, PAD = 2, 7, 5, 13, 3


@pytest.fixture
def embedding():
    return TokenEmbedding(VOCAB, D_MODEL, PAD)


@pytest.fixture
def tokens():
    tokens = torch.randint(4, VOCAB, (B, S))
    tokens[1, 4:] = PAD
    return tokens


def test_a_lookup_is_a_one_hot_row_times_the_table(embedding, tokens):
    one_hot = F.one_hot(tokens, VOCAB).to(embedding.table.weight)
    expected = one_hot @ embedding.table.weight * math.sqrt(D_MODEL)
    expected[1, 4:] = 0
    assert_close(embedding(tokens), expected)


def test_padding_stays_zero_whatever_happens_to_the_table(embedding, tokens):
    torch.nn.init.ones_(embedding.table.weight)
    vectors = embedding(tokens)
    assert (vectors[1, 4:] == 0).all()
    vectors.sum().backward()
    assert (embedding.table.weight.grad[PAD] == 0).all()


def test_int32_ids_do_as_well(embedding, tokens):
    assert embedding(tokens.int()).equal(embedding(tokens))


@pytest.mark.parametrize("bad", [-1, VOCAB])
def test_ids_outside_the_vocabulary_are_refused(embedding, tokens, bad):
    tokens[0, 0] = bad
    low, high = tokens.min().item(), tokens.max().item()
    with pytest.raises(IndexError, match=f"from 0 to 12, got {low} to {high}"):
        embedding(tokens)


def test_ids_that_are_not_integers_are_refused(embedding, tokens):
    with pytest.raises(TypeError, match=r"integer token ids, got torch\.float64"):
        embedding(tokens.double())


@pytest.mark.parametrize("shape", [(B, 0), (S,), (B, S, 1)])
def test_empty_sentences_and_other_shapes_are_refused(embedding, shape):
    tokens = torch.ones(shape, dtype=torch.long)
    message = r"tokens must have shape \(batch, length\).*" + re.escape(str(shape))
    with pytest.raises(ValueError, match=message):
        embedding(tokens)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0, D_MODEL, PAD), "vocab_size must be at least 1, got 0"),
        ((VOCAB, -1, PAD), "d_model must be at least 1, got -1"),
        ((VOCAB, D_MODEL, VOCAB), "pad_id must be below vocab_size, got 13 and 13"),
        ((VOCAB, D_MODEL, -1), "pad_id must be .* got -1 and 13"),
    ],
)
def test_impossible_tables_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        TokenEmbedding(*arguments)
