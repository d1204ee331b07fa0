import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.testing import assert_close
from torch_weights import torch_twins

from transformer_lib.model import Transformer, TransformerConfig, causal_mask

B, T, S, PAD = 2, 5, 7, 0
SRC, TGT = 19, 23
SMALL = {"d_model": 12, "num_heads": 3, "d_ff": 17, "num_layers": 2, "max_len": 11}
CONFIG = TransformerConfig(src_vocab_size=SRC, tgt_vocab_size=TGT, **SMALL)


@pytest.fixture
def src():
    src = torch.randint(1, SRC, (B, S))
    src[1, 4:] = PAD
    return src


@pytest.fixture
def tgt():
    tgt = torch.randint(1, TGT, (B, T))
    tgt[0, 3:] = PAD
    return tgt


@pytest.mark.parametrize(
    "choices",
    [
        {"norm_first": False},
        {"norm_first": True},
        {"activation": "gelu"},
        {"activation": "gelu_tanh", "norm_first": True},
        {"activation": "silu"},
    ],
    ids=str,
)
def test_it_agrees_with_torchs_transformer(src, tgt, choices):
    ours = Transformer(replace(CONFIG, **choices)).eval()
    encoder, decoder = torch_twins(ours)
    memory = encoder(
        ours.src_positions(ours.src_embedding(src)), src_key_padding_mask=src == PAD
    )
    hidden = decoder(
        ours.tgt_positions(ours.tgt_embedding(tgt)),
        memory,
        tgt_mask=~causal_mask(T)[0, 0],
        tgt_key_padding_mask=tgt == PAD,
        memory_key_padding_mask=src == PAD,
    )
    assert_close(ours(src, tgt), ours.output(hidden))


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("tie", [False, True])
def test_tables_are_shared_and_tied_as_the_config_says(share, tie):
    config = replace(CONFIG, src_vocab_size=TGT, share_embeddings=share, tie_output=tie)
    model = Transformer(config)
    tables = [model.src_embedding.table, model.tgt_embedding.table, model.output]
    source, target, output = (table.weight for table in tables)
    assert (source is target) == share
    assert (output is target) == tie
    assert target.std().item() == pytest.approx(config.d_model**-0.5, rel=0.2)
    assert output.shape == (TGT, config.d_model)


@pytest.mark.parametrize(
    "change",
    [
        deepcopy,
        lambda model: model.to(torch.bfloat16),
        lambda model: pickle.loads(pickle.dumps(model)),
    ],
    ids=["deepcopy", "to", "pickle"],
)
def test_shared_tables_stay_one_parameter(change):
    model = Transformer(TransformerConfig.base(TGT, **SMALL))
    names = [name for name, _ in model.named_parameters()]
    keys = model.state_dict().keys()
    changed = change(model)
    assert changed.src_embedding.table.weight is changed.output.weight
    assert changed.tgt_embedding.table.weight is changed.output.weight
    assert [name for name, _ in changed.named_parameters()] == names
    assert changed.state_dict().keys() == keys
    assert keys - set(names) == {"tgt_embedding.table.weight", "output.weight"}


@pytest.mark.parametrize("tie", [False, True])
def test_an_output_bias_begins_at_zero_and_is_added_to_the_logits(src, tgt, tie):
    model = Transformer(replace(CONFIG, tie_output=tie, output_bias=True)).eval()
    assert model.output.bias.tolist() == [0.0] * TGT
    assert (model.output.weight is model.tgt_embedding.table.weight) == tie
    before, bias = model(src, tgt), torch.randn(TGT)
    with torch.no_grad():
        model.output.bias.copy_(bias)
    assert_close(model(src, tgt), before + bias)


def test_matrices_start_xavier_uniform_and_biases_at_zero():
    model = Transformer(replace(CONFIG, d_model=120, d_ff=200))
    for module in model.modules():
        if isinstance(module, nn.Linear):
            bound = (6 / (module.in_features + module.out_features)) ** 0.5
            assert module.weight.abs().max() <= bound
            assert module.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.1)
            assert module.bias is None or (module.bias == 0).all()
    assert model.src_embedding.table.weight.std().item() == pytest.approx(
        120**-0.5, rel=0.1
    )


def test_dropout_falls_on_the_embeddings_too(src, tgt):
    model, seen = Transformer(replace(CONFIG, dropout=0.5)), []
    for stack in (model.encoder, model.decoder):
        stack.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(src, tgt)
    assert all(0.3 < (x == 0).float().mean() < 0.8 for x in seen)


@pytest.mark.parametrize(
    "config",
    [
        CONFIG,
        replace(
            CONFIG,
            dropout=0.25,
            attention_dropout=0.125,
            feed_forward_dropout=0.5,
            norm_first=True,
            norm_eps=1e-6,
            bias=False,
            activation="silu",
        ),
    ],
)
def test_the_choices_reach_every_layer(config):
    model = Transformer(config)
    for stack, attentions in ((model.encoder, 1), (model.decoder, 2)):
        assert len(stack.layers) == 2
        assert (stack.norm is not None) == config.norm_first
        parts = dict(stack.layers[-1].named_children())
        residuals = [part for name, part in parts.items() if "residual" in name]
        assert len(residuals) == attentions + 1
        for part in residuals:
            assert part.dropout.p == config.dropout
            assert part.norm_first == config.norm_first
            assert part.norm.eps == config.norm_eps
        found = [part for name, part in parts.items() if name.endswith("attention")]
        assert len(found) == attentions
        for part in found:
            assert part.dropout == config.attention_dropout
            for matrix in (part.w_q, part.w_k, part.w_v, part.w_o):
                assert (matrix.bias is not None) == config.bias
        assert parts["feed_forward"].dropout.p == config.feed_forward_dropout
        assert parts["feed_forward"].activation is getattr(F, config.activation)


def test_the_base_preset_is_the_papers_base_model_and_tensor2tensors_differs():
    config = TransformerConfig.base()
    sizes = config.d_model, config.num_heads, config.d_ff, config.num_layers
    assert sizes == (512, 8, 2048, 6)
    assert (config.src_vocab_size, config.tgt_vocab_size) == (37_000, 37_000)
    assert (config.share_embeddings, config.tie_output) == (True, True)
    assert (config.positions, config.activation) == ("interleaved", "relu")
    assert (config.norm_first, config.norm_eps) == (False, 1e-5)
    assert (config.bias, config.output_bias) == (True, False)
    dropout = config.dropout, config.attention_dropout, config.feed_forward_dropout
    assert dropout == (0.1, 0, 0)
    with torch.device("meta"):
        model = Transformer(config)
    assert sum(p.numel() for p in model.parameters()) == 63_082_496
    assert TransformerConfig.tensor2tensor() == replace(
        config, norm_first=True, bias=False, norm_eps=1e-6, positions="concatenated"
    )


def test_a_config_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        CONFIG.d_model = 13
