"""The translator in JavaScript, in a browser, beside the same model in PyTorch."""

import gzip
import os
import random
import re
import unicodedata

import pytest
import torch
from book_files import ROOT
from refusals import assert_refused, over
from torch import nn

from pages.javascript.excerpts import excerpt
from transformer_lib.data import Tokenizer
from transformer_lib.data.corpora.grammar import sentence_pairs
from transformer_lib.data.corpora.multi30k import multi30k
from transformer_lib.decoding import beam_search
from transformer_lib.faster import remove_heads
from transformer_lib.faster.quantization import dequantize, quantize_rows
from transformer_lib.javascript import FILES, source
from transformer_lib.javascript.weights import from_script, to_script, write_script
from transformer_lib.model import record_attention
from transformer_lib.translation import Translator
from transformer_lib.variants import (
    FullAttention,
    ModernConfig,
    ModernTransformer,
    use_attention,
)

MODEL = ROOT / "models/multi30k-en-de"
# The browser rounds every vector to float32, 24 bits, and adds in double precision.
# PyTorch computes in double precision here, on the same weights. A rounding error is at
# most 2^-24 of the value, and the last layers pass on values of more than a hundred.
TOLERANCE = 5e-5
# Every translation should be the same. It may differ where the two likeliest tokens, or
# two hypotheses, are closer to each other than the rounding errors: of hundreds, a few.
TIES, TIES_IN_SAMPLE = 2, 1
CAPTIONS = "A brown dog runs across the beach.", "Fünf Leute – 3 in \U0001f6b2!"


@pytest.fixture(scope="module")
def script():
    return to_script(Translator.load(MODEL))


@pytest.fixture(scope="module")
def theirs(script):
    return from_script(script)


def page_with(browser, *scripts):
    """Open a page with the translator's files, and with these."""
    page = browser.new_page()
    page.set_content("<!doctype html>")
    for script in (*map(source, FILES), *scripts):
        page.add_script_tag(content=script)
    return page


@pytest.fixture(scope="module")
def engine(browser):
    """A page, and a function that loads a packed translator there."""
    page = page_with(browser)

    def load(script):
        element = page.add_script_tag(content=script)
        page.evaluate("(e) => { window.ours = new Translator(e.translator); }", element)
        return page

    yield load
    page.close()


@pytest.fixture
def ours(engine, script):
    return engine(script)


# -- Weights -------------------------------------------------------------------------


def test_the_script_is_small_over_the_wire_and_the_same_every_time(script):
    assert len(gzip.compress(script.encode())) < 3e6
    assert script == to_script(Translator.load(MODEL))


def test_pytorch_gets_the_matrices_as_the_browser_and_the_vectors_as_they_are(theirs):
    weights = dict(Translator.load(MODEL).model.named_parameters())
    for name, weight in theirs.model.named_parameters():
        expected = weights[name].float()
        if expected.dim() == 2:
            expected = dequantize(*quantize_rows(expected))
        assert torch.equal(weight, expected), name


def test_the_command_writes_the_script(tmp_path, script):
    write_script(MODEL, tmp_path / "made/translator.js")
    assert (tmp_path / "made/translator.js").read_text(encoding="utf-8") == script


def pack(change=None, **changes):
    translator = small_translator(**changes)
    if change:
        change(translator.model)
    return to_script(translator)


def hook(model):
    model.encoder.layers[1].register_forward_hook(print)


def no_feed_forward(model):
    model.encoder.layers[1].feed_forward = nn.Identity()


def fewer_heads(model):
    remove_heads(model.decoder.layers[1].cross_attention, [0])


def full_attention(model):
    use_attention(model, encoder=FullAttention(causal=False))


REFUSED = [
    ("packed translator, got 'alert", lambda: from_script("alert(1)")),
    ("must be interleaved, got 'learned'", lambda: pack(positions="learned")),
    ("divisible by 4, got 8 and 10", lambda: pack(d_ff=10)),
    ("num_heads * d_k must be divisible by 4, got 6", lambda: pack(d_k=3)),
    (
        "must be one of relu, gelu_tanh, silu in the JavaScript, got gelu",
        lambda: pack(activation="gelu"),
    ),
    ("attention at encoder.layers.0.self", lambda: pack(full_attention)),
    ("got a hook at encoder.layers.1", lambda: pack(hook)),
    ("a Identity as encoder.layers.1.feed", lambda: pack(no_feed_forward)),
    (
        "decoder.layers.1.cross_attention.w_q.weight must have shape (8, 8)",
        lambda: pack(fewer_heads),
    ),
    ("got 'nothing', which begins", lambda: excerpt("transformer.js", "nothing")),
]


