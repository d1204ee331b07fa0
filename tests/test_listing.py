import ast
import inspect
import math
import re
from html.parser import HTMLParser

import pytest
import torch
from torch import nn

from bookkit.listing import walk
from bookkit.listing.rows import Fold
from bookkit.listing.statements import _refuses
from bookkit.listing.values import describe, number, short
from transformer_lib import checks
from transformer_lib.checks import require_positive
from transformer_lib.model import MultiHeadAttention, scaled_dot_product_attention

B, H, T, S, D_K = 2, 3, 5, 7, 11
MINUS_INF = float("-inf")


def row(walked, start):
    (found,) = [row for row in walked.rows if row.statement.key.startswith(start)]
    return found


def letters(walked, start):
    return [value.letters for value in row(walked, start).made]


def text(value):
    (described,) = describe("x", value)
    return described.text


def cells(value):
    (described,) = describe("x", value)
    return described.picture and described.picture.cells


def sign(x):
    if x > 0:  # noqa: SIM108
        y = 1
    else:
        y = -1
    return y


NOTES = {
    "def sign": "The sign.",
    "if x > 0:": "Above zero?",
    "y = 1": "Yes.",
    "return y": "Done.",
}


# -- Notes -----------------------------------------------------------------------------


def test_every_note_stands_on_its_row_and_a_line_not_reached_may_have_one():
    walked = walk(sign, 3, notes=NOTES | {"y = -1": "No."})
    assert [row.note for row in walked.rows] == [
        "The sign.",
        "Above zero?",
        "Yes.",
        "",
        "No.",
        "Done.",
    ]
    assert [row.reached for row in walked.rows] == [
        True,
        True,
        True,
        False,
        False,
        True,
    ]
    assert walked.result == 1


def covers(walked):
    """Each note of the first function with the numbers of its lines, from 1."""
    (part,) = walked.parts
    start = part.rows[0].statement.first - 1
    return [
        (group.note, [numbers(item, start) for item in group.items])
        for group in part.groups
    ]


def numbers(item, start):
    if isinstance(item, Fold):
        return [row.statement.first - start for row in item.rows]
    return item.statement.first - start


def loop(x):
    total = 0
    for i in range(x):
        j = i + 1
        if j > 1:
            j = 2
        total += j
    total = total + 1
    return total


def test_a_note_covers_the_lines_below_it_and_the_blocks_within():
    assert covers(walk(loop, 3, notes={"def": "A"})) == [("A", [*range(1, 10)])]
    walked = walk(loop, 3, notes={"def": "A", "for": "B", "return": "C"})
    assert covers(walked) == [("A", [1, 2]), ("B", [*range(3, 9)]), ("C", [9])]
    walked = walk(loop, 3, notes={"def": "A", "total += j": "B", "total = total": "C"})
    assert covers(walked) == [("A", [*range(1, 7)]), ("B", [7]), ("C", [8, 9])]


@pytest.mark.parametrize(
    ("key", "line", "text"),
    [("j = i", 8, "total = total + 1"), ("j = 2", 7, "total += j")],
)
def test_a_note_ends_with_its_block_and_the_line_after_it_is_refused(key, line, text):
    line += loop.__code__.co_firstlineno - 1
    match = re.escape(f"notes of loop:\nno note covers line {line}: {text!r}")
    with pytest.raises(ValueError, match=match):
        walk(loop, 3, notes={"def": "A", key: "B", "return": "C"})


def test_a_note_in_one_branch_does_not_cover_the_other():
    line = sign.__code__.co_firstlineno + 4
    with pytest.raises(ValueError, match=f"no note covers line {line}: 'y = -1'"):
        walk(sign, -3, notes=NOTES)
    assert walk(sign, 3, notes=NOTES).parts[0].groups[3].note == ""  # not reached


def test_else_needs_no_note_even_when_it_is_reached():
    walked = walk(sign, -3, notes=NOTES | {"y = -1": "No."})
    assert row(walked, "else").reached
    assert not row(walked, "y = 1").reached


def test_without_notes_no_line_needs_one():
    assert [row.note for row in walk(sign, 3).rows] == [""] * 6
    assert covers(walk(sign, 3)) == [("", [1, 2, 3, 4, 5, 6])]


def test_no_note_at_all_is_not_the_same_as_an_empty_dictionary():
    with pytest.raises(ValueError, match=r"no note covers line \d+: 'def sign\(x\):'"):
        walk(sign, 3, notes={})


def test_a_note_that_matches_no_line_is_refused_with_lines_like_it():
    with pytest.raises(ValueError, match=r"no line matches .*'if x > 1:'.*'if x > 0:'"):
        walk(sign, 3, notes=NOTES | {"if x > 1:": "?"})


def test_a_note_that_matches_several_lines_is_refused_with_their_numbers():
    first = sign.__code__.co_firstlineno
    match = f"'y' matches the lines {first + 2}, {first + 4}: .*'y', 2"
    with pytest.raises(ValueError, match=match):
        walk(sign, 3, notes=NOTES | {"y": "?"})


def test_a_whole_line_wins_over_the_beginning_of_another():
    def f():
        x = 1
        x = 10
        return x

    notes = {"def": "", "x = 1": "One.", "x = 10": "Ten.", "return": ""}
    walked = walk(f, notes={key: note or "-" for key, note in notes.items()})
    assert [row.note for row in walked.rows] == ["-", "One.", "Ten.", "-"]


