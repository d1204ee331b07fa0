import pickle
from copy import deepcopy
from dataclasses import FrozenInstanceError, replace

import pytest
import torch
from torch import nn
from torch.testing import assert_close
from torch_weights import torch_twin

from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    causal_mask,
    padding_mask,
)
from transformer_lib.variants import DecoderAlone, ModernConfig

B, T, S, PAD = 2, 5, 7, 0
SRC, TGT = 19, 23
SMALL = {"d_model": 12, "num_heads": 3, "d_ff": 17, "num_layers": 2, "max_len": 11}
CONFIG = TransformerConfig(src_vocab_size=SRC, tgt_vocab_size=TGT, **SMALL)
DECODER_ONLY = ModernConfig(src_vocab_size=None, tgt_vocab_size=TGT, **SMALL)


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


def build(config):
    return Transformer(config).eval()


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
    ours = build(replace(CONFIG, **choices))
    theirs = torch_twin(ours)
    padding = src == PAD
    hidden = theirs(
        ours.src_positions(ours.src_embedding(src)),
        ours.tgt_positions(ours.tgt_embedding(tgt)),
        tgt_mask=~causal_mask(T)[0, 0],
        src_key_padding_mask=padding,
        memory_key_padding_mask=padding,
        tgt_key_padding_mask=tgt == PAD,
    )
    assert_close(ours(src, tgt), ours.output(hidden))


def test_logits_at_t_have_not_seen_the_target_after_t(src, tgt):
    model = build(CONFIG)
    logits = model(src, tgt)
    for t in range(1, T):
        changed = tgt.clone()
        changed[:, t:] = 1 + (changed[:, t:] + 1) % (TGT - 1)
        assert_close(model(src, changed)[:, :t], logits[:, :t])
        assert not model(src, changed)[:, t:].allclose(logits[:, t:])


def test_more_padding_changes_nothing(src, tgt):
    model = build(CONFIG)
    longer_src = nn.functional.pad(src, (0, 3), value=PAD)
    longer_tgt = nn.functional.pad(tgt, (0, 3), value=PAD)
    assert_close(model(longer_src, longer_tgt)[:, :T], model(src, tgt))


def test_padding_on_the_left_of_the_target_is_finite_and_hidden(src):
    model = build(CONFIG)
    tgt = torch.tensor([[PAD, PAD, 3, 4], [5, 6, 7, 8]])
    logits = model(src, tgt)
    assert logits.isfinite().all()


def test_encode_and_decode_are_the_two_halves_of_forward(src, tgt):
    model = build(CONFIG)
    memory = model.encode(src)
    assert memory.shape == (B, S, CONFIG.d_model)
    assert_close(model.decode(tgt, memory, padding_mask(src, PAD)), model(src, tgt))


def test_a_decoder_alone_scores_without_a_source(tgt):
    model = DecoderAlone(DECODER_ONLY).eval()
    assert model(tgt).shape == (B, T, TGT)
    assert not any(
        "src" in name or "cross" in name for name, _ in model.named_modules()
    )


@pytest.mark.parametrize("share", [False, True])
@pytest.mark.parametrize("tie", [False, True])
def test_tables_are_shared_and_tied_as_the_config_says(share, tie):
    config = replace(CONFIG, src_vocab_size=TGT, share_embeddings=share, tie_output=tie)
    model = build(config)
    tables = [model.src_embedding.table, model.tgt_embedding.table, model.output]
    source, target, output = (table.weight for table in tables)
    assert (source is target) == share
    assert (output is target) == tie
    deviation = {"rel": 0.2}
    assert target.std().item() == pytest.approx(config.d_model**-0.5, **deviation)
    assert output.shape == (TGT, config.d_model)


