"""The finished translator, and the command that trains, measures and uses one."""

__all__ = ["Translator"]


def __getattr__(name: str) -> object:
    """Import the translator when somebody asks: the command begins before torch."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from transformer_lib.translation.translator import Translator

    return Translator