def test_two_notes_for_one_line_are_refused():
    with pytest.raises(ValueError, match="has two notes: 'return'"):
        walk(sign, 3, notes=NOTES | {"return": "Again."})


def test_twins_are_told_apart_by_their_number():
    def f(x):
        x = x + 1
        x = x + 1
        return x

    notes = {"def": "A", ("x = x + 1", 1): "B", ("x = ", 2): "C", "return": "D"}
    assert [row.note for row in walk(f, 3, notes=notes).rows] == list("ABCD")
    with pytest.raises(ValueError, match=r"no line matches the note \('x = ', 3\)"):
        walk(f, 3, notes=notes | {("x = ", 3): "E"})


def test_a_trailing_comment_does_not_belong_to_the_line():
    def f():
        x = torch.ones(T)  # (T)
        return x

    notes = {"def": "A", "x = torch.ones(T)  # (T)": "B", "return x": "C"}
    assert row(walk(f, notes=notes), "x =").note == "B"


def test_a_statement_over_several_lines_goes_by_its_first():
    def f(
        x,
    ):
        return [
            x,
            x,
        ]

    walked = walk(f, 3, notes={"def f(": "A", "return [": "B"})
    assert [row.note for row in walked.rows] == ["A", "B"]


# -- Refusals --------------------------------------------------------------------------


def check_small(x):
    if x > 9:
        raise ValueError(f"x must be small, got {x}")


def guarded(x, mask=None):
    require_positive(x=x)
    if x > 5:
        double = 2 * x
        raise ValueError(
            f"x must be at most 5, its double at most 10, got {double}",
        )
    if mask is not None:
        check_small(mask)
        if mask > x:
            raise ValueError("mask must be at most x")
    y = x + 1
    check_small(y)
    return y


def folds(walked):
    return [
        item
        for group in walked.parts[0].groups
        for item in group.items
        if isinstance(item, Fold)
    ]


def test_refusals_that_follow_each_other_are_one_row_and_need_no_note():
    walked = walk(guarded, 3, notes={"def": "A", "y =": "B"})
    assert covers(walked) == [
        ("A", [1, [2, 3, 4, 5, 8, 9, 10, 11]]),
        ("B", [12, [13], 14]),
    ]
    first = guarded.__code__.co_firstlineno
    assert [(fold.lines, fold.text) for fold in folds(walked)] == [
        (f"lines {first + 1} to {first + 10}", "4 argument checks"),
        (f"line {first + 12}", "1 argument check"),
    ]


def test_a_fold_has_one_line_in_a_terminal():
    text = str(walk(guarded, 3, notes={"def": "A", ("check_small", 2): "Hidden."}))
    first = guarded.__code__.co_firstlineno
    assert (
        f"\n\n       lines {first + 1} to {first + 10}: 4 argument checks\n\n" in text
    )
    assert f"\n\n       line {first + 12}: 1 argument check\n\n" in text
    assert not re.search("raise|Hidden", text)


def test_a_note_of_a_refusal_stays_with_it_and_covers_nothing_else():
    notes = {"def": "A", "require": "Why.", ("check_small", 2): "Hidden."}
    walked = walk(guarded, 3, notes=notes)
    assert covers(walked)[0] == ("A", [1, [2, 3, 4, 5, 8, 9, 10, 11], 12, [13], 14])
    page = Page(walked._repr_html_())
    first = guarded.__code__.co_firstlineno
    assert (
        f"4 argument checks Why. Line {first + 1}. require_positive(x=x) Line"
        in page.text
    )
    assert f"1 argument check Hidden. Line {first + 12}. check_small(y)" in page.text


def test_a_fold_is_closed_and_its_lines_keep_their_numbers():
    html = walk(guarded, 3)._repr_html_()
    details = [attrs for tag, attrs in Page(html).tags if tag == "details"]
    assert details == [{"class": "w-fold"}] * 2
    numbers = [int(n) for n in re.findall('data-number="([0-9]+)"', html)]
    first = guarded.__code__.co_firstlineno
    folded = [first + 1, first + 12]  # the row that opens has the first of its lines
    assert numbers == sorted([*range(first, first + 14), *folded])
    assert f"Lines {first + 1} to {first + 10}. 4 argument checks" in Page(html).text


@pytest.mark.parametrize(
    ("arguments", "error", "open_lines", "folded"),
    [
        ((7,), "at most 5", [3, 4, 5], [[2], [8, 9, 10, 11], [13]]),
        ((0,), "at least 1", [2], [[3, 4, 5, 8, 9, 10, 11], [13]]),
        ((3, 4), "at most x", [8, 9, 10, 11], [[2, 3, 4, 5], [13]]),
        ((3, 10), "be small", [8, 9, 10, 11], [[2, 3, 4, 5], [13]]),
    ],
)
def test_a_refusal_that_refused_is_not_folded(arguments, error, open_lines, folded):
    walked = walk(guarded, *arguments, notes={"def": "A"}, raises=ValueError)
    assert error in str(walked.error)
    ((_, items),) = covers(walked)
    assert [item for item in items if isinstance(item, list)] == folded
    assert [x for x in items if not isinstance(x, list)] == [1, *open_lines, 12, 14]
    assert f"raised ValueError: {walked.error}" in str(walked)


