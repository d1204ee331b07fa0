import sys

import pytest
import torch
from refusals import assert_refused, over
from torch.testing import assert_close

from bookkit.listing.tracing import trace
from transformer_lib.faster import flash_attention
from transformer_lib.model import fused_attention

if sys.platform != "linux":
    pytest.skip("there is no Triton for this system", allow_module_level=True)

from transformer_lib.faster.triton_attention import attention_kernel, triton_attention

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
B, H, D_K = 2, 3, 16


def heads(queries, keys):
    sizes = ((B, H, length, D_K) for length in (queries, keys, keys))
    return [torch.randn(size, dtype=torch.float32).to(DEVICE) for size in sizes]


@pytest.mark.parametrize(("queries", "keys"), [(1, 40), (33, 20)])
def test_the_kernel_gives_the_attention_of_torch(queries, keys):
    query, key, value = heads(queries, keys)
    attended = triton_attention(query, key, value, block=16)
    assert_close(attended, fused_attention(query, key, value))


def test_the_causal_kernel_does_what_the_readable_function_does():
    query, key, value = heads(33, 33)
    attended = triton_attention(query, key, value, causal=True, block=16)
    assert_close(attended, flash_attention(query, key, value, causal=True, block=16))


def test_tensors_that_do_not_lie_in_order_are_laid_in_order():
    query, key, value = heads(17, 17)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (key, value)]
    assert not turned[0].is_contiguous()
    assert_close(triton_attention(query, *turned), triton_attention(query, key, value))


X = torch.zeros(B, H, 7, D_K, dtype=torch.float32)


def attend(query=X, key=X, value=X, **choices):
    triton_attention(query, key, value, **choices)


REFUSED = [
    (ValueError, "block must be a power of two from 16", lambda: attend(block=24)),
    (ValueError, "from 16 on, got 8", lambda: attend(*[X[..., :8]] * 3)),
    (ValueError, "(2, 3, 7, 16) and (2, 3, 7, 8)", lambda: attend(value=X[..., :8])),
    (ValueError, "got 7 and 5", lambda: attend(X[:, :, :5], causal=True)),
    (TypeError, "torch.float32 and torch.float64", lambda: attend(value=X.double())),
]


@over(REFUSED)
def test_a_bad_argument_is_named_with_both_values(error, text, call):
    assert_refused(error, text, call)


def test_on_a_cpu_without_the_interpreter_it_says_what_to_set(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(RuntimeError, match="set TRITON_INTERPRET=1"):
        attend()


@pytest.mark.skipif(DEVICE == "cuda", reason="a kernel on a GPU cannot be followed")
def test_a_listing_follows_the_kernel_in_the_interpreter():
    run = trace(triton_attention, *heads(20, 20), also=[attention_kernel.rewrite()])
    kernel = run.also[0]
    made = {
        value.name: (value.shape, value.text)
        for record in kernel.records
        for value in record.made
    }
    assert made["scores"][0] == (32, 32)
    assert made["total"][0] == (32,)
    assert made["q_ptr"] == (None, "an address")
