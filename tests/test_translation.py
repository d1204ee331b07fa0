"""The translator and its command, on two invented languages, learned in seconds."""

import csv
import io
import json
import math
import os
import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict, replace
from functools import partial
from itertools import permutations

import pytest
import requests
import sacrebleu
import torch
from book_files import ROOT

from transformer_lib.data import Tokenizer
from transformer_lib.data.corpora import grammar, multi30k
from transformer_lib.decoding import beam_search, greedy_decode
from transformer_lib.faster import FastDecoder
from transformer_lib.model import record_attention
from transformer_lib.training import load_tensors, save_model
from transformer_lib.translation import Translator, command, corpus, run
from transformer_lib.translation.corpus import Corpus, read_parallel
from transformer_lib.translation.scores import score

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
COMMAND = [sys.executable, "-m", "transformer_lib.translation"]


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


def train_arguments(files, output, epochs=EPOCHS):
    """The same words for the first call and for every resumption."""
    return [
        "train",
        *("--output", str(output), "--epochs", str(epochs), "--device", "cpu"),
        *("--train", str(files / "train.xx"), str(files / "train.yy")),
        *("--validation", str(files / "validation.xx"), str(files / "validation.yy")),
        *("--set", *TINY),
    ]


@pytest.fixture(scope="module")
def folder(files, tmp_path_factory):
    """A finished run; nobody may change it.

    Trained by a process of its own, as those are that are compared with it: what this
    one has computed before may change the last digit, and twelve epochs the second.
    """
    output = tmp_path_factory.mktemp("runs") / "xx-yy"
    process = start(train_arguments(files, output))
    _, err = process.communicate()
    assert process.returncode == 0, err
    return output


@pytest.fixture
def copy(folder, tmp_path):
    return shutil.copytree(folder, tmp_path / "copy")


@pytest.fixture(scope="module")
def translator(folder):
    return Translator.load(folder)


@pytest.fixture
def call(monkeypatch, capsys):
    """Run the command here: its exit status, what it printed, what it said."""

    def call(*arguments, given=b""):
        torch.set_default_dtype(torch.float32)  # as a user has it
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        capsys.readouterr()
        status = command.main([str(argument) for argument in arguments])
        return status, *capsys.readouterr()

    return call


@pytest.fixture
def answer(translator):
    return lambda sentence, beam=1: translator.translate([sentence], beam)[0]


def losses(folder):
    with open(folder / "log.csv", newline="", encoding="utf-8") as file:
        return [float(row["validation_loss"]) for row in csv.DictReader(file)]


# The translator


def test_it_translates_what_it_was_not_trained_on(translator):
    translations = translator.translate(SENTENCES[:HELD_OUT])
    right = map(str.__eq__, translations, map(translation_of, SENTENCES))
    assert sum(right) >= 0.4 * HELD_OUT  # by chance it would be none of them


def test_greedy_takes_the_likeliest_tokens_and_a_beam_the_best_hypothesis(translator):
    tokenizer = translator.tokenizer
    src = torch.tensor([[*tokenizer.encode("ba de fi"), 2]])
    greedy = greedy_decode(translator.model, src)[0]
    assert translator.translate(["ba de fi"]) == [tokenizer.decode(greedy)]
    for alpha in (-30.0, 0.6):  # the former ranks the longest last
        found = beam_search(translator.model, src, beam_size=5, alpha=alpha)
        expected = tokenizer.decode(found[0][0].tokens)
        assert translator.translate(["ba de fi"], 5, alpha) == [expected]


@pytest.mark.parametrize("beam", [1, 3])
def test_each_sentence_has_its_own_translation_in_order(translator, beam, monkeypatch):
    monkeypatch.setattr("transformer_lib.translation.translator.MAX_TOKENS", 20)
    sentences = ["go", "ba de fi lu", "", "lu go", "ba de fi lu", "de", "fi fi ba"]
    alone = [translator.translate([sentence], beam)[0] for sentence in sentences]
    assert translator.translate(sentences, beam) == alone
    assert len(set(alone)) == 6


@pytest.mark.parametrize("beam", [1, 3])
def test_the_fast_decoder_writes_unless_it_is_taken_away(translator, beam, monkeypatch):
    calls = []
    decode = FastDecoder.decode
    monkeypatch.setattr(
        FastDecoder, "decode", lambda *args: calls.append(args) or decode(*args)
    )
    readable = Translator(translator.model, translator.tokenizer, fast=False)
    expected = readable.translate(SENTENCES[:HELD_OUT], beam)
    assert not calls
    assert translator.translate(SENTENCES[:HELD_OUT], beam) == expected
    assert calls


