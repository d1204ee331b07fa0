"""Which calls of its own package a listing makes without a word about them."""

import inspect
import re
from types import FunctionType

from bookkit.listing.rows import Part, Row


def unmentioned_calls(part: Part) -> list[str]:
    """List the calls that a note covers and does not name.

    The line that a note begins with needs no name: the note stands beside it. Refusals
    and calls of submodules need none either.

    Returns:
        The names of the functions, methods and classes of the function's own package,
        each with its line: ``padding_mask (line 12)``.
    """
    found = []
    for group in part.groups:
        rows = [item for item in group.items[1:] if isinstance(item, Row)]
        for row in rows if group.note else []:
            for call in row.statement.called:
                name = call.rpartition(".")[2]
                is_named = re.search(rf"\b{re.escape(name)}\b", group.note)
                if not is_named and _is_own(call, part.function):
                    found.append(f"{name} (line {row.statement.first})")
    return found


def _is_own(call: str, function: FunctionType) -> bool:
    """Whether a dotted name is a function, method or class of the same package."""
    first, *others = call.split(".")
    if first in ("self", "cls") and others:
        owner = function.__qualname__.rpartition(".")[0].split(".")
        first, others = owner[0], [*owner[1:], *others]
    value = function.__globals__.get(first)  # None for self, cls and what is local
    for name in others:
        value = inspect.getattr_static(value, name, None)
    value = inspect.unwrap(getattr(value, "__func__", value))
    if not (inspect.isfunction(value) or inspect.isclass(value)):
        return False
    package, own = (x.__module__.partition(".")[0] for x in (value, function))
    return package == own
