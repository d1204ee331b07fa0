"""The choices of other families against Hugging Face's models, with the same weights.

Those are built from a configuration, offline, with random weights.
"""

import math
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MarianConfig,
    MarianMTModel,
    MistralForCausalLM,
    T5Config,
    T5ForConditionalGeneration,
)

from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.variants import (
    DecoderAlone,
    EncoderAlone,
    ModernConfig,
    ModernTransformer,
    Variant,
    WindowAttention,
    use_attention,
)
from transformer_lib.variants.attention.full import past

VOCAB, D_MODEL, HEADS, D_FF, LAYERS, MAX_LEN, PAD = 31, 24, 4, 40, 2, 19, 0
EPS = 0.01  # large, or another would hide in the bounds
exactly = {"rtol": 1e-10, "atol": 1e-10}
as_float32 = {"rtol": 1e-5, "atol": 1e-5}  # theirs computes some of it in float32
SIZES = {  # by the names that all of their configurations know
    "vocab_size": VOCAB,
    "hidden_size": D_MODEL,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": MAX_LEN,
}
OURS = ModernConfig(  # a decoder alone, pre-norm, without dropout
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
)


@pytest.fixture(autouse=True)
def without_gradients():
    with torch.no_grad():
        yield


def at_random(theirs):
    """A model of theirs whose every weight does something, and its weights."""
    theirs = theirs.double().eval()
    for parameter in theirs.parameters():
        if parameter.requires_grad:  # positions that are not learned stay
            parameter.normal_(std=0.3)  # gains, too: one of 1 would hide a fault
    return theirs, theirs.state_dict()


def carry(given, theirs, ours, pieces):
    """Give what one stack of theirs has in its layers the names of ours."""
    return {
        f"{ours}.layers.{layer}.{mine}.{kind}": given[name]
        for layer in range(LAYERS)
        for piece, mine in pieces.items()
        for kind in ("weight", "bias")
        if (name := f"{theirs}.{layer}.{piece}.{kind}") in given
    }


def fill(model, weights):
    """Give a model weights by its own names, every one of them."""
    parameters = dict(model.named_parameters())
    assert parameters.keys() == weights.keys()
    for name, parameter in parameters.items():
        assert parameter.shape == weights[name].shape, name
        parameter.copy_(weights[name])


def random_ids(length=17):
    return torch.randint(1, VOCAB, (3, length))


def padded_ids():
    ids = random_ids(13)
    ids[1, 8:] = ids[2, 3:] = PAD
    return ids


# -- A decoder alone -------------------------------------------------------------------

