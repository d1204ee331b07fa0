from copy import deepcopy
from dataclasses import asdict

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from transformer_lib.data import make_batch
from transformer_lib.decoding import greedy_decode
from transformer_lib.faster.fast_decoder import FastDecoder, why_unsupported
from transformer_lib.faster.pruning import (
    feature_sizes,
    features_of,
    losses_without_heads,
    matrices,
    prune_smallest,
    remove_features,
    remove_heads,
    shrink,
)
from transformer_lib.model import (
    FeedForward,
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
)
from transformer_lib.training import evaluate, load_model, save_model
from transformer_lib.variants import (
    FAMILIES,
    ModernConfig,
    ModernTransformer,
    RotaryAttention,
)

CONFIG = TransformerConfig(
    src_vocab_size=17,
    tgt_vocab_size=13,
    d_model=30,
    num_heads=5,
    d_ff=11,
    num_layers=2,
    max_len=16,
    dropout=0.1,
    activation="gelu",  # which is negative, too
)
PAIRS = [([3, 4, 5], [6, 7]), ([8], [9, 10, 11, 12])]


@pytest.fixture
def model():
    torch.manual_seed(7)
    model = Transformer(CONFIG).double().eval()
    for parameter in model.parameters():  # biases that do something
        nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture
def batches():
    return [make_batch([pair]) for pair in PAIRS]


def values(model):
    return {name: weight.clone() for name, weight in model.state_dict().items()}


# -- Zeros -----------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_the_share_that_was_asked_for_is_zero_and_no_larger_weight_is(model, share):
    before = [weight.detach().clone() for weight in matrices(model)]
    limit = prune_smallest(model, share)
    zeros = sum((weight == 0).sum().item() for weight in matrices(model))
    count = sum(weight.numel() for weight in before)
    assert zeros == round(share * count)
    for old, new in zip(before, matrices(model), strict=True):
        kept = torch.where(old.abs() > limit, old, 0.0)
        assert_close(new.detach(), kept, rtol=0, atol=0)


@pytest.mark.parametrize("share", [0.01, 0.5])
def test_no_more_than_the_share_becomes_zero_where_weights_are_equal(model, share):
    with torch.no_grad():
        for weight in matrices(model):
            weight.fill_(-2.0)
    assert prune_smallest(model, share) == 2
    zeros = torch.cat([weight.flatten() == 0 for weight in matrices(model)])
    count = round(share * len(zeros))
    assert zeros.sum() == count
    assert zeros[:count].all()


def test_tables_biases_norms_and_the_output_stay(model):
    before = values(model)
    prune_smallest(model, 0.9)
    changed = {n for n, old in before.items() if not old.equal(model.state_dict()[n])}
    assert changed == {
        name
        for name, weight in before.items()
        if weight.dim() == 2 and ".layers." in name
    }


# -- Removing --------------------------------------------------------------------------


def silenced(attention, heads):
    """Make a copy that computes these heads and does not read them."""
    copy = deepcopy(attention)
    with torch.no_grad():
        copy.w_o.weight[:, features_of(attention, heads)] = 0.0
    return copy


@pytest.mark.parametrize("heads", [[], [3, 1], [4, 4], [0, 1, 2, 3]])
@pytest.mark.parametrize("bias", [True, False])
def test_without_a_head_attention_gives_what_it_gave_with_the_head_silenced(
    heads, bias
):
    torch.manual_seed(1)
    attention = MultiHeadAttention(15, 5, bias=bias).double()
    query = torch.randn(2, 3, 15, dtype=torch.float64)
    memory = torch.randn(2, 7, 15, dtype=torch.float64)
    expected = silenced(attention, heads)(query, memory, memory)
    remove_heads(attention, heads)
    assert attention.num_heads == 5 - len(set(heads))
    assert attention.w_v.weight.shape == (3 * attention.num_heads, 15)
    assert attention.w_v.out_features == attention.w_o.in_features
    assert_close(attention(query, memory, memory), expected)


def test_without_a_feature_the_network_gives_what_it_gave_with_it_silenced():
    torch.manual_seed(2)
    layer = FeedForward(5, 11, activation="gelu").double()
    gone, x = torch.tensor([2, 7, 10]), torch.randn(2, 3, 5, dtype=torch.float64)
    with torch.no_grad():
        copy = deepcopy(layer)
        copy.w_2.weight[:, gone] = 0.0
    remove_features(layer, gone)
    assert layer.w_1.weight.shape == (8, 5)
    assert (layer.w_1.out_features, layer.w_2.in_features) == (8, 8)
    assert_close(layer(x), copy(x))


def test_frozen_weights_stay_frozen():
    attention = MultiHeadAttention(6, 3)
    attention.w_q.requires_grad_(False)
    remove_heads(attention, [1])
    frozen = {n for n, p in attention.named_parameters() if not p.requires_grad}
    assert frozen == {"w_q.weight", "w_q.bias"}


def test_rotary_attention_with_keys_for_each_head_may_lose_heads():
    attention = RotaryAttention(12, 3, 3, max_len=7).double()
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    expected = silenced(attention, [1])(x, x, x)
    remove_heads(attention, [1])
    assert_close(attention(x, x, x), expected)


