import pytest

from transformer_lib.checks import require_type


@pytest.mark.parametrize(
    ("kind", "value"),
    [(int, 3), (float, 3), (float, 0.5), (bool, False), (str, "3"), (int | None, None)],
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
        (int, "3", "value must be int, got '3'"),
        (int | None, 1.5, r"value must be int \| None, got 1\.5"),
    ],
)
def test_what_is_not_of_the_type_is_named(kind, value, error):
    with pytest.raises(ValueError, match=error):
        require_type(kind, value=value)
