"""The script that changes the library, to see whether a test or a chapter notices."""

import ast
import json

import mutants
import pytest

SOURCE = '''"""A module with the number 1."""

LIMIT = 3


def first(x: int = 1) -> int:
    """Return one more than 1."""
    if x < 2 and x != 0:
        raise ValueError(f"got {x + 1}")
    note(x)
    return pick(x * 2, dim=-1)
'''


def changes(source):
    return {(m.before, m.after) for m in mutants.mutants_of("module", source)}


def test_each_mutant_is_the_module_with_one_other_line():
    for mutant in mutants.mutants_of("module", SOURCE):
        ast.parse(mutant.source)
        lines = zip(SOURCE.splitlines(), mutant.source.splitlines(), strict=True)
        other = [i for i, (old, new) in enumerate(lines, start=1) if old != new]
        assert other == [mutant.line]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("LIMIT = 3", "LIMIT = 4"),
        ("def first(x: int = 1) -> int:", "def first(x: int = 2) -> int:"),
        ("if x < 2 and x != 0:", "if (x <= 2) and x != 0:"),
        ("if x < 2 and x != 0:", "if x < 2 and (x == 0):"),
        ("if x < 2 and x != 0:", "if (x < 2 or x != 0):"),
        ("note(x)", "pass"),
        ("return pick(x * 2, dim=-1)", "return None"),
        ("return pick(x * 2, dim=-1)", "return pick((x / 2), dim=-1)"),
        ("return pick(x * 2, dim=-1)", "return (pick(x * 2))"),
        ("return pick(x * 2, dim=-1)", "return pick(x * 2, dim=(1))"),
    ],
)
def test_comparisons_numbers_calls_and_results_are_changed(before, after):
    assert (before, after) in changes(SOURCE)


def test_words_types_and_errors_stay():
    changed = {before for before, _ in changes(SOURCE)}
    assert not any('"' in line for line in changed)
    assert not any(": str" in after for _, after in changes("def f(x: 3): ..."))


def test_the_order_of_mutants_depends_on_their_lines_alone():
    ranks = {m.rank for m in mutants.mutants_of("module", SOURCE)}
    below = {m.rank for m in mutants.mutants_of("module", "\n# more\n" + SOURCE)}
    assert ranks == below


def test_a_chapter_runs_without_the_notes_of_its_listings():
    cells = [
        {"cell_type": "markdown", "source": ["Words"]},
        {"cell_type": "code", "source": ["walk(f, 1, notes={'x = 1': 'why'})\n", "g"]},
    ]
    code = mutants.chapter_code(json.dumps({"cells": cells}))
    assert "walk(f, 1)" in code
    assert "Words" not in code


def test_the_tests_of_a_module_come_first_and_the_chapters_that_use_it_follow():
    names = [path.name for path in mutants.watchers("masks")]
    assert names[0] == "test_masks.py"
    assert "05_masks.ipynb" in names
    assert not any("widget" in name for name in names)
