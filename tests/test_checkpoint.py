"""Checkpoints: whole or refused, of every family, loaded as they were saved."""

import json
import math
import os
import re
import signal
from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from transformer_lib.faster import remove_heads
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import (
    average_weights,
    load_model,
    load_tensors,
    load_weights,
    save_model,
    save_tensors,
)
from transformer_lib.variants import (
    FAMILIES,
    DecoderAlone,
    EncoderAlone,
    ModernConfig,
    ModernTransformer,
)

V = 11
TIED = TransformerConfig.base(V, d_model=6, num_heads=2, d_ff=5, num_layers=1)
APART = replace(TIED, share_embeddings=False, tie_output=False, norm_first=True)
BIASED = replace(TIED, output_bias=True, activation="gelu_tanh")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def model():
    return Transformer(TIED)


def weights_of(model):
    return {name: p.detach().clone() for name, p in model.named_parameters()}


def assert_same_weights(model, expected):
    for ours, theirs in zip(model.parameters(), expected.parameters(), strict=True):
        assert torch.equal(ours, theirs)


# -- Damages and threats, as README.md lists them --------------------------------------


def killed(path):
    """Be killed while another model is half written to the same name."""
    child = os.fork()
    if child == 0:

        def write_bytes(self, content):
            with open(self, "wb", buffering=0) as file:
                file.write(content[: len(content) // 2])
            os.kill(os.getpid(), signal.SIGKILL)

        Path.write_bytes = write_bytes
        save_model(path, Transformer(TIED))
        os._exit(0)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL


def cut_off(part):
    return lambda path: path.write_bytes(path.read_bytes()[:part])


class Bomb:
    def __reduce__(self):
        return exec, ("raise SystemExit('run')",)


def weight_becomes(change):
    def alter(path):
        tensors, about = load_tensors(path)
        name = "encoder.layers.0.feed_forward.w_1.weight"
        save_tensors(path, tensors | {name: change(tensors[name])}, about)

    return alter


def says(**changes):
    """Say something else about the same weights."""

    def alter(path):
        tensors, about = load_tensors(path)
        save_tensors(path, tensors, about | changes)

    return alter


def claims(family="Transformer", **sizes):
    return says(family=family, config=asdict(TIED) | sizes)


NOT_WHOLE = "is not a whole checkpoint"
UNKNOWN = "has an unknown configuration: "
MUCH = 10**9
THREATS = {
    "killed while it is written": (killed, None),
    "nothing left": (cut_off(0), NOT_WHOLE),
    "cut off in the header": (cut_off(99), NOT_WHOLE),
    "cut off at the end": (cut_off(-1), NOT_WHOLE),
    "a pickle": (lambda path: torch.save(Bomb(), path), NOT_WHOLE),
    "no description": (lambda path: save_file({"a": torch.ones(1)}, path), NOT_WHOLE),
    "no configuration": (
        lambda path: save_tensors(path, {"a": torch.ones(1)}, {}),
        UNKNOWN + "'config'",
    ),
    "an empty configuration": (says(config={}), UNKNOWN + "'num_layers'"),
    "an unknown choice": (claims(rotary=True), UNKNOWN + ".*rotary"),
    "sizes that cannot be": (claims(num_heads=4), UNKNOWN + ".*got 6 and 4"),
    "another type": (claims(d_model="6"), UNKNOWN + "d_model must be int, got '6'"),
    "an unknown family": (claims("Mine"), UNKNOWN + "family must be one of .* got Mi"),
    "another shape": (
        claims(d_ff=7),
        r"does not fit the model: .*w_1\.weight must have shape \(7, 6\), got \(5, 6\)",
    ),
    "other names": (
        says(config=asdict(APART)),
        r"missing \[.*'encoder.norm.bias'.*\], unknown \[\]",
    ),
    "integers": (weight_becomes(torch.Tensor.long), r"w_1\.weight .* torch.int64"),
    "nan": (weight_becomes(lambda w: w * math.nan), r"w_1\.weight must be finite"),
    "infinite": (weight_becomes(lambda w: w / 0), r"w_1\.weight must be finite"),
    "many layers": (claims(num_layers=MUCH), UNKNOWN + r"num_layers .* \[1, 43\]"),
    "wide layers": (claims(d_ff=MUCH), r"must have shape \(1000000000"),
    "more than torch can name": (claims(d_model=10**30), UNKNOWN),
    "a long table": (claims(max_len=MUCH), UNKNOWN + "numbers in tables of max_len"),
    "long angles": (
        claims("ModernTransformer", max_len=MUCH, positions="rotary", d_k=2),
        UNKNOWN + "numbers in tables of max_len",
    ),
}


@pytest.mark.parametrize(("threat", "answer"), THREATS.values(), ids=THREATS)
def test_a_file_is_whole_or_refused_before_it_takes_memory(path, model, threat, answer):
    save_model(path, model)
    threat(path)
    if answer is None:
        assert_same_weights(load_model(path), model)
        return

    def refuse_memory(self, config):
        assert torch.empty(0).device.type == "meta", "this would take memory"
        super(type(self), self).__init__(config)

    watched = {
        name: type(name, (FAMILIES[name],), {"__init__": refuse_memory})
        for name in ("Transformer", "ModernTransformer")
    }
    with pytest.raises(ValueError, match=f"^{path}.*{answer}"):
        load_model(path, watched)


def test_the_library_never_unpickles_what_others_wrote():
    root = Path(load_model.__code__.co_filename).parent
    for source in {*root.rglob("*.py")} - {root / "workers.py"}:  # talks to its own
        text = source.read_text(encoding="utf-8")
        assert not re.search(r"torch\.(load|save)\(|import pickle", text), source


# -- Tensors ---------------------------------------------------------------------------


def test_tensors_of_any_shape_and_dtype_come_back_with_what_was_said(path):
    twice = torch.randn(3, 5)
    tensors = {
        "half": torch.randn(2, 3).bfloat16(),
        "scalar": torch.tensor(5),
        "empty": torch.empty(0, 7),
        "flags": torch.tensor([True, False]),
        "transposed": torch.randn(3, 2).T,
        "trained": torch.randn(2, requires_grad=True),
        "one": twice,
        "other": twice,
        "row": twice[1],
    }
    about = {"number": 0.1 + 0.2, "text": "müde \u2028", "list": [1, None, {"a": True}]}
    save_tensors(str(path), tensors, about)
    found, said = load_tensors(str(path))
    assert said == about
    assert list(found) == sorted(tensors)
    for name, tensor in tensors.items():
        torch.testing.assert_close(found[name], tensor.detach(), rtol=0, atol=0)
        assert found[name].dtype == tensor.dtype
        assert not found[name].requires_grad


def test_what_json_cannot_hold_is_refused_and_nothing_is_written(path):
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        save_tensors(path, {}, {"names": {"a"}})
    assert list(path.parent.iterdir()) == []


def test_a_file_is_replaced_and_the_same_content_makes_the_same_bytes(path, model):
    save_tensors(path, {"a": torch.ones(1)}, {})
    contents = set()
    for _ in range(8):
        save_model(path, model, a=1, b=[2.5], c="three")
        contents.add(path.read_bytes())
    assert len(contents) == 1
    assert list(path.parent.iterdir()) == [path]


def test_a_file_from_before_may_have_a_checksum_beside_its_description(path, model):
    about = {"config": asdict(TIED), "seed": 7}
    checked = {"checked": json.dumps({"about": about, "sha256": "0" * 64})}
    save_file(weights_of(model), path, checked)
    assert load_tensors(path)[1] == about
    assert_same_weights(load_model(path), model)


# -- Models ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config", [TIED, APART, BIASED], ids=["tied", "apart", "biased"]
)
def test_a_model_comes_back_with_its_configuration_and_its_weights(path, config):
    model = Transformer(config)
    for parameter in model.parameters():  # biases that do something
        nn.init.normal_(parameter)
    save_model(path, model, seed=7)
    tensors, about = load_tensors(path)
    assert about == {"family": "Transformer", "config": asdict(config), "seed": 7}
    parameters = list(model.parameters())  # a shared table is written once
    assert sum(t.numel() for t in tensors.values()) == sum(
        p.numel() for p in parameters
    )
    loaded = load_model(path)
    assert loaded.config == config
    assert not loaded.training
    src, tgt = torch.randint(1, V, (2, 5)), torch.randint(1, V, (2, 3))
    assert torch.equal(loaded(src, tgt), model.eval()(src, tgt))
    assert len(list(loaded.parameters())) == len(parameters)


def test_a_model_that_lost_a_head_in_one_layer_only_is_not_written(path, model):
    save_model(path, model)
    before = path.read_bytes()
    remove_heads(model.encoder.layers[0].self_attention, [0])
    expected = (
        "the model does not fit its configuration: encoder.layers.0.self_attention."
        "w_q.weight must have shape (6, 6), got (3, 6)"
    )
    with pytest.raises(ValueError, match=re.escape(expected)):
        save_model(path, model)
    assert path.read_bytes() == before


class Mine(Transformer):
    """A family of your own."""


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        (Mine, None),
        (Transformer, None),
        (ModernTransformer, {"norm": "rms"}),
        (EncoderAlone, {"tgt_vocab_size": None, "share_embeddings": False}),
        (DecoderAlone, {"src_vocab_size": None, "share_embeddings": False}),
    ],
)
def test_a_file_names_the_family_and_one_from_before_tells_it_by_its_config(
    path, family, changes
):
    config = TIED if changes is None else ModernConfig(**asdict(TIED) | changes)
    model = family(config)
    save_model(path, model)
    tensors, about = load_tensors(path)
    families = {**FAMILIES, "Mine": Mine}
    loaded = [load_model(path, families)]
    assert about.pop("family") == family.__name__
    if family is not Mine:
        save_tensors(path, tensors, about)
        loaded.append(load_model(path, families))
    for each in loaded:
        assert type(each) is family
        assert each.config == config
        assert_same_weights(each, model)


