"""The finished translator, and the command that trains, measures and uses one."""

from transformer_lib.translation.translator import Translator

__all__ = ["Translator"]
