"""The experiments: what they change, what they recorded, and that they still run."""

import math
import sys
import zlib
from collections import Counter, defaultdict
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from transformer_lib.data import Tokenizer, make_batch, token_batches
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

FOLDER = Path(__file__).parents[1] / "measurements"
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


@pytest.fixture
def model():
    torch.manual_seed(0)
    config = TransformerConfig(
        src_vocab_size=13, tgt_vocab_size=13, d_model=22, num_heads=2, d_ff=17,
        num_layers=2, dropout=0.0, max_len=16,
    )  # fmt: skip
    return Transformer(config).double().eval()


@pytest.fixture(scope="module")
def corpus():
    return ablations.Corpus.build(train=300, validation=20, longer=20)


# What is changed


def attention_scores(attend, query, key):
    """Read the scores off the weights, each row up to a constant."""
    values = torch.eye(S, dtype=query.dtype).expand(B, H, S, S)
    scores = attend(query, key, values, None, 0.0).log()  # (B, H, T, S)
    return scores - scores[..., :1]


def test_without_their_root_the_scores_are_sqrt_d_k_times_as_large(model):
    query = torch.randn(B, H, T, D_K, dtype=torch.float64)
    key = torch.randn(B, H, S, D_K, dtype=torch.float64)
    layers = [m for m in model.modules() if isinstance(m, MultiHeadAttention)]
    before = [attention_scores(layer.attend, query, key) for layer in layers]
    ablations.without_score_scale(model)
    after = [attention_scores(layer.attend, query, key) for layer in layers]
    assert len(layers) == 6
    for scaled, unscaled in zip(before, after, strict=True):
        assert_close(unscaled, scaled * math.sqrt(D_K))


def test_scores_without_their_root_still_heed_the_mask(model):
    query, key = torch.randn(B, H, T, D_K), torch.randn(B, H, S, D_K)
    values = torch.randn(B, H, S, D_K)
    mask = torch.arange(S) < 4
    output = ablations.unscaled_attention(query, key, values, mask[None], 0.0)
    values[:, :, 4:] = 100.0
    again = ablations.unscaled_attention(query, key, values, mask[None], 0.0)
    assert_close(again, output)


def test_without_their_root_embeddings_are_sqrt_d_model_times_as_small(model):
    tokens = torch.randint(1, 13, (B, S))
    embeddings = (model.src_embedding, model.tgt_embedding)
    before = [embedding(tokens) for embedding in embeddings]
    ablations.without_embedding_scale(model)
    for embedding, scaled in zip(embeddings, before, strict=True):
        assert_close(embedding(tokens) * math.sqrt(22), scaled)


def test_without_positions_the_encoder_knows_no_order(model):
    tokens = torch.randint(1, 13, (B, S))
    order = torch.randperm(S)
    assert (model.encode(tokens[:, order]) - model.encode(tokens)[:, order]).any()
    ablations.without_positions(model)
    assert_close(model.encode(tokens[:, order]), model.encode(tokens)[:, order])


def test_without_positions_the_decoder_still_cannot_see_the_future(model):
    ablations.without_positions(model)
    src, tgt = torch.randint(1, 13, (B, S)), torch.randint(1, 13, (B, T))
    memory, mask = model.encode(src), padding_mask(src, 0)
    logits = model.decode(tgt, memory, mask)
    changed = tgt.clone()
    changed[:, -1] = tgt[:, -1] % 12 + 1
    assert_close(model.decode(changed, memory, mask)[:, :-1], logits[:, :-1])


def test_a_decoder_that_reads_the_source_first_has_the_same_weights_and_is_causal(
    model,
):
    src, tgt = torch.randint(1, 13, (B, S)), torch.randint(1, 13, (B, T))
    second, weights = model(src, tgt), dict(model.state_dict())
    ablations.source_first(model)
    first = model(src, tgt)
    assert all(weights[name].equal(w) for name, w in model.state_dict().items())
    assert (first - second).abs().max() > 0.01
    changed = tgt.clone()
    changed[:, -1] = tgt[:, -1] % 12 + 1
    assert_close(model(src, changed)[:, :-1], first[:, :-1])
    layer, memory = model.decoder.layers[0], model.encode(src)
    x = layer.cross_attention_residual(
        memory, lambda x: layer.cross_attention(x, memory, memory)
    )
    x = layer.self_attention_residual(x, lambda x: layer.self_attention(x, x, x))
    assert_close(
        layer(memory, memory), layer.feed_forward_residual(x, layer.feed_forward)
    )
    with pytest.raises(ValueError, match="cache must be None"):
        layer(memory, memory, cache=())


