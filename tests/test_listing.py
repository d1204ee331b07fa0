"""What a listing says, as golden text: `pytest tests/test_listing.py --update`.

Read the difference before you commit it.
"""

import inspect
import math
import re

import pytest
import torch
from book_files import ROOT
from bs4 import BeautifulSoup
from torch import nn
from walked import BAD, PAGES, WALKS, inner, middle, numbers, outer, sign

from bookkit.listing import as_html, walk
from bookkit.listing.values import describe, number
from transformer_lib import checks
from transformer_lib.model import MultiHeadAttention, causal_mask

T, S = 5, 7
MINUS_INF = float("-inf")
GOLDEN = ROOT / "tests" / "listings"


def bare(walked):
    """The page without the style and the script, which every listing brings."""
    html = walked._repr_html_()
    return html.replace(as_html.STYLE, "").replace(as_html.SCRIPT, "")


@pytest.mark.parametrize("name", [*WALKS, *PAGES])
def test_a_listing_says_what_it_said(name, pytestconfig):
    said = repr(WALKS[name]()) if name in WALKS else bare(PAGES[name]())
    text = re.sub("\n+", "\n", said) + "\n"
    path = GOLDEN / f"{name}.{'txt' if name in WALKS else 'html'}"
    if pytestconfig.option.update:
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_no_golden_listing_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == {*WALKS, *PAGES}


def test_a_terminal_gets_88_columns_and_no_line_ends_with_a_space():
    for path in GOLDEN.glob("*.txt"):
        text = path.read_text(encoding="utf-8")
        assert max(map(len, text.splitlines())) <= 88
        assert not re.search(" $", text, re.MULTILINE)


@pytest.fixture
def define(tmp_path):
    """Make a function of one line and a return, in a file of its own."""

    def define(line, file="made.py"):
        path = tmp_path / file
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"def f(x):\n    {line}\n    return x\n", encoding="utf-8")
        space = {"__name__": "made"}
        exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), space)
        return space["f"]

    return define


# -- Notes -----------------------------------------------------------------------------

LINE = sign.__code__.co_firstlineno
ALL = {"def": "A.", "y =": "B.", "return y": "C."}


@pytest.mark.parametrize(
    ("notes", "message"),
    [
        ({}, f"notes of sign:\nno note covers line {LINE}: 'def sign(x):'"),
        (ALL | {"if x > 1:": "?"}, "close to it: 'if x > 0:'"),
        (ALL | {"return": "?"}, f"the lines {LINE + 2}, {LINE + 6}, {LINE + 7}: write"),
        (ALL | {("return", 4): "?"}, "no line matches the note ('return', 4)"),
        (ALL | {"return y  # b": "?"}, f"line {LINE + 7} has two notes"),
        # A note ends with its block, and does not cover the next branch.
        ({"def": "A.", "y": "B."}, f"no note covers line {LINE + 7}: 'return y'"),
        ({"return 1": "A.", "return y": "C."}, f"covers line {LINE + 4}: 'y = -1'"),
    ],
)
def test_a_note_in_doubt_is_refused(notes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        walk(sign, -3, notes=notes)


def test_a_whole_line_wins_and_twins_are_told_apart_by_their_number():
    def f(x):
        x = 1
        x = 10
        x = 10  # (twice)
        return x

    notes = {"def": "A", "x = 1": "B", ("x = 10", 1): "C", ("x = ", 3): "D"}
    assert [row.note for row in walk(f, 3, notes=notes).rows] == [*"ABCD", ""]


def test_a_note_covers_no_line_of_the_next_function():
    with pytest.raises(ValueError, match=r"no note covers line \d+: 'def numbers"):
        walk(outer, 1, also=[numbers], notes={"def outer": "A."})


def test_every_function_of_the_module_of_checks_is_folded_by_its_name():
    functions = [f for _, f in inspect.getmembers(checks, inspect.isfunction)]
    defined = [f.__name__ for f in functions if f.__module__ == checks.__name__]
    assert defined
    assert all(name.startswith(("check_", "require_")) for name in defined)


# -- Shapes ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("x = x.T  # (T, S)", "line 2: the comment says # (T, S), but x has the shape"),
        ("x = x + 1  # (T)", "but x has the shape (5, 7) (with T = 5, S = 7)"),
        ("x = x[0]  # (..., T, 1)", "says # (..., T, 1), but x has the shape (7,)"),
        ("x = x.repeat(1, 2)  # (T, 3 * S)", "# (T, 3 * S), but x has"),
        ("x = x.T  # (S, d_v * 1)", "# (S, d_v * 1), but x has"),
        ("x, y, z = x, x, x  # (T, S), (S)", "(T, S), (S) and the 3 tensors"),
        ("n = x.size(0)  # (T, S)", "# (T, S) and the 0 tensors that"),
    ],
)
def test_a_wrong_comment_is_refused_with_its_line_and_the_real_shape(
    define, line, message
):
    with pytest.raises(ValueError, match=re.escape(message)):
        walk(define(line), torch.zeros(T, S), dims={"T": T, "S": S})


def test_dims_name_axes_that_no_comment_names_but_never_guess(define):
    dims = {"B": 2, "T": T, "d_v": 3, "d_k": 3, "one": 1}
    f = define("x = x + 1")
    for shape, letters in (((2, T, 3, 1), "(B, T, 3, 1)"), ((S, S), "")):
        assert walk(f, torch.zeros(shape), dims=dims).rows[0].made[0].letters == letters