def test_a_call_with_other_weights_leaves_shared_tables_as_they_were(tgt):
    config = replace(CONFIG, src_vocab_size=TGT, share_embeddings=True, tie_output=True)
    model, other = build(config), build(config)
    before = model(tgt, tgt)
    called = torch.func.functional_call(
        model, dict(other.named_parameters()), (tgt, tgt)
    )
    assert_close(called, other(tgt, tgt))
    assert torch.equal(model(tgt, tgt), before)
    assert isinstance(model.src_embedding.table.weight, nn.Parameter)


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
    config = replace(CONFIG, src_vocab_size=TGT, share_embeddings=True, tie_output=True)
    model = Transformer(config)
    names = [name for name, _ in model.named_parameters()]
    keys = model.state_dict().keys()
    changed = change(model)
    assert changed.src_embedding.table.weight is changed.output.weight
    assert changed.tgt_embedding.table.weight is changed.output.weight
    assert [name for name, _ in changed.named_parameters()] == names
    assert names[0] == "src_embedding.table.weight"
    assert changed.state_dict().keys() == keys
    assert keys - set(names) == {"tgt_embedding.table.weight", "output.weight"}


@pytest.mark.parametrize("tie", [False, True])
def test_an_output_bias_begins_at_zero_and_is_added_to_the_logits(src, tgt, tie):
    model = build(replace(CONFIG, tie_output=tie, output_bias=True))
    assert model.output.bias.tolist() == [0.0] * TGT
    assert (model.output.weight is model.tgt_embedding.table.weight) == tie
    before, bias = model(src, tgt), torch.randn(TGT)
    with torch.no_grad():
        model.output.bias.copy_(bias)
    assert_close(model(src, tgt), before + bias)


def test_training_a_tied_table_leaves_padding_at_zero(src, tgt):
    config = replace(CONFIG, src_vocab_size=TGT, share_embeddings=True, tie_output=True)
    model = Transformer(config)
    optimiser = torch.optim.Adam(model.parameters())
    before = model.output.weight[PAD].clone()
    for _ in range(3):
        optimiser.zero_grad()
        model(src, tgt).logsumexp(-1).sum().backward()
        optimiser.step()
    assert not model.output.weight[PAD].allclose(before)
    assert (model.src_embedding(src)[1, 4:] == 0).all()


def test_matrices_start_xavier_uniform_and_biases_at_zero():
    model = build(replace(CONFIG, d_model=120, d_ff=200))
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
    silent = {"attention_dropout": 0.0, "feed_forward_dropout": 0.0}
    model = Transformer(replace(CONFIG, dropout=0.5, **silent))
    seen = []
    model.encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model.decoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    model(src, tgt)
    assert all(0.3 < (x == 0).float().mean() < 0.8 for x in seen)


def test_the_options_reach_the_layers():
    config = replace(
        CONFIG,
        dropout=0.25,
        attention_dropout=0.125,
        feed_forward_dropout=0.5,
        norm_first=True,
        norm_eps=1e-6,
        bias=False,
        activation="silu",
        positions="learned",
    )
    model = build(config)
    for stack in (model.encoder, model.decoder):
        assert len(stack.layers) == 2
        assert stack.norm.eps == 1e-6
        layer = stack.layers[-1]
        assert layer.self_attention.dropout == 0.125
        assert layer.self_attention.w_q.bias is None
        assert layer.feed_forward.dropout.p == 0.5
        assert layer.feed_forward.activation is nn.functional.silu
        assert layer.feed_forward_residual.dropout.p == 0.25
        assert layer.feed_forward_residual.norm_first
        assert layer.feed_forward_residual.norm.eps == 1e-6
    assert isinstance(model.tgt_positions.table, nn.Parameter)


def test_the_base_preset_is_the_papers_base_model():
    config = TransformerConfig.base()
    sizes = config.d_model, config.num_heads, config.d_ff, config.num_layers
    assert sizes == (512, 8, 2048, 6)
    assert (config.dropout, config.norm_first, config.bias) == (0.1, False, True)
    assert config.share_embeddings
    assert config.tie_output
    with torch.device("meta"):
        model = Transformer(config)
    assert sum(p.numel() for p in model.parameters()) == 63_082_496
    assert model.encoder.norm is None
    assert model.decoder.norm is None


def test_the_tensor2tensor_preset_differs_as_it_says():
    config = TransformerConfig.tensor2tensor(1000)
    expected = replace(
        TransformerConfig.base(1000),
        norm_first=True,
        bias=False,
        norm_eps=1e-6,
        positions="concatenated",
    )
    assert config == expected


def test_presets_take_changes():
    config = TransformerConfig.base(1000, num_layers=2, norm_first=True)
    assert (config.num_layers, config.norm_first) == (2, True)
    decoder = ModernConfig.tensor2tensor(
        1000, src_vocab_size=None, share_embeddings=False
    )
    assert decoder.src_vocab_size is None


