"""Find out what a statement made: compare what its names held before and after."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from bookkit.listing.statements import Statement
from bookkit.listing.values import MOST_ITEMS, Value, describe, same_values, short

MISSING = object()


@dataclass
class Held:
    """What a name held: the object, and what tells that it was changed in place."""

    value: Any
    version: int = 0
    items: dict[Any, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.value, Tensor) and not self.value.is_inference():
            self.version = self.value._version
        elif isinstance(self.value, dict):
            self.items = dict(self.value)
        elif isinstance(self.value, list):
            self.items = dict(enumerate(self.value))

    def is_unchanged_since(self, before: "Held") -> bool:
        return (
            self.value is before.value
            and self.version == before.version
            and self.items.keys() == before.items.keys()
            and not self.new_items(before)
        )

    def new_items(self, before: "Held") -> dict[Any, Any]:
        """Find what a dictionary or list holds now and did not hold there before."""
        return {
            key: item
            for key, item in self.items.items()
            if before.items.get(key, MISSING) is not item
        }


def take_stock(statement: Statement, namespace: dict[str, Any]) -> dict[str, Held]:
    """Look up every name in a statement, and the attributes stored in its objects."""
    stock = {}
    for name in statement.names:
        value = _look_up(name, namespace)
        if value is MISSING:
            continue
        stock[name] = Held(value)
        for attribute, inner in _stored(value).items():
            if not attribute.startswith("_"):
                stock.setdefault(f"{name}.{attribute}", Held(inner))
    return stock


def describe_changes(
    statement: Statement, before: dict[str, Held], after: dict[str, Held], raised: bool
) -> Iterator[Value]:
    """Describe what a statement assigned to, then whatever else it changed."""
    renewed = {
        name
        for name, held in after.items()
        if name not in before or held.value is not before[name].value
    }
    changed = [
        name
        for name, held in after.items()
        if name in renewed or not held.is_unchanged_since(before[name])
    ]
    targets = [] if raised else [name for name in statement.targets if name in after]
    for name in dict.fromkeys([*targets, *changed]):
        owner = name.rpartition(".")[0]
        if owner in renewed:
            continue  # an attribute of a new object
        old, new = before.get(name), after[name]
        status = "" if statement.is_a(ast.For) else _status(old, new)
        items = new.new_items(old) if status == "changed in place" else {}
        if 0 < len(items) <= MOST_ITEMS:
            for key, item in items.items():
                status = "changed" if key in old.items else ""
                yield from describe(f"{name}[{short(key)}]", item, status)
        elif statement.reads_clock and isinstance(new.value, int | float):
            yield Value(name, "read from a clock", status)  # another in every run
        else:
            yield from describe(name, new.value, status)


def _status(before: Held | None, after: Held) -> str:
    if before is None:
        return ""
    if after.is_unchanged_since(before):
        return "same values"
    if after.value is before.value:
        return "changed in place"
    return "same values" if same_values(before.value, after.value) else "changed"


def _look_up(dotted: str, namespace: dict[str, Any]) -> Any:
    """Follow a dotted name through stored attributes only: no property runs."""
    first, *rest = dotted.split(".")
    value = namespace.get(first, MISSING)
    for attribute in rest:
        value = _stored(value).get(attribute, MISSING)
    return value


def _stored(value: Any) -> dict[str, Any]:
    stored = getattr(value, "__dict__", {})
    if not isinstance(value, nn.Module):
        return stored
    kinds = (stored.get(kind, {}) for kind in ("_parameters", "_buffers", "_modules"))
    return stored | {name: inner for kind in kinds for name, inner in kind.items()}
