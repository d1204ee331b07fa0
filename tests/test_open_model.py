"""The open model: a graph, a recording in PyTorch, and the same in JavaScript."""

import base64
import importlib
import inspect
import random
import re
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

import pytest
import torch
from book_files import ROOT
from test_javascript import NASTY, TOLERANCE, small_translator

from bookkit.open_model.graph import graph
from bookkit.open_model.recording import record
from bookkit.widgets.control import read
from bookkit.widgets.translator import EXAMPLES
from transformer_lib.data.corpora.grammar import sentence_pairs
from transformer_lib.decoding.prefixes import Prefixes, length_limits
from transformer_lib.javascript import FILES, source
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.model import (
    ACTIVATIONS,
    causal_mask,
    inference,
    scaled_dot_product_attention,
)
from transformer_lib.swapped import Swapped
from transformer_lib.translation import Translator

GRAMMAR, CAPTIONS = ROOT / "models/grammar-en-de", ROOT / "models/multi30k-en-de"
CONFIGS = [
    {"norm_first": True},
    {"norm_first": False, "bias": False, "norm_eps": 0.1},
    {"share_embeddings": True, "tie_output": True, "num_heads": 1},
    {"activation": "gelu_tanh", "output_bias": True, "num_layers": 1},
]
SRC, TGT = torch.tensor([[5, 4, 3, 299, 2]]), torch.tensor([[1, 7, 7, 8]])


@pytest.fixture(params=CONFIGS, ids=lambda changes: "-".join(changes))
def model(request):
    return small_translator(**request.param).model.eval()


# -- The graph -----------------------------------------------------------------------


def test_every_recorded_tensor_is_a_node_and_every_node_is_recorded(model):
    names = [node.name for node in graph(model.config)]
    assert len(set(names)) == len(names)
    assert set(record(model, SRC, TGT)) == set(names)


def test_a_node_comes_after_those_that_it_is_computed_from(model):
    known = set()
    for node in graph(model.config):
        assert known.issuperset(node.of), node.name
        known.add(node.name)


