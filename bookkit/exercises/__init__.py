"""Exercises that check themselves: ``check("masks-4", answer)``.

Each chapter's exercises are in the module with the name of its label. The exercises
section of the chapter is written from them.
"""

from bookkit.exercises.checking import check, exercises, load
from bookkit.exercises.exercise import (
    Break,
    Build,
    Fault,
    Idea,
    Predict,
    numbers,
    same,
    table,
)

__all__ = [
    "Break",
    "Build",
    "Fault",
    "Idea",
    "Predict",
    "check",
    "exercises",
    "load",
    "numbers",
    "same",
    "table",
]
