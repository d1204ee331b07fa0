"""A note names each call of the library that it covers."""

from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from bookkit.listing import as_html, walk
from bookkit.listing.mentions import unmentioned_calls
from transformer_lib.model import (
    Transformer,
    TransformerConfig,
    causal_mask,
)
from website.listings import mentions


def first(x):
    y = helper(x)
    y = y + 1
    return [helper(y) for _ in range(2)], max(y, 1), causal_mask(2)


def helper(x):
    return x


class Thing:
    def run(self):
        here = helper(1)
        return self.other() + here

    def other(self):
        return 1


def silent(call, *args, notes, **kwargs):
    walked = walk(call, *args, notes=notes, **kwargs)
    return [found for part in walked.parts for found in unmentioned_calls(part)]


def test_a_call_below_the_note_that_covers_it_must_be_named():
    covered = {"def first": "Compute, and compute again."}
    lines = [name.split()[0] for name in silent(first, 3, notes=covered)]
    assert lines == ["helper", "helper"]  # max and another package's are not its own
    assert silent(first, 3, notes={"def first": "`helper`, twice."}) == []


def test_the_line_that_a_note_stands_beside_needs_no_name():
    notes = {"def first": "Take x.", "y = helper": "Look.", "return": "Again."}
    assert silent(first, 3, notes=notes) == []


def test_methods_count_and_a_longer_name_is_not_a_mention():
    notes = {"def run": "Here is a `helper`, and `others`."}
    assert [name.split()[0] for name in silent(Thing().run, notes=notes)] == ["other"]


def test_the_line_that_no_chapter_explained_is_found():
    config = TransformerConfig.base(13, d_model=4, num_heads=1, d_ff=4, num_layers=1)
    notes = {"def __init__": "All parts.", "self.output = ": "The output."}
    found = silent(Transformer, config, notes=notes)
    assert any(name.startswith("initialise (line ") for name in found)


def test_the_page_says_it_and_the_build_fails_in_the_core_alone(monkeypatch):
    said = []
    for level in ("warning", "info"):
        monkeypatch.setattr(
            mentions.logger,
            level,
            lambda text, calls, location, level=level: said.append((level, calls)),
        )
    document = new_document("")
    for found in (["<b> (line 3)"], []):
        monkeypatch.setattr(as_html, "unmentioned_calls", lambda part, x=found: x)
        html = walk(helper, 1)._repr_html_()
        document += nodes.raw(html, html, format="html")
    for name in ("book/13_cache", "book/14_translator", "book/01_text_to_tensors"):
        app = SimpleNamespace(env=SimpleNamespace(docname=name))
        mentions.check(app, document)
    call = "helper: <b> (line 3)"
    assert said == [("warning", call), ("info", call), ("warning", call)]


@pytest.mark.parametrize("number", range(1, 14))
def test_these_are_the_chapters_of_the_core(number):
    assert mentions.CORE.match(f"book/{number:02}_x")
    assert not mentions.CORE.match(f"book/{number + 13}_x")
