"""What a config may choose besides the paper: in the whole model, and on its ways."""

from dataclasses import asdict, fields, replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.data import Tokenizer
from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.javascript.weights import to_script
from transformer_lib.model import (
    Transformer,
    TransformerConfig,
    padding_mask,
    record_attention,
)
from transformer_lib.training import load_model, save_model
from transformer_lib.translation import Translator
from transformer_lib.translation.run import MODEL_CHOICES, require_choices, untrained
from transformer_lib.variants import (
    FAMILIES,
    AlibiAttention,
    DecoderAlone,
    FullAttention,
    GroupedAttention,
    ModernTransformer,
    RMSNorm,
    WindowAttention,
    use_attention,
)
from transformer_lib.variants.modern.transformer import POSITIONS, ModernConfig

B, T, S, PAD = 2, 7, 11, 0
CONFIG = ModernConfig(
    src_vocab_size=13,
    tgt_vocab_size=17,
    d_model=24,
    num_heads=6,
    d_ff=19,
    num_layers=2,
    max_len=14,
)
# Each choice alone, and who refuses it with which words.
CHOICES = {
    "norm": ({"norm": "rms"}, "a RMSNorm as decoder.layers.0.self_attention_residual"),
    "gated": ({"gated": True}, "a GatedFeedForward as decoder.layers.0.feed_forward"),
    "gelu": ({"gated": True, "activation": "gelu_tanh"}, "a GatedFeedForward"),
    "grouped": (
        {"num_key_heads": 2},
        "projections of different shapes or biases at decoder",
    ),
    "multi-query": (
        {"num_key_heads": 1},
        "projections of different shapes or biases at decoder",
    ),
    "rotary": ({"positions": "rotary"}, "a RotaryAttention as decoder.layers.0.self_a"),
    "llama": (
        {"positions": "rotary", "num_key_heads": 3, "norm": "rms", "gated": True},
        "a RotaryAttention as decoder",
    ),
    "alibi": ({"positions": "alibi"}, "another attention at decoder.layers.0.self_a"),
    "unscaled": ({"scale_embeddings": False}, None),
    "none": ({"positions": "none"}, None),
}


@pytest.fixture(params=CHOICES)
def choice(request):
    return CHOICES[request.param]


@pytest.fixture
def config(choice):
    return replace(CONFIG, **choice[0])


@pytest.fixture(params=[False, True])
def model(request, config):
    model = ModernTransformer(replace(config, norm_first=request.param)).eval()
    for parameter in model.parameters():
        if parameter.dim() == 1:  # norms and biases do something
            nn.init.normal_(parameter, std=0.5)
    return model


@pytest.fixture
def tokens():
    src, tgt = torch.randint(3, 13, (B, S)), torch.randint(3, 17, (B, T))
    src[1, 8:] = PAD
    return src, tgt


# -- The model -------------------------------------------------------------------------


def test_without_a_choice_the_model_is_that_of_the_paper():
    torch.manual_seed(1)
    modern = ModernTransformer(CONFIG)
    torch.manual_seed(1)
    choices = {f.name: getattr(CONFIG, f.name) for f in fields(TransformerConfig)}
    papers = Transformer(TransformerConfig(**choices))
    assert (
        list(map(type, modern.modules()))[1:] == list(map(type, papers.modules()))[1:]
    )
    for ours, theirs in zip(modern.parameters(), papers.parameters(), strict=True):
        assert ours.equal(theirs)


# -- On its ways -----------------------------------------------------------------------


def test_the_fast_decoder_writes_the_same_or_refuses_it_by_name(model, tokens, choice):
    fast, refused = FastDecoder(model), choice[1]
    if refused is None:
        written = greedy_decode(model, tokens[0], max_len=9)
        assert greedy_decode(fast, tokens[0], max_len=9) == written
    else:
        with pytest.raises(ValueError, match=refused):
            greedy_decode(fast, tokens[0], max_len=9)


def test_the_javascript_refuses_it_by_name(choice):
    tokenizer = Tokenizer.train(["ein kleiner hund", "a small dog"], 260)
    size = {"src_vocab_size": tokenizer.vocab_size}
    size |= {"tgt_vocab_size": tokenizer.vocab_size, "d_ff": 20}
    model = ModernTransformer(replace(CONFIG, **size, **choice[0])).eval()
    name, value = next(iter(choice[0].items()))
    parts = {"norm": "RMSNorm", "gated": "GatedFeedForward"}
    part = f"got a {parts[name]} as" if name in parts else rf"{name}.*{value!r}"
    with pytest.raises(ValueError, match=part):
        to_script(Translator(model, tokenizer))


def test_the_command_takes_the_choice(choice):
    assert choice[0].keys() <= MODEL_CHOICES.keys()
    require_choices(choice[0])
    recipe = {"vocab_size": 260, "d_model": 24, "num_heads": 6, **choice[0]}
    model = untrained([("ein hund", "a dog")], recipe).model
    assert type(model) is ModernTransformer
    assert choice[0].items() <= asdict(model.config).items()


@pytest.mark.parametrize("choices", [{}, {"positions": "learned", "norm_first": True}])
def test_the_command_makes_a_plain_transformer_without_a_choice(choices):
    recipe = {"vocab_size": 260, "d_model": 24, "num_heads": 6, **choices}
    assert type(untrained([("ein hund", "a dog")], recipe).model) is Transformer


# -- One by one ------------------------------------------------------------------------


def test_embeddings_without_a_scale_are_the_rows_of_the_table(tokens):
    for scale in (True, False):
        model = ModernTransformer(replace(CONFIG, scale_embeddings=scale, num_heads=4))
        for embedding, ids in zip(
            (model.src_embedding, model.tgt_embedding), tokens, strict=True
        ):
            expected = embedding.table.weight[ids] * (24**0.5 if scale else 1)
            expected[ids == PAD] = 0
            assert_close(embedding(ids), expected)


def test_without_positions_the_encoder_knows_no_order(tokens):
    model = ModernTransformer(replace(CONFIG, positions="none")).eval()
    src, order = tokens[0][:1], torch.randperm(S)
    assert_close(model.encode(src[:, order]), model.encode(src)[:, order])


@pytest.mark.parametrize("positions", ["rotary", "alibi"])
def test_positions_in_attention_tell_the_order_but_not_the_place(tokens, positions):
    model = ModernTransformer(replace(CONFIG, positions=positions, max_len=20)).eval()
    src = tokens[0][:1]
    order = torch.tensor([3, 0, 1, 2, *range(4, S)])
    assert not torch.allclose(model.encode(src[:, order]), model.encode(src)[:, order])
    moved = F.pad(src, (4, 0), value=PAD)
    assert_close(model.encode(moved)[:, 4:], model.encode(src))


def test_penalties_to_both_sides_cannot_tell_a_sentence_from_its_mirror_image(tokens):
    src = tokens[0][:1]
    for positions, mirrored in (("alibi", True), ("rotary", False)):
        model = ModernTransformer(replace(CONFIG, positions=positions)).eval()
        back = model.encode(src.flip(1)).flip(1)
        assert torch.allclose(back, model.encode(src)) == mirrored
