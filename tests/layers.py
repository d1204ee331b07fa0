"""A layer made as the model makes it, from three sizes and its choices."""

from transformer_lib.model import TransformerConfig, TransformerParts


def encoder_layer(d_model, num_heads, d_ff, **choices):
    sizes = {"d_model": d_model, "num_heads": num_heads, "d_ff": d_ff}
    config = TransformerConfig(src_vocab_size=3, tgt_vocab_size=3, **sizes, **choices)
    return TransformerParts(config).make_encoder_layer()
