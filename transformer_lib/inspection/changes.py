"""Find out what a statement made: compare what its names held before and after."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any

from torch import Tensor, nn

from transformer_lib.inspection.statements import Statement
from transformer_lib.inspection.values import Value, describe, same_values

MISSING = object()


@dataclass
class Held:
    """What a name held: the object, and what tells that it was changed in place."""

    value: Any
    state: Any = None

    def __post_init__(self) -> None:
        if isinstance(self.value, Tensor) and not self.value.is_inference():
            self.state = self.value._version
        elif isinstance(self.value, dict):
            self.state = [*self.value.keys(), *self.value.values()]
        elif isinstance(self.value, (list, set)):
            self.state = list(self.value)

    def is_unchanged_since(self, before: "Held") -> bool:
        if self.value is not before.value:
            return False
        if not isinstance(self.state, list):
            return self.state == before.state
        return list(map(id, self.state)) == list(map(id, before.state))


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
        if owner not in renewed:  # else the attribute is part of a new object
            status = (
                ""
                if statement.is_a(ast.For)
                else _status(before.get(name), after[name])
            )
            yield from describe(name, after[name].value, status)


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
    if isinstance(value, (type, FunctionType, ModuleType, Tensor)):
        return {}
    stored = getattr(value, "__dict__", {})
    if not isinstance(value, nn.Module):
        return stored
    kinds = (stored.get(kind, {}) for kind in ("_parameters", "_buffers", "_modules"))
    return stored | {name: inner for kind in kinds for name, inner in kind.items()}
