"""Carry our weights over to the modules of torch.nn, to compare the two."""

from copy import deepcopy
from functools import partial

import torch
from torch import nn

from transformer_lib.model import MultiHeadAttention, Transformer

# Functions, not modules: a copy of an nn.TransformerDecoderLayer forgets a module.
THEIRS = {
    "relu": nn.functional.relu,
    "gelu": nn.functional.gelu,
    "gelu_tanh": partial(nn.functional.gelu, approximate="tanh"),
    "silu": nn.functional.silu,
}


@torch.no_grad()
def copy_attention(ours: MultiHeadAttention, theirs: nn.MultiheadAttention) -> None:
    projections = [ours.w_q, ours.w_k, ours.w_v]
    theirs.in_proj_weight.copy_(torch.cat([w.weight for w in projections]))
    theirs.out_proj.weight.copy_(ours.w_o.weight)
    if theirs.in_proj_bias is not None:
        theirs.in_proj_bias.copy_(torch.cat([w.bias for w in projections]))
        theirs.out_proj.bias.copy_(ours.w_o.bias)


def copy_layer(ours: nn.Module, theirs: nn.Module) -> None:
    """An EncoderLayer or a DecoderLayer to its namesake in torch."""
    copy_attention(ours.self_attention, theirs.self_attn)
    theirs.linear1.load_state_dict(ours.feed_forward.w_1.state_dict())
    theirs.linear2.load_state_dict(ours.feed_forward.w_2.state_dict())
    residuals = [ours.self_attention_residual]
    if hasattr(theirs, "multihead_attn"):
        copy_attention(ours.cross_attention, theirs.multihead_attn)
        residuals.append(ours.cross_attention_residual)
    residuals.append(ours.feed_forward_residual)
    for number, residual in enumerate(residuals, start=1):
        norm = getattr(theirs, f"norm{number}")
        norm.load_state_dict(residual.norm.state_dict())


def torch_twins(ours: Transformer) -> list[nn.Module]:
    """The same encoder and decoder in torch, with the same weights, in eval mode."""
    config = ours.config
    sizes = {
        "d_model": config.d_model,
        "nhead": config.num_heads,
        "dim_feedforward": config.d_ff,
        "dropout": config.dropout,
        "layer_norm_eps": config.norm_eps,
        "norm_first": config.norm_first,
        "activation": THEIRS[config.activation],
        "batch_first": True,
    }
    encoder = nn.TransformerEncoder(
        nn.TransformerEncoderLayer(**sizes),
        config.num_layers,
        deepcopy(ours.encoder.norm),
        enable_nested_tensor=False,
    )
    decoder = nn.TransformerDecoder(
        nn.TransformerDecoderLayer(**sizes),
        config.num_layers,
        deepcopy(ours.decoder.norm),
    )
    for stack, twin in ((ours.encoder, encoder), (ours.decoder, decoder)):
        for layer, their_layer in zip(stack.layers, twin.layers, strict=True):
            copy_layer(layer, their_layer)
    return [encoder.eval(), decoder.eval()]
