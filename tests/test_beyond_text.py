"""Pictures, sets and graphs, read by the encoder of the book."""

import pytest
import torch
from layers import encoder_layer
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.data.corpora.shapes import SHAPES, random_clouds
from transformer_lib.model import Encoder, PositionalEncoding
from transformer_lib.variants import (
    Classifier,
    GraphAttention,
    PatchEmbedding,
    cut_into_patches,
    edge_mask,
    mean_over_tokens,
)

B, C, S, H, D_MODEL, CLASSES = 2, 3, 7, 5, 15, 11
EDGES = [(0, 1), (1, 2), (2, 3), (4, 5)]  # a path, a pair, and node 6 alone


@pytest.fixture
def classifier():
    layers = [encoder_layer(D_MODEL, H, 13, norm_first=True) for _ in range(2)]
    encoder = Encoder(layers, nn.LayerNorm(D_MODEL))
    return Classifier(nn.Linear(3, D_MODEL), encoder, D_MODEL, CLASSES).eval()


# Patches


def test_the_patches_of_a_numbered_picture_are_squares_row_by_row():
    picture = torch.arange(24.0).view(1, 1, 4, 6)
    expected = [[0, 1, 6, 7], [2, 3, 8, 9], [4, 5, 10, 11]]
    expected += [[number + 12 for number in patch] for patch in expected]
    assert cut_into_patches(picture, 2)[0].tolist() == expected


def test_embedded_patches_are_a_convolution_whose_stride_is_its_kernel():
    pictures = torch.randn(B, C, 6, 10)
    expected = F.unfold(pictures, 2, stride=2).mT
    assert_close(cut_into_patches(pictures, 2), expected)
    embed, theirs = PatchEmbedding(2, C, 15), nn.Conv2d(C, 15, 2, stride=2)
    with torch.no_grad():
        theirs.weight.copy_(embed.projection.weight.view_as(theirs.weight))
        theirs.bias.copy_(embed.projection.bias)
    assert_close(embed(pictures), theirs(pictures).flatten(2).mT)


# The classifier


def test_hidden_tokens_are_neither_added_nor_counted():
    x = torch.tensor([[[1.0], [2.0], [6.0], [100.0]], [[1.0], [2.0], [3.0], [4.0]]])
    mask = torch.ones(2, 1, 1, 4, dtype=torch.bool)
    mask[0, ..., 3] = False
    assert mean_over_tokens(x, mask).tolist() == [[3.0], [2.5]]
    assert_close(mean_over_tokens(x), x.mean(1))


def test_the_mean_of_many_short_numbers_is_finite():
    x = torch.full((1, 4000, 2), 60.0, dtype=torch.float16)  # the sum overflows
    mask = torch.ones(1, 1, 1, 4000, dtype=torch.bool)
    mask[..., 3000:] = False
    assert_close(mean_over_tokens(x, mask), x[:, 0], rtol=0, atol=0)


def test_a_row_without_tokens_has_the_mean_zero():
    mask = torch.zeros(1, 1, 1, S, dtype=torch.bool)
    x = torch.full((B, S, D_MODEL), torch.inf)
    assert_close(mean_over_tokens(x, mask), torch.zeros(B, D_MODEL))


def test_the_classifier_is_its_parts_and_what_is_filled_up_changes_nothing(classifier):
    x = torch.randn(B, S, 3)
    read = classifier.encoder(classifier.embed(x))
    expected = classifier.output(read.mean(1))
    assert_close(classifier(x), expected)
    filled = F.pad(x, (0, 0, 0, 4), value=9.0)
    mask = (torch.arange(S + 4) < S).view(1, 1, 1, -1)
    assert_close(classifier(filled, mask), expected)


def test_without_positions_the_order_of_the_tokens_does_not_matter(classifier):
    x, order = torch.randn(B, S, 3), torch.randperm(S)
    expected, tokens = classifier(x), classifier.embed(x)
    shuffled = classifier.encoder(tokens[:, order])
    assert_close(shuffled, classifier.encoder(tokens)[:, order], rtol=0, atol=1e-12)
    assert_close(classifier(x[:, order]), expected, rtol=0, atol=1e-12)

    place = PositionalEncoding(D_MODEL, S, "learned")
    classifier.embed = nn.Sequential(classifier.embed, place)
    expected = classifier(x)
    assert (classifier(x.flip(1)) - expected).abs().max() > 1e-3
    with torch.no_grad():  # unless the positions are exchanged as the tokens are
        place.table.copy_(place.table[order])
    assert_close(classifier(x[:, order]), expected, rtol=0, atol=1e-12)


# Graphs


def test_the_mask_of_a_small_graph_is_its_edges_both_ways_and_the_diagonal():
    assert edge_mask([(0, 1), (2, 1)], 4)[0, 0].int().tolist() == [
        [1, 1, 0, 0],
        [1, 1, 1, 0],
        [0, 1, 1, 0],
        [0, 0, 0, 1],
    ]


@pytest.mark.parametrize("layers", [1, 2, 3])
def test_a_node_hears_exactly_those_as_many_edges_away_as_there_are_layers(layers):
    gather = GraphAttention(D_MODEL, H, layers)
    x = torch.randn(B, S, D_MODEL, requires_grad=True)
    found = gather(x, edge_mask(EDGES, S))
    for node, heard in ((0, range(layers + 1)), (6, [6])):
        (gradient,) = torch.autograd.grad(found[:, node].sum(), x, retain_graph=True)
        expected = [[other in heard for other in range(S)]] * B
        assert (gradient != 0).any(-1).tolist() == expected


def test_one_layer_is_the_attention_of_the_book_and_two_have_an_elu_between():
    gather, x = GraphAttention(D_MODEL, H, 2), torch.randn(B, S, D_MODEL)
    mask = edge_mask(EDGES, S)
    first, second = gather.layers
    between = F.elu(first(x, x, x, mask))
    assert_close(gather(x, mask), second(between, between, between, mask))


# Clouds


def test_every_cloud_lies_on_its_solid_up_to_noise():
    points, labels = random_clouds(97, 31, torch.Generator().manual_seed(1))
    again, _ = random_clouds(97, 31, torch.Generator().manual_seed(1))
    assert again.equal(points)
    assert points.shape == (97, 31, 3)
    assert labels.unique().tolist() == list(range(len(SHAPES)))
    away = points[labels == SHAPES.index("sphere")].norm(dim=-1)
    assert (away.std(1) < 0.04).all()  # as far from the middle as one another
    assert ((away.mean(1) > 0.75) & (away.mean(1) < 1.25)).all()