def test_a_model_that_the_fast_decoder_does_not_know_writes_by_itself(translator):
    expected = translator.translate(["ba de fi"])
    with record_attention(translator.model) as maps:
        assert translator.translate(["ba de fi"]) == expected
    assert "decoder.layers.0.cross_attention" in maps


@pytest.fixture
def batches(translator, monkeypatch):
    """What is translated together, batch by batch."""
    found = []
    decode = translator._decode
    monkeypatch.setattr(
        translator,
        "_decode",
        lambda sources, *how: found.append(sources) or decode(sources, *how),
    )
    return found


def test_a_batch_holds_sentences_of_similar_length_and_no_more_tokens_than_said(
    translator, batches, monkeypatch
):
    monkeypatch.setattr("transformer_lib.translation.translator.MAX_TOKENS", 60)
    translator.translate(["ba", "ba de fi lu", "de"] * 11, beam=2)
    lengths = [[len(source) for source in batch] for batch in batches]
    assert sum(map(len, lengths)) == 33
    assert all(2 * len(batch) * max(batch) <= 60 for batch in lengths)
    assert sum(len(set(batch)) > 1 for batch in lengths) <= 1


def test_empty_sentences_have_empty_translations(translator):
    assert translator.translate([]) == []
    assert translator.translate(["", " \t\n"]) == ["", ""]


def test_text_is_cleaned_as_the_tokenizer_does(translator):
    composed, apart = translator.translate(["ba ä de", "  ba\na\u0308\tde\u2028"])
    assert composed == apart


def test_a_translation_is_one_clean_line_whatever_the_model_writes(
    translator, monkeypatch
):
    line_break = translator.tokenizer._bpe.token_to_id("Ċ")
    written = [*translator.tokenizer.encode("x"), line_break, line_break]
    monkeypatch.setattr(translator, "_decode", lambda sources, *how: [written * 2])
    assert translator.translate(["ba"]) == ["x x"]


@pytest.mark.parametrize("text", ["😀", "汉字", "\x00", "</s>", "\u202e", "�"])
def test_any_character_may_come(translator, text):
    (translation,) = translator.translate([text])
    assert "\n" not in translation


def test_a_sentence_as_long_as_the_position_table_is_translated(translator):
    sentence = " ".join(["ba"] * (MAX_LEN - 1))
    assert len(translator.tokenizer.encode(sentence)) == MAX_LEN - 1
    assert translator.translate([sentence])[0]


def test_a_longer_one_is_refused_before_anything_is_translated(translator, monkeypatch):
    monkeypatch.setattr(translator, "_decode", None)
    with pytest.raises(
        ValueError, match=r"sentence 2 must have at most 43 tokens .* got 44"
    ):
        translator.translate(["ba", " ".join(["ba"] * MAX_LEN)])


def test_one_str_is_not_a_list_of_sentences(translator):
    with pytest.raises(TypeError, match="sentences must be a list of str, got a str"):
        translator.translate("ba de")


@pytest.mark.parametrize("beam", [0, -1])
def test_a_beam_has_at_least_one_hypothesis(translator, beam):
    with pytest.raises(ValueError, match=f"beam must be at least 1, got {beam}"):
        translator.translate(["ba"], beam=beam)


def test_what_is_saved_translates_as_before(translator, tmp_path):
    folder = str(tmp_path / "new" / "folder")
    translator.save(folder)
    loaded = Translator.load(folder)
    sentences = SENTENCES[:13]
    assert loaded.translate(sentences) == translator.translate(sentences)
    assert not loaded.model.training


def test_a_tokenizer_of_another_model_is_refused(copy):
    recorded = load_tensors(copy / "model.safetensors")[1]["tokenizer"]
    Tokenizer.train(["other words"], 300).save(copy / "tokenizer.json")
    with pytest.raises(ValueError, match="does not belong to") as caught:
        Translator.load(copy)
    for part in (copy / "tokenizer.json", copy / "model.safetensors", recorded):
        assert str(part) in str(caught.value)
    assert len(re.findall("[0-9a-f]{64}", str(caught.value))) == 2


def test_a_model_that_names_no_tokenizer_is_refused(copy, translator):
    save_model(copy / "model.safetensors", translator.model)
    with pytest.raises(ValueError, match=r"its SHA-256 must be None, got [0-9a-f]{64}"):
        Translator.load(copy)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json"])
