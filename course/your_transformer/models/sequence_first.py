"""An unusual correct model: sequence first, fused projections, torch's own attention.

``nn.MultiheadAttention`` keeps one matrix for queries, keys and values, and its masks
mean the opposite.
"""

import math

import torch
from torch import nn
from torch.nn import functional as F


def attention(query, key, value, mask):
    return F.scaled_dot_product_attention(query, key, value, mask)


def fused(weights, num_heads, like):
    """Make torch's layer from the weights of the book, for one call."""
    layer = nn.MultiheadAttention(like.size(-1), num_heads, dtype=like.dtype)
    with torch.no_grad():
        for kind in "weight", "bias":
            three = torch.cat([weights[f"w_{name}.{kind}"] for name in "qkv"])
            getattr(layer, f"in_proj_{kind}").copy_(three)
            getattr(layer.out_proj, kind).copy_(weights[f"w_o.{kind}"])
    return layer


def torch_attention(layer, query, key, value, mask):
    """Call torch's layer with the book's mask; the axes are (T, B, d_model)."""
    shape = query.size(1), layer.num_heads, len(query), len(key)
    hidden = ~mask.expand(shape).flatten(0, 1)
    return layer(query, key, value, attn_mask=hidden, need_weights=False)[0]


def turn(*tensors):
    return [each.transpose(0, 1) for each in tensors]


def multi_head_attention(query, memory, mask, weights, num_heads):
    layer = fused(weights, num_heads, query)
    query, memory = turn(query, memory)
    return torch_attention(layer, query, memory, memory, mask).transpose(0, 1)


def padding_mask(tokens, pad_id):
    return (tokens - pad_id).bool().unsqueeze(1).unsqueeze(1)


def causal_mask(size):
    return ~torch.ones(1, 1, size, size, dtype=torch.bool).triu(1)


def feed_forward(x, weights):
    x = F.linear(x, weights["w_1.weight"], weights["w_1.bias"])
    return F.linear(F.relu(x), weights["w_2.weight"], weights["w_2.bias"])


def sublayer(x, function, weights):
    scale, shift = weights["norm.weight"], weights["norm.bias"]
    return x + function(F.layer_norm(x, x.shape[-1:], scale, shift))


class Block(nn.Module):
    """A layer of either stack; the decoder's also reads the memory."""

    def __init__(self, width, heads, inner, reads):
        super().__init__()
        self.own = nn.MultiheadAttention(width, heads)
        self.cross = nn.MultiheadAttention(width, heads) if reads else None
        self.net = nn.Sequential(
            nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, width)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 + reads))

    def forward(self, x, mask, memory=None, memory_mask=None, past=None):
        y = self.norms[0](x)
        context = y if past is None else torch.cat([*past, y])  # (T so far, B, d_model)
        if past is not None:
            past.append(y)
        x = x + torch_attention(self.own, y, context, context, mask)
        if self.cross is not None:
            y = self.norms[1](x)
            x = x + torch_attention(self.cross, y, memory, memory, memory_mask)
        return x + self.net(self.norms[-1](x))

    def take(self, weights):
        attentions = {"self_attention": self.own}
        if self.cross is not None:
            attentions["cross_attention"] = self.cross
        for name, attention in attentions.items():
            for kind in "weight", "bias":
                three = [weights[f"{name}.w_{x}.{kind}"] for x in "qkv"]
                getattr(attention, f"in_proj_{kind}").copy_(torch.cat(three))
                out = weights[f"{name}.w_o.{kind}"]
                getattr(attention.out_proj, kind).copy_(out)
        for name, norm in zip([*attentions, "feed_forward"], self.norms, strict=True):
            norm.weight.copy_(weights[f"{name}_residual.norm.weight"])
            norm.bias.copy_(weights[f"{name}_residual.norm.bias"])
        for i, name in (0, "w_1"), (2, "w_2"):
            self.net[i].weight.copy_(weights[f"feed_forward.{name}.weight"])
            self.net[i].bias.copy_(weights[f"feed_forward.{name}.bias"])


