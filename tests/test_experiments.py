"""The experiments: they run, their tables are whole, and they measure what they say."""

import importlib
import inspect
import math
import sys
import zlib
from collections import defaultdict
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.data import Tokenizer, make_batch, token_batches
from transformer_lib.data.corpora.grammar import sentence_pairs
from transformer_lib.model import (
    MultiHeadAttention,
    Transformer,
    TransformerConfig,
    padding_mask,
)
from transformer_lib.training import evaluate, load_model, warmup_rate
from transformer_lib.translation import Translator
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.run import encode_pairs

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "measurements"
sys.path.append(str(FOLDER))  # the scripts import their neighbours

import ablations  # noqa: E402
import distillation  # noqa: E402
import learning  # noqa: E402
import multi30k_counts  # noqa: E402
import multi30k_side_by_side as side_by_side  # noqa: E402
import one_stack  # noqa: E402
import peeking  # noqa: E402
import precision  # noqa: E402
import silence  # noqa: E402
import since_2017  # noqa: E402
import sparse_times  # noqa: E402
import toys  # noqa: E402
import without_softmax  # noqa: E402
from tables import add, read  # noqa: E402

B, H, T, S, D_K = 2, 3, 5, 7, 11
RUNS = {(run.factor, run.variant): run for run in ablations.RUNS}

# -- Every script runs -----------------------------------------------------------------

# These need a browser, a compiler, a run's training state, or minutes.
BY_HAND = {"compile_times", "multi30k_averages", "multi30k_compression", "open_model"}
BY_HAND |= {"against_torch", "multi30k_side_by_side", "quantization"}
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - BY_HAND - {"tables"})
TINY = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 1}
TRIED = [
    ablations.Run("length", "learned", {"positions": "learned"}, steps=3),
    ablations.Run("root", "missing", alter=ablations.without_score_scale, steps=2),
]
WAYS = {
    "soft": distillation.Way("true 1,000", 2, temperature=2.0),
    "pruned": distillation.Way("true 1,000", 0, pruned=True),
    "zeros": distillation.Way("true 1,000", 2, zeros=0.8),
}
# Smaller constants, and defaults of functions; of a table the entries in a set. A
# script that is not here runs as it is.
SMALL = {
    "ablations": {"INTERVAL": 2},
    "attention": {"LENGTHS": (128,)},
    "attention_times": {"LENGTHS": (16,), "measure.rounds": 1},
    "beyond_text": {"RUNS": {("club", "edges, 2 layers")}},
    "decoding": {"SIZES": (TINY,), "SENTENCES": 2, "NEW_TOKENS": 2},
    "distillation": {"TRUE": 10, "WAYS": WAYS},
    "fast_decoder": {"SIZES": {8: TINY}, "BATCHES": (1,), "NEW_TOKENS": 2},
    "fewer_pairs": {"WAYS": {"buckets"}, "SEEDS_OF_BUCKETS": 1, "train.updates": 2},
    "laboratory": {"UPDATES": 20},
    "learning": {"EVERY": 2},
    "multi30k_scores": {"TRIED": [(1, 0.0)]},
    "one_stack": {"SENTENCES": 256, "ASKED": 5, "CHOOSING": 2, "STEPS": (1,)},
    "peeking": {"EPOCHS": 1, "COOLDOWN": 0},
    "product_times": {"SIZES": (8,), "OLDER": {}},
    "remove_heads": {"places": lambda model: [("none", "none", "none")]},
    "since_2017": {"WAYS": {"2017", "rotary"}, "TRAINED": 200, "HELD_OUT": 20},
    "sparse_times": {"SIZES": (16,), "SHARES": (0.5,)},
    "without_softmax": {
        **{"SEEDS": (1,), "PAIRS": (16, 32), "LONGER": (2,), "IN_GRAMMAR": {"softmax"}},
        **{"train.updates": 2, "translate.updates": 2},
    },
}
OPTIONS = {
    "attention": ["--rounds", "1"],
    "beyond_text": ["--seeds", "1"],
    "decoding": ["--rounds", "1"],
    "fast_decoder": ["--rounds", "1", "--width", "8"],
    "one_stack": ["--seeds", "1"],
}
ARGUMENTS = {
    "ablations": {"runs": TRIED, "seeds": [1]},
    "distillation": {"seeds": [1]},
    "learning": {"seeds": [1, 2], "updates": 4},
    "multi30k_scores": {"folders": [ROOT / "models/multi30k-en-de"], "tests": False},
    "precision": {"seeds": [1]},
    "product_times": {"processor": "here"},
    "since_2017": {"seeds": [1], "updates": 2},
    "toys": {"seeds": [1], "epochs": {"copy": 1}},
}