def test_warm_up_is_the_papers_up_to_a_factor():
    run = ablations.Run("", "", peak=0.006, warmup_steps=50)
    rates = [run.rate(step) for step in range(1, 301)]
    papers = [warmup_rate(step, 64, 50) for step in range(1, 301)]
    ratios = torch.tensor(rates) / torch.tensor(papers)
    assert_close(ratios, ratios[0].expand(300))
    assert max(rates) == rates[49] == pytest.approx(0.006)


def test_without_warm_up_the_rate_begins_at_its_peak_and_falls_alike():
    warm = ablations.Run("", "", peak=0.006, warmup_steps=50)
    cold = ablations.Run("", "", peak=0.006, warmup_steps=50, warm_up=False)
    assert [cold.rate(step) for step in range(1, 51)] == [warm.rate(50)] * 50
    assert all(cold.rate(step) == warm.rate(step) for step in range(50, 300))


def test_every_variant_has_its_own_name_and_one_seed_gives_all_the_same_start():
    assert len(RUNS) == len(ablations.RUNS)
    baseline = ablations.build_model(RUNS["baseline", "baseline"], 1, 50)
    for factor in ("sqrt(d_k)", "sqrt(d_model)"):
        altered = ablations.build_model(RUNS[factor, "missing"], 1, 50)
        for ours, theirs in zip(
            baseline.parameters(), altered.parameters(), strict=True
        ):
            assert ours.equal(theirs)


def test_every_other_variant_is_what_it_is_called():
    def config(*key):
        return ablations.build_model(RUNS[key], 1, 50).config

    base = config("baseline", "baseline")
    assert (base.norm_first, base.num_heads, base.positions) == (
        False,
        4,
        "interleaved",
    )
    assert base.share_embeddings
    assert base.tie_output
    separate = config("embeddings", "separate")
    assert not separate.share_embeddings
    assert not separate.tie_output
    assert config("norm", "pre-norm").norm_first
    assert [config("heads", n).num_heads for n in ("1", "2", "8")] == [1, 2, 8]
    for layout in ("concatenated", "learned"):
        assert config("positions", layout).positions == layout
    assert RUNS["smoothing", "0"].smoothing == 0.0
    assert RUNS["baseline", "baseline"].smoothing == 0.1
    for (factor, variant), run in RUNS.items():
        if factor.startswith("warm-up"):
            assert run.changes["norm_first"] == variant.startswith("pre")
            assert run.warm_up == ("without" not in variant)
            assert run.peak == float(factor.removeprefix("warm-up to "))


# How it is measured


def test_a_sentence_with_every_token_right_is_the_one_that_greedy_decoding_writes():
    model, _ = toys.train_toy("sort", seed=1, epochs=3)
    pairs = toys.held_out("sort", 200, seed=5)
    share = ablations.exact_share(model, [make_batch(pairs)])
    assert 0.1 < share < 0.9  # or this would prove little
    assert share == pytest.approx(toys.exact_share(model, pairs))


def test_each_word_count_of_the_longer_sentences_has_a_row_that_adds_up(
    corpus, monkeypatch
):
    def all_right(model, batch):
        real = batch.tgt[:, 1:] != 0
        return torch.ones_like(real), real

    monkeypatch.setattr(ablations, "right_tokens", all_right)
    rows = ablations.length_rows(RUNS["length", "learned"], 1, None, corpus)
    lengths = [len(target) + 1 for _, target in corpus.longer]
    trained = max(len(target) + 1 for _, target in corpus.train)
    beyond = sum(max(length - trained, 0) for length in lengths)
    totals = {key: sum(row[key] for row in rows) for key in list(rows[0])[3:]}
    assert [row["words"] for row in rows] == sorted(set(corpus.words))
    assert totals["sentences"] == totals["exact"] == len(corpus.longer)
    assert totals["tokens"] == totals["right"] == sum(lengths)
    assert totals["beyond"] == totals["beyond_right"] == beyond > 0


