from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NotRequired, TypedDict

import pytest

from transformer_lib.checks import require_type


@dataclass
class Pair:
    one: int
    other: float = 0.0


class Record(TypedDict):
    name: str
    pairs: list[Pair]
    files: Mapping[str, Sequence[str]] | None
    earlier: NotRequired[list[str]]


WHOLE = {"name": "a", "pairs": [{"one": 1}, {"one": 2, "other": 3}], "files": None}


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (int, 3),
        (float, 3),
        (float, 0.5),
        (bool, False),
        (int | None, None),
        (dict[str, list[int]], {"a": [1, 2], "b": []}),
        (Record, WHOLE),
        (Record, {**WHOLE, "files": {"a": ["b", "c"]}, "earlier": [], "more": 1}),
    ],
)
def test_what_is_of_the_type_is_taken(kind, value):
    require_type(kind, value=value)


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (int, True, "value must be int, got True"),
        (float, False, "value must be float, got False"),
        (bool, 1, "value must be bool, got 1"),
        (int, 1.5, "value must be int, got 1.5"),
        (int, None, "value must be int, got None"),
        (int | None, 1.5, r"value must be int \| None, got 1\.5"),
        (Sequence[str], "ab", r"value must be .*Sequence\[str\], got 'ab'"),
        (list[str], ["a", 1], r"value\.1 must be str, got 1"),
        (dict[str, int], {"a": "b"}, r"value\.a must be int, got 'b'"),
        (Record, [], r"value must be Record, got \[\]"),
        (Record, {}, "value must have files, name, pairs"),
        (Record, {**WHOLE, "files": "x"}, r"value\.files must be .*Mapping.* got 'x'"),
        (Record, {**WHOLE, "files": {"a": "bc"}}, r"value\.files\.a must be .* 'bc'"),
        (Record, {**WHOLE, "pairs": [{}, 5]}, r"value\.pairs\.1 must be Pair, got 5"),
        (Record, {**WHOLE, "pairs": [{"one": "x"}]}, r"pairs\.0\.one must be int"),
        (Record, {**WHOLE, "earlier": None}, r"value\.earlier must be list\[str\]"),
    ],
)
def test_what_is_not_of_the_type_is_named_wherever_it_is(kind, value, error):
    with pytest.raises(ValueError, match=error):
        require_type(kind, value=value)


def test_a_value_is_quoted_in_short():
    with pytest.raises(ValueError, match="must be int") as caught:
        require_type(int, value=["x" * 1000] * 1000)
    assert len(str(caught.value)) < 300
