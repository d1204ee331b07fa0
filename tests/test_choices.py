"""What a config may choose besides the paper: in the whole model, and on its ways."""

from dataclasses import asdict, fields, replace

import pytest
import torch
from torch.nn import functional as F
from torch.testing import assert_close

from transformer_lib.data import Tokenizer
from transformer_lib.decoding import greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.javascript.weights import to_script
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.translation import Translator
from transformer_lib.translation.run import MODEL_CHOICES, require_choices, untrained
from transformer_lib.variants import ModernConfig, ModernTransformer

B, T, S, PAD = 2, 7, 11, 0
CONFIG = ModernConfig(
    src_vocab_size=13,
    tgt_vocab_size=17,
    d_model=24,
    num_heads=6,
    d_ff=19,
    num_layers=2,
    max_len=16,
)
RECIPE = {"vocab_size": 260, "d_model": 24, "num_heads": 6}
# Each choice alone, and the words with which the fast decoder and the JavaScript refuse
# it; None where they know it.
CHOICES = [
    ({"norm": "rms"}, "a RMSNorm as decoder.layers.0.self_", "got a RMSNorm as"),
    ({"gated": True}, "a GatedFeedForward as dec", "got a GatedFeedForward as"),
    ({"num_key_heads": 2}, "projections of different shapes", "num_key_heads.*2"),
    ({"positions": "rotary"}, "a RotaryAttention as decoder", "positions.*'rotary'"),
    ({"positions": "alibi"}, "another attention at decoder", "positions.*'alibi'"),
    ({"positions": "none"}, None, "positions.*'none'"),
    ({"scale_embeddings": False}, None, "scale_embeddings.*False"),
]


@pytest.fixture(params=CHOICES, ids=str)
def row(request):
    return request.param


@pytest.fixture
def choice(row):
    return row[0]


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
    kinds = [[type(part) for part in model.children()] for model in (modern, papers)]
    assert kinds[0] == kinds[1]
    assert_close(modern.state_dict(), papers.state_dict(), rtol=0, atol=0)


def test_the_choice_changes_what_is_computed_and_every_weight_learns(choice, tokens):
    found = []
    for config in (CONFIG, replace(CONFIG, **choice)):
        torch.manual_seed(3)
        model = ModernTransformer(config).eval()
        found.append(model(*tokens))
    assert not torch.allclose(*found)
    found[1].square().sum().backward()
    assert all(p.grad.any() for p in model.parameters() if p.dim() == 2)


@pytest.mark.parametrize("positions", ["rotary", "alibi", "none"])
def test_positions_in_attention_tell_the_order_but_not_the_place(tokens, positions):
    model = ModernTransformer(replace(CONFIG, positions=positions)).eval()
    src, order = tokens[0][:1], torch.tensor([3, 0, 1, 2, *range(4, S)])
    expected = model.encode(src)
    moved = F.pad(src, (4, 0), value=PAD)
    assert_close(model.encode(moved)[:, 4:], expected)
    shuffled, mirrored = model.encode(src[:, order]), model.encode(src.flip(1))
    assert torch.allclose(shuffled, expected[:, order]) == (positions == "none")
    # ALiBi's penalties are alike to both sides.
    assert torch.allclose(mirrored, expected.flip(1)) == (positions != "rotary")


# -- On its ways -----------------------------------------------------------------------


def test_the_fast_decoder_writes_the_same_or_refuses_it_by_name(row, tokens):
    choice, fast, _ = row
    model = ModernTransformer(replace(CONFIG, **choice)).eval()
    if fast is None:
        written = greedy_decode(model, tokens[0], max_len=9)
        assert greedy_decode(FastDecoder(model), tokens[0], max_len=9) == written
        return
    with pytest.raises(ValueError, match=fast):
        greedy_decode(FastDecoder(model), tokens[0], max_len=9)


def test_the_javascript_refuses_it_by_name(row):
    choice, _, script = row
    tokenizer = Tokenizer.train(["ein kleiner hund", "a small dog"], 260)
    vocab_size = tokenizer.vocab_size
    sizes = {"src_vocab_size": vocab_size, "tgt_vocab_size": vocab_size, "d_ff": 20}
    model = ModernTransformer(replace(CONFIG, **sizes, **choice)).eval()
    with pytest.raises(ValueError, match=script):
        to_script(Translator(model, tokenizer))


def test_the_command_takes_the_choice(choice):
    assert choice.keys() <= MODEL_CHOICES.keys()
    require_choices(choice)
    model = untrained([("ein hund", "a dog")], RECIPE | choice).model
    assert type(model) is ModernTransformer
    assert choice.items() <= asdict(model.config).items()


@pytest.mark.parametrize("choices", [{}, {"positions": "learned", "norm_first": True}])
def test_the_command_makes_a_plain_transformer_without_a_choice(choices):
    model = untrained([("ein hund", "a dog")], RECIPE | choices).model
    assert type(model) is Transformer
