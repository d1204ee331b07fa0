"""Wrong answers: code of functional.py, what a student wrote instead, and the message."""

# ruff: noqa: E501 (quoted code stays in one line)

SCORES = 'scores = torch.einsum("bhtd,bhsd->bhts", query, key) / query.shape[-1] ** 0.5'
SOFTMAX = "weights = torch.where(mask, scores, -torch.inf).softmax(-1)"
INNER = 'inner = (x @ weights["w_1.weight"].T + weights["w_1.bias"]).clamp(min=0)'
OUTER = 'return inner @ weights["w_2.weight"].T + weights["w_2.bias"]'
SUBLAYER = "return x + function(norm(x, weights))"
NORM = 'return x * weights["norm.weight"] + weights["norm.bias"]'
VARIANCE = "x = x * (x.square().mean(-1, keepdim=True) + 1e-5).rsqrt()"
FINAL = "return norm(x, weights)\n\n\ndef decoder"
TAKEN = """weights = part(named(model), "encoder")"""
LAST = "return norm(x, weights)\n\n\nclass Bag"
READ = "return multi_head_attention(x, memory, memory_mask, w, num_heads)"
ATTEND = "return multi_head_attention(x, x, mask, w, num_heads)"
LOOP = 'while layer := part(weights, f"layers.{i}"):'