def test_a_note_of_a_refusal_that_refused_covers_what_follows_like_any_other():
    walked = walk(guarded, 7, notes={"def": "A", "if x > 5": "B"}, raises=ValueError)
    assert covers(walked)[1] == ("B", [3, 4, 5, [8, 9, 10, 11], 12, [13], 14])


def test_refusals_in_different_blocks_are_different_rows():
    def f(x, y):
        if y is None:
            y = x
            check_small(y)
        check_small(x)
        for z in (x, y):
            check_small(z)
            if z > 5:
                raise ValueError
        return y

    walked = walk(f, 3, None, notes={"def": "A", "y =": "B", "for": "C"})
    assert covers(walked) == [
        ("A", [1, 2]),
        ("B", [3, [4]]),
        ("", [[5]]),
        ("C", [6, [7, 8, 9], 10]),
    ]


def test_what_does_more_than_refuse_is_not_folded():
    def f(x):
        checked = check_small(x)
        if x > 5:
            print(x)
            raise ValueError
        if x > 6:
            raise ValueError
        else:
            x = x + 1
        if x > 9:
            x = 9
        elif x > 8:
            raise ValueError
        else:
            x = max(x, 2)
        if x > 9:
            x = 9
        elif x > 8:  # stays with its if
            raise ValueError
        if x < 0:
            [][0] = checked
        print(x, end="")
        return x

    assert folds(walk(f, 3)) == []


@pytest.mark.parametrize(
    "name", ["check_x", "require_x", "_require_x", "checks.check_x"]
)
def test_a_check_goes_by_its_name_wherever_it_is(name):
    statement = ast.parse(f"{name}(x)").body[0]
    assert _refuses(statement)
    assert not _refuses(ast.parse(f"y = {name}(x)").body[0])
    assert not _refuses(ast.parse("checked(x)").body[0])


def test_every_function_of_the_module_of_checks_goes_by_such_a_name():
    functions = [f for _, f in inspect.getmembers(checks, inspect.isfunction)]
    defined = [f for f in functions if f.__module__ == checks.__name__]
    assert defined
    assert all(f.__name__.startswith(("check_", "require_")) for f in defined)


def test_refusals_joined_by_elif_are_refusals():
    def f(x):
        if x > 5:
            raise ValueError("large")
        elif x < 0:
            raise ValueError("small")
        return x

    assert [fold.text for fold in folds(walk(f, 3))] == ["2 argument checks"]
    walked = walk(f, -3, raises=ValueError)
    assert folds(walked) == []


def test_a_refusal_that_the_run_passed_over_is_pale():
    def f(x):
        if x > 5:
            x = 5
            check_small(x)
        return x

    page = Page(walk(f, 3)._repr_html_())
    assert [tag for tag, _ in page.with_class("w-pale")] == ["li", "summary", "li"]
    page = Page(walk(f, 6)._repr_html_())
    assert page.with_class("w-pale") == []


# -- Several functions -----------------------------------------------------------------


class Pair:
    def __init__(self, scale):
        self.scale = scale

    def both(self, x):
        return self.one(x) + self.one(2 * x) + self.other(x)

    def one(self, x):
        require_positive(x=x)
        y = self.scale * x
        return y

    def other(self, x):
        y = x - 1
        return y


PAIR = {"def both": "A", "def one": "B", "y = self": "C", "def other": "D"}


def test_several_functions_stand_in_one_listing_as_they_first_ran():
    pair = Pair(3)
    walked = walk(pair.both, 2, also=[pair.other, pair.one], notes=PAIR)
    assert walked.result == 6 + 12 + 1
    names = [part.name.removeprefix(f"{__name__}.") for part in walked.parts]
    assert names == ["Pair.both", "Pair.other", "Pair.one"]
    assert [row.statement.key.partition("(")[0] for row in walked.rows] == [
        "def both",
        "return self.one",
        "def other",
        "y = x - 1",
        "return y",
        "def one",
        "require_positive",
        "y = self.scale * x",
        "return y",
    ]
    assert row(walked, "y = self").made[0].text == "6"  # not 12, of the second call
    assert [[group.note for group in part.groups] for part in walked.parts] == [
        ["A"],
        ["D"],
        ["B", "C"],
    ]
    first = Pair.both.__code__.co_firstlineno
    lines = f"lines {first} to {first + 1}, {first + 8} to {first + 10}, "
    assert walked.place == f"test_listing.py, {lines}{first + 3} to {first + 6}"


def test_a_note_covers_no_line_of_the_next_function():
    pair = Pair(3)
    line = Pair.one.__code__.co_firstlineno
    with pytest.raises(
        ValueError, match=rf"Pair.one:\nno note covers line {line}: 'def"
    ):
        walk(pair.both, 2, also=[pair.one], notes={"def both": "A", "y = ": "C"})


def test_keys_are_unique_over_all_functions_and_twins_are_counted_through():
    pair = Pair(3)
    also = [pair.other, pair.one]
    with pytest.raises(ValueError, match="the note 'return y' matches the lines"):
        walk(pair.both, 2, also=also, notes=PAIR | {"return y": "?"})
    walked = walk(pair.both, 2, also=also, notes=PAIR | {("return y", 2): "E"})
    assert [row.note for row in walked.parts[2].rows] == ["B", "", "C", "E"]