LIKE_LLAMA = {
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


@pytest.mark.parametrize(
    ("model", "key_heads", "choices"),
    [
        (LlamaForCausalLM, 4, {}),
        (LlamaForCausalLM, 1, {}),
        (MistralForCausalLM, 2, {"head_dim": 10, "sliding_window": 5}),
    ],
)
def test_the_choices_of_llama_and_a_window_compute_what_llama_and_mistral_compute(
    model, key_heads, choices
):
    config = model.config_class(
        **SIZES,
        intermediate_size=D_FF,
        rms_norm_eps=EPS,
        num_key_value_heads=key_heads,
        tie_word_embeddings=False,
        **choices,
    )
    theirs, given = at_random(model(config))
    llama = replace(
        OURS,
        norm="rms",
        gated=True,
        activation="silu",
        positions="rotary",
        num_key_heads=key_heads,
        d_k=choices.get("head_dim"),
        bias=False,
    )
    ours = DecoderAlone(llama).eval()
    weights = {
        "tgt_embedding.table.weight": given["model.embed_tokens.weight"],
        "decoder.norm.weight": given["model.norm.weight"],
        "output.weight": given["lm_head.weight"],
    }
    fill(ours, weights | carry(given, "model.layers", "decoder", LIKE_LLAMA))
    if "sliding_window" in choices:
        window = WindowAttention(choices["sliding_window"], causal=True)
        use_attention(ours, decoder=window)
    ids = random_ids()
    # Their norm and their angles are float32 whatever the model is.
    assert_close(ours.decode(ids), theirs(ids).logits, **as_float32)


def test_the_choices_of_gpt_2_compute_what_gpt_2_computes():
    config = GPT2Config(
        **SIZES, n_inner=D_FF, layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=2
    )
    theirs, given = at_random(GPT2LMHeadModel(config))
    choices = replace(
        OURS, activation="gelu_tanh", positions="learned", tie_output=True
    )
    ours = DecoderAlone(choices).eval()
    weights = {
        "tgt_embedding.table.weight": given["transformer.wte.weight"],
        "tgt_positions.table": given["transformer.wpe.weight"],
        "decoder.norm.weight": given["transformer.ln_f.weight"],
        "decoder.norm.bias": given["transformer.ln_f.bias"],
    }
    for name in list(given):
        if ".c_" in name:  # a "Conv1D" is a Linear that keeps its matrix turned
            given[name] = given[name].t()
        if "c_attn" in name:
            for part, rows in zip("qkv", given[name].chunk(3), strict=True):
                given[name.replace("c_attn", part)] = rows
    pieces = {
        "attn.q": "self_attention.w_q",
        "attn.k": "self_attention.w_k",
        "attn.v": "self_attention.w_v",
        "attn.c_proj": "self_attention.w_o",
        "mlp.c_fc": "feed_forward.w_1",
        "mlp.c_proj": "feed_forward.w_2",
        "ln_1": "self_attention_residual.norm",
        "ln_2": "feed_forward_residual.norm",
    }
    fill(ours, weights | carry(given, "transformer.h", "decoder", pieces))
    ids = random_ids()
    assert_close(ours.decode(ids), theirs(ids).logits, **exactly)


# -- An encoder alone ------------------------------------------------------------------


def test_behind_its_first_norm_bert_is_our_encoder_alone():
    """Ours has no norm between the embeddings and the layers: theirs is put there."""
    config = BertConfig(**SIZES, intermediate_size=D_FF)
    theirs, given = at_random(BertModel(config, add_pooling_layer=False))
    choices = replace(
        OURS,
        src_vocab_size=VOCAB,
        tgt_vocab_size=None,
        norm_first=False,
        norm_eps=1e-12,
        activation="gelu",
        positions="learned",
        tie_output=True,
    )
    ours = EncoderAlone(choices).eval()
    pieces = {
        "attention.self.query": "self_attention.w_q",
        "attention.self.key": "self_attention.w_k",
        "attention.self.value": "self_attention.w_v",
        "attention.output.dense": "self_attention.w_o",
        "attention.output.LayerNorm": "self_attention_residual.norm",
        "intermediate.dense": "feed_forward.w_1",
        "output.dense": "feed_forward.w_2",
        "output.LayerNorm": "feed_forward_residual.norm",
    }
    # All words are of the first of two sentences.
    first = given["embeddings.token_type_embeddings.weight"][0]
    weights = {
        "src_embedding.table.weight": given["embeddings.word_embeddings.weight"],
        "src_positions.table": given["embeddings.position_embeddings.weight"] + first,
    }
    fill(ours, weights | carry(given, "encoder.layer", "encoder", pieces))
    norm = theirs.embeddings.LayerNorm
    ours.src_positions.register_forward_hook(lambda _, inputs, x: norm(x))
    ids = padded_ids()
    real = ids != PAD
    expected = theirs(ids, attention_mask=real.long()).last_hidden_state
    assert_close(ours.encode(ids)[real], expected[real], **exactly)


# -- Both ------------------------------------------------------------------------------


@dataclass(frozen=True)
class RelativeAttention(Variant):
    """T5's: what is learned for each distance and head is added to the scores."""

    bias: Tensor

    def compute(self, query, key, value, padding, dropout):
        t, s = query.size(2), key.size(2)
        mask = past(query, key, padding) if self.causal else padding
        added = self.bias[:, :, s - t : s, :s].masked_fill(~mask, -math.inf)
        return F.scaled_dot_product_attention(query, key, value, added, dropout)


def assert_the_same_translation(ours, theirs, **within):
    src, tgt = padded_ids(), random_ids()
    mask = (src != PAD).long()
    expected = theirs(src, attention_mask=mask, decoder_input_ids=tgt).logits
    assert_close(ours(src, tgt), expected, **within)


def t5_pieces(*kinds):
    """What the sublayers of one of their layers are called here, in their order."""
    ours = {
        "SelfAttention": "self_attention",
        "EncDecAttention": "cross_attention",
        "DenseReluDense": "feed_forward",
    }
    matrices = {"q": "w_q", "k": "w_k", "v": "w_v", "o": "w_o"}
    matrices |= {"wi_0": "w_1", "wi_1": "w_3", "wo": "w_2"}
    pieces = {}
    for number, kind in enumerate(kinds):
        pieces[f"layer.{number}.layer_norm"] = f"{ours[kind]}_residual.norm"
        for theirs, mine in matrices.items():
            pieces[f"layer.{number}.{kind}.{theirs}"] = f"{ours[kind]}.{mine}"
    return pieces


def test_the_choices_of_t5_with_its_distances_compute_what_t5_computes():
    d_k = 5
    config = T5Config(
        **SIZES,
        num_decoder_layers=LAYERS,
        d_kv=d_k,
        d_ff=D_FF,
        layer_norm_epsilon=EPS,
        feed_forward_proj="gated-gelu",
        tie_word_embeddings=False,  # they are, but what they read is not scaled
    )
    theirs, given = at_random(T5ForConditionalGeneration(config))
    choices = replace(
        OURS,
        src_vocab_size=VOCAB,
        d_k=d_k,
        bias=False,
        norm="rms",
        gated=True,
        activation="gelu_tanh",
        positions="none",
        share_embeddings=True,
        tie_output=True,
    )
    ours = ModernTransformer(choices).eval()
    weights = {
        "src_embedding.table.weight": given["shared.weight"],
        "encoder.norm.weight": given["encoder.final_layer_norm.weight"],
        "decoder.norm.weight": given["decoder.final_layer_norm.weight"],
    }
    kinds = ["SelfAttention", "DenseReluDense"]
    weights |= carry(given, "encoder.block", "encoder", t5_pieces(*kinds))
    kinds.insert(1, "EncDecAttention")
    weights |= carry(given, "decoder.block", "decoder", t5_pieces(*kinds))
    for name in weights:
        if "w_q" in name:  # theirs does not divide by the root of d_k
            weights[name] = weights[name] * d_k**0.5
    fill(ours, weights)
    for stack in ("encoder", "decoder"):  # the first layer's distances are for all
        attention = getattr(theirs, stack).block[0].layer[0].SelfAttention
        bias = attention.compute_bias(MAX_LEN, MAX_LEN)
        variant = RelativeAttention(bias, causal=stack == "decoder")
        use_attention(ours, **{stack: variant})
    # Their norm is float32 whatever the model is.
    assert_the_same_translation(ours, theirs, **as_float32)


def test_the_model_of_the_book_computes_what_marian_computes():
    """Marian's features stand in another order: sines before cosines."""
    config = MarianConfig(
        **SIZES,
        decoder_layers=LAYERS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=D_FF,
        decoder_ffn_dim=D_FF,
        activation_function="swish",
        scale_embedding=True,
        pad_token_id=PAD,
        decoder_start_token_id=PAD,
    )
    theirs, given = at_random(MarianMTModel(config))
    theirs.final_logits_bias.normal_()
    choices = TransformerConfig.base(
        VOCAB,
        d_model=D_MODEL,
        num_heads=HEADS,
        d_ff=D_FF,
        num_layers=LAYERS,
        activation="silu",
        output_bias=True,
        max_len=MAX_LEN,
    )
    ours = Transformer(choices).eval()
    pieces = {
        "self_attn_layer_norm": "self_attention_residual.norm",
        "encoder_attn_layer_norm": "cross_attention_residual.norm",
        "final_layer_norm": "feed_forward_residual.norm",
        "fc1": "feed_forward.w_1",
        "fc2": "feed_forward.w_2",
    }
    for name in ("q", "k", "v", "out"):
        for kind, mine in {"self": "self", "encoder": "cross"}.items():
            pieces[f"{kind}_attn.{name}_proj"] = f"{mine}_attention.w_{name[0]}"
    weights = {
        "src_embedding.table.weight": given["model.shared.weight"],
        "output.bias": given["final_logits_bias"][0],
    }
    for stack in ("encoder", "decoder"):
        weights |= carry(given, f"model.{stack}.layers", stack, pieces)
    order = torch.arange(D_MODEL).view(2, -1).t().flatten()  # sine, cosine, sine ...
    for name, weight in weights.items():
        part = name.split(".")[-2]
        if part in ("w_o", "w_2", "norm"):  # write features
            weights[name] = weight[order]
        elif name.endswith("weight"):  # read them; a row of the table is both
            weights[name] = weight[:, order]
    fill(ours, weights)
    assert_the_same_translation(ours, theirs, **exactly)