@pytest.fixture(scope="module")
def corpus():
    return ablations.Corpus.build(train=300, validation=20, longer=20)


@pytest.fixture
def script(request, monkeypatch, tmp_path, corpus):
    """A script that writes elsewhere and reads few sentences, and how to call it."""
    name = request.param
    module = importlib.import_module(name)
    pairs = sentence_pairs(40, seed=0)
    files = [str(tmp_path / language) for language in ("en", "de")]
    for path, lines in zip(files, zip(*pairs, strict=True), strict=True):
        Path(path).write_text("\n".join(lines) + "\n", encoding="utf-8")
    few = Corpus(files=dict.fromkeys(("train", "validation", "test"), files))
    if getattr(module, "Corpus", None) is Corpus:
        monkeypatch.setattr(module, "Corpus", lambda: few)
    monkeypatch.setattr(distillation, "Corpus", lambda: few)
    if hasattr(module, "multi30k"):
        monkeypatch.setattr(module, "multi30k", lambda split: pairs[:4])
    if hasattr(module, "PRESETS"):
        recipe = module.PRESETS["grammar"] | {"vocab_size": 300, "d_model": 8}
        recipe |= {"epochs": 2, "cooldown": 0, "warmup_steps": 4}
        monkeypatch.setitem(module.PRESETS, "grammar", recipe)
    monkeypatch.setattr(peeking, "MODELS", tmp_path)
    torch.set_default_dtype(torch.float32)
    threads = torch.get_num_threads()
    yield name, module, corpus
    torch.set_num_threads(threads)
    for cached in (since_2017.sentences, distillation.pairs_of, distillation.teacher):
        cached.cache_clear()


def shrink(monkeypatch, module, name, value):
    function, _, argument = name.partition(".")
    if isinstance(value, set):
        value = {key: getattr(module, name)[key] for key in sorted(value)}
    if not argument:
        monkeypatch.setattr(module, name, value)
        return
    function = getattr(module, function)
    names = list(inspect.signature(function).parameters)[-len(function.__defaults__) :]
    defaults = dict(zip(names, function.__defaults__, strict=True)) | {argument: value}
    monkeypatch.setattr(function, "__defaults__", tuple(defaults.values()))


@pytest.mark.parametrize("script", SCRIPTS, indirect=True)
def test_a_script_runs_and_makes_no_run_twice(script, monkeypatch, tmp_path):
    name, module, corpus = script
    for constant, value in vars(module).copy().items():
        if isinstance(value, Path) and value.suffix == ".csv":
            monkeypatch.setattr(module, constant, tmp_path / value.name)
    for constant, value in SMALL.get(name, {}).items():
        shrink(monkeypatch, module, constant, value)
    arguments = dict(ARGUMENTS.get(name, {}))
    for parameter in inspect.signature(module.main).parameters:
        if parameter in ("folder", "corpus"):
            arguments[parameter] = tmp_path if parameter == "folder" else corpus
        elif parameter == "scores":
            arguments[parameter] = module.SCORES
    monkeypatch.setattr(sys, "argv", [name, *OPTIONS.get(name, [])])

    def tables():
        with torch.inference_mode(name == "sparse_times"):
            module.main(**arguments)
        return {path.name: path.read_bytes() for path in tmp_path.glob("*.csv")}

    written = tables()
    for table in written:
        (recorded,) = FOLDER.rglob(table)
        assert read(tmp_path / table)[0].keys() == read(recorded)[0].keys()
    if hasattr(module, "read"):  # and so it can go on where it stopped
        assert written == tables() != {}