# By piece, then by mistake.
MISTAKES = {
    "attention": {
        "no root": (
            SCORES,
            SCORES.removesuffix(" / query.shape[-1] ** 0.5"),
            "Which factor keeps the scores small",
        ),
        "root of the values": (
            SCORES,
            SCORES.replace("query.shape", "value.shape"),
            "Which factor keeps the scores small",
        ),
        "inverted mask": (
            SOFTMAX,
            SOFTMAX.replace("mask, scores, -torch.inf", "mask, -torch.inf, scores"),
            "True and False are exchanged.",
        ),
        "mask after softmax": (
            SOFTMAX,
            "weights = scores.softmax(-1) * mask",
            "What must the score of a hidden key be",
        ),
        "softmax over queries": (
            SOFTMAX,
            "weights = torch.where(mask, scores, -1e9).softmax(-2)",
            "sum to 1. Over which axis?",
        ),
    },
    "multi_head_attention": {
        "interleaved heads": (
            ".view(num_heads, -1, x.shape[-1])  # (H, D, C)",
            ".view(-1, num_heads, x.shape[-1]).transpose(0, 1)",
            "Head 0 owns the first d_model / num_heads features",
        ),
        "no bias": (
            'torch.einsum("btc,hdc->bhtd", x, matrix) + bias',
            'torch.einsum("btc,hdc->bhtd", x, matrix)',
            "Is each matrix used where its name says",
        ),
        "keys as values": (
            'v = project(memory, weights, "v", num_heads)',
            'v = project(memory, weights, "k", num_heads)',
            "Is each matrix used where its name says",
        ),
        "no mask": (
            "return merge(attention(q, k, v, mask), weights)",
            "return merge(attention(q, k, v, torch.tensor(True)), weights)",
            "Along which axes may it differ?",
        ),
        "one mask for all": (
            "return merge(attention(q, k, v, mask), weights)",
            "return merge(attention(q, k, v, mask[:1, :1]), weights)",
            "Along which axes may it differ?",
        ),
    },
    "padding_mask": {
        "inverted": (
            "tokens.ne(pad_id)",
            "tokens.eq(pad_id)",
            "True and False are exchanged.",
        ),
        "always 0": (
            "tokens.ne(pad_id)",
            "tokens.ne(0)",
            "Does your code use the argument `pad_id`?",
        ),
        "an axis is missing": (
            "[:, None, None, :]",
            "[:, None, :]",
            "must be (B, 1, 1, S), here (3, 1, 1, 5), and is (3, 1, 5).",
        ),
    },
    "causal_mask": {
        "no diagonal": (
            "steps[:, None] >= steps",
            "steps[:, None] > steps",
            "Is the diagonal open?",
        ),
        "other corner": (
            "steps[:, None] >= steps",
            "steps[:, None] <= steps",
            "Which corner is hidden?",
        ),
        "inverted": (
            "steps[:, None] >= steps",
            "steps[:, None] < steps",
            "True and False are exchanged.",
        ),
        "numbers": (
            "(steps[:, None] >= steps)[None, None]",
            "(steps[:, None] >= steps)[None, None].float()",
            "The dtype of mask must be torch.bool here",
        ),
    },
    "feed_forward": {
        "no ReLU": (INNER, INNER.replace(".clamp(min=0)", ""), "a ReLU between them"),
        "no first bias": (
            INNER,
            INNER.replace(' + weights["w_1.bias"]', ""),
            "a ReLU between them",
        ),
        "ReLU at the end": (
            OUTER,
            f"{OUTER.replace('return ', 'return (')}).clamp(min=0)",
            "a ReLU between them",
        ),
        "transposed": (
            INNER,
            INNER.replace('["w_1.weight"].T', '["w_1.weight"]'),
            "shapes cannot be multiplied",
        ),
    },
    "sublayer": {
        "post-norm": (
            SUBLAYER,
            "return norm(x + function(x), weights)",
            "what does the residual connection add to",
        ),
        "the residual carries the norm": (
            SUBLAYER,
            "x = norm(x, weights)\n    return x + function(x)",
            "what does the residual connection add to",
        ),
        "no norm": (
            SUBLAYER,
            "return x + function(x)",
            "Each position has its own mean",
        ),
        "variance of a sample": (
            VARIANCE,
            "x = x * (x.var(-1, keepdim=True) + 1e-5).rsqrt()",
            "The variance divides by n",
        ),
        "large eps": (
            VARIANCE,
            VARIANCE.replace("1e-5", "1e-3"),
            "The variance divides by n",
        ),
        "no shift": (
            NORM,
            'return x * weights["norm.weight"]',
            "Where do `norm.weight` and `norm.bias` enter?",
        ),
    },
    "encoder": {
        "no final norm": (
            FINAL,
            "return x\n\n\ndef decoder",
            "Does each sublayer use its own norm",
        ),
        "one norm for both": (
            'x = sublayer(x, forward, part(layer, "feed_forward_residual"))',
            'x = sublayer(x, forward, part(layer, "self_attention_residual"))',
            "Does each sublayer use its own norm",
        ),
        "no mask": (
            ATTEND,
            ATTEND.replace("mask", "torch.tensor(True)"),
            "Does every layer receive the mask?",
        ),
        "first layer again": (
            LOOP,
            'while layer := part(weights, f"layers.{i}") and part(weights, "layers.0"):',
            "Does the second layer use the weights",
        ),
        "layers by name": (
            "def layers(weights):\n    i = 0",
            'def layers(weights):\n    names = {name.split(".")[1] for name in weights if "layers" in name}\n    yield from (part(weights, f"layers.{i}") for i in sorted(names))\n    return\n    i = 0',
            "And the tenth comes after the ninth.",
        ),
    },
    "decoder": {
        "unmasked memory": (
            READ,
            READ.replace("memory_mask", "torch.tensor(True)"),
            "hidden from the encoder and also from whom?",
        ),
        "no causal mask": (
            "return merge(attention(q, k, v, mask), w)",
            "return merge(attention(q, k, v, torch.tensor(True)), w)",
            "the axes of target and target?",
        ),
        "self-attention again": (
            READ,
            READ.replace("memory, memory_mask", "x, torch.tensor(True)"),
            "which of them reads the memory",
        ),
        "normalised memory": (
            READ,
            f'memory_ = norm(memory, part(layer, "cross_attention_residual"))\n            {READ.replace("x, memory,", "x, memory_,")}',
            "is the memory normalised again?",
        ),
        "no residual in the last sublayer": (
            "        x = sublayer(\n            x,\n",
            "        x = sublayer(\n            0 * x,\n",
            "which of them reads the memory",
        ),
        "memory changes": (
            '        x = sublayer(x, read, part(layer, "cross_attention_residual"))',
            '        x = sublayer(x, read, part(layer, "cross_attention_residual"))\n        memory = memory + x.mean()',
            "What changes from layer to layer, x or the memory?",
        ),
    },
    "logits": {
        "no root": (
            "x = table[tokens] * width**0.5",
            "x = table[tokens]",
            "what does chapter 1 multiply it by?",
        ),
        "positions begin at 1": (
            "at = torch.arange(start, start + tokens.shape[1])[:, None]",
            "at = torch.arange(start + 1, start + tokens.shape[1] + 1)[:, None]",
            "Do sines and cosines alternate?",
        ),
        "concatenated sines": (
            "waves[:, 0::2], waves[:, 1::2] = angles.sin(), angles.cos()",
            "waves = torch.cat([angles.sin(), angles.cos()], 1)",
            "Do sines and cosines alternate?",
        ),
        "peeking": (
            "mask = causal_mask(tgt.shape[1])",
            "mask = torch.tensor(True)",
            "Does the model make the causal mask itself?",
        ),
        "padding of the source": (
            "hidden = padding_mask(src, model.config.pad_id)",
            "hidden = torch.tensor(True)",
            "Do both hide its padding?",
        ),
        "one final norm": (
            LAST,
            LAST.replace("norm(x, weights)", "x"),
            "Does each stack end in its own norm?",
        ),
        "weights of the other stack": (
            TAKEN,
            TAKEN.replace("encoder", "decoder"),
            "Do both stacks get their own weights",
        ),
        "a fixed number of heads": (
            'weights, num_heads = part(named(model), "decoder"), model.config.num_heads',
            'weights, num_heads = part(named(model), "decoder"), 2',
            "Is every size taken from the config?",
        ),
        "probabilities": (
            'return x @ named(model)["src_embedding.table.weight"].T',
            'return (x @ named(model)["src_embedding.table.weight"].T).log_softmax(-1)',
            "This is the log_softmax of the logits.",
        ),
    },
    "greedy": {
        "BOS returned": (
            "return written[1:]",
            "return written",
            "BOS is not returned.",
        ),
        "first row": (
            "torch.tensor([written]))[0, -1]",
            "torch.tensor([written]))[0, 0]",
            "what has the decoder read",
        ),
        "only the newest word": (
            "torch.tensor([written]))[0, -1]",
            "torch.tensor([written[-1:]]))[0, -1]",
            "what has the decoder read",
        ),
        "EOS returned": (
            "        if best == eos_id:\n            break\n        written.append(best)",
            "        written.append(best)\n        if best == eos_id:\n            break",
            "Do you compare the new word with `eos_id`?",
        ),
        "one word too few": (
            "while len(written) <= limit",
            "while len(written) < limit",
            "BOS",
        ),
        "endless": (
            "        if best == eos_id:\n            break\n        written.append(best)",
            "        written.append(best) if best != eos_id else None",
            "Does a loop end?",
        ),
    },
    "greedy_cached": {
        "position 0": ("start=len(written))", "start=0)", "and at which positions?"),
        "nothing kept": (
            "last = logits(model, src, tgt, memory, kept,",
            "last = logits(model, src, tgt, memory, {},",
            "what has the decoder read",
        ),
        "plain greedy": (
            "    memory, kept, last, written = remember(model, src), {}, bos_id, []",
            "    return greedy(model, src, bos_id, eos_id, limit)\n    memory, kept, last, written = remember(model, src), {}, bos_id, []",
            "Does a token enter the decoder twice",
        ),
        "the encoder runs again": (
            "last = logits(model, src, tgt, memory, kept,",
            "last = logits(model, src, tgt, None, kept,",
            "yours read 19.",
        ),
        "EOS returned": (
            "        if last == eos_id:\n            break\n        written.append(last.item())",
            "        written.append(last.item())\n        if last == eos_id:\n            break",
            "Do you compare the new word with `eos_id`?",
        ),
        "text": (
            "written.append(last.item())",
            "written.append(str(last.item()))",
            "Which row of the logits",
        ),
    },
}