def test_damaged_and_missing_files_are_named(copy, name, call):
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[: len(content) // 2])
    status, out, err = call("translate", "--model", copy, "ba")
    assert (status, out) == (2, "")
    assert re.search(f"error: {copy / name} is (not a whole|damaged)", err)
    (copy / name).unlink()
    status, out, err = call("translate", "--model", copy, "ba")
    assert (status, out) == (2, "")
    assert str(copy / name) in err


# Where sentences come from


def test_parallel_files_are_read_line_by_line(files, tmp_path):
    pairs = read_parallel(files / "validation.xx", files / "validation.yy")
    assert len(pairs) == HELD_OUT
    assert all(translation_of(source) == target for source, target in pairs)
    sides = [str(files / f"validation.{side}") for side in ("xx", "yy")]
    given = Corpus(files={"dev": sides})
    assert given.names == ("dev",)
    assert given.pairs("dev") == pairs


def test_the_grammar_is_the_default_and_goes_both_ways(monkeypatch):
    small = grammar.splits(train=7, validation=5, test=3, longer=2)
    monkeypatch.setattr(corpus, "grammar_splits", lambda: small)
    there, back = Corpus(), Corpus(source="de", target="en")
    assert there.names == ("train", "validation", "test", "longer")
    for split in there.names:
        assert there.pairs(split) == getattr(small, split)
        assert back.pairs(split) == [(de, en) for en, de in there.pairs(split)]


def test_multi30k_is_read_in_the_direction_asked_for(monkeypatch):
    calls = []
    monkeypatch.setattr(
        corpus, "multi30k", lambda split, **languages: calls.append((split, languages))
    )
    captions = Corpus(data="multi30k", source="de", target="en")
    captions.pairs("mscoco")
    assert calls == [("mscoco", {"source": "de", "target": "en"})]
    assert captions.names == tuple(multi30k.SPLITS)


def test_a_corpus_has_two_files_for_each_split():
    with pytest.raises(ValueError, match="files must be 2 names a split"):
        Corpus(files={"validation": ["a", "b", "c"]})


def test_unknown_splits_and_languages_are_refused():
    with pytest.raises(ValueError, match=r"one of train, validation, .* got valid"):
        Corpus().pairs("valid")
    with pytest.raises(ValueError, match="must be en and de in grammar, got en and en"):
        Corpus(target="en")
    with pytest.raises(ValueError, match="data must be one of grammar, multi30k"):
        Corpus(data="wmt")


# Scores


def test_scores_are_those_of_sacrebleu():
    ours = ["The cat sat on the mat.", "a small dog runs there", "Good morning"]
    refs = ["The cat sat on a mat.", "A small dog runs there.", "Good morning"]
    scores = score(ours, refs)
    assert scores.sentences == 3
    assert scores.bleu == sacrebleu.corpus_bleu(ours, [refs]).score
    assert scores.chrf == sacrebleu.corpus_chrf(ours, [refs]).score
    lowercased = sacrebleu.corpus_bleu(ours, [refs], lowercase=True).score
    assert scores.bleu_lowercased == lowercased > scores.bleu
    assert scores.exact == pytest.approx(1 / 3)


def test_signatures_say_how_the_scores_were_computed():
    scores = score(["a b c d"], ["a b c d"])
    assert (scores.bleu, scores.chrf) == pytest.approx((100, 100))
    assert "case:mixed" in scores.bleu_signature
    assert "case:lc" in scores.bleu_lowercased_signature
    for signature in (scores.bleu_signature, scores.bleu_lowercased_signature):
        assert "tok:13a" in signature
        assert f"version:{sacrebleu.__version__}" in signature
    assert "nc:6|nw:0" in scores.chrf_signature


@pytest.mark.parametrize(("ours", "refs"), [([], []), (["a"], ["a", "b"])])
def test_scores_need_a_reference_for_each_translation(ours, refs):
    with pytest.raises(ValueError, match=f"got {len(ours)} and {len(refs)}"):
        score(ours, refs)


def test_references_are_cleaned_before_they_are_compared(translator):
    pairs = [("ba", f" {translator.translate(['ba'])[0]}\t")]
    assert run.measure(translator, pairs).exact == 1


# A run in a folder


def test_a_finished_run_says_what_it_was(folder, translator):
    record = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    assert record["command"].startswith("python -m transformer_lib.translation train ")
    assert record["epochs_trained"] == record["epochs"] == EPOCHS == len(losses(folder))
    assert record["parameters"] == sum(p.numel() for p in translator.model.parameters())
    assert record["validation"]["exact"] >= 0.4
    assert record["seed"] == 0
    assert record["device"].startswith("CPU, ")
    assert record["d_model"] == 32
    assert 0 <= record["minutes"] < 60
    names = {path.name for path in folder.iterdir()}
    finished = (
        ".lock run.json tokenizer.json training.safetensors log.csv model.safetensors"
    )
    assert names == set(finished.split())


def test_a_random_cut_that_is_too_long_stays_as_usual(files, translator, tmp_path):
    splits = {
        split: [str(files / f"{split}.{side}") for side in ("xx", "yy")]
        for split in ("train", "validation")
    }
    lines = [line for pair in Corpus(files=splits).pairs("train") for line in pair]
    longest = max(len(translator.tokenizer.encode(line)) for line in lines) + 1
    random_cut = partial(translator.tokenizer.encode_at_random, dropout=0.9)
    assert max(len(random_cut(line, random=random)) for line in lines) >= longest
    recipe = dict(map(command.parse_choice, TINY))
    recipe |= {"max_len": longest, "epochs": 2, "cooldown": 0, "bpe_dropout": 0.9}
    run.train_translator(Corpus(files=splits), recipe, tmp_path)
    assert len(losses(tmp_path)) == 2


@pytest.mark.parametrize("name", ["grammar-en-de", "multi30k-en-de"])
def test_the_command_of_a_shipped_record_makes_the_recipe_that_it_tells(name):
    record = run.read_record(ROOT / "models" / name)
    arguments = shlex.split(record["command"].removeprefix(command.PROGRAM))
    options = command.parser().parse_args(arguments)
    recipe = command.recipe(options, command.training_corpus(options), "cpu")
    assert {choice: record.get(choice) for choice in recipe} == recipe


def test_every_preset_is_possible():
    for preset in run.PRESETS.values():
        run.require_choices(preset)
        recipe = preset | {"vocab_size": 260}
        assert (
            type(run.untrained([("ein hund", "a dog")], recipe).model)
            is run.Transformer
        )
        run.ScaleConfig(**run._chosen(preset, run.TRAINING_CHOICES))


@pytest.mark.parametrize(
    ("choice", "match"),
    [
        ({"drop_out": 0.1}, "choices are accumulate, .* got drop_out"),
        (
            {"tgt_vocab_size": 300},
            "choices are .* got tgt_vocab_size",
        ),  # the tokenizer's
        ({"pad_id": 300}, "choices are .* got pad_id"),
        ({"eos_id": 300}, "choices are .* got eos_id"),
        ({"d_model": "32x"}, "d_model must be int, got '32x'"),
        ({"patience": 1.5}, r"patience must be int \| None, got 1\.5"),
        ({"d_model": True}, "d_model must be int, got True"),
        ({"dropout": False}, "dropout must be float, got False"),
        ({"seed": 10**30}, r"seed must be between -2\*\*63 and 2\*\*63, got 10{30}"),
        ({"factor": math.inf}, r"factor must be between .*, got inf"),
    ],
)
def test_choices_are_checked_by_name_and_type(choice, match):
    run.require_choices({"dropout": 0, "patience": None, "positions": "learned"})
    with pytest.raises(ValueError, match=match):
        run.require_choices(choice)


@pytest.mark.parametrize(
    "change",
    [
        *("d_model=33", "d_model=-2", "smoothing=1", "warmup_steps=0", "vocab_size=5"),
        *("bpe_dropout=1", "bpe_dropout_epochs=-1", "positions=lerned", "epochs=many"),
        *("norm_eps=-1", f"cooldown={EPOCHS}", "max_len=-2", f"max_len={10**30}"),
    ],
)
def test_a_setting_that_cannot_be_leaves_nothing_behind(files, call, tmp_path, change):
    status, out, err = call(*train_arguments(files, tmp_path), change)
    assert (status, out) == (2, "")
    assert change.split("=")[0] in err
    assert list(tmp_path.iterdir()) == []


def test_a_pair_too_long_to_learn_from_is_named_and_nothing_is_cut_off(translator):
    pairs = [("ba", "ba"), ("ba de", "ba de fi")]
    tokenizer = translator.tokenizer
    longest = len(tokenizer.encode("ba de fi")) + 1
    encoded = run.encode_pairs(translator, pairs, longest)
    assert [tuple(map(tokenizer.decode, pair)) for pair in encoded] == pairs
    match = f"train, pair 2 must have at most {longest - 1} tokens .* got {longest}:"
    with pytest.raises(ValueError, match=match):
        run.encode_pairs(translator, pairs, longest - 1, "train")
    with pytest.raises(ValueError, match="pair 1 must have at most 43 tokens"):
        run.encode_pairs(translator, [("ba", " ".join(["ba"] * MAX_LEN))], 1000)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        (["vocab_size=310"], "vocab_size must be 300, got 310"),
        (["max_tokens=81"], "max_tokens must be 80, got 81"),
        (["dropout=0.3"], "dropout must be 0.0, got 0.3"),
        (["seed=5"], "seed must be 0, got 5"),
        (["bpe_dropout=0.0"], "bpe_dropout must be 0.1, got 0.0"),
        (["bpe_dropout_epochs=2"], "bpe_dropout_epochs must be 9, got 2"),
    ],
)
def test_another_run_in_the_folder_is_refused_and_left_alone(
    files, copy, call, change, match
):
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    status, out, err = call(*train_arguments(files, copy), *change)
    assert (status, out) == (2, "")
    assert match in err
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_a_model_of_which_nobody_knows_what_it_is_is_left_alone(files, copy, call):
    (copy / "run.json").unlink()
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    status, out, err = call(*train_arguments(files, copy))
    assert (status, out) == (2, "")
    assert str(copy / "run.json") in err
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_the_other_direction_is_another_run(files, copy, call):
    sides = [files / "train.yy", files / "train.xx"]
    arguments = train_arguments(files, copy)
    place = arguments.index("--train") + 1
    arguments[place : place + 2] = sides
    status, _, err = call(*arguments)
    assert status == 2
    assert "choose another folder" in err
    digest = r"\{'train': '[0-9a-f]{64}', 'validation': '[0-9a-f]{64}'\}"
    assert re.search(f"sentences_sha256 must be {digest}, got {digest}", err)


