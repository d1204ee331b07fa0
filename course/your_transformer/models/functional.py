"""An unusual correct model: einsum over a flat dict of weights, and no layers."""

import torch
from torch import nn


def attention(query, key, value, mask):
    scores = torch.einsum("bhtd,bhsd->bhts", query, key) / query.shape[-1] ** 0.5
    weights = torch.where(mask, scores, -torch.inf).softmax(-1)
    return torch.einsum("bhts,bhsd->bhtd", weights, value)


def project(x, weights, name, num_heads):
    matrix = weights[f"w_{name}.weight"].view(num_heads, -1, x.shape[-1])  # (H, D, C)
    bias = weights[f"w_{name}.bias"].view(num_heads, 1, -1)
    return torch.einsum("btc,hdc->bhtd", x, matrix) + bias


def multi_head_attention(query, memory, mask, weights, num_heads):
    q = project(query, weights, "q", num_heads)
    k = project(memory, weights, "k", num_heads)
    v = project(memory, weights, "v", num_heads)
    return merge(attention(q, k, v, mask), weights)


def merge(found, weights):
    matrix = weights["w_o.weight"].view(-1, *found.shape[1::2])  # (C, H, D)
    return torch.einsum("bhtd,chd->btc", found, matrix) + weights["w_o.bias"]


def padding_mask(tokens, pad_id):
    return tokens.ne(pad_id)[:, None, None, :]


def causal_mask(size):
    steps = torch.arange(size)
    return (steps[:, None] >= steps)[None, None]


def feed_forward(x, weights):
    inner = (x @ weights["w_1.weight"].T + weights["w_1.bias"]).clamp(min=0)
    return inner @ weights["w_2.weight"].T + weights["w_2.bias"]


def norm(x, weights):
    x = x - x.mean(-1, keepdim=True)
    x = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()
    return x * weights["norm.weight"] + weights["norm.bias"]


def sublayer(x, function, weights):
    return x + function(norm(x, weights))


def part(weights, name):
    start = name + "."
    return {k.removeprefix(start): v for k, v in weights.items() if k.startswith(start)}


def layers(weights):
    i = 0
    while layer := part(weights, f"layers.{i}"):
        yield layer
        i += 1


def encoder(x, mask, weights, num_heads):
    for layer in layers(weights):
        own, feed = part(layer, "self_attention"), part(layer, "feed_forward")

        def attend(x, w=own):
            return multi_head_attention(x, x, mask, w, num_heads)

        def forward(x, w=feed):
            return feed_forward(x, w)

        x = sublayer(x, attend, part(layer, "self_attention_residual"))
        x = sublayer(x, forward, part(layer, "feed_forward_residual"))
    return norm(x, weights)


def decoder(x, memory, mask, memory_mask, weights, num_heads, kept=None):
    for number, layer in enumerate(layers(weights)):
        own, cross = part(layer, "self_attention"), part(layer, "cross_attention")
        feed = part(layer, "feed_forward")

        def attend(x, w=own, number=number):
            q, k, v = (project(x, w, name, num_heads) for name in "qkv")
            if kept is not None:
                if number in kept:
                    k = torch.cat([kept[number][0], k], 2)
                    v = torch.cat([kept[number][1], v], 2)
                kept[number] = k, v
            return merge(attention(q, k, v, mask), w)

        def read(x, w=cross):
            return multi_head_attention(x, memory, memory_mask, w, num_heads)

        x = sublayer(x, attend, part(layer, "self_attention_residual"))
        x = sublayer(x, read, part(layer, "cross_attention_residual"))
        x = sublayer(
            x,
            lambda x, w=feed: feed_forward(x, w),
            part(layer, "feed_forward_residual"),
        )
    return norm(x, weights)


class Bag(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.config = config
        self.names = {}
        self.numbers = nn.ParameterList()


def build(config):
    return Bag(config)


def load(model, weights):
    for name, value in weights.items():
        model.names[name] = len(model.numbers)
        model.numbers.append(nn.Parameter(value))


def named(model):
    return {name: model.numbers[i] for name, i in model.names.items()}


def embed(model, tokens, start=0):
    table = named(model)["src_embedding.table.weight"]
    width = table.shape[1]
    x = table[tokens] * width**0.5
    x = x * (tokens != model.config.pad_id)[..., None]
    at = torch.arange(start, start + tokens.shape[1])[:, None]
    angles = at / 10_000 ** (torch.arange(0, width, 2) / width)
    waves = torch.zeros(len(at), width)
    waves[:, 0::2], waves[:, 1::2] = angles.sin(), angles.cos()
    return x + waves.to(x)


def remember(model, src):
    mask = padding_mask(src, model.config.pad_id)
    weights = part(named(model), "encoder")
    return encoder(embed(model, src), mask, weights, model.config.num_heads)


def logits(model, src, tgt, memory=None, kept=None, start=0):
    memory = remember(model, src) if memory is None else memory
    hidden = padding_mask(src, model.config.pad_id)
    mask = causal_mask(tgt.shape[1])
    if kept is not None:
        mask = torch.tensor(True)
    weights, num_heads = part(named(model), "decoder"), model.config.num_heads
    x = embed(model, tgt, start)
    x = decoder(x, memory, mask, hidden, weights, num_heads, kept)
    return x @ named(model)["src_embedding.table.weight"].T


def greedy(model, src, bos_id, eos_id, limit):
    written = [bos_id]
    while len(written) <= limit:
        best = logits(model, src, torch.tensor([written]))[0, -1].argmax().item()
        if best == eos_id:
            break
        written.append(best)
    return written[1:]


def greedy_cached(model, src, bos_id, eos_id, limit):
    memory, kept, last, written = remember(model, src), {}, bos_id, []
    while len(written) < limit:
        tgt = torch.tensor([[last]])
        last = logits(model, src, tgt, memory, kept, start=len(written))[0, 0].argmax()
        if last == eos_id:
            break
        written.append(last.item())
    return written
