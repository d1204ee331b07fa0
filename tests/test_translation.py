"""The translator and its command, on two invented languages, learned in seconds."""

import csv
import errno
import json
import os
import random
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import asdict, replace
from itertools import permutations

import pytest
import requests
import sacrebleu
import tiny_run
import torch
from book_files import ROOT
from tiny_run import call

from transformer_lib.data import Tokenizer
from transformer_lib.data.corpora import grammar, multi30k
from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.model import record_attention
from transformer_lib.training import save_model
from transformer_lib.translation import Translator, command, corpus, run, translator
from transformer_lib.translation.corpus import Corpus, read_parallel
from transformer_lib.translation.scores import score

pytestmark = pytest.mark.usefixtures("one_thread")
# One language says the words of the other in the opposite order.
XX, YY = "ba de fi go lu ne po si", "Mir' osk täl ene yx. um Wod kä"
WORDS = dict(zip(XX.split(), YY.split(), strict=True))
SENTENCES = [" ".join(p) for n in (1, 2, 3) for p in permutations(WORDS, n)]
random.Random(0).shuffle(SENTENCES)
HELD_OUT = 40
MAX_LEN = 43
EPOCHS = 12
TINY = (
    f"vocab_size=300 max_tokens=80 max_len={MAX_LEN} d_model=32 num_heads=2 d_ff=64 "
    "num_layers=1 norm_first=true dropout=0.0 warmup_steps=50 factor=0.5 average=2 "
    "cooldown=2 bpe_dropout=0.1 bpe_dropout_epochs=9"
).split()


