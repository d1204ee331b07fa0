"""What an exercise is: its question, its tests, its answers, and wrong answers."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

Case = dict[str, object]  # the arguments of one call, by the names of the question


class Fault(Exception):
    """What is wrong with an answer.

    Args:
        says: One sentence.
        case: The arguments that show it.
        result: What the answer returned.
        at: The index of the first wrong number in it.
        trace: Where the answer raised.
        raised: The name of what it raised, or nothing.
    """

    def __init__(
        self,
        says: str,
        case: Case | None = None,
        result: object = None,
        at: tuple[int, ...] | None = None,
        trace: str = "",
        raised: str = "",
    ) -> None:
        super().__init__(says)
        self.says, self.case, self.result = says, case, result
        self.at, self.trace, self.raised = at, trace, raised

    @property
    def interrupted(self) -> bool:
        """Whether the reader has stopped the answer."""
        return self.raised == "KeyboardInterrupt"


def same(
    run: Callable,
    case: Case,
    results: slice = slice(None),
    rtol: float = 1e-5,
    atol: float = 1e-7,
) -> None:
    """Compare every number, or other result, with the solution's.

    Args:
        run: Calls the answer, ``run(case)``, or the solution, ``run.solution(case)``.
            Both return a tuple of results.
        case: The arguments.
        results: Which results to compare, if not all of them.
        rtol, atol: As in ``torch.isclose``.

    Raises:
        Fault: With the index of the first number that differs.
    """
    both = list(zip(run(case), run.solution(case), strict=True))
    for result, expected in both[results]:
        if not isinstance(expected, Tensor):
            if result != expected:
                raise Fault("", case, result)
            continue
        result = result.to(expected)
        wrong = ~torch.isclose(result, expected, rtol, atol, equal_nan=True)
        if wrong.any():
            at = tuple(wrong.nonzero()[0].tolist())
            raise Fault("", case, result, at)


def roughly(run: Callable, case: Case) -> None:
    """Compare so loosely that a table in float32 passes, and another small eps."""
    same(run, case, rtol=1e-4, atol=1e-4)


@dataclass(frozen=True)
class Idea:
    """One thing that a correct answer does.

    Args:
        name: One word, for the lists of what wrong answers must fail.
        says: What is tested, a sentence that the reader sees.
        hint: What to think about if the test fails: a sentence, never the solution.
            A ``Fault`` that says something itself replaces it.
        cases: Arguments to try, the smallest first.
        compare: Raises ``Fault`` if the answer is wrong for a case; see ``same``.
        more: The hints after the second and the third failure of this test, where the
            exercise's idea and line are about something else.
    """

    name: str
    says: str
    hint: str
    cases: Sequence[Case]
    compare: Callable = same
    more: tuple[str, ...] = ()


@dataclass(eq=False)  # two are never equal, so that results can be kept by it
class Build:
    """A function to write. Anything that can be called with the arguments is accepted.

    Args:
        name: The chapter's label and a number, such as ``masks-4``.
        title: A few words.
        task: The question, in Markdown.
        call: The call as the reader writes it, such as ``f(scores, mask)``.
        returns: The axes of each result by its name, such as ``{"mask": "B 1 1 S"}``;
            a type, such as ``list``, for a result that is no tensor.
        example: The arguments of the first tests. Choose sizes that all differ.
        ideas: The chapter's tests, the most basic one first.
        hints: Where to look, the idea, and the line of the chapter.
        answer: The explanation below the solution, in Markdown.
        rights: Correct answers; the first one is the solution.
        compare: Raises ``Fault`` if the answer is wrong for an input, small or large.
        forbids: Parts of the names of functions that the task forbids.
    """

    name: str
    title: str
    task: str
    call: str
    returns: dict[str, str | type]
    example: Case
    ideas: Sequence[Idea]
    hints: tuple[str, str, str]
    answer: str
    rights: list[Callable] = field(default_factory=list)
    compare: Callable = roughly
    forbids: tuple[str, ...] = ()
    kind = "Build"

    def right(self, answer: Callable) -> Callable:
        """Add a correct answer, as a decorator; of a class, an object."""
        self.rights.append(answer() if isinstance(answer, type) else answer)
        return answer


@dataclass
class Predict:
    """A question whose answer the reader commits to before the page shows it.

    Args:
        name, title, task, hints, answer: As in ``Build``; one hint is enough.
        right: The correct answer: a text to choose, a number, or a tuple, a shape.
        replies: A sentence for the correct answer and for each likely wrong one. Texts
            are offered in this order.
        otherwise: The sentence for any other number or shape.
        computed: Computes ``right``; a test compares both.
    """

    name: str
    title: str
    task: str
    right: object
    replies: dict[object, str]
    hints: tuple[str, ...]
    answer: str
    otherwise: str = "That is not it."
    computed: Callable[[], object] | None = None
    kind = "Predict"


@dataclass
class Break:
    """A changed function: which of the checks fail?

    Args:
        name, title, task, hints, answer: As in ``Build``.
        broken: The changed function.
        intact: The function before the change, which passes every check.
        checks: A letter for each check, with the check in words, a function of the
            broken or intact one that returns whether it holds, and the sentence that
            explains the result.
    """

    name: str
    title: str
    task: str
    broken: Callable
    intact: Callable
    checks: dict[str, tuple[str, Callable[[Callable], bool], str]]
    hints: tuple[str, ...]
    answer: str
    kind = "Break"

    @property
    def right(self) -> frozenset[str]:
        """The letters of the checks that the broken function fails."""
        return frozenset(
            letter
            for letter, (_, holds, _) in self.checks.items()
            if not holds(self.broken)
        )


Exercise = Build | Predict | Break


def numbers(*shape: int, seed: int = 0) -> Tensor:
    """Draw normal numbers in float64, the same each time, for a case."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def table(values: list) -> Tensor:
    """Make a float64 tensor for a case, whatever the default dtype is."""
    return torch.tensor(values, dtype=torch.float64)
