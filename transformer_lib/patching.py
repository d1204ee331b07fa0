"""Replace attributes of live objects for a while."""

from collections.abc import Iterable
from contextlib import ExitStack
from typing import Any


def patched(changes: Iterable[tuple[Any, str, Any]]) -> ExitStack:
    """Replace attributes at once, and put them back when a ``with`` block ends.

        with patched([(layer, "attend", window), (model, "target_mask", in_words)]):
            model(src, tgt)

    Without ``with``, they stay replaced until ``close``; close the latest replacement
    first. After an error half way, everything is as it was.

    Args:
        changes: An object, the name of one of its plain attributes or methods, and the
            new value, for each attribute.
    """
    with ExitStack() as undo:
        for target, name, value in changes:
            own = vars(target)
            if name in own:
                undo.callback(setattr, target, name, own[name])
            else:  # its class has it
                undo.callback(own.pop, name, None)
            setattr(target, name, value)
        return undo.pop_all()
