"""The open model: a graph, a recording in PyTorch, and the same in JavaScript."""

import base64
from contextlib import ExitStack, contextmanager
from dataclasses import asdict

import numpy as np
import pytest
import torch
from book_files import ROOT
from test_javascript import CONFIGS, assert_close, page_with, small_translator

from bookkit.controls.translator import EXAMPLES
from pages.look_inside.graph import graph, line_of
from pages.look_inside.recording import record
from transformer_lib.data.corpora.grammar import sentence_pairs
from transformer_lib.decoding.prefixes import Prefixes, length_limits
from transformer_lib.javascript.weights import from_script, to_script
from transformer_lib.model import causal_mask, inference, scaled_dot_product_attention
from transformer_lib.patching import patched
from transformer_lib.translation import Translator

GRAMMAR, CAPTIONS = ROOT / "models/grammar-en-de", ROOT / "models/multi30k-en-de"
ENGINE = (ROOT / "pages/look_inside/engine.js").read_text("utf-8")
SRC, TGT = torch.tensor([[5, 4, 3, 299, 2]]), torch.tensor([[1, 7, 7, 8]])


# -- The graph and the recording -----------------------------------------------------


@pytest.mark.parametrize("changes", CONFIGS, ids="-".join)
def test_the_graph_describes_every_recorded_tensor(changes):
    model = small_translator(**changes).model.eval()
    config, values, known = model.config, record(model, SRC, TGT), set()
    sizes = {
        "source": {SRC.size(1)},
        "target": {TGT.size(1)},
        "head": {config.num_heads},
        "feature": {config.d_model, config.d_model // config.num_heads},
        "inner": {config.d_ff},
        "word": {config.tgt_vocab_size},
    }
    for node in graph(config):
        assert known.issuperset(node.of), node.name
        assert node.name not in known
        known.add(node.name)
        sides = iter(node.sides)
        axes = [next(sides) if a in ("query", "key") else a for a in node.axes]
        for axis, size in zip(axes, values[node.name].shape, strict=True):
            assert size in sizes[axis], (node.name, axis)
        assert [a for a in axes if a in ("source", "target")] == list(node.sides)
        assert (ROOT / "book" / f"{node.chapter}.ipynb").exists(), node.name
        if node.name.endswith(".added"):
            assert node.line.startswith("return x +") == config.norm_first
    assert known == set(values)


def test_a_line_of_code_must_be_the_only_one_that_begins_so():
    where = "transformer_lib.model.residual:Residual.forward"
    with pytest.raises(ValueError, match=r"^2 lines of .* begin with"):
        line_of(where, "return")


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
        pages.append(page := page_with(browser, ENGINE))
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
        data = np.frombuffer(base64.b64decode(value["data"]), "<f4")
        values[name] = torch.tensor(data).view(value["shape"])
    return src, found["words"], values


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
        return patched([(layer, "attend", attend)])

    def look(self, kind, layer, step, source):
        def attend(query, key, value, mask, dropout):
            mask = mask.expand(*query.shape[:3], key.size(2)).clone()
            if step < query.size(2):
                mask[:, :, step] = torch.arange(mask.size(-1)) == source
            return scaled_dot_product_attention(query, key, value, mask, dropout)[0]

        cross = self.model.decoder.layers[layer].cross_attention
        return patched([(cross, "attend", attend)])

    @contextmanager
    def positions(self, kind, side):
        module = self.model.get_submodule(f"{side}_positions")
        table, module.table = module.table, torch.zeros_like(module.table)
        yield
        module.table = table

    def mask(self, kind):
        inverted = lambda tgt: causal_mask(tgt.size(1)).mT  # noqa: E731
        return patched([(self.model, "target_mask", inverted)])


def assert_same_in_the_library(page, translator, text, *changes):
    """Also if the page computes only what the changes affect."""
    src, words, values = written(page, translator, text, changes)
    ids, expected = Library(translator, src).write(changes)
    assert [word["id"] for word in words] == ids
    assert_close(values, expected)
    if changes:
        _, words_again, again = written(page, translator, text, changes, based=True)
        assert words_again == words
        torch.testing.assert_close(again, values, rtol=0, atol=0)


TEXT = "the cat reads a red book"
WHAT_IFS = [
    [{"kind": "token", "step": 0, "id": 300}, {"kind": "token", "step": 4, "id": 301}],
    [{"kind": "token", "step": 3, "id": 2}],
    [{"kind": "look", "layer": 1, "step": 2, "source": 0}],
    [{"kind": "head", "node": "encoder.0.self_attention", "head": 1}],
    [{"kind": "head", "node": "decoder.0.cross_attention", "head": 2}],
    [{"kind": "positions", "side": "src"}],
    [
        {"kind": "mask"},
        {"kind": "token", "step": 1, "id": 57},
        {"kind": "head", "node": "decoder.0.cross_attention", "head": 1},
        {"kind": "look", "layer": 1, "step": 2, "source": 3},
        {"kind": "positions", "side": "tgt"},
    ],
]


def named(changes):
    return "-".join(change["kind"] for change in changes)


@pytest.mark.parametrize("changes", WHAT_IFS, ids=named)
def test_a_what_if_equals_the_same_change_in_the_library(grammar, changes):
    assert_same_in_the_library(*grammar, TEXT, *changes)


def test_a_change_that_fits_nowhere_changes_nothing(grammar):
    page, translator = grammar
    _, words, values = written(page, translator, TEXT)
    for change in (
        {"kind": "__proto__"},
        {"kind": "token", "step": 1, "id": 0},
        {"kind": "token", "step": 1, "id": 1000},
        {"kind": "look", "layer": 0, "step": 1, "source": 99},
        {"kind": "head", "node": "decoder.0.self_attention", "head": 4},
    ):
        _, words_again, again = written(page, translator, TEXT, [change])
        assert words_again == words, change
        torch.testing.assert_close(again, values, rtol=0, atol=0)


@pytest.mark.parametrize("changes", CONFIGS, ids="-".join)
def test_the_engine_agrees_with_pytorch_in_any_configuration(engine, changes):
    page, translator = engine(small_translator(**changes))
    look = {"kind": "look", "layer": 0, "step": 3, "source": 1}
    for what_if in ([], [{"kind": "mask"}, look]):
        assert_same_in_the_library(page, translator, TEXT, *what_if)


def test_every_tensor_of_many_sentences_agrees_with_pytorch(grammar):
    page, translator = grammar
    for english, _ in sentence_pairs(10, seed=1):
        assert_same_in_the_library(page, translator, english)


@pytest.mark.slow
def test_every_tensor_of_the_large_model_agrees_with_pytorch(engine):
    page, translator = engine(Translator.load(CAPTIONS))
    for text in EXAMPLES:
        assert_same_in_the_library(page, translator, text)
    assert_same_in_the_library(page, translator, EXAMPLES[0], *WHAT_IFS[-1])
