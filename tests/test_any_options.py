"""The command with any options: it does what it says, or says in a sentence why not."""

import math
import os
import shutil

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from strategies import examples
from tiny_run import (
    assert_said_in_a_sentence,
    call,
    contents,
    train_arguments,
    write_files,
)

from transformer_lib.data.corpora import grammar
from transformer_lib.translation import Translator, corpus
from transformer_lib.translation.options import RECIPE_CHOICES

pytestmark = [pytest.mark.sweep, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = write_files(tmp_path_factory.mktemp("text"))
    for name, content in (
        ("empty", b""),
        ("blank", b"\n \n"),
        ("latin", b"M\xfcll\n"),
        ("long", b"ba " * 40 + b"\n"),
        ("zeros", bytes(9)),
        ("odd", "\ufeffba\r\n\nfi\u2028de\n</s>\n😀".encode()),
    ):
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    return folder


@pytest.fixture(scope="module")
def whole(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "whole"
    status, _, err = call(*train_arguments(files, folder))
    assert status == 0, err
    return folder


@pytest.fixture(autouse=True, scope="module")
def little_data():
    """A grammar of few sentences, and no captions."""
    small = grammar.splits(train=7, validation=5, test=3, longer=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MULTI30K_DIR", os.devnull)
        patch.setattr(corpus, "grammar_splits", lambda: small)
        yield


# What a number may be given as; nothing that would train for hours.
NUMBERS = st.sampled_from(
    "0 1 2 3 -1 0.5 1.0 1e-300 1e400 NaN Infinity -Infinity true null [] {} x".split()
) | st.sampled_from(["", '"1"', "0x1", "\uff11", "1_0"])
HUGE = st.sampled_from([str(10**30), "1000000000000", "9" * 5000])
# They would take hours, or all memory.
NEVER_HUGE = {"epochs", "num_layers", "vocab_size", "d_model", "d_ff", "d_k", "max_len"}
SETTINGS = st.sampled_from(sorted(RECIPE_CHOICES)).flatmap(
    lambda name: st.tuples(
        st.just(name), NUMBERS if name in NEVER_HUGE else NUMBERS | HUGE
    )
)
CHANGES = st.one_of(
    SETTINGS.map("=".join),
    st.sampled_from(
        "dropout positions=learned positions=concatenated norm_first=false =1 a=b=c"
        " activation=gelu activation=[] tie_output=false share_embeddings=false"
        " patience=1 precision=bfloat16 r_drop=0.5 accumulate=2 bpe_dropout=0.3"
        " --x".split()
    ),
)
SPLITS = st.sampled_from("train validation test longer test_2016 files x".split())
COMMON = {
    "--device": st.sampled_from("cpu cuda tpu".split()),
    "--threads": st.sampled_from("1 2 0 -1 x 1.5".split()),
}
DATA = {
    "--data": st.sampled_from("grammar multi30k wmt".split()),
    "--source": st.sampled_from("en de fr".split()),
    "--target": st.sampled_from("en de fr".split()),
}
NAMES = (
    "train.xx train.yy validation.xx validation.yy empty blank latin long zeros odd "
    "folder missing"
).split()


@st.composite
def chosen(draw, options, most=3):
    """Some of the options, in any order, each once."""
    names = draw(st.lists(st.sampled_from(sorted(options)), max_size=most, unique=True))
    found = []
    for name in names:
        values = draw(options[name])
        found += [name, *([values] if isinstance(values, str) else values)]
    return found


def run(files, arguments, given=b""):
    """Run the command; a file's name stands for its path."""
    placed = [str(files / name) if name in NAMES else name for name in arguments]
    status, out, err = call(*placed, given=given)
    if status:
        assert_said_in_a_sentence(status, err)
    return status, out, err


# -- train -----------------------------------------------------------------------------

TRAIN = {
    **COMMON,
    **DATA,
    "--train": st.tuples(*[st.sampled_from(NAMES)] * 2),
    "--validation": st.tuples(*[st.sampled_from(NAMES)] * 2),
    "--preset": st.sampled_from("grammar multi30k x".split()),
    "--epochs": st.sampled_from("1 2 3 0 -1 x".split()),
    "--seed": st.sampled_from(["0", "7", "-1", "x", str(2**63), "9" * 40]),
}


@examples(15, 400)
@example([], ["factor=Infinity"])
@example(["--seed", "9" * 40], [])
@example(["--train", "blank", "blank"], [])
@given(chosen(TRAIN, most=2), st.lists(CHANGES, max_size=3))
def test_training_ends_with_a_translator_or_in_a_sentence(
    tmp_path_factory, files, options, changes
):
    folder = tmp_path_factory.mktemp("any") / "run"
    usual = train_arguments(files, folder)
    arguments = [*usual, *changes, *options]
    status, _, err = run(files, arguments)
    if status:
        assert not (folder / "model.safetensors").exists()
    else:
        assert err.splitlines()[-1] == f"The translator is in {folder}."
        rows = (folder / "log.csv").read_text("utf-8").splitlines()
        assert all(map(math.isfinite, map(float, rows[-1].split(","))))
        weights = Translator.load(folder).model.parameters()
        assert all(weight.isfinite().all() for weight in weights)
        before = contents(folder)
        assert run(files, arguments)[0] == 0  # the same again trains nothing more
        for name in ("training.safetensors", "log.csv", "tokenizer.json"):
            assert (folder / name).read_bytes() == before[name]
    shutil.rmtree(folder.parent)


# -- evaluate and translate ------------------------------------------------------------

BEAM = {
    "--beam": st.sampled_from("1 2 3 0 -1 x 1.5 300".split()),
    "--alpha": st.sampled_from("0 0.6 -3 100 101 -1e9 nan inf x 1e-300".split()),
}
MEASURE = {
    **COMMON,
    **BEAM,
    **DATA,
    "--split": st.lists(SPLITS, min_size=1, max_size=3),
    "--files": st.tuples(*[st.sampled_from(NAMES)] * 2),
}


@examples(15, 200)
@example(["--source", "de", "--target", "en"])
@given(chosen(MEASURE, most=4))
def test_measuring_gives_scores_or_a_sentence(files, whole, options):
    before = contents(whole)
    status, out, _ = run(files, ["evaluate", "--model", str(whole), *options])
    assert contents(whole) == before
    if not status:
        assert "BLEU" in out


TRANSLATE = {**COMMON, **BEAM, "--file": st.sampled_from(NAMES)}
WORDS = st.lists(st.text(max_size=8), max_size=3)


@examples(15, 1_500)
@given(chosen(TRANSLATE), WORDS, st.binary(max_size=12) | st.just(b"ba\n\nfi"))
def test_translating_gives_a_line_for_a_line_or_a_sentence(
    files, whole, options, words, given
):
    arguments = ["translate", "--model", str(whole), *options, "--", *words]
    status, out, _ = run(files, arguments, given)
    if not status and "--file" not in options:
        lines = 1 if words else len(given.removesuffix(b"\n").split(b"\n"))
        lines = 0 if not words and not given else lines
        assert out.count("\n") == lines


@examples(15, 1_000)
@given(
    st.lists(
        st.sampled_from("train evaluate translate --model --help -x --set".split())
        | st.text("-=a1.", min_size=1, max_size=4),
        max_size=4,
    )
)
def test_what_is_no_command_is_explained(files, whole, words):
    status, out, err = call(*words)
    if status == 0:
        assert out or words[0] == "translate"  # nothing, here
    else:
        assert_said_in_a_sentence(status, err)