def test_letters_are_shared_by_all_functions_of_a_listing():
    def inner(x):
        return x.sum(1)  # (S)

    def wrong(x):
        return x.sum(1)  # (T)

    def outer(x):
        y = x.transpose(0, 1)  # (S, T)
        return inner(y) + wrong(y)

    walked = walk(outer, torch.zeros(T, S), also=[inner])
    assert walked.dims == {"S": S, "T": T}
    assert [value.letters for value in walked.rows[4].made] == ["(S)"]
    match = r"# \(T\), but returned has the shape \(7,\) \(with S = 7, T = 5\)"
    with pytest.raises(ValueError, match=match):
        walk(outer, torch.zeros(T, S), also=[wrong])


def test_a_function_that_the_run_never_came_to_is_refused():
    pair = Pair(3)
    with pytest.raises(
        ValueError, match=r"the run of Pair.one never came to Pair.other"
    ):
        walk(pair.one, 2, also=[pair.other])
    with pytest.raises(
        ValueError, match=r"the run of Pair.both never came to Pair.one"
    ):
        walk(pair.both, 2, also=[Pair(3).one])  # of another object


def test_every_function_of_a_listing_is_named_in_the_page_and_the_terminal():
    pair = Pair(3)
    walked = walk(pair.both, 2, also=[pair.other, pair.one])
    page = Page(walked._repr_html_())
    named = [(tag, a["data-walk"]) for tag, a in page.tags if "data-walk" in a]
    names = [f"{__name__}.Pair.{name}" for name in ("both", "other", "one")]
    assert named == list(zip(["section", "div", "div"], names, strict=True))
    assert len(page.with_class("w-head")) == 1
    assert str(walked).startswith("\n".join(names))
    tabs = [
        attrs["tabindex"]
        for _, attrs in page.with_class("w-row")
        if "tabindex" in attrs
    ]
    assert tabs == ["0"] + ["-1"] * 8


# -- Shapes ----------------------------------------------------------------------------


def test_letters_come_from_the_comment_and_the_comment_leaves_the_code():
    def f(x):
        y = x.transpose(0, 1)  # (S, T)
        return y

    walked = walk(f, torch.zeros(T, S))
    assert letters(walked, "y =") == ["(S, T)"]
    assert walked.dims == {"S": S, "T": T}
    dims = {"S": S}
    assert walk(f, torch.zeros(T, S), dims=dims).dims == {"S": S, "T": T}
    assert dims == {"S": S}
    assert row(walked, "y =").comment == ""
    assert "#" not in repr(walked)


def test_a_wrong_comment_is_refused_with_its_line_and_the_real_shape():
    def f(x):
        y = x.transpose(0, 1)  # (T, S)
        return y

    line = f.__code__.co_firstlineno + 1
    match = re.escape(
        f"line {line}: the comment says # (T, S), but y has the shape (7, 5)"
    )
    with pytest.raises(ValueError, match=match):
        walk(f, torch.zeros(T, S), dims={"T": T, "S": S})


def test_a_comment_with_too_few_axes_is_refused():
    def f(x):
        return x + 1  # (T)

    with pytest.raises(ValueError, match=r"# \(T\), but returned has .* \(5, 7\)"):
        walk(f, torch.zeros(T, S))


def test_a_letter_means_one_size_throughout_the_run():
    def f(x):
        y = x[0]  # (S)
        z = x[:, 0]  # (S)
        return y, z

    with pytest.raises(ValueError, match=r"# \(S\), but z has the shape \(5,\)"):
        walk(f, torch.zeros(T, S))


def test_dots_stand_for_any_leading_axes_and_numbers_for_themselves():
    def f(x):
        y = x[..., :1]  # (..., T, 1)
        return y

    dims = {"B": B, "H": H}
    assert letters(walk(f, torch.zeros(T, S)), "y =") == ["(T, 1)"]
    assert letters(walk(f, torch.zeros(B, H, T, S), dims=dims), "y =") == [
        "(B, H, T, 1)"
    ]
    with pytest.raises(ValueError, match=r"says # \(..., T, 1\), but y .* \(1,\)"):
        walk(f, torch.zeros(S))