def test_the_pairs_come_in_a_new_order_with_each_seed_and_each_time(corpus):
    def order(seed):
        batches = ablations.endless_batches(corpus.train[:60], seed)
        sentences = (row for batch in batches for row in batch.tgt)
        return [tuple(row[row != 0].tolist()) for row in islice(sentences, 120)]

    first, second = order(1)[:60], order(1)[60:]
    assert first == order(1)[:60]
    assert first != second
    assert first != order(2)[:60]
    assert sorted(first) == sorted(second)


def test_a_perfect_map_has_all_its_weight_on_the_pattern(monkeypatch):
    def perfect(model, batch):
        weights = torch.zeros(2, 4, 4)  # (B, T, S), EOS counted
        for t in range(3):
            weights[0, t, 2 - t] = 1.0
        for t in range(2):
            weights[1, t, 1 - t] = 1.0
        return weights

    monkeypatch.setattr(toys, "cross_weights", perfect)
    pairs = [([7, 3, 5], [5, 3, 7]), ([9, 4], [4, 9])]
    assert toys.pattern_weights(None, pairs).tolist() == [1.0] * 5
    pairs = [([7, 3, 5], [7, 3, 5]), ([9, 4], [9, 4])]  # copied, not reversed
    assert toys.pattern_weights(None, pairs).tolist() == [0.0, 1.0, 0.0, 0.0, 0.0]


@pytest.fixture
def small_model():
    torch.manual_seed(3)
    config = TransformerConfig(
        src_vocab_size=7, tgt_vocab_size=5, d_model=22, num_heads=2, d_ff=17,
        num_layers=1, dropout=0.0, max_len=4,
    )  # fmt: skip
    model = Transformer(config).eval().requires_grad_(False)
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
    for a in range(3, 7):
        for b in range(3, 7):
            src = torch.tensor([[a, b, 2]])
            found = every_translation(small_model, src)
            assert len(found) == 1 + 3 + 9 + 27
            tokens = max(found, key=found.get)
            best, written = silence.likeliest(small_model, src, (-math.inf, []))
            assert tuple(written) == tokens
            assert best == pytest.approx(found[tokens], abs=1e-5)
            lengths.add(len(written))
    assert len(lengths) > 1  # or this would prove little


def test_the_exact_search_keeps_what_it_is_given_if_nothing_is_likelier(small_model):
    given = (0.0, [3, 3, 3])
    assert silence.likeliest(small_model, torch.tensor([[3, 2]]), given) == given


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
    assert texts == list(silence.choose(captions, each=5))


# That the scripts run, and go on


def test_a_table_grows_by_whole_runs(tmp_path):
    path = tmp_path / "table.csv"
    assert read(path) == []
    add(path, [{"a": 1, "b": "x, y"}])
    add(path, [{"a": 2, "b": ""}])
    assert read(path) == [{"a": "1", "b": "x, y"}, {"a": "2", "b": ""}]


def test_a_run_stopped_between_its_tables_leaves_no_row_twice(tmp_path):
    path = tmp_path / "table.csv"
    for _ in range(2):
        add(path, [{"a": 1, "b": 0.5}, {"a": 2, "b": 0.5}])
    assert [row["a"] for row in read(path)] == ["1", "2"]


def test_the_ablations_run_and_are_not_run_twice(tmp_path, corpus, capsys, monkeypatch):
    monkeypatch.setattr(ablations, "INTERVAL", 2)
    runs = [
        ablations.Run("length", "learned", {"positions": "learned"}, steps=3),
        ablations.Run(
            "sqrt(d_k)", "missing", alter=ablations.without_score_scale, steps=2
        ),
    ]
    ablations.main(runs, corpus, seeds=[1], folder=tmp_path)
    written = (tmp_path / "ablations.csv").read_text()
    assert [row["step"] for row in read(tmp_path / "ablations.csv")] == ["2", "3", "2"]
    assert read(tmp_path / "lengths.csv")
    assert len(capsys.readouterr().out.splitlines()) == 2
    ablations.main(runs, corpus, seeds=[1], folder=tmp_path)
    assert (tmp_path / "ablations.csv").read_text() == written
    assert capsys.readouterr().out == ""