def test_weights_keep_their_dtype_in_the_file_and_load_in_the_default_one(path, model):
    save_model(path, model.bfloat16())
    tensors, _ = load_tensors(path)
    assert {tensor.dtype for tensor in tensors.values()} == {torch.bfloat16}
    assert {p.dtype for p in load_model(path).parameters()} == {torch.float64}


# -- Weights ---------------------------------------------------------------------------


def test_a_model_is_left_as_it_was_unless_all_weights_fit():
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 5))
    before = weights_of(model)
    for bad in (
        {**before, "1.bias": torch.zeros(6)},
        {**before, "2.bias": torch.zeros(5)},
        {name: tensor for name, tensor in before.items() if name != "1.bias"},
    ):
        bad["0.weight"] = torch.zeros(3, 2)
        with pytest.raises(ValueError, match=r"here does not fit .*[12]\.bias"):
            load_weights(model, bad, source="here")
        for name, parameter in model.named_parameters():
            assert torch.equal(parameter, before[name])


def test_the_average_is_the_mean_by_hand():
    checkpoints = [
        {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([[5.0]])},
        {"a": torch.tensor([3.0, 7.0]), "b": torch.tensor([[5.0]])},
        {"a": torch.tensor([5.0, 0.0]), "b": torch.tensor([[2.0]])},
    ]
    averaged = average_weights(checkpoints)
    assert {name: tensor.tolist() for name, tensor in averaged.items()} == {
        "a": [3.0, 3.0],
        "b": [[4.0]],
    }
    assert checkpoints[0]["a"].tolist() == [1, 2]
