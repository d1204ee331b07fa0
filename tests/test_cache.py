"""How the caches work; that nothing changes with them is in test_any_decoding."""

import torch
from torch.testing import assert_close

from transformer_lib.model import (
    CrossAttentionCache,
    MultiHeadAttention,
    SelfAttentionCache,
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
)

B, H, T, S, D_MODEL, PAD = 2, 3, 5, 7, 12, 0


def test_every_position_is_projected_once():
    attention, counts = MultiHeadAttention(D_MODEL, H), []
    x, memory = torch.randn(B, T, D_MODEL), torch.randn(B, S, D_MODEL)
    at_once = attention(x, x, -x, causal_mask(T)), attention(x, memory, -memory)
    attention.w_k.register_forward_pre_hook(
        lambda _, inputs: counts.append(inputs[0].size(1))
    )
    own, source = SelfAttentionCache(), CrossAttentionCache()
    steps = [attention(new, new, -new, cache=own) for new in x.split(1, dim=1)]
    assert_close(torch.cat(steps, dim=1), at_once[0])
    assert counts == [1] * T
    steps = [attention(x[:, [t]], memory, -memory, cache=source) for t in range(T)]
    assert_close(torch.cat(steps, dim=1), at_once[1])
    assert counts == [1] * T + [S]
    assert source.k.is_contiguous()  # since every later token reads it
    assert source.v.is_contiguous()


def test_rows_of_the_same_sentences_leave_what_is_kept_of_their_memory():
    sizes = {"d_model": D_MODEL, "num_heads": H, "d_ff": 17, "num_layers": 2}
    model = Transformer(TransformerConfig.base(19, **sizes)).eval()
    src, tgt = torch.randint(1, 19, (B, S)), torch.randint(1, 19, (B, 1))
    cache = model.new_cache()
    model.decode(tgt, model.encode(src), padding_mask(src, PAD), cache)
    own, source = cache.layers[0]
    before, newest = source.k, own.k
    cache.select(torch.tensor([1, 0]), same_memory=True)
    assert source.k is before
    assert own.k.equal(newest[[1, 0]])
