import math
from dataclasses import asdict, replace
from itertools import pairwise

import pytest
import torch
from torch import nn

from transformer_lib.faster.precision import (
    PRECISIONS,
    LossScaler,
    autocast,
    checkpoint_layers,
)
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.variants import DecoderAlone, ModernConfig

CPU = torch.device("cpu")
MODEL = TransformerConfig.base(
    11, d_model=4, num_heads=2, d_ff=5, num_layers=3, dropout=0.2, max_len=16
)
SRC, TGT = torch.tensor([[3, 4, 5, 2], [6, 2, 0, 0]]), torch.tensor([[1, 7], [1, 8]])
FINE, LOST = torch.tensor(1.0), torch.tensor(math.inf)


# -- Types -----------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
def test_products_have_the_type_that_was_chosen_and_weights_keep_theirs(precision):
    layer = nn.Linear(4, 3, dtype=torch.float32)
    with autocast(CPU, precision):
        product = layer(torch.randn(2, 4, dtype=torch.float32))
    assert product.dtype == getattr(torch, precision)
    assert layer.weight.dtype == torch.float32


def test_float32_leaves_other_types_as_they_are():
    with autocast(CPU, "float32"):
        assert (
            nn.Linear(4, 3, dtype=torch.float64)(torch.ones(4)).dtype is torch.float64
        )


# -- Loss scaling ----------------------------------------------------------------------


def test_every_factor_and_every_update_are_those_of_torch():
    ours = nn.Linear(6, 3, dtype=torch.float32)
    theirs = nn.Linear(6, 3, dtype=torch.float32)
    theirs.load_state_dict(ours.state_dict())
    optimizers = [torch.optim.SGD(layer.parameters(), 0.1) for layer in (ours, theirs)]
    scaler = LossScaler(2.0**20, interval=3)
    torchs = torch.amp.GradScaler("cpu", init_scale=2.0**20, growth_interval=3)
    factors = []
    for step in range(24):
        x = torch.randn(5, 6, dtype=torch.float32) * (300 if step in (9, 15, 16) else 1)
        for layer, optimizer in zip((ours, theirs), optimizers, strict=True):
            optimizer.zero_grad()
            with autocast(CPU, "float16"):
                loss = layer(x).float().square().mean()
            if layer is ours:
                scaler.scale(loss).backward()
                scaler.unscale(layer.parameters())
                norm = nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
                if scaler.update(norm):
                    optimizer.step()
            else:
                torchs.scale(loss).backward()
                torchs.unscale_(optimizer)
                nn.utils.clip_grad_norm_(layer.parameters(), 0.5)
                torchs.step(optimizer)
                torchs.update()
        assert scaler.factor == torchs.get_scale()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b)
        factors.append(scaler.factor)
    assert any(before < after for before, after in pairwise(factors))
    assert 3 < scaler.skipped < 20


def test_it_begins_and_grows_as_torchs_unless_told_otherwise():
    scaler, torchs = LossScaler(), torch.amp.GradScaler("cpu")
    assert scaler.factor == torchs.get_scale()
    assert scaler.interval == torchs.get_growth_interval()


def test_the_factor_by_hand():
    scaler, factors = LossScaler(8, interval=2), []
    for norm in (LOST, FINE, FINE, FINE, LOST, FINE, FINE, FINE):
        assert scaler.update(norm) is (norm is FINE)
        factors.append(scaler.factor)
    assert factors == [4, 4, 8, 8, 4, 4, 8, 8]
    assert scaler.skipped == 2


def test_a_factor_of_1_refuses_what_is_not_finite():
    off, fallen = LossScaler(1, interval=0), LossScaler(2)
    assert off.update(FINE)
    assert not fallen.update(torch.tensor(math.nan))
    for scaler in (off, fallen):
        with pytest.raises(ValueError, match="gradient_norm must be finite, got inf"):
            scaler.update(LOST)
        assert scaler.factor == 1
    assert (off.skipped, fallen.skipped) == (0, 1)


# -- Activations -----------------------------------------------------------------------


def gradients(model, enabled, precision="float32"):
    """One pass and its gradients, with the random numbers of one seed."""
    model.zero_grad()
    torch.manual_seed(7)
    with autocast(CPU, precision), checkpoint_layers(model, enabled):
        logits = model(SRC, TGT)
    logits.square().mean().backward()
    grads = [parameter.grad.clone() for parameter in model.parameters()]
    return logits.detach(), grads, torch.rand(1)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("alone", [False, True])
def test_checkpointing_changes_no_bit_with_dropout_too(alone, precision):
    more = {"attention_dropout": 0.3, "feed_forward_dropout": 0.3}
    model = Transformer(replace(MODEL, **more))
    if alone:
        choices = asdict(MODEL) | more
        choices |= {"src_vocab_size": None, "share_embeddings": False}
        model = DecoderAlone(ModernConfig(**choices))
        model.forward = lambda src, tgt: DecoderAlone.forward(model, tgt)
    model.train().float()
    one, other = gradients(model, False, precision), gradients(model, True, precision)
    assert torch.equal(one[0], other[0])
    assert all(map(torch.equal, one[1], other[1]))
    assert torch.equal(one[2], other[2])  # the random numbers go on the same


def kept(model, enabled):
    """Count the numbers that autograd keeps, those of the parameters aside."""
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    sizes = {}

    def pack(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = len(storage), tensor
        return tensor

    hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor)
    with hooks, checkpoint_layers(model, enabled):
        model(SRC, TGT)
    return sum(size for size, _ in sizes.values())


def test_less_is_kept_and_the_more_layers_the_more_is_saved():
    few, many = (Transformer(replace(MODEL, num_layers=n)).train() for n in (2, 6))
    assert kept(few, True) < 0.5 * kept(few, False)
    assert kept(many, True) / kept(many, False) < kept(few, True) / kept(few, False)


def test_afterwards_every_layer_is_as_it_was_even_after_an_error():
    model = Transformer(MODEL)
    before = {name: set(vars(module)) for name, module in model.named_modules()}
    with pytest.raises(RuntimeError, match="stop"), checkpoint_layers(model):  # noqa: PT012
        assert "forward" in vars(model.encoder.layers[0])
        assert "forward" in vars(model.decoder.layers[2])
        raise RuntimeError("stop")
    assert {n: set(vars(module)) for n, module in model.named_modules()} == before


def test_without_it_nothing_is_touched():
    model = Transformer(MODEL)
    with checkpoint_layers(model, enabled=False):
        assert all("forward" not in vars(module) for module in model.modules())
