"""Every kind of attention in the library, and choices that it accepts.

A new kind is found by itself: its choices are the fields of its dataclass.
"""

import inspect
from dataclasses import fields
from importlib import import_module
from pkgutil import iter_modules
from random import Random

from hypothesis import assume
from hypothesis import strategies as st

from transformer_lib.variants import Variant, attention

# What a choice may be, by its type; the texts of the contract are 13 tokens long.
VALUES = {int: (0, 1, 2, 3, 4, 5, 7, 12, 13, 14), bool: (False, True)}


KINDS = [
    found
    for module in iter_modules(attention.__path__, f"{attention.__name__}.")
    for found in vars(import_module(module.name)).values()
    if getattr(found, "__module__", None) == module.name
    and (isinstance(found, type) and issubclass(found, Variant))
    and not inspect.isabstract(found)
]


def may_be_causal(kind):
    return "causal" in inspect.signature(kind).parameters


def choices_of(kind):
    """The types of what a kind is made with besides ``causal``, by their names."""
    return {f.name: f.type for f in fields(kind) if f.init and f.name != "causal"}


def made(kind, choices, heads, causal):
    """A variant for so many heads, or None if the kind refuses these choices."""
    if "num_heads" in choices:
        choices = choices | {"num_heads": heads}
    if may_be_causal(kind):
        choices = choices | {"causal": causal}
    try:
        return kind(**choices)
    except ValueError:
        return None


def a_few(kind, heads, causal, most=12):
    """The same few variants of a kind each time, with small numbers for the most."""
    chance, found = Random(0), {}
    for _ in range(500):
        drawn = {
            name: min(chance.choices(VALUES[of_type], k=3))
            for name, of_type in choices_of(kind).items()
        }
        variant = made(kind, drawn, heads, causal)
        if variant is not None and len(found) < most:
            found[variant] = True
    return list(found)


@st.composite
def variants(draw, kind, heads, causal):
    """Any variant of a kind."""
    drawn = {
        name: draw(st.sampled_from(VALUES[of_type]))
        for name, of_type in choices_of(kind).items()
    }
    assume(variant := made(kind, drawn, heads, causal))
    return variant
