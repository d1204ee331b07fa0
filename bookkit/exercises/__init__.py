"""Exercises that check themselves: ``check("masks-4", answer)``.

A chapter's exercises are in ``pages/NAME/exercises.py``, where NAME is its label. The
exercises section of its notebook is written from them.
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