@pytest.mark.parametrize(
    ("epochs_with", "cooldown", "cut_anew"),
    [(2, 0, {5, 6}), (2, 1, {4, 5}), (0, 1, set()), (9, 2, {1, 2, 3, 4})],
)
def test_bpe_dropout_comes_before_the_cooldown(
    files, translator, tmp_path, monkeypatch, epochs_with, cooldown, cut_anew
):
    sizes = {}

    def look(model, batches, *others, **more):
        for epoch in range(1, 7):
            sizes[epoch] = sum(int((b.tgt > 2).sum()) for b in batches(epoch))
        return []

    monkeypatch.setattr(run, "train_at_scale", look)
    recipe = {"vocab_size": 300, "max_tokens": 80, "d_model": 32, "num_heads": 2}
    recipe |= {"d_ff": 64, "num_layers": 1, "max_len": MAX_LEN, "epochs": 6}
    recipe |= {"cooldown": cooldown, "bpe_dropout": 0.2}
    recipe["bpe_dropout_epochs"] = epochs_with
    splits = {
        split: [str(files / f"{split}.{side}") for side in ("xx", "yy")]
        for split in ("train", "validation")
    }
    run.train_translator(run.Corpus(files=splits), recipe, tmp_path)
    usual = sum(
        len(translator.tokenizer.encode(t))
        for _, t in run.Corpus(files=splits).pairs("train")
    )
    assert {epoch for epoch, size in sizes.items() if size != usual} == cut_anew
    assert all(sizes[epoch] > usual for epoch in cut_anew)
    assert len({sizes[epoch] for epoch in cut_anew}) == len(cut_anew)  # anew each time


