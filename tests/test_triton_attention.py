import subprocess
import sys

import pytest
import torch
from book_files import ROOT
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


@pytest.mark.parametrize(("queries", "keys"), [(1, 1), (1, 40), (33, 20), (32, 64)])
def test_the_kernel_gives_the_attention_of_torch(queries, keys):
    query, key, value = heads(queries, keys)
    attended = triton_attention(query, key, value, block=16)
    assert_close(attended, fused_attention(query, key, value))


@pytest.mark.parametrize("length", [1, 16, 33])
def test_the_causal_kernel_does_what_the_readable_function_does(length):
    query, key, value = heads(length, length)
    attended = triton_attention(query, key, value, causal=True, block=16)
    assert_close(attended, flash_attention(query, key, value, causal=True, block=16))


def test_tensors_that_do_not_lie_in_order_are_laid_in_order():
    query, key, value = heads(17, 17)
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in (key, value)]
    assert not turned[0].is_contiguous()
    assert_close(triton_attention(query, *turned), triton_attention(query, key, value))


def test_bad_input_is_refused_with_its_values():
    query, key, value = heads(5, 7)
    with pytest.raises(ValueError, match="block must be a power of two from 16 on, g"):
        triton_attention(query, key, value, block=24)
    with pytest.raises(ValueError, match=r"d_k must be a power of two .*, got 8"):
        triton_attention(query[..., :8], key[..., :8], value[..., :8])
    with pytest.raises(ValueError, match=r"same shape, got .*16\) and .*8\)"):
        triton_attention(query, key, value[..., :8])
    with pytest.raises(ValueError, match="as many keys as queries, got 7 and 5"):
        triton_attention(query, key, value, causal=True)
    with pytest.raises(TypeError, match=r"must be float32, got torch\.float64"):
        triton_attention(query.double(), key.double(), value.double())


def test_on_a_cpu_without_the_interpreter_it_says_what_to_set():
    code = (
        "import torch\n"
        "from transformer_lib.faster.triton_attention import triton_attention\n"
        "triton_attention(*torch.zeros(3, 1, 1, 16, 16))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PATH": "/usr/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert "set TRITON_INTERPRET=1" in ran.stderr.splitlines()[-1]


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