def test_a_config_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        CONFIG.d_model = 13


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_heads": 5}, "divisible by num_heads, got 12 and 5"),
        ({"num_layers": 0}, "num_layers must be at least 1, got 0"),
        ({"dropout": 1.0}, r"dropout must be in \[0, 1\), got 1\.0"),
        ({"attention_dropout": -0.5}, r"dropout must be in \[0, 1\), got -0\.5"),
        ({"feed_forward_dropout": 2}, r"dropout must be in \[0, 1\), got 2"),
        ({"d_ff": 0}, "d_ff must be at least 1, got 0"),
        ({"d_model": -12}, "d_model must be at least 1, got -12"),
        ({"src_vocab_size": 0}, "vocab_size must be at least 1, got 0"),
        ({"src_vocab_size": None}, "src_vocab_size must be int, got None"),
        ({"num_layers": True}, "num_layers must be int, got True"),
        ({"num_heads": 2.0}, "num_heads must be int, got 2.0"),
        ({"bias": "no"}, "bias must be bool, got 'no'"),
        ({"max_len": 0}, "max_len must be at least 1, got 0"),
        ({"pad_id": 19}, "pad_id must be below vocab_size, got 19 and 19"),
        ({"bos_id": 0}, "bos_id must differ from pad_id, got 0 and 0"),
        ({"bos_id": 23}, "bos_id must be below tgt_vocab_size, got 23 and 23"),
        ({"eos_id": -1}, "eos_id must be below tgt_vocab_size, got -1 and 23"),
        ({"positions": "relative"}, "learned, got relative"),
        ({"activation": "GELU"}, "one of relu, gelu, gelu_tanh, silu, got GELU"),
        ({"norm_eps": -1e-5}, "norm_eps must be at least 0, got -1e-05"),
        ({"norm_eps": float("nan")}, "norm_eps must be at least 0, got nan"),
        ({"norm_eps": float("inf")}, "norm_eps must be finite, got inf"),
        ({"share_embeddings": True}, "equal to share embeddings, got 19 and 23"),
    ],
)
def test_impossible_models_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        Transformer(replace(CONFIG, **changes))


def test_a_source_belongs_to_an_encoder(src, tgt):
    with pytest.raises(TypeError, match="positional argument"):
        DecoderAlone(DECODER_ONLY)(src, tgt)
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        build(CONFIG)(tgt)


def test_memory_comes_with_its_mask(src, tgt):
    model = build(CONFIG)
    with pytest.raises(TypeError, match=r"missing .* argument: 'memory_mask'"):
        model.decode(tgt, model.encode(src))


def test_bad_token_ids_are_refused(src, tgt):
    model = build(CONFIG)
    with pytest.raises(IndexError, match="from 0 to 18, got 0 to 19"):
        model(src.masked_fill(src == src[0, 0], SRC), tgt)
    with pytest.raises(TypeError, match=r"integer token ids, got torch\.float64"):
        model(src, tgt.double())
    with pytest.raises(ValueError, match=r"length of at least 1, got \(2, 0\)"):
        model(src[:, :0], tgt)
    with pytest.raises(ValueError, match=r"length of at least 1, got \(2, 0\)"):
        model(src, tgt[:, :0])
    with pytest.raises(ValueError, match="max_len long, got 12 and 11"):
        model(torch.ones(B, 12, dtype=torch.long), tgt)


def test_every_attention_of_the_model_is_a_multi_head_attention():
    kinds = [m for m in build(CONFIG).modules() if isinstance(m, MultiHeadAttention)]
    assert len(kinds) == 3 * CONFIG.num_layers


def test_the_presets_drop_nothing_that_the_paper_keeps_and_share_one_vocabulary():
    for preset in (TransformerConfig.base, TransformerConfig.tensor2tensor):
        config = preset()
        assert (config.src_vocab_size, config.tgt_vocab_size) == (37_000, 37_000)
        assert (config.attention_dropout, config.feed_forward_dropout) == (0, 0)
    config = TransformerConfig.base()
    assert (config.positions, config.norm_eps) == ("interleaved", 1e-5)
    assert (config.activation, config.output_bias) == ("relu", False)
    assert Transformer(CONFIG).output.bias is None