def test_arithmetic_of_letters_is_worked_out():
    def f(x):
        y = torch.cat([x, x[:1]]).repeat(1, 2)  # (T + 1, 2 * d_k)
        z = y[:, : y.size(1) // 4]  # (T + 1, d_k // 2)
        return z

    dims = {"T": T, "d_k": D_K}
    walked = walk(f, torch.zeros(T, D_K), dims=dims)
    assert walked.dims == dims
    assert letters(walked, "y =") == ["(T + 1, 2 * d_k)"]
    with pytest.raises(ValueError, match=r"2 \* d_k\), but y .* \(6, 22\)"):
        walk(f, torch.zeros(T, D_K), dims={"T": T, "d_k": D_K + 1})
    with pytest.raises(ValueError, match="d_k"):
        walk(f, torch.zeros(T, D_K), dims={"T": T})


def test_a_product_may_come_before_its_factors():
    def f(x):
        y = x.flatten()  # (T * S)
        return y.view(x.shape)  # (T, S)

    assert letters(walk(f, torch.zeros(T, S)), "y =") == ["(T * S)"]


def test_several_shapes_belong_to_several_tensors():
    def f(x):
        y, n, z = x[0], 3, x[:, 0]  # (S), (T)
        return z, y + n  # (T), (S)

    walked = walk(f, torch.zeros(T, S))
    assert letters(walked, "y, n, z") == ["(S)", "", "(T)"]
    assert letters(walked, "return") == ["(T)", "(S)"]


def test_one_shape_holds_for_all_tensors_of_the_line():
    def f(x):
        y, z = x + 1, x + 2  # (T, S)
        return y, z, x[0]  # (T, S), (S)

    with pytest.raises(ValueError, match=r"\(T, S\), \(S\) and the 3 tensors"):
        walk(f, torch.zeros(T, S))


def test_a_shape_where_no_tensor_was_made_is_refused():
    def f(x):
        n = x.size(0)  # (T, S)
        return n

    with pytest.raises(ValueError, match=r"# \(T, S\) and the 0 tensors"):
        walk(f, torch.zeros(T, S))


def test_comments_that_are_no_shapes_stay_in_the_code():
    def f(x):
        y = x + 1  # what query @ key^T will have
        n = 3  # (sic)
        z = x + 1  # (see above)
        m = n + 1  # ("a", "b")
        k = m + 1  # (T, S), S
        j = k + 1  # (len(x), S)
        return y + z + j  # T, S

    walked = walk(f, torch.zeros(T, S))
    comments = [row.comment for row in walked.rows[1:]]
    assert comments == [
        "# what query @ key^T will have",
        "# (sic)",
        "# (see above)",
        '# ("a", "b")',
        "# (T, S), S",
        "# (len(x), S)",
        "# T, S",
    ]
    assert all(comment in repr(walked) for comment in comments)


def test_a_comment_that_the_run_did_not_reach_is_not_confirmed():
    def f(x):
        if x is None:
            x = torch.zeros(3)  # (T, S)
        return x

    assert row(walk(f, torch.zeros(T)), "x =").comment == "# (T, S)"


def test_dims_name_axes_that_no_comment_names_but_never_guess():
    def f(x):
        return x

    dims = {"B": B, "T": T, "d_v": D_K, "d_k": D_K, "one": 1}
    walked = walk(f, torch.zeros(B, T, D_K, 1), dims=dims)
    assert letters(walked, "def") == [f"(B, T, {D_K}, 1)"]
    assert letters(walk(f, torch.zeros(S, S), dims=dims), "def") == [""]


def test_a_comment_on_a_line_that_raised_is_not_confirmed():
    def f(x):
        try:
            y = x @ x  # (T, T)
        except RuntimeError:
            y = x
        return y

    walked = walk(f, torch.zeros(T, S))
    assert row(walked, "y = x @").comment == "# (T, T)"
    assert row(walked, "except").flow == "taken"


def test_parameters_of_a_module_get_letters_too():
    def f(d_model, d_k):
        layer = nn.Linear(d_model, d_k)
        return layer

    walked = walk(f, S, D_K, dims={"d_model": S, "d_k": D_K})
    (layer,) = row(walked, "layer").made
    assert [part.letters for part in layer.parts] == ["(d_k, d_model)", "(d_k)"]
    page = Page(walked._repr_html_())
    assert "weight (d_k, d_model) 11 × 7, bias (d_k) 11" in page.text
    assert "weight (d_k, d_model)  11 × 7; bias (d_k)  11" in str(walked)


def test_up_to_three_parameters_of_a_module_are_shown_one_by_one():
    for count in range(5):
        module = nn.ParameterList(torch.zeros(i) for i in range(count))
        (value,) = describe("x", module)
        shapes = [(str(i), (i,)) for i in range(count)] if count < 4 else []
        assert [(part.name, part.shape) for part in value.parts] == shapes


def test_a_shape_is_that_of_the_last_pass():
    def f(x):
        for _ in range(3):
            x = torch.cat([x, x])  # (T)
        return x

    assert walk(f, torch.zeros(1)).dims == {"T": 8}


# -- Words and pictures ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: torch.tensor([-1.2345, 3.0]), "−1.23 to 3"),
        (lambda: torch.tensor([0.5, 0.5]), "all 0.50"),
        (lambda: torch.tensor(0.25), "0.25"),
        (lambda: torch.tensor([MINUS_INF, 1.0, MINUS_INF, 2.0]), "2 × −∞, 1 to 2"),
        (
            lambda: torch.tensor([MINUS_INF, math.nan, math.inf]),
            "1 × −∞, 1 × ∞, 1 × nan",
        ),
        (lambda: torch.tensor([True, True, False]), "2 True, 1 False"),
        (lambda: torch.tensor(True), "True"),
        (lambda: torch.tensor([[5, 0], [-7, 3]]), "int64 [[5, 0], [−7, 3]]"),
        (lambda: torch.arange(100), "int64 0 to 99"),
        (lambda: torch.zeros(0, 3), "empty"),
        (lambda: torch.ones(3, dtype=torch.bfloat16), "bfloat16 all 1"),
        (lambda: torch.ones(3, dtype=torch.float32), "float32 all 1"),
        (lambda: torch.ones(3).to(torch.float8_e4m3fn), "float8_e4m3fn all 1"),
        (lambda: torch.tensor([3]), "int64 [3]"),
        (lambda: [nn.Linear(2, 3)], "1 × Linear"),
        (lambda: torch.ones(3, requires_grad=True) * 2, "all 2"),
        (lambda: torch.ones(3, device="meta"), "meta"),
        (lambda: torch.ones(99, device="meta", dtype=torch.bool), "meta"),
        (lambda: torch.ones(2) * 1j, "complex128 [1j, 1j]"),
        (lambda: torch.ones(99) * 1j, "complex128"),
        (lambda: torch.full((99,), 2**63, dtype=torch.uint64), "uint64"),
        (lambda: torch.eye(3).to_sparse(), ""),
        (lambda: [torch.zeros(2, 3)] * 7, "7 × Tensor, each 2 × 3"),
        (lambda: nn.ModuleList([nn.Linear(2, 3)] * 4), "ModuleList of 4, 9 parameters"),
        (lambda: MultiHeadAttention(6, 2), "MultiHeadAttention, 168 parameters"),
        (lambda: nn.Dropout(0.1), "Dropout(p=0.1, inplace=False)"),
        (lambda: torch.Size([2, 3]), "(2, 3)"),
        (lambda: 0.1 + 0.2, "0.3"),
        (lambda: 1.234567, "1.234567"),
        (lambda: 1e-6, "1e-06"),
        (lambda: 0.0, "0.0"),
        (lambda: None, "None"),
        (lambda: torch.float32, "torch.float32"),
        (lambda: "x" * 50, "'" + "x" * 39 + "…'"),
        (lambda: list(range(9)), "[0, 1, 2, 3, 4, 5, …]"),
        (lambda: {"a": [1, {"b": 2}]}, "{'a': [1, dict]}"),
        (lambda: range(3), "range(0, 3)"),
        (lambda: object(), "object"),
        (lambda: nn.Linear, "Linear"),
        (lambda: sign, "sign"),
        (lambda: math, "math"),
    ],
)
def test_values_in_words(make, words):
    assert text(make()) == words


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.eye(3).to_sparse(),
        lambda: torch.ones(3, device="meta"),
        lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    ],
)
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_that_cannot_be_read_do_not_stop_the_run(make):
    def f():
        x = make()
        x = make()
        return x

    assert [value.status for value in walk(f).rows[2].made] == ["changed"]