class Stack(nn.Module):
    def __init__(self, width, heads, inner, count, reads):
        super().__init__()
        self.blocks = nn.ModuleList(
            Block(width, heads, inner, reads) for _ in range(count)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, x, *rest, pasts=None):
        for i, block in enumerate(self.blocks):
            x = block(x, *rest, past=None if pasts is None else pasts[i])
        return self.norm(x)

    @torch.no_grad()
    def take(self, weights):
        for i, block in enumerate(self.blocks):
            start = f"layers.{i}."
            own = {
                k[len(start) :]: v for k, v in weights.items() if k.startswith(start)
            }
            block.take(own)
        self.norm.weight.copy_(weights["norm.weight"])
        self.norm.bias.copy_(weights["norm.bias"])


def stack(weights, num_heads, reads):
    inner, width = weights["layers.0.feed_forward.w_1.weight"].shape
    count = sum(name.endswith("w_1.bias") for name in weights)
    made = Stack(width, num_heads, inner, count, reads)
    made.take(weights)
    return made


def encoder(x, mask, weights, num_heads):
    made = stack(weights, num_heads, reads=False)
    return made(x.transpose(0, 1), mask).transpose(0, 1)


def decoder(x, memory, mask, memory_mask, weights, num_heads):
    x, memory = turn(x, memory)
    made = stack(weights, num_heads, reads=True)
    return made(x, mask, memory, memory_mask).transpose(0, 1)


class Model(nn.Module):
    def __init__(self, config):
        super().__init__()
        sizes = config.d_model, config.num_heads, config.d_ff, config.num_layers
        self.pad_id = config.pad_id
        self.table = nn.Parameter(torch.empty(config.src_vocab_size, config.d_model))
        self.left, self.right = Stack(*sizes, False), Stack(*sizes, True)
        at = torch.arange(config.max_len)[:, None]
        step = torch.arange(0, config.d_model, 2) * -math.log(10_000) / config.d_model
        waves = [(at * step.exp()).sin(), (at * step.exp()).cos()]
        self.register_buffer("waves", torch.stack(waves, 2).flatten(1))

    def embed(self, ids, start=0):
        ids = ids.T  # (T, B)
        x = self.table[ids] * math.sqrt(self.table.size(1))
        x = torch.where((ids == self.pad_id)[..., None], 0.0, x)
        return x + self.waves[start : start + len(ids), None]

    def remember(self, src):
        return self.left(self.embed(src), padding_mask(src, self.pad_id))

    def score(self, tgt, src, memory, pasts=None):
        start = len(pasts[0]) if pasts is not None else 0
        one = torch.ones(1, 1, 1, 1, dtype=torch.bool)
        mask = causal_mask(tgt.size(1)) if pasts is None else one
        x, hidden = self.embed(tgt, start), padding_mask(src, self.pad_id)
        x = self.right(x, mask, memory, hidden, pasts=pasts)
        return F.linear(x, self.table).transpose(0, 1)


def build(config):
    return Model(config)


def load(model, weights):
    with torch.no_grad():
        model.table.copy_(weights["src_embedding.table.weight"])
    for name, stack in ("encoder", model.left), ("decoder", model.right):
        start = name + "."
        stack.take(
            {k[len(start) :]: v for k, v in weights.items() if k.startswith(start)}
        )


def logits(model, src, tgt):
    return model.score(tgt, src, model.remember(src))


def greedy(model, src, bos_id, eos_id, limit):
    memory, tgt = model.remember(src), src.new_tensor([[bos_id]])
    for _ in range(limit):
        best = model.score(tgt, src, memory)[:, -1:].argmax(-1)
        if best == eos_id:
            break
        tgt = torch.cat([tgt, best], 1)
    return tgt[0, 1:].tolist()


def greedy_cached(model, src, bos_id, eos_id, limit):
    memory, written = model.remember(src), []
    pasts = [[] for _ in model.right.blocks]
    last = src.new_tensor([[bos_id]])
    for _ in range(limit):
        last = model.score(last, src, memory, pasts).argmax(-1)
        if last == eos_id:
            break
        written.append(last.item())
    return written