def test_the_same_seed_gives_the_same_rows_and_another_seed_gives_others(corpus):
    def losses(seed):
        _, rows = ablations.train_run(ablations.Run("", "", steps=3), seed, corpus)
        return [(row["train_loss"], row["validation_loss"]) for row in rows]

    assert losses(1) == losses(1) != losses(2)


def test_the_toys_run_and_are_not_run_twice(tmp_path, capsys):
    toys.main(seeds=[1], folder=tmp_path, epochs={"copy": 1})
    written = (tmp_path / "toys.csv").read_text()
    rows = read(tmp_path / "toys.csv")
    assert [row["weights"] for row in rows] == ["epoch", "average"]
    weights = defaultdict(float)
    for row in read(tmp_path / "toy_maps.csv"):
        weights[row["row"]] += float(row["weight"])
    assert list(weights.values()) == pytest.approx([1.0] * 9, abs=0.001)
    toys.main(seeds=[1], folder=tmp_path, epochs={"copy": 1})
    assert (tmp_path / "toys.csv").read_text() == written
    assert len(capsys.readouterr().out.splitlines()) == 1


# What is recorded


def test_every_run_is_recorded_wholly_with_three_seeds():
    steps = defaultdict(list)
    for row in read(FOLDER / "ablations.csv"):
        steps[row["factor"], row["variant"], int(row["seed"])].append(int(row["step"]))
    every = ablations.INTERVAL
    assert steps == {
        (*key, seed): list(range(every, run.steps + 1, every))
        for key, run in RUNS.items()
        for seed in (1, 2, 3)
    }


def test_what_is_recorded_of_each_run_is_in_range():
    for row in read(FOLDER / "ablations.csv"):
        run = RUNS[row["factor"], row["variant"]]
        assert float(row["rate"]) == pytest.approx(run.rate(int(row["step"])), abs=1e-6)
        assert 0 < float(row["train_loss"]) < 20
        assert 0 < float(row["validation_loss"]) < 20
        assert 0 <= float(row["exact"]) <= float(row["validation_accuracy"]) <= 1


def test_longer_sentences_are_recorded_for_both_layouts_with_three_seeds():
    words = defaultdict(list)
    for row in read(FOLDER / "lengths.csv"):
        words[row["variant"], row["seed"]].append(int(row["words"]))
    assert words == {
        (layout, seed): list(range(15, 25))
        for layout in ("interleaved", "learned")
        for seed in "123"
    }


def test_each_toy_is_learned_to_999_in_1000_in_under_a_minute():
    averages = [row for row in read(FOLDER / "toys.csv") if row["weights"] == "average"]
    assert [(row["task"], row["seed"]) for row in averages] == [
        (task, seed) for task in ("copy", "reverse", "sort") for seed in "123"
    ]
    for row in averages:
        assert int(row["sequences"]) >= 2000
        assert float(row["exact"]) >= 0.999
        assert float(row["cpu_seconds"]) < 60


def test_copy_and_reverse_look_where_the_answer_stands():
    for row in read(FOLDER / "toys.csv"):
        if row["weights"] == "average" and row["task"] != "sort":
            assert float(row["on_pattern"]) > 0.95


def test_the_recorded_map_of_reverse_is_anti_diagonal():
    rows = [row for row in read(FOLDER / "toy_maps.csv") if row["task"] == "reverse"]
    assert len(rows) == 81
    for row in rows:
        if int(row["row"]) + int(row["column"]) == 7:
            assert float(row["weight"]) > 0.9
            assert row["writes"] == row["looks_at"]


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


