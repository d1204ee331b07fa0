"""Attention by blocks as one kernel, in the language Triton.

It runs on an NVIDIA GPU. Without one, ``TRITON_INTERPRET=1`` in the environment before
the first import makes Triton's interpreter run it, in Python, to read and to test it.
"""

import math
import os

import torch
from torch import Tensor

from transformer_lib.checks import check_attention
from transformer_lib.faster.flash_attention import require_square

try:
    import triton
    import triton.language as tl
except ImportError as error:
    raise ImportError(
        "triton_attention needs the package triton, which exists for Linux only: "
        "pip install triton"
    ) from error


@triton.jit
def attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    output_ptr,
    queries,
    keys,
    scale,
    causal: tl.constexpr,
    block: tl.constexpr,
    d_k: tl.constexpr,
):
    """Do what ``attend_rows`` does, for one block of queries of one head."""
    head = tl.program_id(1)
    rows = tl.program_id(0) * block + tl.arange(0, block)  # (block)
    features = tl.arange(0, d_k)  # (d_k)
    at = (head * queries + rows[:, None]) * d_k + features  # (block, d_k)
    q = tl.load(q_ptr + at, mask=rows[:, None] < queries, other=0.0)  # (block, d_k)
    largest = tl.full((block,), -float("inf"), tl.float32)  # (block)
    total = tl.zeros((block,), tl.float32)  # (block)
    output = tl.zeros((block, d_k), tl.float32)  # (block, d_k)
    seen = tl.minimum(keys, (tl.program_id(0) + 1) * block) if causal else keys
    for start in range(0, seen, block):
        columns = start + tl.arange(0, block)  # (block)
        there = (head * keys + columns[:, None]) * d_k + features  # (block, d_k)
        k = tl.load(k_ptr + there, mask=columns[:, None] < keys, other=0.0)
        v = tl.load(v_ptr + there, mask=columns[:, None] < keys, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * scale  # (block, block)
        allowed = columns[None, :] < keys  # (1, block)
        if causal:
            allowed = allowed & (columns[None, :] <= rows[:, None])  # (block, block)
        scores = tl.where(allowed, scores, -float("inf"))  # (block, block)
        grown = tl.maximum(largest, tl.max(scores, 1))  # (block)
        correction = tl.exp(largest - grown)  # (block)
        weights = tl.exp(scores - grown[:, None])  # (block, block)
        total = total * correction + tl.sum(weights, 1)  # (block)
        output = output * correction[:, None] + tl.dot(weights, v)  # (block, d_k)
        largest = grown
    output = output / total[:, None]  # (block, d_k)
    tl.store(output_ptr + at, output, mask=rows[:, None] < queries)


def triton_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    causal: bool = False,
    block: int = 32,
) -> Tensor:
    """Average the values as attention does, in one kernel. It has no backward pass.

    Args:
        query: What each position looks for, shape (B, H, T, d_k), float32.
        key: What each position offers, shape (B, H, S, d_k), float32.
        value: What each position hands over, shape (B, H, S, d_k), float32.
        causal: Whether position t may attend to the keys 0 to t alone.
        block: How many queries and how many keys are worked on at a time; a power of
            two, at least 16.

    Returns:
        The attended values, shape (B, H, T, d_k).

    Raises:
        RuntimeError: If the tensors are on a CPU and Triton was not told to interpret.
        TypeError: If a tensor is not float32.
        ValueError: If the shapes do not fit, as in ``scaled_dot_product_attention``;
            ``block`` or d_k is no power of two from 16 on; or ``causal`` is set and T
            differs from S.
    """
    check_attention(query, key, value, None)
    require_square(causal, query.size(-2), key.size(-2))
    for name, size in {"block": block, "d_k": query.size(-1)}.items():
        if size < 16 or size & (size - 1):
            raise ValueError(f"{name} must be a power of two from 16 on, got {size}")
    if value.shape != key.shape:
        shapes = f"{tuple(key.shape)} and {tuple(value.shape)}"
        raise ValueError(f"key and value must have the same shape, got {shapes}")
    if {query.dtype, key.dtype, value.dtype} != {torch.float32}:
        dtypes = f"{query.dtype}, {key.dtype} and {value.dtype}"
        raise TypeError(f"query, key and value must be float32, got {dtypes}")
    if query.device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise RuntimeError(
            "on a CPU Triton can only interpret: set TRITON_INTERPRET=1 in the "
            "environment before Python starts"
        )
    query, key, value = (x.contiguous() for x in (query, key, value))
    output = torch.empty_like(query)
    heads = math.prod(query.shape[:-2])
    attention_kernel[triton.cdiv(query.size(-2), block), heads](
        query,
        key,
        value,
        output,
        query.size(-2),
        key.size(-2),
        query.size(-1) ** -0.5,
        causal,
        block,
        query.size(-1),
    )
    return output
