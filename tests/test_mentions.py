"""A note names each call of the library that it covers."""

from types import SimpleNamespace

import pytest
from docutils import nodes
from docutils.utils import new_document

from bookkit.listing import as_html, walk
from bookkit.listing.mentions import unmentioned_calls
from transformer_lib.model import causal_mask
from website.listings import mentions


def first(x):
    y = helper(x)
    y = y + 1
    return [helper(y) for _ in range(2)], max(y, 1), causal_mask(2)


def helper(x):
    return x


class Thing:
    def run(self, x):
        here = helper(x)
        return self.other() + here

    def other(self):
        return 1


@pytest.mark.parametrize(
    ("call", "notes", "silent"),
    [
        # The calls of max and of another package need no name.
        (first, {"def": "Compute, and again."}, ["helper", "helper"]),
        (first, {"def": "`helper`, twice."}, []),
        # A note stands beside its line.
        (first, {"def": "Take x.", "y = helper": "Look.", "return": "Again."}, []),
        # Methods count, and a longer name is not a mention.
        (Thing().run, {"def": "Here is a `helper`, and `others`."}, ["other"]),
    ],
)
def test_a_call_below_the_note_that_covers_it_must_be_named(call, notes, silent):
    [part] = walk(call, 3, notes=notes).parts
    assert [name.split(" (line")[0] for name in unmentioned_calls(part)] == silent


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
