"""Tables of calls that are refused: the error, what it says, and the call."""

import re

import pytest


def over(rows):
    """Run a test for each row: its error, a part of its message, and the call."""
    named = [pytest.param(*row, id=row[1]) for row in rows]
    return pytest.mark.parametrize(("error", "text", "call"), named)


def assert_refused(error, text, call):
    with pytest.raises(error, match=re.escape(text)):
        call()