def test_numbers_have_about_three_digits_and_a_true_minus():
    values = [0, -0.0, 12.345, -0.5, 0.1, 0.05, 0.00123, 1234.5, -1e9, 1e6, MINUS_INF]
    assert [number(value) for value in values] == [
        "0",
        "0",
        "12.35",
        "−0.50",
        "0.10",
        "0.05",
        "0.0012",
        "1.2e+03",
        "−1e+09",
        "1e+06",
        "−∞",
    ]


def test_a_long_text_is_cut():
    layer = torch.nn.Linear(T, S)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.zeros(T)).sum().backward()
    optimizer.step()
    state = dict.fromkeys(range(9), optimizer.state[layer.weight])
    (value,) = describe("state", state)
    assert value.text.startswith("{0: {'step': ")
    assert len(value.text) == 160
    assert value.text.endswith("…")


def test_no_address_ever_shows():
    assert "0x" not in short([object(), sign, nn.Linear, nn.ReLU(), sign.__call__])


def test_signed_numbers_are_coloured_symmetrically_about_zero():
    assert cells(torch.tensor([-4.0, -1.0, 0.0, 2.0])) == [["n4", "n1", "zero", "p2"]]


def test_hidden_scores_and_nan_are_apart_from_the_colours():
    values = torch.tensor([MINUS_INF, float("nan"), 2.0, -2.0])
    assert cells(values) == [["hidden", "nan", "p4", "n4"]]


def test_shares_go_from_nothing_to_one_whatever_the_largest():
    assert cells(torch.tensor([0.0, 0.2, 0.6])) == [["s0", "s1", "s3"]]


def test_eight_bits_have_colours_too():
    values = torch.tensor([-4.0, 1.0]).to(torch.float8_e4m3fn)
    assert cells(values) == [["n4", "p1"]]


def test_masks_have_two_colours():
    assert cells(torch.tensor([[True, False]])) == [["true", "false"]]


def test_a_picture_shows_the_last_item_of_the_leading_axes():
    x = torch.zeros(B, H, 2, 2)
    x[-1, -1, 0, 1] = -3.0
    assert cells(x) == [["zero", "n4"], ["zero", "zero"]]


def test_every_cell_of_a_picture_is_drawn_at_its_place():
    def f():
        return torch.tensor([[MINUS_INF, 1.0], [MINUS_INF, math.nan]])

    html = walk(f)._repr_html_()
    assert '<path class="w-hidden" d="M0 6l6-6M0 13l6-6"/>' in html
    assert '<path class="w-s5" d="M7 0h6v6h-6z"/>' in html
    assert '<path class="w-nan" d="M7 7l6 6m0-6l-6 6"/>' in html


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(13, 2),
        torch.zeros(2, 25),
        torch.zeros(0, 3),
        torch.tensor(1.0),
        torch.zeros(3, dtype=torch.long),
        torch.ones(3, device="meta"),
        torch.eye(3).to_sparse(),
        "words",
    ],
)
def test_what_is_large_empty_or_has_no_range_has_no_picture(value):
    assert cells(value) is None


# -- The page --------------------------------------------------------------------------


