"""A student's folder in a process of its own; see ``bookkit.exercises.calling``."""

from pathlib import Path

import torch

from bookkit.exercises.calling import Raised, Worker, apart, own_lines, packed, plain
from transformer_lib.model import TransformerConfig
from your_transformer.milestones import MILESTONES
from your_transformer.pieces import float64
from your_transformer.progress import BY_NAME, load_adapters


class Student(Worker):
    """Answers the requests of a grader about one folder."""

    def folder(self, path: str) -> dict:
        """Import the adapters."""
        try:
            self.adapters = load_adapters(Path(path))
        except (ValueError, FileNotFoundError) as error:
            raise Raised(str(error)) from None
        self.names = {"torch": torch, "TransformerConfig": TransformerConfig}
        for name, piece in BY_NAME.items():
            if hasattr(self.adapters, name):
                self.answers[name] = piece.answer(self.adapters)
        return {}

    def call(self, *request: object) -> dict:
        with float64():
            return super().call(*request)

    def gradients(self, *request: object) -> dict:
        with float64():
            return super().gradients(*request)

    def milestone(self, name: str) -> dict:
        """Run a milestone, and return its values."""
        try:
            return {"values": packed(MILESTONES[name][0](self.adapters))}
        except BaseException as error:
            raise Raised(plain(error), own_lines(error)) from None


if __name__ == "__main__":
    apart(Student)
