"""The experiments: they run, their tables are whole, and they measure what they say."""

import importlib
import inspect
import math
import sys
from collections import defaultdict
from dataclasses import replace
from itertools import product
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
import silence  # noqa: E402
import since_2017  # noqa: E402
import sparse_times  # noqa: E402
import toys  # noqa: E402
import without_softmax  # noqa: E402
from tables import add, read  # noqa: E402

B, H, T, S, D_K = 2, 3, 5, 7, 11
RUNS = {(run.factor, run.variant): run for run in ablations.RUNS}

# -- Every script runs -----------------------------------------------------------------

# These need a browser, a compiler, a training state, all captions, or minutes.
BY_HAND = {"against_torch", "compile_times", "decoding", "open_model", "quantization"}
BY_HAND |= {f"multi30k_{name}" for name in ("averages", "compression", "statistics")}
BY_HAND |= {"multi30k_side_by_side"}
SCRIPTS = sorted({path.stem for path in FOLDER.glob("*.py")} - BY_HAND - {"tables"})
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
    "distillation": {"TRUE": 10, "WAYS": WAYS},
    "fast_decoder": {"SIZES": {8: {"num_heads": 2, "d_ff": 8, "num_layers": 1}}}
    | {"BATCHES": (1,), "NEW_TOKENS": 2, "VOCABULARY": 20},
    "fewer_pairs": {"WAYS": {"buckets"}, "SEEDS_OF_BUCKETS": 1, "train.updates": 2},
    "laboratory": {"UPDATES": 20},
    "learning": {"EVERY": 2},
    "multi30k_scores": {"TRIED": [(1, 0.0)]},
    "one_stack": {"SENTENCES": 256, "ASKED": 5, "CHOOSING": 2, "STEPS": (1,)}
    | {"LABELS": (4,), "fit": lambda parameters, loss_of, **_: loss_of()},
    "peeking": {"EPOCHS": 1, "COOLDOWN": 1},
    "product_times": {"SIZES": (8,), "OLDER": {}},
    "remove_heads": {"places": lambda model: [("none", "none", "none")]},
    "silence": {"SPLITS": ("validation",), "choose.each": 1},
    "since_2017": {"WAYS": {"2017", "rotary"}, "TRAINED": 200, "HELD_OUT": 20},
    "sparse_times": {"SIZES": (16,), "SHARES": (0.5,)},
    "without_softmax": {"SEEDS": (1,), "PAIRS": (16, 32), "LONGER": (2,)}
    | {"IN_GRAMMAR": {"softmax"}, "train.updates": 2, "translate.updates": 2},
}
OPTIONS = {
    "attention": ["--rounds", "1"],
    "beyond_text": ["--seeds", "1"],
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


COMPLETE = {"ablations", "beyond_text", "distillation", "fewer_pairs", "laboratory"}
COMPLETE |= {"learning", "one_stack", "peeking", "precision", "remove_heads"}
COMPLETE |= {"since_2017", "toys", "without_softmax"}


@pytest.mark.parametrize("script", sorted(COMPLETE), indirect=True)
def test_no_run_is_missing_from_the_recorded_tables(script, monkeypatch, tmp_path):
    name, module, _ = script

    def missing(path, rows):
        pytest.fail(f"{path.name} lacks {rows[0]}")

    monkeypatch.setattr(module, "add", missing)
    monkeypatch.setattr(sys, "argv", [name])
    if name == "remove_heads":
        monkeypatch.setattr(module, "tqdm", list)
    arguments = {
        "ablations": {"runs": ablations.RUNS, "corpus": None},
        "distillation": {"seeds": [1, 2]},
        "precision": {"folder": tmp_path, "seeds": [1]},
    }
    module.main(**arguments.get(name, {}))


def test_a_table_grows_by_whole_runs_and_repeats_no_row(tmp_path):
    path = tmp_path / "table.csv"
    assert read(path) == []
    for _ in range(2):  # the second time a run that stopped between two tables
        add(path, [{"a": 1, "b": "x, y"}, {"a": 2, "b": ""}])
    assert read(path) == [{"a": "1", "b": "x, y"}, {"a": "2", "b": ""}]


@pytest.mark.parametrize(("ended", "status"), [(0, 0), (1, 1), (-9, 1)])
def test_a_run_that_fails_or_is_killed_is_no_success(monkeypatch, ended, status):
    class Process:
        def __init__(self, command):
            self.name = command[-1]

        def wait(self):
            return ended if self.name == "seed-2" else 0

    monkeypatch.setattr(side_by_side.subprocess, "Popen", Process)
    assert side_by_side.main(Path("runs"), ["seed-1", "seed-2", "seed-3"]) == status


# -- What the ablations change ---------------------------------------------------------


def small_transformer(vocabulary, targets, num_layers, max_len):
    config = TransformerConfig(
        src_vocab_size=vocabulary, tgt_vocab_size=targets, d_model=22, num_heads=2,
        d_ff=17, num_layers=num_layers, dropout=0.0, max_len=max_len,
    )  # fmt: skip
    return Transformer(config).eval()


@pytest.fixture
def model():
    return small_transformer(13, 13, num_layers=2, max_len=16)


def changed_at_the_end(tgt):
    changed = tgt.clone()
    changed[:, -1] = tgt[:, -1] % 12 + 1
    return changed


def test_without_their_root_the_scores_are_sqrt_d_k_times_as_large(model):
    query, key = torch.randn(B, H, T, D_K), torch.randn(B, H, S, D_K)
    values, mask = torch.eye(S).expand(B, H, S, S), torch.arange(S) < 4
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    assert len(layers) == 6

    def scores():
        """Read the scores off the weights, each row up to a constant."""
        found = [layer.attend(query, key, values, mask[None], 0.0) for layer in layers]
        weights = torch.stack(found)
        assert not weights[..., 4:].any()
        return (weights[..., :4] / weights[..., :1]).log()

    before = scores()
    ablations.without_score_scale(model)
    assert_close(scores(), before * math.sqrt(D_K))


def test_without_their_root_embeddings_are_sqrt_d_model_times_as_small(model):
    tokens = torch.randint(1, 13, (B, S))
    embeddings = (model.src_embedding, model.tgt_embedding)
    before = [embedding(tokens) for embedding in embeddings]
    ablations.without_embedding_scale(model)
    for embedding, scaled in zip(embeddings, before, strict=True):
        assert_close(embedding(tokens) * math.sqrt(22), scaled)


def test_without_positions_the_encoder_knows_no_order_and_the_decoder_no_future(model):
    tokens, tgt = torch.randint(1, 13, (B, S)), torch.randint(1, 13, (B, T))
    order = torch.randperm(S)
    assert (model.encode(tokens[:, order]) - model.encode(tokens)[:, order]).any()
    ablations.without_positions(model)
    assert_close(model.encode(tokens[:, order]), model.encode(tokens)[:, order])
    logits, others = model(tokens, tgt), model(tokens, changed_at_the_end(tgt))
    assert_close(others[:, :-1], logits[:, :-1])


def test_a_decoder_that_reads_the_source_first_has_the_same_weights_and_is_causal(
    model,
):
    src, tgt = torch.randint(1, 13, (B, S)), torch.randint(1, 13, (B, T))
    second, weights = model(src, tgt), dict(model.state_dict())
    ablations.source_first(model)
    first = model(src, tgt)
    assert all(weights[name].equal(w) for name, w in model.state_dict().items())
    assert (first - second).abs().max() > 0.01
    assert_close(model(src, changed_at_the_end(tgt))[:, :-1], first[:, :-1])
    layer, memory = model.decoder.layers[0], model.encode(src)
    x = layer.cross_attention_residual(
        memory, lambda x: layer.cross_attention(x, memory, memory)
    )
    x = layer.self_attention_residual(x, lambda x: layer.self_attention(x, x, x))
    assert_close(
        layer(memory, memory), layer.feed_forward_residual(x, layer.feed_forward)
    )


def test_warm_up_is_the_papers_up_to_a_factor_and_without_it_the_rate_falls_alike():
    warm = ablations.Run("", "", peak=0.006, warmup_steps=50)
    rates = [warm.rate(step) for step in range(1, 301)]
    papers = [warmup_rate(step, 64, 50) for step in range(1, 301)]
    ratios = torch.tensor(rates) / torch.tensor(papers)
    assert_close(ratios, ratios[0].expand(300))
    assert max(rates) == rates[49] == pytest.approx(0.006)
    cold = ablations.Run("", "", peak=0.006, warmup_steps=50, warm_up=False)
    expected = [rates[49]] * 50 + rates[50:]
    assert [cold.rate(step) for step in range(1, 301)] == expected


def test_every_variant_has_its_own_name_and_one_seed_gives_all_the_same_start():
    assert len(RUNS) == len(ablations.RUNS)
    keys = [("baseline", "baseline"), ("sqrt(d_k)", "missing")]
    keys.append(("sqrt(d_model)", "missing"))
    first, *others = (
        list(ablations.build_model(RUNS[key], 1, 50).parameters()) for key in keys
    )
    for other in others:
        assert all(map(torch.equal, first, other))
    for (factor, variant), run in RUNS.items():
        if factor.startswith("warm-up"):
            assert run.changes["norm_first"] == variant.startswith("pre")
            assert run.warm_up == ("without" not in variant)
            assert run.peak == float(factor.removeprefix("warm-up to "))


def test_the_readme_has_the_means_and_ranges_of_the_table():
    last = defaultdict(dict)
    for row in read(FOLDER / "ablations.csv"):
        last[row["factor"], row["variant"]][row["seed"]] = row

    def cell(rows, column, factor, digits):
        x = [factor * float(row[column]) for row in rows]
        numbers = (sum(x) / len(x), min(x), max(x))
        return "{} ({} to {})".format(*(f"{number:.{digits}f}" for number in numbers))

    readme = (FOLDER / "README.md").read_text(encoding="utf-8")
    for key, seeds in last.items():
        rows = list(seeds.values())
        cells = [*key, rows[0]["step"], cell(rows, "validation_loss", 1, 2)]
        cells.append(cell(rows, "exact", 100, 1))
        assert f"| {' | '.join(cells)} |\n" in readme


# -- Toys ------------------------------------------------------------------------------


def test_a_perfect_map_has_all_its_weight_on_the_pattern(monkeypatch):
    def perfect(model, batch):
        weights = torch.zeros(2, 4, 4)  # (B, T, S), EOS counted
        for row, length in zip(weights, (3, 2), strict=True):
            row[:length, :length] = torch.eye(length).flip(0)
        return weights

    monkeypatch.setattr(toys, "cross_weights", perfect)
    pairs = [([7, 3, 5], [5, 3, 7]), ([9, 4], [4, 9])]
    assert toys.pattern_weights(None, pairs).tolist() == [1.0] * 5
    pairs = [([7, 3, 5], [7, 3, 5]), ([9, 4], [9, 4])]  # copied, not reversed
    assert toys.pattern_weights(None, pairs).tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_a_word_is_recorded_with_the_weights_of_the_model():
    model = Transformer(replace(learning.CONFIG, d_model=8, d_ff=8)).double()
    row = learning.word_row(model, "melon")
    batch = make_batch([learning.pair_of("melon")])
    expected = toys.cross_weights(model, batch)[0].flatten()
    digits = [row["weights"][i : i + 2] for i in range(0, len(row["weights"]), 2)]
    found = torch.tensor([int(each) / 100 for each in digits])
    assert_close(found, expected, rtol=0, atol=0.01)


# -- Silence ---------------------------------------------------------------------------


@pytest.fixture
def small_model():
    torch.manual_seed(3)
    model = small_transformer(7, 5, num_layers=1, max_len=4).requires_grad_(False)
    model.output.weight.mul_(4.0)  # so that some sentences are far likelier
    return model


def every_translation(model, src):
    found = {}
    memory, mask = model.encode(src), padding_mask(src, 0)

    def extend(tokens, log_prob):
        logits = model.decode(torch.tensor([[1, *tokens]]), memory, mask)[0, -1]
        logits[0] = -torch.inf
        sums = logits.log_softmax(0) + log_prob
        found[tuple(tokens)] = sums[2].item()
        if len(tokens) + 1 < 4:
            for token in (1, 3, 4):
                extend([*tokens, token], sums[token].item())

    extend([], 0.0)
    return found


def test_the_exact_search_finds_the_likeliest_translation_of_all(small_model):
    lengths = set()
    for a, b in product(range(3, 7), repeat=2):
        src = torch.tensor([[a, b, 2]])
        found = every_translation(small_model, src)
        best, written = silence.likeliest(small_model, src, (-math.inf, []))
        assert written == list(max(found, key=found.get))
        assert best == pytest.approx(max(found.values()), abs=1e-5)
        lengths.add(len(written))
    assert len(lengths) > 1  # or this would prove little
    given = (0.0, [3, 3, 3])
    assert silence.likeliest(small_model, src, given) == given


def test_silence_is_measured_as_the_first_token(small_model):
    row = silence.measure(small_model, 1, [3, 4])
    found = every_translation(small_model, torch.tensor([[3, 4, 2]]))
    assert row["tokens"] == 2
    assert row["silence"] == pytest.approx(found[()], abs=1e-3)
    assert row["best"] == pytest.approx(max(found.values()), abs=1e-3)
    assert row["best"] >= max(row["beam"], row["silence"])
    first = small_model(torch.tensor([[3, 4, 2]]), torch.tensor([[1]]))[0, 0]
    assert row["rank"] == (first[1:] >= first[2]).sum()


def test_joined_captions_are_as_long_and_as_many_as_the_single_ones():
    lengths = [*range(4, 32), *range(4, 20)]
    captions = [[number] * length for number, length in enumerate(lengths, 5)]
    texts = list(silence.choose(captions, each=5))
    groups = {number: defaultdict(int) for number in (1, 2)}
    for number, ids in texts:
        assert len(set(ids)) == number
        groups[number][len(ids) // silence.GROUP] += 1
    assert set(groups[1]) == set(range(1, 8))
    assert max(groups[1].values()) == 5
    assert groups[2] == {g: n for g, n in groups[1].items() if g >= 4}


# -- The others ------------------------------------------------------------------------


def test_a_sparse_matrix_counts_its_numbers_their_columns_and_its_rows():
    matrix = torch.tensor([[0.0, 3.0], [0.0, 0.0], [5.0, 0.0]]).float()
    assert sparse_times.size_in_bytes(sparse_times.in_csr(matrix)) == 2 * 12 + 4 * 8


@pytest.mark.parametrize(
    ("text", "plural"),
    [
        ("the cat sees the mice", False),
        ("we sleep", True),
        ("in the gardens she must laugh", False),
        ("without a dog the small boys play today", True),
    ],
)
def test_the_number_of_a_subject_is_not_that_of_another_noun(text, plural):
    assert one_stack.is_plural(text.split()) == plural


@pytest.mark.parametrize("past_only", [False, True])
def test_with_the_past_in_sight_a_stack_of_few_labels_never_looks_ahead(past_only):
    model = one_stack.make_encoder(vocab_size=13).double()
    tokens = torch.randint(4, 13, (B, S))
    other = tokens.clone()
    other[:, 2] = 4 + (tokens[:, 2] - 3) % 9
    before = one_stack.read_all(model, tokens, past_only)
    after = one_stack.read_all(model, other, past_only)
    assert (torch.isclose(before, after).all(dim=-1)[:, :2] == past_only).all()
    if not past_only:
        assert_close(before, model.encode(tokens))


@pytest.mark.parametrize("read_at", ["mean", "last"])
@pytest.mark.parametrize("past_only", [False, True])
def test_padding_changes_nothing_for_a_reader_of_few_labels(past_only, read_at):
    encoder = one_stack.make_encoder(vocab_size=13)
    reader = one_stack.Reader(encoder, past_only, read_at).double()
    tokens = torch.randint(4, 13, (B, S))
    longer = torch.cat([tokens, torch.zeros(B, 3, dtype=torch.long)], dim=1)
    assert_close(reader(longer), reader(tokens))


def test_the_number_wanted_is_the_one_told_of_the_name_that_is_asked_for():
    tokens, wanted = without_softmax.texts(B, 6, torch.Generator().manual_seed(1))
    first, numbers = without_softmax.FIRST, without_softmax.NUMBERS
    for text, answers in zip(tokens.tolist(), wanted.tolist(), strict=True):
        told = [divmod(token - first, numbers) for token in text[:6]]
        asked = [token - first - without_softmax.NAMES * numbers for token in text[6:]]
        assert len(dict(told)) == 6  # every name once
        assert [dict(told)[name] for name in asked] == answers
    for way, attention in without_softmax.WAYS.items():
        layer = without_softmax.Reader(way).model.encoder.layers[0].self_attention
        assert layer.attend is attention


def test_every_model_since_2017_has_as_many_numbers_as_that_of_2017():
    sizes = [
        sum(p.numel() for p in since_2017.build(way, 1).parameters())
        for way in since_2017.WAYS
    ]
    assert sizes == pytest.approx([sizes[0]] * len(sizes), rel=0.01)


def test_the_decoder_that_peeks_hides_padding_alone():
    config = TransformerConfig(src_vocab_size=13, tgt_vocab_size=13, **peeking.SIZES)
    tgt = torch.tensor([[1, 5, 6, 7], [1, 5, 0, 0]])
    mask = peeking.Peeking(config).target_mask(tgt)
    assert torch.equal(mask, padding_mask(tgt, 0))


def test_the_shipped_models_peeking_and_masked_have_the_accuracies_of_the_table(
    monkeypatch,
):
    tokenizer, most = Tokenizer.load(peeking.TOKENIZER), peeking.MAX_TOKENS
    for row in read(peeking.TABLE):
        model = load_model(peeking.MODELS / f"{row['trained']}.safetensors").float()
        translator = Translator(model, tokenizer)
        encoded = encode_pairs(translator, Corpus().pairs("validation"), most)
        batches = list(token_batches(encoded, most))
        columns = ["accuracy behind the mask"]
        if row["trained"] == "peeking":
            columns.append("accuracy as trained")
        for column in columns:
            accuracy = evaluate(model, batches)[1]
            assert accuracy == pytest.approx(float(row[column]), abs=1e-3)
            monkeypatch.setattr(model, "target_mask", lambda tgt: padding_mask(tgt, 0))


def test_counts_of_a_caption_are_its_words_and_the_right_n_grams():
    systems = {"same": ["Ein Hund rennt."], "other": ["ein Hund, ein Hund"]}
    assert multi30k_counts.count(systems, ["Ein Hund rennt."]) == [
        {"reference": 4, "same": "4 4 3 2 1", "other": "5 2 1 0 0"}
    ]