@over([(ValueError, *row) for row in REFUSED])
def test_what_the_javascript_does_not_know_is_refused(error, text, call):
    assert_refused(error, text, call)


# -- Excerpts for the page -----------------------------------------------------------


def test_an_excerpt_is_whole_and_as_it_stands_in_the_file_without_its_indentation():
    shown = excerpt("decoding.js", "function lengthLimit", "function lengthPenalty")
    lines = source("decoding.js").splitlines()
    first = lines.index("function lengthLimit(model, src, maxLen = src.length + 50) {")
    assert shown.first == first + 1
    assert shown.code == "\n".join(lines[first : first + 7])
    assert f"`decoding.js`, from line {first + 1}" in shown._repr_markdown_()
    method = excerpt("tokenizer.js", "clean(text)").code
    assert method.startswith("clean(text) {\n  ret")
    assert "\n" not in excerpt("tokenizer.js", "const SPACES").code


# -- The model -----------------------------------------------------------------------


def small_translator(**changes):
    sizes = {"d_model": 8, "num_heads": 2, "d_ff": 12, "num_layers": 2, "max_len": 32}
    sizes |= {"src_vocab_size": 300, "tgt_vocab_size": 300}
    texts = [text for pair in sentence_pairs(50, 0) for text in pair]
    model = ModernTransformer(ModernConfig(**sizes | changes))
    for parameter in model.parameters():  # norms and biases that do something
        torch.nn.init.normal_(parameter, std=0.5)
    return Translator(model, Tokenizer.train(texts, 300))


RUN = """([src, tgt]) => {
  let logits;
  const maps = recordAttention(ours.model, () => {
    logits = ours.model.forward(src, tgt).map((row) => [...row]);
  });
  return { logits, ...maps };
}"""


def assert_close(found, expected):
    """Compare tensors by their names."""
    torch.testing.assert_close(
        found, expected, rtol=0, atol=TOLERANCE, check_dtype=False
    )


def assert_agrees(page, model, src, tgt):
    """Compare the logits and the weights of all heads for one sentence."""
    with torch.no_grad(), record_attention(model) as maps:
        logits = model(torch.tensor([src]), torch.tensor([tgt]))
    expected = {"logits": logits[0]} | {name: maps[name][0] for name in maps}
    found = page.evaluate(RUN, [src, tgt])
    for name in found:
        if re.match(r"decoder.*self_attention", name):
            for row in (row for head in found[name] for row in head):
                row += [0.0] * (len(tgt) - len(row))  # the future, hidden in PyTorch
    assert_close({name: torch.tensor(found[name]) for name in found}, expected)


def test_logits_and_maps_of_the_trained_model_equal_pytorch(ours, theirs):
    for text in CAPTIONS:
        src = [*theirs.tokenizer.encode(text), theirs.tokenizer.eos_id]
        tgt = [theirs.tokenizer.bos_id, *reversed(src)]
        assert_agrees(ours, theirs.model, src, tgt)


CONFIGS = [
    {"norm_first": True, "activation": "gelu_tanh", "output_bias": True},
    {"norm_first": False, "bias": False, "norm_eps": 0.1},
    {"share_embeddings": True, "tie_output": True, "num_heads": 1, "num_layers": 1},
]
MORE_CONFIGS = [
    {"num_heads": 3, "d_k": 4},
    {"activation": "silu", "tie_output": True, "output_bias": True},
]


@pytest.mark.parametrize("changes", CONFIGS + MORE_CONFIGS, ids="-".join)
def test_logits_and_maps_of_any_configuration_equal_pytorch(engine, changes):
    packed = to_script(small_translator(**changes))
    src, tgt = [5, 4, 3, 299, 2], [1, 7, 7]
    assert_agrees(engine(packed), from_script(packed).model, src, tgt)


# -- Translations --------------------------------------------------------------------


@pytest.fixture(scope="module")
def sentences(pytestconfig):
    """Short ones of the grammar; and captions, where there are some."""
    count, captions = (500, 100) if pytestconfig.sweeping else (100, 20)
    english = (english for english, _ in sentence_pairs(8 * count, seed=0))
    found = [text for text in english if len(text.split()) <= 5][:count]
    assert len(set(found)) > 0.9 * count
    if os.environ.get("MULTI30K_DIR"):
        found += [english for english, _ in multi30k("validation")][:captions]
    return found