def test_silence_is_recorded_for_single_and_joined_captions_alike():
    rows = read(FOLDER / "silence.csv")
    groups = {number: defaultdict(int) for number in "12"}
    for row in rows:
        groups[row["captions"]][int(row["tokens"]) // silence.GROUP] += 1
        silent, beam, best = (float(row[n]) for n in ("silence", "beam", "best"))
        assert best >= max(silent, beam)
        assert (int(row["best_tokens"]) == 0) == (best == silent)
        assert beam < 0
    shortest = silence.SHORTEST_JOINED // silence.GROUP
    assert groups["2"] == {g: n for g, n in groups["1"].items() if g >= shortest}
    assert max(groups["1"].values()) == silence.EACH


@pytest.mark.parametrize(("ended", "status"), [(0, 0), (1, 1), (-9, 1)])
def test_a_run_that_fails_or_is_killed_is_no_success(monkeypatch, ended, status):
    class Process:
        def __init__(self, command):
            self.name = command[-1]

        def wait(self):
            return ended if self.name == "seed-2" else 0

    monkeypatch.setattr(side_by_side.subprocess, "Popen", Process)
    assert side_by_side.main(Path("runs"), ["seed-1", "seed-2", "seed-3"]) == status


# Precision


def test_a_run_in_each_precision_gives_a_row_of_the_table(tmp_path, monkeypatch):
    texts = {}
    for split, count in (("train", 40), ("validation", 4)):
        lines = "".join(f"der {'rote ' * (i % 5)}Hund\n" for i in range(count))
        (tmp_path / split).write_text(lines, encoding="utf-8")
        (tmp_path / f"{split}.en").write_text(lines.title(), encoding="utf-8")
        texts[split] = [str(tmp_path / f"{split}.en"), str(tmp_path / split)]
    monkeypatch.setattr(precision, "Corpus", lambda: Corpus(files=texts))
    monkeypatch.setattr(precision, "TABLE", tmp_path / "precision.csv")
    small = {"vocab_size": 300, "d_model": 8, "epochs": 2, "cooldown": 0}
    preset = precision.PRESETS["grammar"] | small | {"warmup_steps": 4}
    monkeypatch.setitem(precision.PRESETS, "grammar", preset)
    torch.set_default_dtype(torch.float32)  # autocast leaves float64 as it is
    for _ in range(2):  # the second time there is nothing to do
        precision.main(tmp_path / "runs", [1])
        rows = read(tmp_path / "precision.csv")
        assert [row["precision"] for row in rows] == list(precision.PRECISIONS)
    assert [float(row["factor"]) for row in rows] == [1, 1, 2**16]
    assert len({row["loss"] for row in rows}) == 3
    assert rows[0].keys() == read(FOLDER / "precision.csv")[0].keys()


# Fewer numbers


def test_a_student_is_trained_once_for_each_way_and_seed(tmp_path, monkeypatch):
    ways = {
        "plain": distillation.Way("true 1,000", 2),
        "soft": distillation.Way("true 1,000", 2, temperature=2.0),
        "pruned": distillation.Way("true 1,000", 0, pruned=True),
        "zeros": distillation.Way("true 1,000", 2, zeros=0.8),
    }
    monkeypatch.setattr(distillation, "WAYS", ways)
    monkeypatch.setattr(distillation, "TABLE", tmp_path / "distillation.csv")
    torch.set_default_dtype(torch.float32)  # the teacher's
    for _ in range(2):  # the second time there is nothing to do
        distillation.main(seeds=[1])
        rows = read(tmp_path / "distillation.csv")
        assert [row["way"] for row in rows] == list(ways)
    assert len({row["loss"] for row in rows}) == 4
    recorded = read(FOLDER / "distillation.csv")
    assert rows[0].keys() == recorded[0].keys()
    pruned = next(row for row in recorded if row["way"] == "pruned")
    assert rows[2]["parameters"] == pruned["parameters"]
    zeros = next(row for row in recorded if row["way"].startswith("80 % zeros,"))
    assert rows[3]["parameters"] == zeros["parameters"]  # they stayed zero


def test_every_recorded_student_has_at_most_half_of_the_teachers_numbers():
    whole = sum(p.numel() for p in distillation.teacher().model.parameters())
    rows = read(FOLDER / "distillation.csv")
    assert {row["way"] for row in rows} == set(distillation.WAYS)
    for row in rows:
        share = 0.383 if "zeros" in row["way"] else 0.5
        assert int(row["parameters"]) / whole == pytest.approx(share, abs=0.005)
        assert int(row["updates"]) == distillation.WAYS[row["way"]].updates
        assert 0 < float(row["loss"]) < 5
        assert 0 <= float(row["exact"]) <= 1


def test_the_labelled_pairs_begin_with_the_true_ones():
    labelled, true = (distillation.pairs_of(d) for d in ("labelled", "true 8,000"))
    assert labelled[:1000] == true[:1000] == distillation.pairs_of("true 1,000")
    assert len(labelled) == len(true) == 8000
    assert [source for source, _ in labelled] == [source for source, _ in true]
    assert labelled != true  # the teacher errs now and then


def test_a_row_of_the_sparse_times_has_its_columns_and_its_bytes():
    torch.set_default_dtype(torch.float32)
    row = sparse_times.row(16, 0.5, rounds=1)
    assert [str(name) for name in row] == list(read(FOLDER / "sparse_times.csv")[0])
    matrix = torch.tensor([[0.0, 3.0], [0.0, 0.0], [5.0, 0.0]])
    assert sparse_times.size_in_bytes(sparse_times.in_csr(matrix)) == 2 * 12 + 4 * 8


# Few labels


@pytest.mark.parametrize(
    ("text", "plural"),
    [
        ("the cat sees the mice", False),
        ("these cats see a mouse", True),
        ("we sleep", True),
        ("in the gardens she must laugh", False),
        ("without a dog the small boys play today", True),
    ],
)
def test_the_number_of_a_subject_is_not_that_of_another_noun(text, plural):
    assert one_stack.is_plural(text.split()) == plural


def test_with_the_past_in_sight_a_stack_of_few_labels_never_looks_ahead():
    model = one_stack.make_encoder(vocab_size=13).double()
    tokens = torch.randint(4, 13, (B, S))
    other = tokens.clone()
    other[:, 2] = 4 + (tokens[:, 2] - 3) % 9
    for past_only in (True, False):
        before, after = (
            one_stack.read_all(model, t, past_only) for t in (tokens, other)
        )
        same = torch.isclose(before, after).all(dim=-1)[:, :2]
        assert (same == past_only).all()
    assert_close(one_stack.read_all(model, tokens, False), model.encode(tokens))


@pytest.mark.parametrize("read_at", ["mean", "last"])
@pytest.mark.parametrize("past_only", [False, True])
def test_padding_changes_nothing_for_a_reader_of_few_labels(past_only, read_at):
    encoder = one_stack.make_encoder(vocab_size=13)
    reader = one_stack.Reader(encoder, past_only, read_at).double()
    tokens = torch.randint(4, 13, (B, S))
    longer = torch.cat([tokens, torch.zeros(B, 3, dtype=torch.long)], dim=1)
    assert_close(reader(longer), reader(tokens))


def test_the_table_of_few_labels_is_complete():
    rows = read(one_stack.TABLE)
    runs = {tuple(row.values())[:6] for row in rows}
    wanted = {
        (start, str(steps), read_at, str(count), str(rate), str(seed))
        for start, steps, seed in one_stack.runs(one_stack.SEEDS)
        for read_at in ("mean", "last")[: 2 if start == "next words" else 1]
        for count in one_stack.LABELS
        for rate in one_stack.RATES
    }
    assert runs == wanted
    assert len(rows) == len(runs)
    assert {row["of"] for row in rows} == {str(one_stack.ASKED)}
    assert {row["chosen_of"] for row in rows} == {str(one_stack.CHOOSING)}


# Without the softmax


def test_the_number_wanted_is_the_one_told_of_the_name_that_is_asked_for():
    tokens, wanted = without_softmax.texts(B, 6, torch.Generator().manual_seed(1))
    first, numbers = without_softmax.FIRST, without_softmax.NUMBERS
    for text, answers in zip(tokens.tolist(), wanted.tolist(), strict=True):
        told = [divmod(token - first, numbers) for token in text[:6]]
        asked = [token - first - without_softmax.NAMES * numbers for token in text[6:]]
        assert len(dict(told)) == 6  # every name once
        assert [dict(told)[name] for name in asked] == answers


@pytest.mark.parametrize("way", without_softmax.WAYS)
def test_a_reader_with_any_attention_learns_and_is_judged(way):
    torch.set_default_dtype(torch.float32)
    reader = without_softmax.train(way, 4, seed=1, updates=3)
    assert 0 < without_softmax.found(reader, 4, count=50) < 1
    layer = reader.model.encoder.layers[0].self_attention
    assert layer.attend is without_softmax.WAYS[way]


def test_the_tables_without_the_softmax_are_complete():
    rows = read(without_softmax.TABLE)
    runs = {(row["way"], row["pairs"], row["seed"]) for row in rows}
    count = len(without_softmax.WAYS) * len(without_softmax.PAIRS)
    assert len(rows) == len(runs) == count * len(without_softmax.SEEDS)
    rows = read(without_softmax.WIDER)
    runs = {(row["way"], row["width"], row["updates"], row["seed"]) for row in rows}
    count = 2 * len(without_softmax.WIDTHS) * len(without_softmax.LONGER)
    assert len(rows) == len(runs) == count * len(without_softmax.SEEDS)
    rows = read(without_softmax.GRAMMAR)
    runs = {(row["way"], row["seed"]) for row in rows}
    count = len(without_softmax.IN_GRAMMAR) * len(without_softmax.SEEDS)
    assert len(rows) == len(runs) == count


# Beyond text


def test_each_world_beyond_text_has_five_runs_of_a_model_and_something_simple_beside():
    rows = read(FOLDER / "beyond_text.csv")
    runs = {(row["task"], row["model"], row["seed"]) for row in rows}
    assert len(runs) == len(rows)
    assert all(0 <= int(row["right"]) <= int(row["of"]) for row in rows)
    seeds = Counter((row["task"], row["model"]) for row in rows)
    simple = {"SVC", "shortest paths"}
    assert {count for (_, model), count in seeds.items() if model in simple} == {1, 5}
    assert min(c for (_, model), c in seeds.items() if model not in simple) == 5
    for task, wanted in {
        "digits": "SVC",
        "shuffled": "SVC",
        "clouds": "deep set, mean",
        "rings": "SVC",
        "club": "shortest paths",
    }.items():
        assert seeds[task, wanted], task
    shares = [float(row["own"]) for row in rows if row["own"]]
    assert 0 < min(shares) < max(shares) < 1


# Since 2017


def test_each_change_since_2017_is_trained_once_for_each_seed(tmp_path, monkeypatch):
    monkeypatch.setattr(since_2017, "TABLE", tmp_path / "since_2017.csv")
    monkeypatch.setattr(since_2017, "TRAINED", 200)
    monkeypatch.setattr(since_2017, "HELD_OUT", 20)
    torch.set_default_dtype(torch.float32)
    since_2017.sentences.cache_clear()
    for _ in range(2):  # the second time there is nothing to do
        since_2017.main(seeds=[1], updates=10)
        rows = read(tmp_path / "since_2017.csv")
        assert [row["way"] for row in rows] == list(since_2017.WAYS)
    since_2017.sentences.cache_clear()
    assert len({row["loss"] for row in rows}) == len(rows)
    recorded = read(FOLDER / "since_2017.csv")
    assert rows[0].keys() == recorded[0].keys()
    sizes = {row["way"]: row["parameters"] for row in rows}
    assert all(sizes[row["way"]] == row["parameters"] for row in recorded)


def test_every_model_since_2017_has_as_many_numbers_as_that_of_2017():
    sizes = [
        sum(p.numel() for p in since_2017.build(way, 1).parameters())
        for way in since_2017.WAYS
    ]
    assert sizes == pytest.approx([sizes[0]] * len(sizes), rel=0.01)


def test_the_longer_sentences_since_2017_are_longer_than_those_trained_on():
    words = {
        name: {len(english.split()) for english, _ in pairs}
        for name, pairs in since_2017.drawn().items()
    }
    assert max(words["train"] | words["short"]) == since_2017.LONGEST
    assert min(words["longer"]) == since_2017.LONGEST + 1


# Trained while it could peek


def test_the_decoder_that_peeks_hides_padding_alone():
    config = TransformerConfig(src_vocab_size=13, tgt_vocab_size=13, **peeking.SIZES)
    tgt = torch.tensor([[1, 5, 6, 7], [1, 5, 0, 0]])
    mask = peeking.Peeking(config).target_mask(tgt)
    assert torch.equal(mask, padding_mask(tgt, 0))


def test_the_model_that_learned_by_peeking_is_lost_behind_the_mask(monkeypatch):
    """The shipped models have the accuracies of the table."""
    tokenizer = Tokenizer.load(peeking.TOKENIZER)
    for row in read(peeking.TABLE):
        path = peeking.MODELS / f"{row['trained']}.safetensors"
        model = load_model(path).float()
        encoded = encode_pairs(
            Translator(model, tokenizer),
            Corpus().pairs("validation"),
            peeking.MAX_TOKENS,
        )
        batches = list(token_batches(encoded, peeking.MAX_TOKENS))
        found = evaluate(model, batches)[1]
        assert found == pytest.approx(float(row["accuracy behind the mask"]), abs=1e-3)
        if row["trained"] == "peeking":
            monkeypatch.setattr(model, "target_mask", lambda tgt: padding_mask(tgt, 0))
            found = evaluate(model, batches)[1]
            assert found == pytest.approx(float(row["accuracy as trained"]), abs=1e-3)


# Words written backwards, with warm-up and without it


def test_the_two_rates_differ_only_until_the_end_of_the_warm_up():
    warm, cold = learning.RATES["yes"], learning.RATES["no"]
    assert warm(1) == pytest.approx(learning.PEAK / learning.WARMUP)
    assert [cold(update) for update in (1, 50, 100)] == [learning.PEAK] * 3
    assert all(warm(update) < cold(update) for update in range(1, 100))
    assert all(warm(update) == cold(update) for update in range(100, 401))


def test_the_words_are_held_out_and_spelled_in_letters():
    for word in learning.WORDS:
        ids, answer = learning.pair_of(word)
        assert learning.spell(ids) == word
        assert learning.spell(answer) == word[::-1]
        assert zlib.crc32(repr(ids).encode()) % 10 == 0  # as toy_pairs decides
    assert learning.spell([1, 3, 19]) == "·aq"


def test_a_word_is_recorded_with_the_weights_of_the_model():
    config = replace(learning.CONFIG, d_model=8, d_ff=8)
    model = Transformer(config).double()
    row = learning.word_row(model, "melon")
    batch = make_batch([learning.pair_of("melon")])
    expected = toys.cross_weights(model, batch)[0].flatten()
    digits = [row["weights"][i : i + 2] for i in range(0, 2 * 36, 2)]
    found = torch.tensor([int(each) / 100 for each in digits])
    assert_close(found, expected, rtol=0, atol=0.01)
    assert len(row["weights"]) == 2 * 36


def test_the_runs_are_recorded_and_not_run_twice(tmp_path, monkeypatch):
    monkeypatch.setattr(learning, "EVERY", 2)
    torch.set_default_dtype(torch.float32)
    learning.main(seeds=[1, 2], folder=tmp_path, updates=4)
    files = [tmp_path / f"learning{name}.csv" for name in ("", "_words")]
    written = [file.read_bytes() for file in files]
    curves, words = map(read, files)
    assert len(curves) == 2 * 2 * 3
    assert {row["seed"] for row in words} == {"1"}
    assert len(words) == 2 * len(learning.WORDS) * 3
    monkeypatch.setattr(learning, "run", None)
    learning.main(seeds=[1, 2], folder=tmp_path, updates=4)
    assert [file.read_bytes() for file in files] == written


def test_both_runs_of_a_seed_begin_with_the_same_model():
    rows = [row for row in read(FOLDER / "learning.csv") if row["update"] == "0"]
    losses = {(row["warmup"], row["seed"]): row["loss"] for row in rows}
    for seed in map(str, learning.SEEDS):
        assert losses["yes", seed] == losses["no", seed]


# Counts of captions


def test_counts_of_a_caption_are_its_words_and_the_right_n_grams():
    systems = {"same": ["Ein Hund rennt."], "other": ["ein Hund, ein Hund"]}
    assert multi30k_counts.count(systems, ["Ein Hund rennt."]) == [
        {"reference": 4, "same": "4 4 3 2 1", "other": "5 2 1 0 0"}
    ]