def test_a_finished_run_goes_on_for_more_epochs(files, copy, call):
    status, out, err = call(*train_arguments(files, copy, epochs=EPOCHS + 1))
    assert status == 0
    assert f"Going on with the run in {copy}.\n" in err
    assert re.findall("^epoch +([0-9]+)", out, re.MULTILINE) == [str(EPOCHS + 1)]
    assert run.read_record(copy)["epochs_trained"] == EPOCHS + 1


def test_updates_that_were_skipped_are_told(capsys):
    epoch = run.ScaleEpoch(2, 9, 0.1, 2.0, 1.5, 0.5, 100, 4.0)
    command.print_epoch(epoch)
    command.print_epoch(replace(epoch, skipped=3))
    without, told = capsys.readouterr().out.splitlines()
    assert told == without + "  3 updates skipped so far"


def test_a_run_cannot_end_before_it_stands(files, copy, call):
    scores = run.read_record(copy)["validation"]
    weights = (copy / "model.safetensors").read_bytes()
    status, out, err = call(*train_arguments(files, copy, epochs=EPOCHS - 1))
    assert (status, out) == (2, "")
    assert f"epochs must be at least as many as were trained, got {EPOCHS - 1}" in err
    assert run.read_record(copy)["epochs"] == EPOCHS
    assert run.read_record(copy)["validation"] == scores
    assert (copy / "model.safetensors").read_bytes() == weights


@pytest.mark.parametrize(
    "content", ['{"corp', "[]", "{}", '{"corpus": {"date": 1}}', '{"corpus": 5}']
)
def test_a_damaged_record_is_named(copy, call, content):
    (copy / "run.json").write_text(content, encoding="utf-8")
    status, _, err = call("evaluate", "--model", copy)
    assert status == 2
    assert f"error: {copy / 'run.json'} is not a whole record" in err


# The command