def test_the_axes_of_a_node_are_those_of_its_tensor(model):
    config = model.config
    sizes = {
        "source": {SRC.size(1)},
        "target": {TGT.size(1)},
        "head": {config.num_heads},
        "feature": {config.d_model, config.d_model // config.num_heads},
        "inner": {config.d_ff},
        "word": {config.tgt_vocab_size},
    }
    values = record(model, SRC, TGT)
    for node in graph(config):
        sides = iter(node.sides)
        axes = [next(sides) if a in ("query", "key") else a for a in node.axes]
        shape = values[node.name].shape
        assert len(axes) == len(shape), node.name
        for axis, size in zip(axes, shape, strict=True):
            assert size in sizes[axis], (node.name, axis)
        assert [a for a in axes if a in ("source", "target")] == list(node.sides)


def test_the_line_of_a_node_is_in_the_library_and_its_chapter_exists(model):
    for node in graph(model.config):
        module, _, name = node.where.partition(":")
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
        lines = [line.strip() for line in inspect.getsource(found).splitlines()]
        assert node.line in lines, node.name
        assert (ROOT / "book" / f"{node.chapter}.ipynb").exists(), node.name


# -- The rules, in float64 -----------------------------------------------------------


def linear(module, x):
    bias = 0 if module.bias is None else module.bias
    return torch.einsum("tj,ij->ti", x, module.weight) + bias


def norm(module, x):
    centred = x - x.mean(-1, keepdim=True)
    deviation = (centred.square().mean(-1, keepdim=True) + module.eps).sqrt()
    return centred / deviation * module.weight + module.bias


def positions(module, length, width):
    places, features = torch.meshgrid(
        torch.arange(length), torch.arange(width), indexing="ij"
    )
    angles = places / 10_000 ** ((features - features % 2) / width)
    return torch.where(features % 2 == 0, angles.sin(), angles.cos()).float()


def softmax(x):
    parts = (x - x.amax(-1, keepdim=True)).exp()
    return parts / parts.sum(-1, keepdim=True)


def recompute(node, of, module, config, lengths):
    """The rules once more, as formulas over whole tensors."""
    x, *others = of or [None]
    match node.how:
        case "lookup":
            return module.table.weight[x] * config.d_model**0.5
        case "positions":
            return positions(module, lengths[node.sides[0]], config.d_model)
        case "add":
            return x + others[0]
        case "norm":
            return norm(module, x)
        case "linear":
            return linear(module, x)
        case "heads":
            heads = linear(module, x).chunk(config.num_heads, dim=1)
            return torch.stack(heads)
        case "dot":
            return torch.einsum("hti,hsi->hts", x, others[0]) / x.size(-1) ** 0.5
        case "mask":
            future = torch.ones(x.shape).triu(1).bool()
            return torch.where(future, -torch.inf, x)
        case "softmax":
            return softmax(x)
        case "blend":
            return torch.einsum("hts,hsi->hti", x, others[0])
        case "merge":
            return torch.cat(list(x), dim=1)
        case "same":
            return x
        case "activate":
            return ACTIVATIONS[config.activation](x)
        case "chances":
            allowed = x.clone()
            allowed[:, config.pad_id] = -torch.inf
            return softmax(allowed)
    raise AssertionError(f"no rule {node.how}")


@torch.no_grad()
def test_every_rule_recomputes_what_was_recorded(model):
    values = record(model, SRC, TGT)
    lengths = {"source": SRC.size(1), "target": TGT.size(1)}
    for node in graph(model.config):
        if node.how == "given":
            continue
        of = [values[name] for name in node.of]
        module = model.get_submodule(node.weights) if node.weights else None
        found = recompute(node, of, module, model.config, lengths)
        torch.testing.assert_close(
            found,
            values[node.name],
            rtol=0,
            atol=1e-7 if node.how == "positions" else 1e-12,  # a table of float32
            msg=lambda text, name=node.name: f"{name}: {text}",
        )


# -- The rules, in JavaScript --------------------------------------------------------


STARTED = """([element, graph]) => {
  const open = new OpenModel(graph, new Translator(element.translator));
  window.run = (src, changes, base) => {
    const pass = new Pass(open, src, changes, base);
    return { words: [...pass.write()], pass };
  };
  const coded = (data) => btoa(Array.from(new Uint8Array(data.buffer), (byte) =>
    String.fromCharCode(byte)).join(""));
  window.told = ({ words, pass }) => ({ words, values: Object.fromEntries(
    graph.map(({ name }) => {
      const { shape, data } = pass.value(name);
      return [name, { shape, data: coded(data) }];
    })) });
}"""


@pytest.fixture(scope="module")
def engine(browser):
    """A function that makes a page with the engine and a translator."""
    pages = []

    def load(translator):
        pages.append(page := browser.new_page())
        page.set_content("<!doctype html>")
        for text in (*map(source, FILES), read("engine.js", "bookkit.open_model")):
            page.add_script_tag(content=text)
        script = to_script(translator)
        exact = from_script(script)
        exact.model.double()
        nodes = [asdict(node) for node in graph(exact.model.config)]
        page.evaluate(STARTED, [page.add_script_tag(content=script), nodes])
        return page, exact

    yield load
    for page in pages:
        page.close()


@pytest.fixture(scope="module")
def grammar(engine):
    return engine(Translator.load(GRAMMAR))


def written(page, translator, text, changes=(), based=False):
    """Translate in the page; return its words, and the value of every node."""
    src = [*translator.tokenizer.encode(text), translator.tokenizer.eos_id]
    found = page.evaluate(
        """([src, changes, based]) =>
          told(run(src, changes, based ? run(src).pass : undefined))""",
        [src, list(changes), based],
    )
    values = {}
    for name, value in found["values"].items():
        data = bytearray(base64.b64decode(value["data"]))
        data = torch.frombuffer(data, dtype=torch.float32)
        values[name] = data.view(value["shape"])
    return src, found["words"], values


def assert_agrees(values, expected):
    """The bound is that of appendix A; of many sentences, the worst is 1.5e-5."""
    assert set(values) == set(expected)
    for name, value in expected.items():
        torch.testing.assert_close(
            values[name].double(),
            value.double(),
            rtol=0,
            atol=TOLERANCE,
            msg=lambda text, name=name: f"{name}: {text}",
        )


class Library:
    """The same what-ifs, made with the library's own means."""

    def __init__(self, translator, src):
        self.model, self.src = translator.model, torch.tensor([src])

    def write(self, changes):
        """Return the ids written, EOS included, and the record of the last pass."""
        forced = {c["step"]: c["id"] for c in changes if c["kind"] == "token"}
        config = self.model.config
        [limit] = length_limits(self.model, self.src, None)
        with ExitStack() as stack, inference(self.model):
            for change in changes:
                if change["kind"] != "token":
                    stack.enter_context(getattr(self, change["kind"])(**change))
            prefixes = Prefixes(self.model, self.src, use_cache=False)
            ids = []
            while len(ids) < limit and config.eos_id not in ids:
                likeliest = prefixes.next_logits().argmax(-1)
                ids.append(forced.get(len(ids), likeliest.item()))
                prefixes.append(torch.tensor(ids[-1:]))
            tgt = torch.tensor([[config.bos_id, *ids[:-1]]])
            return ids, record(self.model, self.src, tgt)

    def head(self, kind, node, head):
        def attend(*inputs):
            attended, _ = scaled_dot_product_attention(*inputs)
            attended[:, head] = 0.0
            return attended

        stack, i, name = node.split(".")
        layer = self.model.get_submodule(f"{stack}.layers.{i}.{name}")
        return Swapped([(layer, "attend", attend)])

    def look(self, kind, layer, step, source, head=slice(None)):
        def attend(query, key, value, mask, dropout):
            mask = mask.expand(*query.shape[:3], key.size(2)).clone()
            if step < query.size(2):
                mask[:, head, step] = False
                mask[:, head, step, source] = True
            return scaled_dot_product_attention(query, key, value, mask, dropout)[0]

        cross = self.model.decoder.layers[layer].cross_attention
        return Swapped([(cross, "attend", attend)])

    @contextmanager
    def positions(self, kind, side):
        module = self.model.get_submodule(f"{side}_positions")
        table, module.table = module.table, torch.zeros_like(module.table)
        yield
        module.table = table

    def mask(self, kind):
        inverted = lambda tgt: causal_mask(tgt.size(1)).mT  # noqa: E731
        return Swapped([(self.model, "target_mask", inverted)])


def assert_same_in_the_library(page, translator, text, *changes):
    src, words, values = written(page, translator, text, changes)
    ids, expected = Library(translator, src).write(changes)
    assert [word["id"] for word in words] == ids
    assert_agrees(values, expected)


TEXT = "the cat reads a red book"
WHAT_IFS = [
    [],
    [{"kind": "token", "step": 2, "id": 57}],
    [{"kind": "token", "step": 0, "id": 300}, {"kind": "token", "step": 4, "id": 301}],
    [{"kind": "token", "step": 3, "id": 2}],
    [{"kind": "look", "layer": 1, "step": 2, "source": 0}],
    [{"kind": "look", "layer": 0, "step": 1, "source": 4, "head": 3}],
    [{"kind": "head", "node": "encoder.0.self_attention", "head": 1}],
    [{"kind": "head", "node": "decoder.1.self_attention", "head": 0}],
    [{"kind": "head", "node": "decoder.0.cross_attention", "head": 2}],
    [{"kind": "positions", "side": "src"}],
    [{"kind": "positions", "side": "tgt"}],
    [{"kind": "mask"}],
    [
        {"kind": "mask"},
        {"kind": "token", "step": 1, "id": 57},
        {"kind": "head", "node": "decoder.0.cross_attention", "head": 1},
        {"kind": "look", "layer": 1, "step": 2, "source": 3},
        {"kind": "positions", "side": "tgt"},
    ],
]


def named(changes):
    return "-".join(change["kind"] for change in changes) or "nothing"


@pytest.mark.parametrize("changes", WHAT_IFS, ids=named)
def test_a_what_if_equals_the_same_change_in_the_library(grammar, changes):
    assert_same_in_the_library(*grammar, TEXT, *changes)


@pytest.mark.parametrize("changes", WHAT_IFS, ids=named)
def test_computing_only_what_changes_equals_a_full_run(grammar, changes):
    page, translator = grammar
    _, words, values = written(page, translator, TEXT, changes)
    _, words_again, again = written(page, translator, TEXT, changes, based=True)
    assert words_again == words
    for name, value in values.items():
        assert torch.equal(again[name], value), name


def test_a_change_that_fits_nowhere_changes_nothing(grammar):
    page, translator = grammar
    _, words, values = written(page, translator, TEXT)
    for change in (
        {"kind": "__proto__"},
        {"kind": "constructor"},
        {"kind": "token", "step": 99, "id": 57},
        {"kind": "token", "step": 1, "id": 0},
        {"kind": "token", "step": 1, "id": 1000},
        {"kind": "token", "step": 1, "id": -1},
        {"kind": "look", "layer": 2, "step": 0, "source": 0},
        {"kind": "look", "layer": 0, "step": 99, "source": 0},
        {"kind": "look", "layer": 0, "step": 1, "source": 99},
        {"kind": "look", "layer": 0, "step": 1, "source": 0, "head": 9},
        {"kind": "head", "node": "decoder.7.self_attention", "head": 0},
        {"kind": "head", "node": "decoder.0.self_attention", "head": 4},
        {"kind": "positions", "side": "memory"},
    ):
        _, words_again, again = written(page, translator, TEXT, [change])
        assert words_again == words, change
        assert all(torch.equal(again[name], values[name]) for name in values), change


def test_a_change_computes_nothing_that_it_does_not_affect(grammar):
    page, _ = grammar
    computed = """([src, changes]) => {
      const base = run(src).pass, seen = new Set(), { compute } = Pass.prototype;
      Pass.prototype.compute = function (node, t) {
        if (!this.rows[node.name][t]) seen.add(`${node.name} ${t}`);
        return compute.call(this, node, t);
      };
      run(src, changes, base);
      Pass.prototype.compute = compute;
      return [...seen];
    }"""
    src = [266, 425, 816, 274, 514, 653, 2]
    maps = r"decoder\.\d\.self_attention\.(scores|masked|weights) "

    def rows(*changes):
        seen = page.evaluate(computed, [src, list(changes)])
        return {row for row in seen if not re.match(maps, row)}

    assert rows() == set()
    last = rows({"kind": "head", "node": "decoder.1.cross_attention", "head": 2})
    assert not {row for row in last if row.startswith("encoder")}
    assert "decoder.1.cross_attention.attended 0" in last
    assert "decoder.1.cross_attention.weights 0" not in last
    forced = rows({"kind": "token", "step": 2, "id": 57})
    assert {int(row.split()[1]) for row in forced if "logits" in row}.isdisjoint(
        range(3)
    )
    assert {
        row for row in forced if row.startswith(("src", "encoder", "memory"))
    } == set()
    look = rows({"kind": "look", "layer": 1, "step": 2, "source": 0})
    assert "decoder.1.cross_attention.weights 2" in look
    assert "decoder.1.cross_attention.weights 1" not in look


@pytest.mark.parametrize("changes", CONFIGS, ids=lambda changes: "-".join(changes))
def test_the_engine_agrees_with_pytorch_in_any_configuration(engine, changes):
    page, translator = engine(small_translator(**changes))
    look = {"kind": "look", "layer": 0, "step": 3, "source": 1}
    for what_if in ([], [{"kind": "mask"}, look]):
        assert_same_in_the_library(page, translator, TEXT, *what_if)


LOOK = {"layer": 0, "step": 3, "source": 1}


@pytest.mark.parametrize(
    "count", [10, pytest.param(100, marks=pytest.mark.slow)], ids="{} sentences".format
)
def test_every_tensor_of_many_sentences_agrees_with_pytorch(grammar, count):
    page, translator = grammar
    for english, _ in sentence_pairs(count, seed=1):
        assert_same_in_the_library(page, translator, english)


@pytest.mark.slow
def test_every_tensor_of_the_large_model_agrees_with_pytorch(engine):
    page, translator = engine(Translator.load(CAPTIONS))
    for text in EXAMPLES:
        assert_same_in_the_library(page, translator, text)
    assert_same_in_the_library(page, translator, EXAMPLES[0], *WHAT_IFS[-1])


# -- The worker ----------------------------------------------------------------------

HOSTILE = 500


@pytest.fixture
def asked(tab):
    """A worker with the grammar's model, and a function that asks it."""
    model = to_script(Translator.load(GRAMMAR))
    nodes = graph(from_script(model).model.config)
    tab.set_content("<!doctype html>")
    element = tab.add_script_tag(content=model)
    own = (read(name, "bookkit.open_model") for name in ("engine.js", "worker.js"))
    tab.evaluate(
        """([element, code, graph]) => {
          const blob = new Blob([code], { type: "text/javascript" });
          const worker = new Worker(URL.createObjectURL(blob)), heard = [];
          let first = { graph, packed: element.translator }, run = 0;
          worker.onerror = ({ message }) => console.error(message);
          window.heard = heard;
          window.ask = (question) => new Promise((answered) => {
            worker.onmessage = ({ data }) => {
              heard.push(data);
              if (data.run !== run) return;
              if (data.values || "refused" in data) answered(data);
            };
            run++;
            worker.postMessage({ ...first, ...question, run });
            first = {};
          });
          window.cancel = (run) => worker.postMessage({ cancel: run });
        }""",
        [element, "\n".join([*map(source, FILES), *own]), list(map(asdict, nodes))],
    )
    yield lambda question: tab.evaluate("(question) => ask(question)", question)
    assert tab.faults == []


def test_the_worker_tells_each_word_and_then_every_tensor(tab, asked):
    answer = asked({"text": TEXT})
    *words, last = tab.evaluate("heard")
    assert [word["step"] for word in words] == list(range(7))
    assert [word["id"] for word in words] == answer["written"] == last["written"]
    assert all(0.9 < word["probability"] <= 1 for word in words)
    changes = [{"kind": "head", "node": "decoder.1.cross_attention", "head": 2}]
    assert asked({"text": TEXT, "changes": changes})["values"] != answer["values"]
    assert asked({"text": TEXT}) == answer | {"run": 3}


def test_the_worker_tells_nothing_of_what_was_cancelled(tab, asked):
    asked({"text": TEXT})
    tab.evaluate("heard.length = 0")
    tab.evaluate("() => { ask({ text: 'a dog sleeps today' }); cancel(2); }")
    assert asked({"text": "she sleeps"})["written"]
    runs = tab.evaluate("heard.map(({ run, step }) => [run, step])")
    assert [step for run, step in runs if run == 2] in ([], [0])


@pytest.mark.parametrize("text", ["", " \u3000\n", "a " * 61])
def test_the_worker_refuses_a_sentence_that_is_empty_or_too_long(asked, text):
    tokens = len(Translator.load(GRAMMAR).tokenizer.encode(text))
    assert asked({"text": text}) == {"run": 1, "refused": tokens + 1}


def hostile(count):
    """Strings that break programs, and strings of any characters."""
    draw = random.Random(0)
    characters = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    few = [ord(c) for c in " 'sStlm.,09aä<>&\"\t\u0308\u202e\u200d\0"]
    yield from NASTY
    yield "half a character: \ud83d"
    for _ in range(count - len(NASTY) - 1):
        kind = draw.choice([characters, few])
        yield "".join(map(chr, draw.choices(kind, k=draw.randrange(1, 20))))


@pytest.mark.parametrize("count", [30, pytest.param(HOSTILE, marks=pytest.mark.slow)])
def test_hostile_strings_do_no_harm(tab, asked, count):
    expected = asked({"text": TEXT})
    found = tab.evaluate(
        """async (texts) => {
          const found = [];
          for (const text of texts) {
            const { refused, values } = await ask({ text });
            const { data, shape: [rows] } = values?.probabilities ?? { shape: [] };
            found.push([refused, data?.reduce((a, b) => a + b, 0), rows]);
            heard.length = 0;
          }
          return found;
        }""",
        list(hostile(count)),
    )
    assert len(found) == count
    for refused, total, rows in found:  # the probabilities of a row sum to 1
        assert refused or total == pytest.approx(rows, rel=1e-4)
    assert asked({"text": TEXT}) == expected | {"run": count + 2}
