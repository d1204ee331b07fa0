"""Replace attributes of live objects for a while, and put them back in order."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any, Self

ABSENT = object()  # the object has no attribute of its own: its class answers


class Swapped:
    """Attributes that were replaced, and what they were before.

        with Swapped([(layer, "attend", window), (model, "target_mask", in_words)]):
            model(src, tgt)

    They are replaced at once. Without ``with`` they stay so until ``restore``. If an
    error or an interruption comes before all are replaced, none is.

    Args:
        changes: An object, the name of one of its plain attributes or methods, and the
            new value, for each attribute. Parameters, buffers and submodules are not
            plain attributes.

    Raises:
        ValueError: If an attribute is not plain, or is named twice.
    """

    def __init__(self, changes: Iterable[tuple[Any, str, Any]]) -> None:
        self._changes = list(changes)
        _require_plain(self._changes)
        with ExitStack() as undo:
            for target, name, value in self._changes:
                undo.callback(_put, target, name, vars(target).get(name, ABSENT))
                _put(target, name, value)
            self._undo = undo.pop_all()

    def restore(self) -> None:
        """Give the attributes their earlier values. A second call does nothing.

        Raises:
            ValueError: If an attribute got another value in the meantime: the latest
                replacement goes first. Nothing is changed then.
        """
        for target, name, value in self._changes:
            found = vars(target).get(name, ABSENT)
            if found is not value:
                raise ValueError(
                    f"{name} of a {type(target).__name__} must still be "
                    f"{described(value)} to become what it was before, "
                    f"got {described(found)}"
                )
        self._changes = []
        self._undo.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, *__: object) -> None:
        try:
            self.restore()
        except ValueError as another:
            if error is None:
                raise
            error.add_note(str(another))  # the first is the one to mend


def _require_plain(changes: Iterable[tuple[Any, str, Any]]) -> None:
    """Refuse what could not be put back."""
    seen = set()
    for target, name, _ in changes:
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in vars(target).get(kind, {}):
                raise ValueError(
                    f"{name} of a {type(target).__name__} must be a plain attribute, "
                    f"got one of {kind}"
                )
        if (id(target), name) in seen:
            raise ValueError(
                f"{name} of a {type(target).__name__} must be replaced once, got twice"
            )
        seen.add((id(target), name))


def described(value: object) -> str:
    """Name a function, or whatever else was put in the place of one, for an error."""
    if value is ABSENT:
        return "the method of its class"
    return getattr(value, "__name__", repr(value))


def _put(target: Any, name: str, value: object) -> None:
    if value is not ABSENT:
        setattr(target, name, value)
    elif name in vars(target):
        delattr(target, name)
