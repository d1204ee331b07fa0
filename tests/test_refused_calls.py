"""What a refused call leaves behind: nothing."""

import re

import pytest
import torch
from torch.utils._pytree import tree_map_only

from transformer_lib.data import Batch
from transformer_lib.faster import FastDecoder, LossScaler, ScaleConfig, step_at_scale
from transformer_lib.model import Transformer, TransformerConfig, padding_mask
from transformer_lib.training import TrainingConfig, load_weights, train_step
from transformer_lib.variants import DecoderAlone, ModernConfig

SIZES = {"d_model": 6, "num_heads": 2, "d_ff": 5, "num_layers": 2}
WRITER = ModernConfig(src_vocab_size=None, tgt_vocab_size=11, **SIZES)
SRC, TOKEN = torch.tensor([[3, 4, 5], [6, 7, 0]]), torch.tensor([[1], [1]])
MASK = padding_mask(SRC, 0)
NARROW = MASK[..., 1:]
PADDING = Batch(SRC, torch.tensor([[1, 0, 0], [1, 0, 0]]))
UNLIKE = Batch(SRC, torch.tensor([[1, 3, 4]]))


class Scene:
    """A model that has been trained for a step, and caches that hold a token."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = Transformer(TransformerConfig.base(11, **SIZES))
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=0.01)
        self.update(Batch(SRC, SRC))
        self.model.eval()
        self.fast, self.writer = FastDecoder(self.model), DecoderAlone(WRITER).eval()
        self.memory = self.model.encode(SRC)
        self.empty, self.cache = self.model.new_cache(), self.model.new_cache()
        self.quick, self.own = self.fast.new_cache(), self.writer.new_cache()
        self.step(self.memory)
        self.quick_step(self.memory)
        self.writer.decode(TOKEN, self.own)

    def step(self, memory, mask=MASK, token=TOKEN, cache=None):
        self.model.decode(token, memory, mask, cache or self.cache)

    def quick_step(self, memory, token=TOKEN):
        self.fast.decode(token, memory, MASK, self.quick)

    def interrupted(self):
        def stop(*_):
            raise KeyboardInterrupt

        self.model.decoder.layers[1].feed_forward.register_forward_hook(stop)
        self.step(self.memory)

    def load(self, value):
        changed = {"src_embedding.table.weight": torch.full((11, 6), value)}
        weights = dict(self.model.named_parameters()) | changed
        load_weights(self.model, weights, source="the file")

    def update(self, batch):
        train_step(self.model, self.optimizer, batch, 0.01, TrainingConfig())

    def full_update(self, batch):
        scaler = LossScaler(1, interval=0)
        step_at_scale(self.model, self.optimizer, [batch], 0.01, ScaleConfig(), scaler)

    def state(self):
        """Copy every tensor that the next call reads."""
        caches = self.cache, self.own, self.empty
        parts = [(kept.k, kept.v) for c in caches for both in c.layers for kept in both]
        known = self.model.state_dict(), self.optimizer.state_dict(), parts
        known += self.quick.length, self.quick.past
        return tree_map_only(torch.Tensor, lambda x: x.detach().clone(), known)


@pytest.mark.parametrize(
    ("error", "message", "call"),
    [
        (ValueError, "the memory that the cache", lambda s: s.step(s.memory + 0)),
        (TypeError, "mask must be bool", lambda s: s.step(s.memory, MASK.float())),
        (ValueError, "must broadcast", lambda s: s.step(s.memory, NARROW)),
        (ValueError, "broad", lambda s: s.step(s.memory, NARROW, TOKEN, s.empty)),
        (ValueError, "got 1 and 2", lambda s: s.step(s.memory, MASK, TOKEN[:1])),
        (ValueError, "one new position", lambda s: s.step(s.memory, MASK, SRC)),
        (KeyboardInterrupt, "", Scene.interrupted),
        (ValueError, "got 1 and 2", lambda s: s.writer.decode(TOKEN[:1], s.own)),
        (ValueError, "memory must be the one", lambda s: s.quick_step(s.memory + 0)),
        (ValueError, "got 1 and 2", lambda s: s.quick_step(s.memory, TOKEN[:1])),
        (ValueError, "tokens of the batch must", lambda s: s.update(PADDING)),
        (ValueError, "tokens of the batches must", lambda s: s.full_update(PADDING)),
        (ValueError, "src and tgt .* got 2 and 1", lambda s: s.update(UNLIKE)),
        (ValueError, "table.weight must be finite", lambda s: s.load(torch.nan)),
        (ValueError, "table.weight .* torch.int64", lambda s: s.load(1)),
        (TypeError, "src must be a tensor .* a list", lambda s: s.model([[3]], TOKEN)),
    ],
)
def test_a_refused_call_changes_nothing(error, message, call):
    scene = Scene()
    before = scene.state()
    with pytest.raises(error) as caught:
        call(scene)
    assert re.search(message, str(caught.value))
    torch.testing.assert_close(scene.state(), before, rtol=0, atol=0)