def test_heads_or_features_that_are_not_there_or_all_are_refused_and_stay():
    attention, layer = MultiHeadAttention(6, 3), FeedForward(5, 11)
    for heads, error in ([3], IndexError), ([0, 1, 2], ValueError):
        with pytest.raises(error):
            remove_heads(attention, heads)
    for features, error in ([11], IndexError), (range(11), ValueError):
        with pytest.raises(error):
            remove_features(layer, torch.tensor(features))
    assert attention.w_q.weight.shape == (6, 6)
    assert layer.w_1.weight.shape == (11, 5)


# -- Ranking ---------------------------------------------------------------------------


def test_the_loss_without_each_head_is_that_of_the_silenced_model(model, batches):
    before = values(model)
    found = losses_without_heads(model, batches)
    layers = [n for n, m in model.named_modules() if isinstance(m, MultiHeadAttention)]
    assert {n: len(losses) for n, losses in found.items()} == dict.fromkeys(layers, 5)
    name = "decoder.layers.1.cross_attention"
    copy = deepcopy(model)
    copy.decoder.layers[1].cross_attention = silenced(copy.get_submodule(name), [3])
    assert found[name][3] == pytest.approx(evaluate(copy, batches)[0], abs=1e-12)
    assert all(old.equal(model.state_dict()[n]) for n, old in before.items())


def test_an_interrupted_ranking_leaves_the_model_as_it_was(model, batches):
    class Impatient(list):
        def __iter__(self):
            if not model.encoder.layers[0].self_attention.w_o.weight[:, 6:12].any():
                raise KeyboardInterrupt
            return super().__iter__()

    before = values(model)
    with pytest.raises(KeyboardInterrupt):
        losses_without_heads(model, Impatient(batches))
    assert all(old.equal(model.state_dict()[n]) for n, old in before.items())


def test_the_size_of_a_feature_by_hand(model, batches):
    name, inner = "encoder.layers.1.feed_forward", []
    layer = model.get_submodule(name)
    hook = layer.w_2.register_forward_pre_hook(lambda _, given: inner.append(given[0]))
    evaluate(model, batches)
    hook.remove()
    sums = sum(x.abs().sum(dim=(0, 1)) for x in inner)
    lengths = layer.w_2.weight.square().sum(dim=0).sqrt()
    found = feature_sizes(model, batches)
    assert_close(found[name], (sums * lengths).detach())
    assert len(found) == 4
    hooks = [m for m in model.modules() if m._forward_pre_hooks]
    assert hooks == []


# -- Smaller models --------------------------------------------------------------------


def test_the_heads_missed_most_and_the_largest_features_stay(model, batches):
    losses, sizes = losses_without_heads(model, batches), feature_sizes(model, batches)
    smaller = shrink(model, num_heads=2, d_ff=7, batches=batches)
    expected = deepcopy(model)
    with torch.no_grad():
        for name, found in losses.items():
            gone = sorted(range(5), key=found.__getitem__)[:3]
            attention = expected.get_submodule(name)
            attention.w_o.weight[:, features_of(attention, gone)] = 0.0
        for name, found in sizes.items():
            gone = sorted(range(11), key=found.tolist().__getitem__)[:4]
            expected.get_submodule(name).w_2.weight[:, gone] = 0.0
    src, tgt = batches[1]
    assert_close(smaller(src, tgt), expected(src, tgt))
    assert not smaller.training


def test_a_smaller_model_has_a_configuration_that_builds_it(model, batches, tmp_path):
    before = values(model)
    smaller = shrink(model, num_heads=2, d_ff=7, batches=batches)
    config = smaller.config
    assert (config.num_heads, config.d_k, config.d_ff) == (2, 6, 7)
    again = shrink(smaller, num_heads=1, d_ff=5, batches=batches)
    assert (again.config.num_heads, again.config.d_k) == (1, 6)
    save_model(tmp_path / "model", smaller)
    torch.set_default_dtype(torch.float64)
    loaded = load_model(tmp_path / "model", FAMILIES)
    torch.set_default_dtype(torch.float32)
    assert loaded.config == config
    src, tgt = batches[1]
    assert loaded(src, tgt).equal(smaller(src, tgt))
    assert model.config == CONFIG
    assert all(old.equal(model.state_dict()[n]) for n, old in before.items())


@pytest.mark.parametrize(("key_heads", "heads"), [(5, 2), (1, 5)])
def test_groups_of_one_stay_so_and_with_shared_keys_features_may_go(
    batches, tmp_path, key_heads, heads
):
    choices = asdict(CONFIG) | {"num_key_heads": key_heads, "positions": "rotary"}
    model = ModernTransformer(ModernConfig(**choices)).double().eval()
    smaller = shrink(model, num_heads=heads, d_ff=7, batches=batches)
    assert smaller.config.num_key_heads == min(key_heads, heads)
    save_model(tmp_path / "model", smaller)
    loaded = load_model(tmp_path / "model", FAMILIES)
    src, tgt = batches[1]
    assert loaded(src, tgt).equal(smaller(src, tgt))


def test_an_unevenly_pruned_model_writes_the_same_with_the_fast_decoder(model, batches):
    remove_heads(model.decoder.layers[0].self_attention, [0, 3])
    remove_heads(model.decoder.layers[1].cross_attention, [4])
    remove_features(model.decoder.layers[1].feed_forward, torch.tensor([1, 2]))
    assert why_unsupported(model) is None
    src, fast = batches[1].src, FastDecoder(model)
    assert greedy_decode(fast, src) == greedy_decode(model, src)
