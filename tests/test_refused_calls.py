"""What a refused call leaves behind: nothing."""

import re
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.utils._pytree import tree_map_only

from transformer_lib.data import Batch
from transformer_lib.faster import FastDecoder, FullConfig, LossScaler, full_step
from transformer_lib.model import Transformer, TransformerConfig, padding_mask
from transformer_lib.swapped import Swapped
from transformer_lib.training import (
    TrainingConfig,
    load_weights,
    train_step,
)
from transformer_lib.variants import DecoderAlone, ModernConfig

CONFIG = TransformerConfig.base(11, d_model=6, num_heads=2, d_ff=5, num_layers=2)
SRC = torch.tensor([[3, 4, 5], [6, 7, 0]])
TOKEN = torch.tensor([[1], [1]])
MASK = padding_mask(SRC, 0)
WRITER = ModernConfig(
    src_vocab_size=None, tgt_vocab_size=11, d_model=6, num_heads=2, d_ff=5, num_layers=2
)
PADDING = Batch(SRC, torch.tensor([[1, 0, 0], [1, 0, 0]]))
UNLIKE = Batch(SRC, torch.tensor([[1, 3, 4]]))


class Scene(SimpleNamespace):
    """A model that has been trained for a step, and caches that hold a token."""

    def __init__(self):
        torch.manual_seed(0)
        model, writer = Transformer(CONFIG), DecoderAlone(WRITER).eval()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        train_step(model, optimizer, Batch(SRC, SRC), 0.01, TrainingConfig())
        model.eval()
        fast, memory = FastDecoder(model), model.encode(SRC).detach()
        cache, quick, alone = model.new_cache(), fast.new_cache(), writer.new_cache()
        model.decode(TOKEN, memory, MASK, cache)
        fast.decode(TOKEN, memory, MASK, quick)
        writer.decode(TOKEN, alone)
        super().__init__(**{k: v for k, v in locals().items() if k != "self"})
        self.new = model.new_cache()
        self.weights = dict(model.named_parameters())

    def step(self, memory=None, mask=MASK, token=TOKEN, cache=None):
        memory = self.memory if memory is None else memory
        self.model.decode(token, memory, mask, cache or self.cache)

    def quick_step(self, memory=None, token=TOKEN):
        memory = self.memory if memory is None else memory
        self.fast.decode(token, memory, MASK, self.quick)

    def interrupted(self):
        def stop(*_):
            raise KeyboardInterrupt

        self.model.decoder.layers[1].feed_forward.register_forward_hook(stop)
        self.step()

    def load(self, **changed):
        load_weights(self.model, {**self.weights, **changed}, source="the file")

    def update(self, batch):
        train_step(self.model, self.optimizer, batch, 0.01, TrainingConfig())

    def full_update(self, batch):
        parts, scaler = [batch], LossScaler(1, interval=0)
        full_step(self.model, self.optimizer, parts, 0.01, FullConfig(), scaler)

    def state(self):
        """Copy every tensor that the next call reads."""
        caches = [
            [(part.k, part.v) for layer in cache.layers for part in layer]
            for cache in (self.cache, self.alone, self.new)
        ]
        quick = [self.quick.length, self.quick.past]
        known = self.model.state_dict(), self.optimizer.state_dict(), caches, quick
        return tree_map_only(torch.Tensor, lambda x: x.detach().clone(), known)


def bad(value):
    return {"src_embedding.table.weight": torch.full((11, 6), value)}


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda s: s.step(s.memory + 0), ValueError, "the memory that the cache was"),
        (lambda s: s.step(mask=MASK.float()), TypeError, "mask must be boolean"),
        (lambda s: s.step(mask=MASK[..., 1:]), ValueError, "must broadcast to"),
        (lambda s: s.step(mask=MASK[..., 1:], cache=s.new), ValueError, "broadcast to"),
        (lambda s: s.step(token=TOKEN[:1]), ValueError, "as many sentences .* 1 and 2"),
        (lambda s: s.step(token=SRC), ValueError, "must be one new position"),
        (lambda s: s.interrupted(), KeyboardInterrupt, ""),
        (lambda s: s.writer.decode(TOKEN[:1], s.alone), ValueError, "got 1 and 2"),
        (lambda s: s.quick_step(s.memory + 0), ValueError, "memory must be the one"),
        (lambda s: s.quick_step(token=TOKEN[:1]), ValueError, "rows as .* 1 and 2"),
        (lambda s: s.update(PADDING), ValueError, "target tokens of the batch must"),
        (lambda s: s.full_update(PADDING), ValueError, "target tokens of the batches"),
        (lambda s: s.update(UNLIKE), ValueError, "src and tgt .* got 2 and 1"),
        (
            lambda s: s.load(**bad(torch.nan)),
            ValueError,
            "table.weight must be finite",
        ),
        (lambda s: s.load(**bad(1)), ValueError, "table.weight .* torch.int64"),
        (lambda s: s.load(**bad(True)), ValueError, "table.weight .* torch.bool"),
        (
            lambda s: Swapped([(s.model.output, "weight", nn.Parameter(SRC * 1.0))]),
            ValueError,
            "weight of a Linear must be a plain attribute",
        ),
        (
            lambda s: Swapped([(s.model, "target_mask", len)] * 2),
            ValueError,
            "target_mask of a Transformer must be replaced once, got twice",
        ),
        (lambda s: s.model([[3]], TOKEN), TypeError, "src must be a tensor .* a list"),
    ],
)
def test_a_refused_call_changes_nothing(call, error, message):
    scene = Scene()
    before = scene.state()
    with pytest.raises(error) as caught:
        call(scene)
    assert re.search(message, str(caught.value))
    torch.testing.assert_close(scene.state(), before, rtol=0, atol=0)
