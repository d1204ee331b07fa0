"""Folders that were damaged, by chance or by somebody: a sentence, and no traceback."""

import json
import os
import random
import shutil

import pytest
from book_files import ROOT

from transformer_lib.translation import Translator, command
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.run import read_record

WHOLE = ROOT / "models" / "grammar-en-de"


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(WHOLE, tmp_path / "model")


@pytest.fixture
def call(capsys):
    def call(*arguments):
        status = command.main([*map(str, arguments)])
        return status, capsys.readouterr().err

    return call


def change(path, **fields):
    """Say something else in a record; ... takes a field away."""
    record = json.loads(path.read_text(encoding="utf-8")) | fields
    for name in [name for name, value in record.items() if value is ...]:
        del record[name]
    path.write_text(json.dumps(record), encoding="utf-8")


FILES = {"train": ["a", "b"], "validation": ["a", "b", "c"]}


@pytest.mark.parametrize(
    "fields",
    [
        {"corpus": "grammar"},
        {"corpus": {"data": 5}},
        {"corpus": {"files": FILES}},
        {"corpus": {"files": {"train": ["a", 5]}}},
        {"corpus": {"files": ["a", "b"]}},
        {"corpus": {"source": "en", "target": "en"}},
        {"corpus": ...},
    ],
)
def test_a_record_with_something_of_another_type_is_refused(folder, call, fields):
    change(folder / "run.json", **fields)
    status, err = call("evaluate", "--model", folder)
    assert status == 2
    assert f"\nerror: {folder / 'run.json'} is not a whole record: " in err
    with pytest.raises(ValueError, match="is not a whole record"):
        read_record(folder)


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b'{"a":' * 100_000, b"\xff", b"", b"null", b"9" * 9999]
)
def test_what_is_no_record_at_all_is_refused(folder, call, content):
    (folder / "run.json").write_bytes(content)
    status, err = call("evaluate", "--model", folder)
    assert status == 2
    assert f"\nerror: {folder / 'run.json'} is not a whole record: " in err


def test_a_damaged_record_is_not_trained_over(folder, call, tmp_path):
    change(folder / "run.json", corpus="grammar")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    text = tmp_path / "text", tmp_path / "same in another language"
    for path, line in zip(text, ("ba de\n", "kä um\n"), strict=True):
        path.write_text(line, encoding="utf-8")
    tiny = "vocab_size=300 d_model=8 d_ff=8 num_heads=1 num_layers=1".split()
    status, err = call(
        *("train", "--output", folder, "--epochs", 1, "--set", *tiny),
        *("--train", *text, "--validation", *text),
    )
    assert status == 2
    assert "run.json is not a whole record: " in err
    after = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert after.pop(".lock") == b""
    assert after == before


def test_a_corpus_has_two_files_for_each_split():
    with pytest.raises(ValueError, match="must be 2 names a split"):
        Corpus(files=FILES)


def test_a_tokenizer_is_not_parsed_before_it_is_known_to_be_whole(folder, call):
    """The parser panics at this one, which no ``except Exception`` catches."""
    path = folder / "tokenizer.json"
    text = path.read_text(encoding="utf-8")
    prefix = '"continuing_subword_prefix":'
    assert text.count(f"{prefix}null") == 1
    text = text.replace(f"{prefix}null", f'{prefix}"a long prefix"')
    path.write_text(text, encoding="utf-8")
    status, err = call("translate", "--model", folder, "a")
    assert status == 2
    assert err.startswith(f"error: {path} is damaged, or does not belong to ")


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_a_byte_altered_anywhere_is_noticed(folder, name):
    whole, rng = (folder / name).read_bytes(), random.Random(0)
    for place in rng.sample(range(len(whole)), 40):
        altered = bytearray(whole)
        altered[place] ^= 1 << rng.randrange(8)
        (folder / name).write_bytes(altered)
        with pytest.raises(ValueError, match=name):
            Translator.load(folder)
    (folder / name).write_bytes(whole)
    Translator.load(folder)


@pytest.mark.parametrize("name", ["grammar-en-de", "multi30k-en-de"])
def test_the_shipped_models_hold_their_sum(name):
    content = (ROOT / "models" / name / "model.safetensors").read_bytes()
    header = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])
    assert header["__metadata__"].keys() == {"checked"}


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "run.json"])
def test_a_pipe_in_the_place_of_a_file_is_refused(folder, call, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)
    status, err = call("evaluate", "--model", folder)
    assert status == 2
    assert f"{folder / name} must be a file, got a pipe" in err