def translation_of(sentence):
    return " ".join(WORDS[word] for word in reversed(sentence.split()))


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Parallel text; no sentence of the validation is learned from."""
    folder = tmp_path_factory.mktemp("text")
    parts = {"train": SENTENCES[HELD_OUT:], "validation": SENTENCES[:HELD_OUT]}
    for split, lines in parts.items():
        for side, text in ("xx", lines), ("yy", map(translation_of, lines)):
            content = "".join(f"{line}\n" for line in text)
            (folder / f"{split}.{side}").write_text(content, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def splits(files):
    names = ("train", "validation")
    return {n: [str(files / f"{n}.{side}") for side in ("xx", "yy")] for n in names}


def train_arguments(files, output, epochs=EPOCHS):
    return tiny_run.train_arguments(files, output, epochs=epochs, choices=TINY)


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory):
    """A finished run; nobody may change it."""
    output = tmp_path_factory.mktemp("runs") / "xx-yy"
    status, _, err = call(*train_arguments(files, output))
    assert (status, err) == (0, f"The translator is in {output}.\n")
    return output


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture(scope="module")
def trained(folder):
    return Translator.load(folder)


@pytest.fixture
def answer(trained):
    return lambda sentence, beam=1: trained.translate([sentence], beam)[0]


def losses(folder):
    with open(folder / "log.csv", newline="", encoding="utf-8") as file:
        return [float(row["validation_loss"]) for row in csv.DictReader(file)]


# -- The translator --------------------------------------------------------------------


def test_greedy_takes_the_likeliest_tokens_and_a_beam_the_best_hypothesis(
    trained, monkeypatch
):
    tokenizer, asked = trained.tokenizer, []
    src = torch.tensor([[*tokenizer.encode("ba de fi"), 2]])
    greedy = tokenizer.decode(greedy_decode(trained.model, src)[0])

    def search(*inputs, **how):
        asked.append((how["beam_size"], how["alpha"]))
        return beam_search(*inputs, **how)

    monkeypatch.setattr(translator, "beam_search", search)
    for alpha in (1.4, -9.0):  # greedy, whatever the penalty
        assert trained.translate(["ba de fi"], alpha=alpha) == [greedy]
    assert asked == []
    trained.translate(["ba"], 2)
    for alpha in (-30.0, 0.6):  # the former ranks the longest last
        found = beam_search(trained.model, src, beam_size=5, alpha=alpha)
        expected = tokenizer.decode(found[0][0].tokens)
        assert trained.translate(["ba de fi"], 5, alpha) == [expected]
    assert asked == [(2, 1.4), (5, -30.0), (5, 0.6)]


@pytest.mark.parametrize("beam", [1, 3])
def test_each_sentence_has_its_own_translation_in_order(trained, beam, monkeypatch):
    monkeypatch.setattr(translator, "MAX_TOKENS", 20)
    sentences = ["go", "ba de fi lu", "", "lu go", "ba de fi lu", "de", "fi fi ba"]
    alone = [trained.translate([sentence], beam)[0] for sentence in sentences]
    assert trained.translate(sentences, beam) == alone
    assert len(set(alone)) == 6


def test_the_fast_decoder_writes_unless_it_is_taken_away_or_does_not_know_the_model(
    trained, monkeypatch
):
    calls, decode = [], FastDecoder.decode
    monkeypatch.setattr(
        FastDecoder, "decode", lambda *args: calls.append(args) or decode(*args)
    )
    readable = Translator(trained.model, trained.tokenizer, fast=False)
    expected = readable.translate(SENTENCES[:HELD_OUT])
    with record_attention(trained.model) as maps:
        assert trained.translate(SENTENCES[:HELD_OUT]) == expected
    assert "decoder.layers.0.cross_attention" in maps
    assert not calls
    assert trained.translate(SENTENCES[:HELD_OUT]) == expected
    assert calls


def test_a_batch_holds_sentences_of_similar_length_and_no_more_tokens_than_said(
    trained, monkeypatch
):
    batches, decode = [], trained._decode

    def look(sources, *how):
        batches.append([len(source) for source in sources])
        return decode(sources, *how)

    monkeypatch.setattr(trained, "_decode", look)
    monkeypatch.setattr(translator, "MAX_TOKENS", 60)
    trained.translate(["ba", "ba de fi lu", "de"] * 11, beam=2)
    assert sum(map(len, batches)) == 33
    assert all(2 * len(batch) * max(batch) <= 60 for batch in batches)
    assert sum(len(set(batch)) > 1 for batch in batches) <= 1
    batches.clear()
    monkeypatch.setattr(translator, "MAX_TOKENS", 1)  # each alone
    assert all(trained.translate(["ba", "fi lu"]))
    assert [len(batch) for batch in batches] == [1, 1]


def test_text_is_cleaned_whatever_comes_and_whatever_the_model_writes(
    trained, monkeypatch
):
    assert trained.translate(["", " \t\n"]) == ["", ""]
    composed, apart = trained.translate(["ba ä de", "  ba\na\u0308\tde\u2028"])
    assert composed == apart
    strange = trained.translate(["😀", "汉字", "\x00", "</s>", "\u202e", "�"])
    assert not any("\n" in line for line in strange)
    line_break = trained.tokenizer._bpe.token_to_id("Ċ")
    written = [*trained.tokenizer.encode("x"), line_break, line_break]
    monkeypatch.setattr(trained, "_decode", lambda sources, *how: [written * 2])
    assert trained.translate(["ba"]) == ["x x"]


def test_a_sentence_as_long_as_the_position_table_is_translated(trained):
    sentence = " ".join(["ba"] * (MAX_LEN - 1))
    assert len(trained.tokenizer.encode(sentence)) == MAX_LEN - 1
    assert trained.translate([sentence])[0]


def test_what_is_saved_translates_as_before(trained, tmp_path):
    trained.save(str(tmp_path / "new" / "folder"))
    loaded = Translator.load(tmp_path / "new" / "folder")
    assert loaded.translate(SENTENCES[:13]) == trained.translate(SENTENCES[:13])
    assert not loaded.model.training


# -- Sentences and scores --------------------------------------------------------------


def test_parallel_files_are_read_line_by_line(splits):
    pairs = read_parallel(*splits["validation"])
    assert pairs == [(s, translation_of(s)) for s in SENTENCES[:HELD_OUT]]
    given = Corpus(files={"dev": splits["validation"]})
    assert given.names == ("dev",)
    assert given.pairs("dev") == pairs


def test_the_grammar_is_the_default_and_named_data_go_both_ways(monkeypatch):
    small = grammar.splits(train=7, validation=5, test=3, longer=2)
    monkeypatch.setattr(corpus, "grammar_splits", lambda: small)
    there, back = Corpus(), Corpus(source="de", target="en")
    assert there.names == ("train", "validation", "test", "longer")
    for split in there.names:
        assert there.pairs(split) == getattr(small, split)
        assert back.pairs(split) == [(de, en) for en, de in there.pairs(split)]
    monkeypatch.setattr(corpus, "multi30k", lambda split, **sides: (split, sides))
    captions = Corpus(data="multi30k", source="de", target="en")
    assert captions.pairs("mscoco") == ("mscoco", {"source": "de", "target": "en"})
    assert captions.names == tuple(multi30k.SPLITS)


def test_scores_are_those_of_sacrebleu_with_signatures():
    ours = ["The cat sat on the mat.", "a small dog runs there", "Good morning"]
    refs = ["The cat sat on a mat.", "A small dog runs there.", "Good morning"]
    scores = score(ours, refs)
    assert scores.sentences == 3
    assert scores.bleu == sacrebleu.corpus_bleu(ours, [refs]).score
    assert scores.chrf == sacrebleu.corpus_chrf(ours, [refs]).score
    lowercased = sacrebleu.corpus_bleu(ours, [refs], lowercase=True).score
    assert scores.bleu_lowercased == lowercased > scores.bleu
    assert scores.exact == pytest.approx(1 / 3)
    assert "case:mixed" in scores.bleu_signature
    assert "case:lc" in scores.bleu_lowercased_signature
    for signature in (scores.bleu_signature, scores.bleu_lowercased_signature):
        assert "tok:13a" in signature
        assert f"version:{sacrebleu.__version__}" in signature
    assert "nc:6|nw:0" in scores.chrf_signature


def test_references_are_cleaned_before_they_are_compared(trained, answer):
    assert run.measure(trained, [("ba", f" {answer('ba')}\t")]).exact == 1


# -- A run in a folder -----------------------------------------------------------------


def test_a_finished_run_says_what_it_was_and_translates_what_it_has_not_seen(
    folder, trained
):
    record = run.read_record(folder)
    assert record["command"].startswith("python -m transformer_lib.translation train ")
    assert record["epochs_trained"] == record["epochs"] == EPOCHS == len(losses(folder))
    assert record["parameters"] == sum(p.numel() for p in trained.model.parameters())
    assert record["validation"]["exact"] >= 0.4  # by chance it would be none of them
    assert record["seed"] == 0
    assert record["device"].startswith("CPU, ")
    assert record["d_model"] == 32
    assert 0 <= record["minutes"] < 60
    finished = (
        ".lock run.json tokenizer.json training.safetensors log.csv model.safetensors"
    )
    assert contents(folder).keys() == set(finished.split())


def half(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def without_a_tokenizer(path):
    save_model(path, Translator.load(path.parent).model)


def says(content):
    return lambda path: path.write_text(content, encoding="utf-8")


MODEL, TOKENIZER, RECORD = "model.safetensors", "tokenizer.json", "run.json"
DIGEST = "[0-9a-f]{64}"
DAMAGES = [
    (MODEL, half, "is not a whole checkpoint"),
    (MODEL, os.unlink, ""),
    (MODEL, without_a_tokenizer, "its SHA-256 must be None, got [0-9a-f]{64}"),
    (TOKENIZER, half, f"{DIGEST}, got {DIGEST}"),
    (TOKENIZER, os.unlink, ""),
    (TOKENIZER, lambda path: Tokenizer.train(["other"], 300).save(path), DIGEST),
    (RECORD, says('{"corp'), "is not a whole record"),
    (RECORD, says("[]"), "is not a whole record"),
    (RECORD, says('{"corpus": {"date": 1}}'), "is not a whole record: .*date"),
]


@pytest.mark.parametrize(("name", "damage", "said"), DAMAGES)
def test_a_damaged_or_missing_file_is_named_and_nothing_changes(
    copy, name, damage, said
):
    damage(copy / name)
    before = contents(copy)
    status, out, err = call("evaluate", "--model", copy)
    assert (status, out) == (2, "")
    assert re.search(f"error: .*{copy / name}.*{said}", err)
    assert contents(copy) == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["vocab_size=310"], "vocab_size must be 300, got 310"),
        (["max_tokens=81"], "max_tokens must be 80, got 81"),
        (["seed=5"], "seed must be 0, got 5"),
        (["bpe_dropout=0.0"], "bpe_dropout must be 0.1, got 0.0"),
        (["--epochs", "11"], "epochs must be at least as many as were trained, got 11"),
        (
            ["--train", "train.yy", "train.xx"],
            r"sentences_sha256 must be (\{'train': '[0-9a-f]{64}', 'validation': "
            r"'[0-9a-f]{64}'\}), got \{'train': .*\}; choose another folder",
        ),
        ([], "run.json"),  # if nobody knows what it is
    ],
)
def test_another_run_in_the_folder_is_refused_and_left_alone(
    files, copy, monkeypatch, change, said
):
    monkeypatch.chdir(files)
    if not change:
        (copy / RECORD).unlink()
    before = contents(copy)
    status, out, err = call(*train_arguments(files, copy), *change)
    assert (status, out) == (2, "")
    assert re.search(said, err)
    assert contents(copy) == before


def test_a_finished_run_goes_on_for_more_epochs(files, copy):
    status, out, err = call(*train_arguments(files, copy, epochs=EPOCHS + 1))
    assert status == 0
    assert f"Going on with the run in {copy}.\n" in err
    assert re.findall("^epoch +([0-9]+)", out, re.MULTILINE) == [str(EPOCHS + 1)]
    assert run.read_record(copy)["epochs_trained"] == EPOCHS + 1


def test_a_run_that_is_stopped_ends_as_one_that_was_not(tmp_path, monkeypatch):
    def stop(epoch):
        raise KeyboardInterrupt

    files = tiny_run.write_files(tmp_path)
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    assert call(*tiny_run.train_arguments(files, whole))[0] == 0
    arguments = tiny_run.train_arguments(files, stopped)
    with monkeypatch.context() as patch:
        patch.setattr(command, "print_epoch", stop)
        status, out, err = call(*arguments)
    assert (status, out) == (130, "")
    again = f"python -m transformer_lib.translation {shlex.join(arguments)}\n"
    assert err.endswith(f"The epochs so far are kept; to go on:\n  {again}")
    assert len(losses(stopped)) == 1
    status, out, err = call(*arguments)
    assert (status, out.count("epoch"), out.count("BLEU")) == (0, 1, 2)
    assert err.splitlines()[-1] == f"The translator is in {stopped}."
    assert losses(stopped) == pytest.approx(losses(whole), rel=1e-3)


@pytest.mark.parametrize(
    "change",
    [
        *("d_model=33", "d_model=-2", "smoothing=1", "warmup_steps=0", "vocab_size=5"),
        *("bpe_dropout=1", "bpe_dropout_epochs=-1", "positions=lerned", "epochs=many"),
        *("norm_eps=-1", f"cooldown={EPOCHS}", "max_len=-2", f"max_len={10**30}"),
    ],
)
def test_a_setting_that_cannot_be_leaves_nothing_behind(files, tmp_path, change):
    status, out, err = call(*train_arguments(files, tmp_path), change)
    assert (status, out) == (2, "")
    assert change.split("=")[0] in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("epochs_with", "cooldown", "cut_anew"),
    [(2, 0, {5, 6}), (2, 1, {4, 5}), (0, 1, set()), (9, 2, {1, 2, 3, 4})],
)
def test_bpe_dropout_comes_before_the_cooldown_and_never_makes_a_sentence_too_long(
    splits, trained, tmp_path, monkeypatch, epochs_with, cooldown, cut_anew
):
    sizes = {}

    def look(model, batches, *others, **more):
        for epoch in range(1, 7):
            tgt = [batch.tgt for batch in batches(epoch)]
            assert max(ids.size(1) for ids in tgt) <= longest
            sizes[epoch] = sum(int((ids > 2).sum()) for ids in tgt)
        return []

    monkeypatch.setattr(run, "train_at_scale", look)
    pairs = Corpus(files=splits).pairs("train")
    usual = [len(trained.tokenizer.encode(t)) for _, t in pairs]
    longest = max(usual) + 2  # with BOS and EOS
    recipe = dict(map(command.parse_choice, TINY))
    recipe |= {"epochs": 6, "cooldown": cooldown, "bpe_dropout": 0.5}
    recipe |= {"bpe_dropout_epochs": epochs_with, "max_len": longest - 1}
    run.train_translator(Corpus(files=splits), recipe, tmp_path)
    assert {n for n, size in sizes.items() if size != sum(usual)} == cut_anew
    assert all(sizes[epoch] > sum(usual) for epoch in cut_anew)
    assert len({sizes[epoch] for epoch in cut_anew}) == len(cut_anew)  # anew each time


def test_pairs_as_long_as_allowed_are_encoded_and_nothing_is_cut_off(trained):
    pairs, tokenizer = (
        [("ba", "ba"), ("", ""), ("ba de", "ba de fi")],
        trained.tokenizer,
    )
    longest = len(tokenizer.encode("ba de fi")) + 1
    encoded = run.encode_pairs(trained, pairs, longest)
    assert [tuple(map(tokenizer.decode, pair)) for pair in encoded] == pairs[::2]


@pytest.mark.parametrize("name", ["grammar-en-de", "multi30k-en-de"])
def test_the_command_of_a_shipped_record_makes_the_recipe_that_it_tells(name):
    record = run.read_record(ROOT / "models" / name)
    arguments = shlex.split(record["command"].removeprefix(command.PROGRAM))
    options = command.parser().parse_args(arguments)
    recipe = command.recipe(options, command.training_corpus(options), "cpu")
    assert {choice: record.get(choice) for choice in recipe} == recipe


def test_every_preset_is_possible():
    for preset in run.PRESETS.values():
        run.require_choices({**preset, "patience": None, "positions": "learned"})
        recipe = preset | {"vocab_size": 260}
        model = run.untrained([("ein hund", "a dog")], recipe).model
        assert type(model) is run.Transformer
        run.ScaleConfig(**run._chosen(preset, run.TRAINING_CHOICES))


# -- The command -----------------------------------------------------------------------


def test_a_translation_that_cannot_be_written_ends_the_program_in_words(folder):
    """What only a process can show: that it starts, its status, its last words."""
    arguments = ["translate", "--model", str(folder), "lu"]
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [sys.executable, "-m", "transformer_lib.translation", *arguments],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": ""},
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert process.returncode == 1
    assert process.stderr.endswith(b"error: [Errno 28] No space left on device\n")


@pytest.mark.parametrize(
    ("error", "status", "said"),
    [
        (
            torch.OutOfMemoryError("CUDA out of memory"),
            1,
            "error: CUDA out of memory\n",
        ),
        (OSError(errno.EIO, "Input/output error"), 1, "error: [Errno 5] Input/output"),
        (BrokenPipeError(), 1, ""),  # a reader that goes away is no fault
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_what_the_computer_or_the_user_does_is_told_in_words(
    folder, monkeypatch, error, status, said
):
    def fail(*_):
        raise error

    monkeypatch.setattr(Translator, "translate", fail)
    found, out, err = call("translate", "--model", folder, "lu")
    assert (found, out) == (status, "")
    assert err.partition("\n")[2].startswith(said)
    assert bool(said) == ("error" in err)


def test_a_fault_of_ours_keeps_its_traceback(folder, monkeypatch):
    def fail(*_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Translator, "translate", fail)
    with pytest.raises(RuntimeError, match="mat1"):
        call("translate", "--model", folder, "lu")


def test_a_folder_that_cannot_be_written_is_an_error(files, tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    status, _, err = call(*train_arguments(files, tmp_path / "file" / "run"))
    assert status == 1
    assert err.startswith("error: ")
    assert str(tmp_path / "file") in err


def test_each_line_has_its_translation_on_stdout_and_all_else_is_on_stderr(
    folder, answer, tmp_path
):
    translate, text = ["translate", "--model", folder], tmp_path / "text"
    expected = [answer("go ba"), "", answer("😀"), answer("lu"), ""]
    given = "go ba\n\n😀\nlu\n".encode()
    status, out, err = call(*translate, given=given)
    assert (status, out.split("\n")) == (0, expected)
    assert answer("go ba") not in err
    for words in (["go ba"], ["go", "ba"]):  # with and without quotes
        assert call(*translate, *words)[:2] == (0, answer("go ba") + "\n")
    text.write_bytes(b"go ba\r\n\nlu")
    status, out, _ = call(*translate, "--beam", 2, "--file", text)
    assert (status, out) == (0, f"{answer('go ba', 2)}\n\n{answer('lu', 2)}\n")
    text.write_bytes(b"")
    assert call(*translate, "--file", text)[:2] == (0, "")
    assert call(*translate)[:2] == (0, "")


@pytest.mark.parametrize(
    ("bad", "said", "typed"),
    [
        (b"\xff", "line 2 must be UTF-8", "line 2 must be UTF-8"),
        (
            b"ba " * MAX_LEN,
            "sentence 2 must have at most 43 tokens with its end, got 44",
            "line 2: sentence 1 must have at most 43",
        ),
    ],
)
def test_a_line_that_cannot_be_translated_ends_the_command_and_is_named(
    folder, answer, tmp_path, bad, said, typed
):
    text, content = tmp_path / "text", b"lu\n" + bad + b"\n"
    text.write_bytes(content)
    status, out, err = call("translate", "--model", folder, "--file", text)
    assert (status, out) == (2, "")
    assert said in err
    status, out, err = call("translate", "--model", folder, given=content)
    assert (status, out) == (2, answer("lu") + "\n")
    assert f"error: standard input, {typed}" in err


def test_evaluate_shows_scores_with_signatures(folder, splits):
    status, out, _ = call("evaluate", "--model", folder)
    assert status == 0
    assert " and ".join(splits["validation"]) + ", greedy, " in out
    recorded = run.read_record(folder)["validation"]
    for name in ("bleu", "chrf", "bleu_lowercased"):
        assert f"{recorded[name]:6.2f}  {recorded[f'{name}_signature']}\n" in out
    assert "Moses" in out
    assert f"exact {recorded['exact']:7.1%}\n" in out

    status, out, _ = call(
        "evaluate", "--model", folder, "--beam", 2, "--files", *splits["validation"]
    )
    assert status == 0
    title = re.escape(" and ".join(splits["validation"]))
    assert re.search(title + r", beam of 2, alpha 1\.4, [\d.]+ s: 40 sentences", out)


def test_evaluate_takes_named_data_and_refuses_unknown_splits(folder, monkeypatch):
    pairs = [("a dog", "ein Hund")]
    small = grammar.Splits(
        train=pairs, validation=pairs, test=5 * pairs, longer=2 * pairs
    )
    monkeypatch.setattr(corpus, "grammar_splits", lambda: small)
    arguments = ["evaluate", "--model", folder, "--data", "grammar", "--split"]
    status, out, _ = call(*arguments, "test", "longer")
    assert status == 0
    assert re.findall(r"(\w+) of grammar en-de.* (\d) sent", out) == [
        ("test", "5"),
        ("longer", "2"),
    ]
    status, out, err = call(*arguments, "test", "nonsense")
    assert (status, out) == (2, "")
    assert "one of train, validation, test, longer, got nonsense" in err


@pytest.mark.parametrize("language", ["en", "de"])
def test_evaluate_keeps_the_direction_that_the_model_was_trained_in(
    copy, monkeypatch, language
):
    other = {"en": "de", "de": "en"}[language]
    record = run.read_record(copy)
    record["corpus"] = asdict(Corpus(source=language, target=other))
    (copy / RECORD).write_text(json.dumps(record), encoding="utf-8")
    asked = []
    monkeypatch.setattr(
        Corpus, "pairs", lambda its, _: asked.append(its) or [("a", "a")]
    )
    for choice in ([], ["--data", "multi30k"]):
        assert call("evaluate", "--model", copy, *choice)[0] == 0
        assert (asked[-1].source, asked[-1].target) == (language, other)
    assert [corpus.data for corpus in asked] == ["grammar", "multi30k"]


def test_download_fetches_multi30k_and_training_says_when_it_is_absent(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(multi30k, "download", lambda: tmp_path)
    status, out, err = call("download")
    assert (status, out) == (0, "")
    assert f"Multi30k is in {tmp_path}, for research" in err

    def fail():
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(multi30k, "download", fail)
    status, _, err = call("download")
    assert (status, err) == (1, "error: no network\n")

    monkeypatch.setenv(multi30k.FOLDER, str(tmp_path))
    arguments = ["train", "--data", "multi30k", "--output", tmp_path / "run"]
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert "Run `python -m transformer_lib.translation download`" in err
    assert not (tmp_path / "run").exists()


TRAIN, TWO = "train --output x", "a.xx a.yy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("translate --file x a", "give a sentence or --file, not both"),
        ("translate --threads 0 lu", "threads must be at least 1, got 0"),
        ("translate --device cuda lu", "--device must be cpu: torch finds no GPU here"),
        ("translate lu \udcff", "surrogates not allowed"),
        (f"evaluate --files {TWO} --data grammar", "--files must come without --data"),
        (f"evaluate --files {TWO} --source en", "--files must come without --data"),
        (f"evaluate --files {TWO} --split test", "--files must come without --data"),
        (f"{TRAIN} --train {TWO}", "--train and --validation must come together"),
        (f"{TRAIN} --validation {TWO}", "--train and --validation must come together"),
        (
            f"{TRAIN} --train {TWO} --validation {TWO} --source en",
            "must come together, and without --data, --source and --target",
        ),
        (f"{TRAIN} --source de", "en and de in grammar, got de and de"),
        ("train --output=", "must name a folder, got an empty name"),
        ("", "arguments are required: COMMAND"),
    ],
)
def test_options_that_contradict_or_lack_something_are_refused(
    monkeypatch, arguments, message
):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, out, err = call(*arguments.split())
    assert (status, out) == (2, "")
    assert "error: " in err
    assert message in err


def test_the_shipped_model_is_the_default_on_as_many_threads_as_asked_for(monkeypatch):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    status, out, err = call("translate", "", "--threads", 3)
    assert (status, out, asked) == (0, "\n", [3])
    assert f"The model is {ROOT / 'models' / 'multi30k-en-de'}, on c" in err
    assert call("translate", "")[0] == 0
    assert asked == [3]


def recipe_of(arguments):
    options = command.parser().parse_args([*TRAIN.split(), *arguments.split()])
    return command.recipe(options, command.training_corpus(options), "cpu")


def test_both_languages_say_the_direction():
    options = command.parser().parse_args(f"{TRAIN} --source de --target en".split())
    assert command.training_corpus(options) == Corpus(source="de", target="en")


@pytest.mark.parametrize(
    ("arguments", "chosen"),
    [
        ("", {**run.PRESETS["grammar"], "seed": 0, "precision": "float32"}),
        ("--data multi30k", {"vocab_size": 9700, "cooldown": 22}),
        ("--preset multi30k", {"vocab_size": 9700}),
        ("--train a b --validation c d", {"vocab_size": 9700}),
        ("--set dropout=0.3 bias=false", {"dropout": 0.3, "bias": False}),
        (
            "--set bias=false --set activation=gelu",
            {"bias": False, "activation": "gelu"},
        ),
        ("--set precision=float16", {"precision": "float16"}),
        ("--epochs 4 --seed 7", {"seed": 7, "epochs": 4}),
        ("--epochs 4 --set epochs=3", {"epochs": 3}),
        # A shorter run has a shorter cooldown unless it is chosen.
        ("--epochs 5", {"cooldown": 2}),
        ("--epochs 1", {"cooldown": 0}),
        ("--set epochs=20", {"cooldown": 8}),
        ("--preset multi30k --epochs 44", {"cooldown": 11}),
        ("--epochs 5 --set cooldown=3", {"cooldown": 3}),
    ],
)
def test_a_preset_is_chosen_by_the_data_and_changed_by_options(arguments, chosen):
    assert recipe_of(arguments).items() >= chosen.items()


def test_updates_that_were_skipped_are_told(capsys):
    epoch = run.ScaleEpoch(2, 9, 0.1, 2.0, 1.5, 0.5, 100, 4.0)
    command.print_epoch(epoch)
    command.print_epoch(replace(epoch, skipped=3))
    without, told = capsys.readouterr().out.splitlines()
    assert told == without + "  3 updates skipped so far"


@pytest.mark.parametrize("name", ["", "download", "train", "evaluate", "translate"])
def test_help_explains_with_an_example(name):
    status, text, _ = call(*[name] * bool(name), "--help")
    assert status == 0
    assert f"\n  python -m transformer_lib.translation {name}" in text
    assert "  -h, --help" in text
    if name == "train":
        text = " ".join(text.split())
        assert "only in a network that you trust" in text
        assert "listens on all interfaces without authentication" in text
