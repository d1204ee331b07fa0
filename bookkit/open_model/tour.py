"""The guided tour: one idea each, on a state of the page, with a question."""

from typing import NamedTuple


class Choice(NamedTuple):
    """An answer to choose, and what is said of it."""

    text: str
    says: str
    right: bool = False


class Step(NamedTuple):
    """A step of the tour.

    Args:
        id: Its name in an address.
        title: The idea in a few words.
        text: The idea in two or three sentences.
        state: What the page shows: ``node``, and if needed ``row`` (a source token),
            ``step`` (a decoding step), ``head``, ``column`` and ``changes``.
        ask: A question that the picture answers.
        choices: Two to four; one is right.
    """

    id: str
    title: str
    text: str
    state: dict[str, object]
    ask: str
    choices: tuple[Choice, ...]

    def as_data(self) -> dict[str, object]:
        """Return what JSON can hold."""
        return self._asdict() | {"choices": [c._asdict() for c in self.choices]}


TOUR = (
    Step(
        "tokens",
        "A sentence becomes numbers",
        "The model cannot read letters. Its tokenizer cuts the sentence into tokens, and each "
        "token has a number in the vocabulary. EOS marks the end of the sentence.",
        {"node": "src.ids"},
        "What does the model receive of the word “cat”?",
        (
            Choice("Its letters", "The letters are gone after this step."),
            Choice("One number", "It is number 425 of the vocabulary.", right=True),
            Choice("Its meaning", "Nothing knows a meaning yet. Look at the next step."),
        ),
    ),
)