class Page(HTMLParser):
    """The text of a page, and the tags in which it stands."""

    def __init__(self, html):
        super().__init__()
        self.stack, self.texts, self.tags = [], [], []
        self.feed(html)
        assert self.stack == [], "every tag is closed"

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag != "wbr":
            self.stack.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.stack.pop() == tag

    def handle_data(self, data):
        if not {"style", "script"} & set(self.stack):
            self.texts.append(data)

    @property
    def text(self):
        return re.sub(r"\s+", " ", "".join(self.texts))

    def with_class(self, name):
        return [tag for tag in self.tags if name in tag[1].get("class", "").split()]


@pytest.fixture
def attended():
    query, key = torch.randn(B, H, T, D_K), torch.randn(B, H, S, D_K)
    mask = torch.ones(B, 1, 1, S, dtype=torch.bool)
    mask[1, ..., 5:] = False
    dims = {"B": B, "H": H, "T": T, "S": S, "d_k": D_K}
    return walk(scaled_dot_product_attention, query, key, key, mask=mask, dims=dims)


def test_the_page_names_the_function_in_full(attended):
    page = Page(attended._repr_html_())
    root = page.tags[0][1]
    assert (
        root["data-walk"]
        == "transformer_lib.model.attention.scaled_dot_product_attention"
    )
    assert "transformer_lib/model/attention.py, lines" in page.text
    assert "/home" not in page.text


def test_files_go_by_their_place_in_the_package_or_by_their_name_alone():
    first = sign.__code__.co_firstlineno
    assert walk(sign, 3).place == f"test_listing.py, lines {first} to {first + 5}"


def test_a_function_from_a_notebook_has_no_file(tmp_path):
    cell = tmp_path / "ipykernel_123" / "456.py"
    cell.parent.mkdir()
    cell.write_text("def f():\n    return 3\n")
    space = {"__name__": "__main__"}
    exec(compile(cell.read_text(), str(cell), "exec"), space)
    assert walk(space["f"]).place == "this notebook, lines 1 to 2"


def test_methods_go_by_their_class():
    layer = MultiHeadAttention(H * D_K, H)
    x = torch.randn(B, T, H * D_K)
    walked = walk(layer, x, x, x)
    assert walked.name == "transformer_lib.model.attention.MultiHeadAttention.forward"
    assert torch.equal(walked.result, layer(x, x, x))


def test_a_screen_reader_gets_note_number_code_and_what_it_made_in_this_order():
    def f(x):
        y = x + 1  # (T)
        return y

    notes = {"def": "Start.", "y": "One *more*.", "return": "End."}
    page = Page(walk(f, torch.zeros(T), notes=notes)._repr_html_())
    line = f.__code__.co_firstlineno + 1
    assert f" One more. Line {line}. y = x + 1 y (T) 5 all 1 " in page.text
    assert all(
        attrs["aria-hidden"] == "true" for tag, attrs in page.tags if tag == "svg"
    )


def test_one_row_is_in_the_tab_order_and_the_others_can_be_reached_from_it():
    page = Page(walk(sign, 3)._repr_html_())
    assert [attrs["tabindex"] for _, attrs in page.with_class("w-row")] == [
        "0",
        *["-1"] * 5,
    ]


def test_lines_not_reached_are_pale_and_say_so():
    walked = walk(sign, 3)
    page = Page(walked._repr_html_())
    assert len(page.with_class("w-pale")) == 2
    assert row(walked, "y = -1").flow == "not reached"
    assert "y = -1 not reached" in page.text


def test_branches_and_loops_say_where_they_went():
    def f(n):
        for i in range(n):
            if i > 1:
                n = i
        for _ in range(n - 2):
            pass
        return n

    walked = walk(f, 3)
    assert [row.flow for row in walked.rows] == [
        "",
        "3 passes",
        "taken 1 of 3 times",
        "",
        "no passes",
        "not reached",
        "",
    ]
    assert row(walk(f, 5), "n = i").flow == "3 times; the last:"
    assert row(walk(sign, 3), "if").flow == "taken"
    assert row(walk(sign, -3), "if").flow == "not taken"
    assert walk(f, 1).rows[1].flow == "1 pass"


def test_lines_in_a_loop_say_how_often_they_ran():
    def f(n):
        for i in range(n):
            print(end="")
            try:
                x = i
            finally:
                print(end="")
        if n < 0:
            x = 0
        else:
            print(end="")
        if n > 0:
            return x
        else:
            return n

    walked = walk(f, 3)
    assert [row.flow for row in walked.rows] == [
        "",
        "3 passes",
        "3 times",
        "",  # try
        "3 times; the last:",
        "",  # finally
        "3 times",
        "not taken",
        "not reached",
        "",
        "",
        "taken",
        "",
        "",  # else, although it was not reached
        "not reached",
    ]


def test_a_block_on_the_line_of_its_header_is_neither_taken_nor_not():
    def f(x):
        if x: x = 1  # noqa: E701  # fmt: skip
        for i in range(x): x = i  # noqa: E701  # fmt: skip
        return x

    assert [row.flow for row in walk(f, 3).rows] == ["", "", "", ""]


