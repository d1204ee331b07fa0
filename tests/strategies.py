"""What the property tests draw: tensors and masks, models, sentences.

Sizes are small and drawn each by itself, so that a swapped axis cannot pass for long.
"""

import torch
from hypothesis import settings
from hypothesis import strategies as st
from torch import nn

from transformer_lib.model import (
    ACTIVATIONS,
    LAYOUTS,
    Transformer,
    TransformerConfig,
    padding_mask,
)
from transformer_lib.variants import DecoderAlone, ModernConfig, ModernTransformer

DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SEEDS = st.integers(0, 2**32 - 1)


def examples(few, many):
    """Try a property on a few examples, or in the sweep on many."""
    ordinary = settings.default.derandomize
    return settings(max_examples=few if ordinary else many)


def sizes(most=6):
    return st.integers(1, most)


@st.composite
def generators(draw):
    """Random numbers of torch's, from a seed that hypothesis can show and keep."""
    return torch.Generator().manual_seed(draw(SEEDS))


# -- Attention -------------------------------------------------------------------------


@st.composite
def masks(draw, scores_shape):
    """A mask of any shape that broadcasts to the scores, from all hidden to all seen.

    Some rows see nothing.
    """
    axes = draw(st.integers(2, len(scores_shape)))
    shape = [draw(st.sampled_from([1, size])) for size in scores_shape[-axes:]]
    generator = draw(generators())
    mask = torch.rand(shape, generator=generator) < draw(st.sampled_from(SHARES))
    blind = torch.rand((*shape[:-1], 1), generator=generator) < draw(
        st.sampled_from([0, 0.3])
    )
    return mask & ~blind


SHARES = [0.5, 0.1, 0.9, 0.0, 1.0]


@st.composite
def attentions(draw):
    """Query, key, value and a mask of any shape that fits."""
    axes = draw(st.lists(sizes(3), max_size=3))
    t, s, d_k, d_v = draw(st.tuples(*[sizes()] * 4))
    generator, scale = draw(generators()), draw(st.sampled_from([1.0, 0.0, 30.0]))
    shapes = ((*axes, t, d_k), (*axes, s, d_k), (*axes, s, d_v))
    inputs = [scale * torch.randn(shape, generator=generator) for shape in shapes]
    return *inputs, draw(masks((*axes, t, s)))


# -- Models ----------------------------------------------------------------------------


@st.composite
def configs(draw, has_source=None, least_width=2):
    """Any configuration, with every choice and small sizes."""
    choice = {
        name: draw(st.booleans())
        for name in ("norm_first", "bias", "output_bias", "tie_output")
    }
    share = draw(st.booleans())
    target = draw(st.integers(2, 9))
    source = target if share else draw(st.integers(3, 9))
    if not (draw(st.booleans()) if has_source is None else has_source):
        source, share = None, False
    positions = draw(st.sampled_from(LAYOUTS))
    heads, d_k = draw(sizes(3)), draw(st.integers(1, 4))
    if positions == "interleaved" and heads * d_k % 2:
        d_k += 1
    while heads * d_k < least_width:
        d_k += 2
    kind = ModernConfig if source is None else TransformerConfig
    pad_id = draw(st.integers(0, min(source or target, target) - 1))
    ids = st.integers(0, target - 1)
    return kind(
        src_vocab_size=source,
        tgt_vocab_size=target,
        pad_id=pad_id,
        bos_id=draw(ids.filter(lambda i: i != pad_id)),
        eos_id=draw(ids),
        d_model=heads * d_k,
        num_heads=heads,
        d_ff=draw(sizes(7)),
        num_layers=draw(sizes(2)),
        dropout=draw(st.sampled_from([0.0, 0.3])),
        attention_dropout=draw(st.sampled_from([0.0, 0.3])),
        feed_forward_dropout=draw(st.sampled_from([0.0, 0.3])),
        norm_eps=draw(st.sampled_from([1e-5, 1e-6, 0.1])),
        activation=draw(st.sampled_from(sorted(ACTIVATIONS))),
        positions=positions,
        max_len=draw(st.integers(12, 17)),
        share_embeddings=share,
        **choice,
    )


def model_of(config):
    """A model of the family that takes this config, with or without a source."""
    if config.src_vocab_size is None:
        return DecoderAlone(config)
    is_modern = isinstance(config, ModernConfig)
    return ModernTransformer(config) if is_modern else Transformer(config)


@st.composite
def models(draw, config=None):
    """A model in eval mode whose norms and biases do something."""
    config = draw(configs() if config is None else config)
    model, generator = model_of(config).eval(), draw(generators())
    with torch.no_grad():
        for parameter in model.parameters():
            # Embeddings are scaled by sqrt(d_model); the rest stays of order 1.
            nn.init.normal_(parameter, std=0.5, generator=generator)
    return model


@st.composite
def sentences(draw, vocab_size, pad_id, rows, shortest=1, longest=6):
    """Token ids of a batch, padded at the end, shape (rows, length)."""
    real = st.sampled_from([i for i in range(vocab_size) if i != pad_id])
    found = [
        draw(st.lists(real, min_size=shortest, max_size=longest)) for _ in range(rows)
    ]
    length = max(1, *map(len, found))
    return torch.tensor([row + [pad_id] * (length - len(row)) for row in found])


@st.composite
def models_and_sentences(draw, config=None):
    """A model with a batch for it; the source is None for a decoder alone."""
    model, rows = draw(models(config)), draw(sizes(3))
    config = model.config
    src = None
    if config.src_vocab_size is not None:  # a source may be padding alone
        src = draw(sentences(config.src_vocab_size, config.pad_id, rows, shortest=0))
    tgt = draw(sentences(config.tgt_vocab_size, config.pad_id, rows))
    return model, src, tgt


def logits_of(model, src, tgt):
    """Run a model with a source, or one without (``src`` is None)."""
    return model(tgt) if src is None else model(src, tgt)


def source_of(model, src):
    """What ``decode`` takes besides the target: a memory and its mask, or nothing."""
    if src is None:
        return ()
    return model.encode(src), padding_mask(src, model.config.pad_id)
