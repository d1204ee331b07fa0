"""The choices of other families against Hugging Face's models, with the same weights.

Those are built from a configuration, offline, with random weights.
"""

import pytest
import torch
from torch.testing import assert_close
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

from transformer_lib.model import Transformer, TransformerConfig

VOCAB, D_MODEL, HEADS, D_FF, LAYERS, MAX_LEN, EPS = 31, 24, 4, 40, 2, 19, 1e-6


def sizes(**choices):
    """A decoder alone, pre-norm, without dropout, whose PAD is not in the text."""
    return TransformerConfig(
        src_vocab_size=None,
        tgt_vocab_size=VOCAB,
        d_model=D_MODEL,
        num_heads=HEADS,
        d_ff=D_FF,
        num_layers=LAYERS,
        dropout=0.0,
        norm_first=True,
        norm_eps=EPS,
        max_len=MAX_LEN,
        scale_embeddings=False,
        **choices,
    )


def fill(model, weights):
    """Give a model weights by its own names, every one of them."""
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(weights[name])


def random_ids():
    return torch.randint(1, VOCAB, (3, 17), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("key_heads", [4, 2, 1])
def test_the_choices_of_llama_compute_what_llama_computes(key_heads):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=D_MODEL,
        intermediate_size=D_FF,
        num_hidden_layers=LAYERS,
        num_attention_heads=HEADS,
        num_key_value_heads=key_heads,
        max_position_embeddings=MAX_LEN,
        rms_norm_eps=EPS,
        tie_word_embeddings=False,
    )
    theirs = LlamaForCausalLM(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)  # gains, too: one of 1 would hide a fault
    choices = sizes(
        norm="rms",
        gated=True,
        activation="silu",
        positions="rotary",
        num_key_heads=key_heads,
        bias=False,
    )
    ours = Transformer(choices).eval()
    given = theirs.state_dict()
    weights = {
        "tgt_embedding.table.weight": given["model.embed_tokens.weight"],
        "decoder.norm.weight": given["model.norm.weight"],
        "output.weight": given["lm_head.weight"],
    }
    pieces = {
        "self_attn.q_proj": "self_attention.w_q",
        "self_attn.k_proj": "self_attention.w_k",
        "self_attn.v_proj": "self_attention.w_v",
        "self_attn.o_proj": "self_attention.w_o",
        "mlp.gate_proj": "feed_forward.w_1",
        "mlp.up_proj": "feed_forward.w_3",
        "mlp.down_proj": "feed_forward.w_2",
        "input_layernorm": "self_attention_residual.norm",
        "post_attention_layernorm": "feed_forward_residual.norm",
    }
    for layer in range(LAYERS):
        for name, mine in pieces.items():
            weight = given[f"model.layers.{layer}.{name}.weight"]
            weights[f"decoder.layers.{layer}.{mine}.weight"] = weight
    fill(ours, weights)
    ids = random_ids()
    with torch.inference_mode():
        # Their norm and their angles are float32 whatever the model is.
        assert_close(ours.decode(ids), theirs(ids).logits, rtol=1e-4, atol=1e-4)


def test_the_choices_of_gpt_2_compute_what_gpt_2_computes():
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCAB,
        n_positions=MAX_LEN,
        n_embd=D_MODEL,
        n_layer=LAYERS,
        n_head=HEADS,
        n_inner=D_FF,
        layer_norm_epsilon=EPS,
        bos_token_id=1,
        eos_token_id=2,
    )
    theirs = GPT2LMHeadModel(config).double().eval()
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.3)
    choices = sizes(activation="gelu_tanh", positions="learned", tie_output=True)
    ours = Transformer(choices).eval()
    given = theirs.state_dict()
    weights = {
        "tgt_embedding.table.weight": given["transformer.wte.weight"],
        "tgt_positions.table": given["transformer.wpe.weight"],
        "decoder.norm.weight": given["transformer.ln_f.weight"],
        "decoder.norm.bias": given["transformer.ln_f.bias"],
    }
    for layer in range(LAYERS):
        theirs_at, ours_at = f"transformer.h.{layer}.", f"decoder.layers.{layer}."
        for kind in ("weight", "bias"):
            # A "Conv1D" is a Linear that keeps its matrix turned.
            parts = given[f"{theirs_at}attn.c_attn.{kind}"].chunk(3, dim=-1)
            for name, part in zip(("w_q", "w_k", "w_v"), parts, strict=True):
                weights[f"{ours_at}self_attention.{name}.{kind}"] = part.t()
            for name, mine in {
                "attn.c_proj": "self_attention.w_o",
                "mlp.c_fc": "feed_forward.w_1",
                "mlp.c_proj": "feed_forward.w_2",
            }.items():
                part = given[f"{theirs_at}{name}.{kind}"]
                weights[f"{ours_at}{mine}.{kind}"] = part.t()
            for name, mine in {
                "ln_1": "self_attention",
                "ln_2": "feed_forward",
            }.items():
                weight = given[f"{theirs_at}{name}.{kind}"]
                weights[f"{ours_at}{mine}_residual.norm.{kind}"] = weight
    fill(ours, weights)
    ids = random_ids()
    with torch.inference_mode():
        assert_close(ours.decode(ids), theirs(ids).logits, rtol=1e-10, atol=1e-10)
