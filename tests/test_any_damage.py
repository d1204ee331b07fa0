"""Any damage to a file: what loads is the same as before, or the file is named."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import DAMAGES, JSON_DAMAGES, damaged, damaged_json, examples
from tiny_run import (
    assert_said_in_a_sentence,
    call,
    contents,
    train_arguments,
    write_files,
)

from transformer_lib.data import token_batches
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import TrainingConfig, TrainingRun, train
from transformer_lib.training.run import STATE
from transformer_lib.translation import Translator
from transformer_lib.translation.run import read_record
from transformer_lib.translation.translator import MODEL, TOKENIZER

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]
RECORD = "run.json"
TALLEST = "[" * 100_000


def in_the_header(content, damage):
    """Damage what a file of tensors says, in JSON, and keep its form."""
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    said = header.pop("__metadata__")
    whole = {"tensors": header, "about": {k: json.loads(v) for k, v in said.items()}}
    whole = damaged_json(whole, damage)
    if isinstance(whole, dict):
        about, header = whole.get("about"), whole.get("tensors")
        if isinstance(about, dict):
            about = {key: json.dumps(value) for key, value in about.items()}
        whole = header
        if isinstance(header, dict):
            whole = header | {"__metadata__": about}
    text = json.dumps(whole).encode()
    return len(text).to_bytes(8, "little") + text + content[end:]


def apply(name, content, damage):
    if damage == TALLEST:
        return damage.encode()
    if damage[0] not in ("replace", "drop"):
        return damaged(content, damage)
    if name.endswith(".safetensors"):
        return in_the_header(content, damage)
    return json.dumps(damaged_json(json.loads(content), damage)).encode()


def read(load, path):
    """What is loaded; None where a sentence names the file instead."""
    before = contents(path.parent)
    try:
        loaded = load()
    except (ValueError, OSError) as error:
        loaded, said = None, str(error)
        assert path.name in said, said
        assert len(said.split()) >= 4, said
    after = contents(path.parent)
    assert {name: after[name] for name in before} == before  # nothing was written
    return loaded


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("text"))


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    """A finished run; nobody may change it."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    status, _, err = call(*train_arguments(files, folder))
    assert status == 0, err
    return folder


@pytest.fixture(scope="module")
def copy(whole, tmp_path_factory):
    """A copy to be damaged, one file after another."""
    return shutil.copytree(whole, tmp_path_factory.mktemp("copies") / "copy")


def spoil(whole, copy, name, damage):
    """Damage one file of the copy; the others are as they were."""
    for file, content in contents(whole).items():
        (copy / file).write_bytes(content)
    (copy / name).write_bytes(apply(name, (whole / name).read_bytes(), damage))


def everything(translator):
    model = translator.model
    weights = {name: p.detach() for name, p in model.state_dict().items()}
    about = model.config, model.training, translator.tokenizer.to_json()
    return about, {name: (p.dtype, p.numpy().tobytes()) for name, p in weights.items()}


@examples(40, 5_000)
@example(MODEL, ("flip", -1, 0))  # somewhere in the weights
@example(MODEL, TALLEST)
@example(MODEL, ("drop", -25))  # what is said becomes null
@example(TOKENIZER, TALLEST)
@given(
    st.sampled_from([MODEL, MODEL, TOKENIZER]),
    DAMAGES | JSON_DAMAGES,
)
def test_a_damaged_translator_is_the_same_or_refused(whole, copy, name, damage):
    spoil(whole, copy, name, damage)
    loaded = read(lambda: Translator.load(copy), copy / name)
    if loaded is not None:
        assert everything(loaded) == everything(Translator.load(whole))


@examples(25, 2_000)
@example(TALLEST)
@example(("replace", 7, []))
@given(DAMAGES | JSON_DAMAGES)
def test_a_damaged_record_is_a_record_or_refused(whole, copy, damage):
    spoil(whole, copy, RECORD, damage)
    record = read(lambda: read_record(copy), copy / RECORD)
    translator = read(lambda: Translator.load(copy), copy / RECORD)
    if record is not None:
        assert "corpus" in record
    if translator is not None:
        assert everything(translator) == everything(Translator.load(whole))


# -- The state of a training -----------------------------------------------------------

TRAINED = TransformerConfig.base(
    7, d_model=2, num_heads=1, d_ff=2, num_layers=1, max_len=9, norm_first=True
)
HOW = TrainingConfig(epochs=2, warmup_steps=3, average=2)
PAIRS = [([3, 4], [5]), ([6], [4, 3]), ([5, 5, 3], [6])]


def batches(epoch):
    return token_batches(PAIRS, 8, seed=epoch)


@pytest.fixture(scope="module")
def state(tmp_path_factory):
    """The folder of a training, and the same again to be damaged."""
    folder = tmp_path_factory.mktemp("state") / "whole"
    torch.manual_seed(0)
    train(Transformer(TRAINED), batches, list(batches(0)), HOW, folder=folder)
    return folder, shutil.copytree(folder, folder.with_name("copy"))


def resumed(folder):
    torch.manual_seed(0)
    run = TrainingRun(Transformer(TRAINED), replace(HOW, epochs=4), folder)
    named = dict(run.model.named_parameters())
    tensors = {f"weights {name}": p for name, p in named.items()}
    for name, parameter in named.items():
        for part, value in run.optimizer.state[parameter].items():
            tensors[f"{part} {name}"] = value
    for age, weights in enumerate(run.recent):
        tensors |= {f"recent {age} {name}": p for name, p in weights.items()}
    tensors["random"] = torch.get_rng_state()
    return run.history, {
        name: (p.dtype, tuple(p.shape), p.detach().numpy().tobytes())
        for name, p in tensors.items()
    }


@examples(40, 5_000)
@example(("flip", -5_100, 6))  # before the random state, which ends the file
@example(TALLEST)
@given(DAMAGES | JSON_DAMAGES)
def test_a_damaged_training_goes_on_as_it_would_have_or_is_refused(state, damage):
    whole, copy = state
    spoil(whole, copy, STATE, damage)
    found = read(lambda: resumed(copy), copy / STATE)
    if found is not None:
        assert found == resumed(whole)


# -- The command -----------------------------------------------------------------------


@examples(6, 300)
@example(RECORD, ("replace", 4, {"a": 1}))
@example(RECORD, ("drop", 758))  # the corpus without its files
@example(TOKENIZER, TALLEST)
@example(STATE, ("drop", 3))
@given(
    st.sampled_from([MODEL, TOKENIZER, RECORD, RECORD, STATE]),
    DAMAGES | JSON_DAMAGES,
)
def test_the_command_names_a_damaged_file_in_one_sentence(
    whole, copy, files, name, damage
):
    spoil(whole, copy, name, damage)
    expected = call("translate", "--model", whole, "de fi")
    for arguments in (
        ["translate", "--model", copy, "de fi"],
        ["evaluate", "--model", copy],
        train_arguments(files, copy, epochs=3),
    ):
        before = contents(copy)
        status, out, err = call(*arguments)
        if status:
            assert_said_in_a_sentence(status, err)
            after = contents(copy)
            kept = {MODEL, TOKENIZER, STATE} if name != TOKENIZER else {MODEL, STATE}
            assert all(after[file] == before[file] for file in kept)
        elif arguments[0] == "translate":
            assert out == expected[1]
