"""Refuse a model with parts that its replacement would ignore."""

from collections.abc import Collection, Iterable

from torch import nn

from transformer_lib.model import fused_attention


def unknown_part(
    modules: Iterable[tuple[str, nn.Module]], known: Collection[type]
) -> str | None:
    """Find a module that does something other than what its class is known for.

    It is of another class, or it has a hook, a method that was set on the object
    itself, or another ``attend`` than ``fused_attention``.

    Args:
        modules: Names and modules, as ``named_modules`` lists them.
        known: The known classes. A subclass of one is not known.

    Returns:
        What is unknown about the first such module, with its name; None if there is
        none.
    """
    for name, module in modules:
        where = name or "the model"
        if type(module) not in known:
            return f"a {type(module).__name__} as {where}"
        if module._forward_hooks or module._forward_pre_hooks:
            return f"a hook at {where}"
        for attribute in vars(module):
            if callable(getattr(type(module), attribute, None)):
                return f"a {attribute} of its own at {where}"
        if getattr(module, "attend", fused_attention) is not fused_attention:
            return f"another attention at {where}"
    return None


def require_plain(
    modules: Iterable[tuple[str, nn.Module]], known: Collection[type]
) -> None:
    """Raise ``ValueError`` if ``unknown_part`` finds a module, and name it."""
    found = unknown_part(modules, known)
    if found is not None:
        raise ValueError(f"model must hold only what is known here, got {found}")