def test_whatever_the_data_say_it_is_escaped():
    def f(text):
        key = {text: text}
        # <b>code</b> & comment
        if text < "<script>":  # <i>trailing</i>
            key = "<u>" + text
        raise KeyError(text, key)

    bad = '<script>alert(1)</script>&amp;"'
    notes = {
        "def": "<script>alert(2)</script> `<b>`",
        "key = {": "[x](javascript:alert(3)) $a<b$",
        "if": "-",
        "raise": "**bold** & [link](https://example.org/?a=1&b=2)",
    }
    html = walk(
        f, bad, notes=notes | {'key = "<u>"': "."}, raises=KeyError
    )._repr_html_()
    page = Page(html)
    assert [tag for tag, _ in page.tags if tag == "script"] == ["script"]  # its own
    assert "u" not in {tag for tag, _ in page.tags}
    assert [attrs["href"] for _, attrs in page.tags if "href" in attrs] == [
        "https://example.org/?a=1&b=2"
    ]
    assert page.text.count(bad) == 6  # argument 1, key 2, exception 3
    assert "raised KeyError: " in page.text
    assert r"\(a<b\)" in page.text


def test_notes_are_markdown_with_maths_for_mathjax():
    def f():
        return 3

    note = r"A *b* **c** `d_k` [e](f.html), $x_i * y_j * z$ and 3 $ or 4 $."
    html = walk(f, notes={"def": note, "return": "."})._repr_html_()
    assert (
        "A <em>b</em> <strong>c</strong> <code>d_k</code> "
        '<a href="f.html">e</a>, '
        r'<span class="tex2jax_process">\(x_i * y_j * z\)</span> '
        "and 3 $ or 4 $." in html
    )


def test_the_code_is_coloured_and_keeps_its_indentation():
    html = walk(sign, 3)._repr_html_()
    assert '>    <i class="w-keyword">if</i> x &gt; <i class="w-number">0</i>:' in html
    assert ">        y = -1 <" in html  # not reached: pale, without colours


def test_text_over_several_lines_is_coloured_line_by_line():
    def f():
        text = """one
        two"""
        return text

    html = walk(f)._repr_html_()
    assert '<i class="w-string">    two</i>' in html
    Page(html)


def test_small_values_that_follow_each_other_share_a_line():
    def f(x, y, z, text):
        return x

    html = walk(f, 1, torch.zeros(T), 2, "long " * 9)._repr_html_()
    few = re.findall('<li class="w-few">(.*?)</li>', html)
    assert [Page(line).text for line in few] == ["x 1", "z 2", "returned 1"]
    assert "<b>y</b>" in html
    few = re.findall('<li class="w-few">(.*?)</li>', walk(f, 1, 2, 3, 4)._repr_html_())
    assert [Page(line).text for line in few] == ["x 1 y 2 z 3 text 4", "returned 1"]


def test_two_listings_on_a_page_share_no_id(attended):
    assert " id=" not in attended._repr_html_()


def test_the_page_asks_for_nothing_from_anywhere(attended):
    html = attended._repr_html_()
    assert not re.search(r"https?://|src=|@import|url\(", html)


def test_what_changed_stands_out_and_what_did_not_does_not(attended):
    html = attended._repr_html_()
    assert "<b>scores</b> <em>changed</em>" in html
    assert "<b>weights</b> <span>same values</span>" in html


def test_the_legend_explains_the_pictures_that_there_are(attended):
    text = Page(attended._repr_html_()).text
    assert "below to above zero" in text
    assert "0 to 1" in text
    assert "False, True" in text
    assert "nan" not in text.partition("below to above zero")[2]
    assert "the last item of the leading axes" in text
    assert "below to above zero" not in Page(walk(sign, 3)._repr_html_()).text


# -- The terminal ----------------------------------------------------------------------


def test_a_terminal_gets_the_same_in_88_columns(attended):
    text = str(attended)
    assert max(map(len, text.splitlines())) <= 88
    assert f"\nB = {B}, H = {H}, T = {T}, S = {S}, d_k = {D_K}" in text
    assert "scores  (changed)  (B, H, T, S)  2 × 3 × 5 × 7  30 × −∞" in text
    assert "> x  3\n" in str(walk(sign, 3))
    assert "taken" in text
    assert "not reached" in str(walk(sign, 3, notes=NOTES))
    assert "| Above zero?" in str(walk(sign, 3, notes=NOTES))


def test_a_long_note_is_wrapped_below_its_line():
    def f():
        return 3

    text = str(walk(f, notes={"def": "word " * 40, "return": "."}))
    assert max(map(len, text.splitlines())) <= 88
    assert text.count("word") == 40


def test_no_line_in_a_terminal_ends_with_a_space():
    def f():
        text = """one

        two"""
        return text

    assert not re.search(" $", str(walk(f)), re.MULTILINE)


def test_a_listing_is_the_same_every_time():
    def f(x):
        y = {object(), "a"}
        return x, y

    x = torch.randn(T, S)
    first, second = walk(f, x), walk(f, x)
    assert repr(first) == repr(second)
    assert first._repr_html_() == second._repr_html_()


def test_a_raised_exception_stands_on_its_line():
    def fail(x):
        y = x + 1
        raise ValueError(f"got {y}")

    walked = walk(fail, 2, raises=ValueError)
    assert row(walked, "raise").raised == "ValueError: got 3"
    assert "raised ValueError: got 3" in str(walked)
    assert str(walked.error) == "got 3"
    assert walked.result is None
