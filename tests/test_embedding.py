import math

import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.model import TokenEmbedding

B, S, D_MODEL, VOCAB, PAD = 2, 7, 5, 13, 3


def test_a_lookup_is_a_one_hot_row_times_the_table_and_padding_gets_no_gradient():
    embedding = TokenEmbedding(VOCAB, D_MODEL, PAD)
    tokens = torch.randint(4, VOCAB, (B, S))
    tokens[1, 4:] = PAD
    one_hot = F.one_hot(tokens, VOCAB).to(embedding.table.weight)
    expected = one_hot @ embedding.table.weight * math.sqrt(D_MODEL)
    expected[1, 4:] = 0
    vectors = embedding(tokens)
    assert_close(vectors, expected)
    vectors.sum().backward()
    assert (embedding.table.weight.grad[PAD] == 0).all()