@pytest.mark.sweep
@pytest.mark.parametrize("beam", [1, 3])
def test_the_browser_and_pytorch_write_the_same_sentences(
    ours, theirs, sentences, beam, pytestconfig
):
    expected = theirs.translate(sentences, beam)
    translate = "([texts, beam]) => texts.map((text) => ours.translate(text, beam))"
    found = ours.evaluate(translate, [sentences, beam])
    different = [pair for pair in zip(expected, found, strict=True) if len({*pair}) > 1]
    ties = TIES if pytestconfig.sweeping else TIES_IN_SAMPLE
    assert len(different) <= ties, different


@pytest.mark.parametrize(("max_len", "alpha"), [(9, 30.0), (40, 1.5)])
def test_beam_search_finds_the_same_hypotheses_with_the_same_scores(
    ours, theirs, max_len, alpha
):
    src = [*theirs.tokenizer.encode(CAPTIONS[0]), theirs.tokenizer.eos_id]
    steps = []
    [expected] = beam_search(
        theirs.model,
        torch.tensor([src]),
        beam_size=3,
        alpha=alpha,
        max_len=max_len,
        on_step=lambda step: steps.append(step[0]),
    )
    found, found_steps = ours.evaluate(
        """([src, maxLen, alpha]) => {
          const steps = [], onStep = (step) => steps.push(step);
          const options = { maxLen, alpha, beamSize: 3 };
          return [beamSearch(ours.model, src, { ...options, onStep }), steps];
        }""",
        [src, max_len, alpha],
    )
    assert len(found_steps) == len(steps)
    for ours_, theirs_ in zip([found, *found_steps], [expected, *steps], strict=True):
        assert [h["tokens"] for h in ours_] == [h.tokens for h in theirs_]
        assert [h["ended"] for h in ours_] == [h.ended for h in theirs_]
        for name, key in (("log_prob", "logProb"), ("score", "score")):
            values = [getattr(h, name) for h in theirs_]
            assert [h[key] for h in ours_] == pytest.approx(values, abs=TOLERANCE)


# -- The tokenizer -------------------------------------------------------------------

NASTY = [
    "",
    " \t\n\u00a0\u3000 ",
    "Don't  they'll  'S  we've\n\nIT'S",
    "\U0001f1e9\U0001f1ea \U0001f469\u200d\U0001f692 \U0001f44d\U0001f3fd!",
    "\u0645\u0631\u062d\u0628\u0627 \u05e9\u05dc\u05d5\u05dd",
    '&amp; &lt;b&gt; <script>alert("x")</script> <!-- --> </s><pad>',
    "Ma\u0308dchen \ufb01n \u212b \u0f43",
    "\u0085a\ufeffb\u180ec\u200bd\x00e\x1cf",
    "__proto__ constructor undefined",
    "1\u00bd\u2163 3rd 12,000.50\u20ac",
    "\\ ' \" ` ${x} %s",
    "a" * 5000,
    "\u6f22\u5b57" * 300,
]


def ids_in(page, texts):
    return page.evaluate("(texts) => texts.map((t) => ours.tokenizer.encode(t))", texts)


def test_token_ids_equal_those_of_python(ours, theirs, sentences):
    texts = [*NASTY, *sentences, *CAPTIONS, "a\ufffd b"]
    found = ids_in(ours, texts)
    assert found == [theirs.tokenizer.encode(text) for text in texts]
    half = ours.evaluate("ours.tokenizer.encode('a\\ud83d b')")  # of a character
    assert half == found[-1]


@pytest.mark.sweep
def test_token_ids_of_random_characters_equal_those_of_python(
    ours, theirs, pytestconfig
):
    """Characters that Unicode has had since 2002: of new ones, not all know all."""
    category = unicodedata.ucd_3_2_0.category
    known = [c for c in map(chr, range(0x30000)) if category(c) not in ("Cn", "Cs")]
    few, draw = [*" 'sStlm.,09aä\t\u0308"], random.Random(0)
    kinds = known, few, known + 9000 * few
    count = 40_000 if pytestconfig.sweeping else 1000
    texts = ["".join(draw.choices(draw.choice(kinds), k=9)) for _ in range(count)]
    assert ids_in(ours, texts) == [theirs.tokenizer.encode(text) for text in texts]


def test_text_and_pieces_come_back_as_in_python(ours, theirs):
    draw = random.Random(0)
    lists = [[draw.randrange(5000) for _ in range(8)] for _ in range(300)]
    lists += [[], [0, 1, 2], [3 + byte for byte in range(256)]]
    for name, given in {"decode": lists, "pieces": lists, "clean": NASTY[1:]}.items():
        found = ours.evaluate(f"(x) => x.map((e) => ours.tokenizer.{name}(e))", given)
        assert found == list(map(getattr(theirs.tokenizer, name), given))