def test_letters_are_shared_by_the_functions_of_a_listing_and_a_call_has_its_own():
    def wrong(x):
        y = x.T  # (n, n)
        return y

    def right(x):
        return x.T  # (n, m)

    def f(x):
        return right(x), wrong(x)

    walked = walk(f, torch.zeros(3, 3), also=[right], depth=1)
    assert walked.dims == {"n": 3, "m": 3}
    with pytest.raises(ValueError, match=r"the comment says # \(n, n\)"):
        walk(f, torch.zeros(2, 3), depth=1)
    with pytest.raises(ValueError, match=r"\(with n = 3, m = 2\)"):
        walk(f, torch.zeros(2, 3), also=[right, wrong])


# -- Words and pictures ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (torch.tensor([-1.2345, 3.0]), "float32 −1.23 to 3"),
        (torch.tensor([0.5, 0.5]), "float32 all 0.50"),
        (torch.tensor([MINUS_INF, math.nan]), "float32 1 × −∞, 1 × nan"),
        (torch.tensor([math.inf, 1, 2]), "float32 1 × ∞, 1 to 2"),
        (torch.tensor([True, True, False]), "2 True, 1 False"),
        (torch.tensor(True), "True"),
        (torch.tensor([[5, 0], [-7, 3]]), "int64 [[5, 0], [−7, 3]]"),
        (torch.arange(100), "int64 0 to 99"),
        (torch.zeros(0, 3, dtype=torch.long), "int64 empty"),
        (torch.ones(3, device="meta"), "float32 meta"),
        (torch.eye(3).to_sparse(), "float32"),
        ([torch.zeros(2, 3)] * 7, "7 × Tensor, each 2 × 3"),
        (nn.ModuleList([nn.Linear(2, 3)] * 4), "ModuleList of 4, 9 parameters"),
        (MultiHeadAttention(6, 2), "MultiHeadAttention, 168 parameters"),
        (nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
        (0.1 + 0.2, "0.3"),
        ("x" * 50, "'" + "x" * 39 + "…'"),
        (list(range(9)), "[0, 1, 2, 3, 4, 5, …]"),
        ({"a": [1, {"b": 2}], (2,): 3}, "{'a': [1, dict], tuple: 3}"),
        ((torch.float32, nn.Linear, math, None), "(torch.float32, Linear, math, None)"),
        ([object(), sign, sign.__call__], "[object, sign, method-wrapper]"),
        (["x" * 39] * 5, "[" + f"'{'x' * 39}', " * 3 + "'" + "x" * 28 + "…"),
    ],
)  # fmt: skip
def test_values_in_words(value, words):
    (described,) = describe("x", value)
    assert described.text == words


def test_numbers_have_about_three_digits_and_a_true_minus():
    values = [-0.0, 12.345, -0.5, 0.1, 0.05, 0.00123, 1234.5, -1e9, 1e6, MINUS_INF]
    words = "0 12.35 −0.50 0.10 0.05 0.0012 1.2e+03 −1e+09 1e+06 −∞"
    assert " ".join(map(number, values)) == words


@pytest.mark.parametrize(
    ("value", "cells"),
    [
        (torch.tensor([-4.0, -1.0, 0.0, 2.0]), ["n4 n1 zero p2"]),
        (torch.tensor([MINUS_INF, math.nan, 2.0, -2.0]), ["hidden nan p4 n4"]),
        (torch.tensor([0.0, 0.2, 0.6]), ["s0 s1 s3"]),  # shares, whatever the largest
        (torch.tensor([[True, False]]), ["true false"]),
        (torch.arange(-8.0, 0).view(2, 2, 2), ["n4 n3", "n2 n1"]),  # the last table
        (torch.zeros(12, 24), ["s0 " * 23 + "s0"] * 12),
        (torch.zeros(13, 2), None),
        (torch.zeros(2, 25), None),
        (torch.tensor(1.0), None),
        (torch.zeros(3, dtype=torch.long), None),
    ],
)
def test_a_small_tensor_has_a_picture(value, cells):
    picture = describe("x", value)[0].picture
    assert (picture and [" ".join(row) for row in picture.cells]) == cells


# -- The page --------------------------------------------------------------------------


def test_whatever_the_data_say_it_is_escaped():
    html = PAGES["escaped"]()._repr_html_()
    page = BeautifulSoup(html, "html.parser")
    assert [tag.name for tag in page(["script", "u"])] == ["script"]  # its own
    assert [tag["href"] for tag in page(href=True)] == ["https://example.org/?a=1&b=2"]
    assert BAD not in html


def test_a_terminal_shows_the_same_with_calls_to_step_into_and_without():
    plain, deep = (walk(middle, 1, depth=depth) for depth in (0, 3))
    assert repr(plain) == repr(deep)


def test_files_go_by_their_place_in_the_package_and_a_notebook_has_none(define):
    assert walk(causal_mask, 3).place.startswith("transformer_lib/model/masks.py, ")
    cell = define("x = 3", file="ipykernel_123/456.py")
    assert walk(cell, 3).place == "this notebook, lines 1 to 3"
    several = walk(middle, 1, also=[inner])
    assert several.name == "walked.middle"
    assert re.fullmatch(r"walked\.py, lines \d+ to \d+, \d+ to \d+", several.place)