def heed_ctrl_c():
    """A background job ignores it, and so would all that it starts."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def start(arguments, before=heed_ctrl_c, **more):
    return subprocess.Popen(
        [*COMMAND, *arguments],
        preexec_fn=before,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **more,
    )


def stop_after_an_epoch(process, how):
    for line in process.stdout:
        if line.startswith("epoch"):
            break
    process.send_signal(how)
    _, err = process.communicate()
    return process.returncode, err


@pytest.mark.slow
def test_a_run_that_is_stopped_and_killed_ends_as_one_that_was_not(
    files, folder, tmp_path
):
    arguments = train_arguments(files, tmp_path)
    status, err = stop_after_an_epoch(start(arguments), signal.SIGINT)
    assert status == 130
    assert "Traceback" not in err
    assert f"to go on:\n  python -m transformer_lib.translation {arguments[0]}" in err
    assert 1 <= len(losses(tmp_path)) < EPOCHS

    status, err = stop_after_an_epoch(start(arguments), signal.SIGKILL)
    assert status == -signal.SIGKILL
    assert f"Going on with the run in {tmp_path}." in err
    assert 2 <= len(losses(tmp_path)) < EPOCHS

    process = start(arguments)
    out, err = process.communicate()
    assert process.returncode == 0, err
    assert losses(tmp_path) == pytest.approx(losses(folder), rel=1e-3)
    assert "BLEU" in out
    assert "exact" in out
    assert err.splitlines()[-1] == f"The translator is in {tmp_path}."


def test_translations_go_to_stdout_and_all_else_to_stderr(folder, answer):
    process = start(["translate", "--model", str(folder)], stdin=subprocess.PIPE)
    out, err = process.communicate("go ba\n\n😀\nlu\n")
    assert process.returncode == 0, err
    lines = out.split("\n")
    assert len(lines) == 5
    assert lines == [*map(answer, ["go ba", "", "😀", "lu"]), ""]
    assert answer("go ba") not in err


def test_a_sentence_is_translated_with_and_without_quotes(folder, call, answer):
    expected = (0, answer("go ba") + "\n")
    assert call("translate", "--model", folder, "go ba")[:2] == expected
    assert call("translate", "--model", folder, "go", "ba")[:2] == expected
    assert call("translate", "--model", folder, "")[:2] == (0, "\n")


def test_a_file_is_translated_line_for_line(folder, call, answer, tmp_path):
    text = tmp_path / "text"
    text.write_bytes(b"go ba\r\n\nlu")
    status, out, _ = call("translate", "--model", folder, "--beam", 2, "--file", text)
    assert (status, out) == (0, f"{answer('go ba', 2)}\n\n{answer('lu', 2)}\n")
    text.write_bytes(b"")
    assert call("translate", "--model", folder, "--file", text)[:2] == (0, "")
    assert call("translate", "--model", folder)[:2] == (0, "")


def test_invalid_utf8_ends_the_command_and_names_the_line(
    folder, call, answer, tmp_path
):
    text = tmp_path / "text"
    text.write_bytes(b"lu\n\xff\n")
    status, out, err = call("translate", "--model", folder, "--file", text)
    assert (status, out) == (2, "")
    assert f"error: {text}, line 2 must be UTF-8: " in err
    status, out, err = call("translate", "--model", folder, given=b"lu\n\xff\n")
    assert (status, out) == (2, answer("lu") + "\n")
    assert "error: standard input, line 2 must be UTF-8" in err
    status, out, err = call("translate", "--model", folder, "lu \udcff")
    assert (status, out) == (2, "")
    assert "surrogates not allowed" in err


def test_a_line_too_long_ends_the_command_and_names_the_line(
    folder, call, answer, tmp_path
):
    text = tmp_path / "text"
    content = "lu\n" + "ba " * MAX_LEN
    text.write_text(content, encoding="utf-8")
    status, out, err = call("translate", "--model", folder, "--file", text)
    assert (status, out) == (2, "")
    assert "sentence 2 must have at most 43 tokens with its end, got 44" in err
    status, out, err = call("translate", "--model", folder, given=content.encode())
    assert (status, out) == (2, answer("lu") + "\n")
    assert "error: standard input, line 2: sentence 1 must have at most 43" in err


def test_a_reader_that_goes_away_is_no_fault(folder):
    process = start(["translate", "--model", str(folder)], stdin=subprocess.PIPE)
    process.stdout.close()
    process.stdin.write("lu\n" * 3)
    process.stdin.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 1
    assert "Error" not in err


def test_a_translation_that_cannot_be_written_is_an_error(folder):
    arguments = ["translate", "--model", str(folder), "lu"]
    buffered = {**os.environ, "PYTHONUNBUFFERED": ""}
    with open("/dev/full", "w") as full:
        process = subprocess.run(
            [*COMMAND, *arguments],
            cwd=ROOT,
            env=buffered,
            stdout=full,
            stderr=subprocess.PIPE,
        )
    assert process.returncode == 1
    assert process.stderr.endswith(b"error: [Errno 28] No space left on device\n")


def test_evaluate_shows_scores_with_signatures(folder, call, files):
    status, out, _ = call("evaluate", "--model", folder)
    assert status == 0
    sides = files / "validation.xx", files / "validation.yy"
    assert f"{sides[0]} and {sides[1]}, greedy, " in out
    for part in ("BLEU", "chrF", "case:mixed", "case:lc", "tok:13a", "Moses", "exact"):
        assert part in out
    recorded = run.read_record(folder)["validation"]
    assert f"BLEU  {recorded['bleu']:6.2f}  {recorded['bleu_signature']}\n" in out
    assert f"exact {recorded['exact']:7.1%}\n" in out

    sides = files / "train.xx", files / "train.yy"
    status, out, _ = call("evaluate", "--model", folder, "--beam", 2, "--files", *sides)
    assert status == 0
    title = re.escape(f"{sides[0]} and {sides[1]}, beam of 2, alpha 1.4, ")
    assert re.search(title + r"[\d.]+ s: 360 sentences", out)


def test_evaluate_takes_named_data_and_refuses_unknown_splits(
    folder, call, monkeypatch
):
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
    copy, call, monkeypatch, language
):
    other = {"en": "de", "de": "en"}[language]
    record = run.read_record(copy)
    record["corpus"] = asdict(Corpus(source=language, target=other))
    (copy / "run.json").write_text(json.dumps(record), encoding="utf-8")
    asked = []
    monkeypatch.setattr(
        Corpus, "pairs", lambda its, _: asked.append(its) or [("a", "a")]
    )
    for choice in ([], ["--data", "multi30k"]):
        status, _, _ = call("evaluate", "--model", copy, *choice)
        assert status == 0
        assert (asked[-1].source, asked[-1].target) == (language, other)
    assert [corpus.data for corpus in asked] == ["grammar", "multi30k"]


def test_multi30k_that_is_absent_says_what_to_run(call, monkeypatch, tmp_path):
    monkeypatch.setenv(multi30k.FOLDER, str(tmp_path))
    arguments = ["train", "--data", "multi30k", "--output", tmp_path / "run"]
    status, out, err = call(*arguments)
    assert (status, out) == (2, "")
    assert "Run `python -m transformer_lib.translation download`" in err
    assert not (tmp_path / "run").exists()


def test_download_fetches_multi30k_and_says_where_it_is(call, monkeypatch, tmp_path):
    monkeypatch.setattr(multi30k, "download", lambda: tmp_path)
    status, out, err = call("download")
    assert (status, out) == (0, "")
    assert f"Multi30k is in {tmp_path}, for research" in err

    def fail():
        raise requests.ConnectionError("no network")

    monkeypatch.setattr(multi30k, "download", fail)
    status, _, err = call("download")
    assert (status, err) == (1, "error: no network\n")


TRAIN = "train --output x"
TWO = "a.xx a.yy"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("translate --file x a", "give a sentence or --file, not both"),
        ("translate --device cuda lu", "--device must be cpu: torch finds no GPU here"),
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
    ],
)
def test_options_that_contradict_are_refused(call, monkeypatch, arguments, message):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    status, out, err = call(*arguments.split())
    assert (status, out) == (2, "")
    assert "error: " in err
    assert message in err


def test_the_shipped_model_is_the_default(call):
    status, out, err = call("translate", "")
    assert (status, out) == (0, "\n")
    assert f"The model is {ROOT / 'models' / 'multi30k-en-de'}, on c" in err


def recipe_of(*arguments):
    options = command.parser().parse_args(["train", "--output", "x", *arguments])
    return command.recipe(options, command.training_corpus(options), "cpu")


def test_both_languages_say_the_direction():
    arguments = "train --output x --source de --target en".split()
    corpus = command.training_corpus(command.parser().parse_args(arguments))
    assert corpus == Corpus(source="de", target="en")


def test_a_preset_is_chosen_by_the_data_and_changed_by_options():
    assert recipe_of() == {**run.PRESETS["grammar"], "seed": 0, "precision": "float32"}
    assert recipe_of("--data", "multi30k")["vocab_size"] == 9700
    assert recipe_of("--preset", "multi30k")["vocab_size"] == 9700
    files = "--train a b --validation c d".split()
    assert recipe_of(*files)["vocab_size"] == 9700
    changed = recipe_of(
        "--set", "dropout=0.3", "bias=false", "--set", "activation=gelu"
    )
    assert (changed["dropout"], changed["bias"]) == (0.3, False)
    assert changed["activation"] == "gelu"
    assert recipe_of("--set", "precision=float16")["precision"] == "float16"
    with pytest.raises(ValueError, match=r"choices are .*; got bf16"):
        recipe_of("--set", "bf16=maybe")
    assert recipe_of("--epochs", "3", "--seed", "7")["seed"] == 7
    assert recipe_of("--epochs", "3", "--set", "epochs=3")["epochs"] == 3


@pytest.mark.parametrize(
    ("arguments", "cooldown"),
    [
        ("", 4),
        ("--epochs 5", 2),
        ("--epochs 1", 0),
        ("--set epochs=20", 8),
        ("--preset multi30k --epochs 44", 11),
        ("--epochs 5 --set cooldown=3", 3),
    ],
)
def test_a_shorter_run_has_a_shorter_cooldown_unless_it_is_chosen(arguments, cooldown):
    assert recipe_of(*arguments.split())["cooldown"] == cooldown


def test_as_many_threads_are_used_as_asked_for_and_at_least_one(
    folder, call, monkeypatch
):
    asked = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    arguments = ["translate", "--model", folder, "lu"]
    for more in ([], ["--threads", 3]):
        assert call(*arguments, *more)[0] == 0
    status, _, err = call(*arguments, "--threads", 0)
    assert (status, err) == (2, "error: threads must be at least 1, got 0\n")
    assert asked == [3]


def test_a_folder_that_cannot_be_written_is_an_error(files, call, tmp_path):
    (tmp_path / "file").write_text("in the way", encoding="utf-8")
    status, _, err = call(*train_arguments(files, tmp_path / "file" / "run"))
    assert status == 1
    assert err.startswith("error: ")
    assert str(tmp_path / "file") in err


def test_a_full_disk_is_an_error_and_loses_nothing(files, folder, tmp_path):
    def small_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))

    process = start(train_arguments(files, tmp_path), before=small_disk)
    _, err = process.communicate()
    assert process.returncode == 1
    assert err.splitlines()[-1].startswith("error: ")
    assert str(tmp_path / "training.safetensors") in err
    assert "Traceback" not in err
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {".lock", "run.json", "tokenizer.json", "log.csv"}


@pytest.mark.parametrize("name", ["", "download", "train", "evaluate", "translate"])
def test_help_explains_with_an_example(name, capsys):
    with pytest.raises(SystemExit) as caught:
        command.main([*[name] * bool(name), "--help"])
    assert caught.value.code == 0
    text = capsys.readouterr().out
    assert f"\n  python -m transformer_lib.translation {name}" in text
    assert "  -h, --help" in text


def test_the_help_says_who_can_reach_torchrun(capsys):
    with pytest.raises(SystemExit):
        command.main(["train", "--help"])
    text = " ".join(capsys.readouterr().out.split())
    assert "only in a network that you trust" in text
    assert "listens on all interfaces without authentication" in text
    assert "CONTRIBUTING.md" in text


def test_a_command_is_required(capsys):
    with pytest.raises(SystemExit) as caught:
        command.main([])
    assert caught.value.code == 2
    assert "arguments are required: COMMAND" in capsys.readouterr().err


def test_a_beam_is_as_wide_and_its_penalty_as_strong_as_asked(translator, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "transformer_lib.translation.translator.beam_search",
        lambda *inputs, **how: asked.append(how) or beam_search(*inputs, **how),
    )
    translator.translate(["ba"])
    translator.translate(["ba"], alpha=-9.0)
    assert asked == []  # greedy, whatever the penalty
    translator.translate(["ba"], 2)
    translator.translate(["ba"], 3, -9.0)
    assert [(how["beam_size"], how["alpha"]) for how in asked] == [(2, 1.4), (3, -9.0)]


def test_a_sentence_of_more_tokens_than_a_batch_may_hold_is_translated_alone(
    translator, batches, monkeypatch
):
    monkeypatch.setattr("transformer_lib.translation.translator.MAX_TOKENS", 1)
    assert all(translator.translate(["ba", "fi lu"]))
    assert [len(batch) for batch in batches] == [1, 1]


# What a user may do to it


def test_too_little_memory_of_a_gpu_is_an_error_in_words(folder, call, monkeypatch):
    def fail(*_):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 9 GiB")

    monkeypatch.setattr(Translator, "translate", fail)
    status, out, err = call("translate", "--model", folder, "lu")
    assert (status, out) == (1, "")
    assert err.endswith("error: CUDA out of memory. Tried to allocate 9 GiB\n")


def test_a_fault_of_ours_keeps_its_traceback(folder, call, monkeypatch):
    def fail(*_):
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    monkeypatch.setattr(Translator, "translate", fail)
    with pytest.raises(RuntimeError, match="mat1"):
        call("translate", "--model", folder, "lu")
