"""Training, with the reader at the controls: start, stop, continue, compare."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import count

import torch
from matplotlib.figure import Figure

from bookkit.plotting import LINES
from pages.laboratory.panel import Panel, Table, choose, press, slide
from transformer_lib.data import Batch, Tokenizer, make_batch, token_batches
from transformer_lib.data.corpora.grammar import RUNNING, splits
from transformer_lib.decoding import greedy_decode
from transformer_lib.model import Transformer, TransformerConfig
from transformer_lib.training import TrainingConfig, evaluate, train_step

UPDATES = 300  # that a press of a button makes at most
EVERY = 20  # updates between two measurements
PLATEAU = 100  # the update from which a rate falls, if it does not rise still
MAX_TOKENS = 300  # of a batch
REDRAW = 1.0  # seconds between two pictures
ENGLISH, GERMAN = RUNNING[0]


@dataclass(frozen=True)
class Choices:
    """The settings of a run.

    Args:
        norm: ``"post-norm"`` or ``"pre-norm"``.
        warm_up: The number of updates in which the rate rises to its peak.
        peak: The highest learning rate.
        num_layers: The number of layers of each stack.
        d_model: Width of the model.
        smoothing: The label smoothing.
        seed: Sets the weights and the order of the data.
    """

    norm: str = "post-norm"
    warm_up: int = 100
    peak: float = 0.0075
    num_layers: int = 2
    d_model: int = 64
    smoothing: float = 0.1
    seed: int = 1

    def rate(self, step: int) -> float:
        """Return the learning rate of an update; the first is update 1.

        It rises, stays at its peak up to update 100, and falls as 1 / sqrt(step). With
        a warm-up of 100 or more that is the paper's formula, times a factor.
        """
        rising = step / self.warm_up if self.warm_up else 1.0
        falling = (max(self.warm_up, PLATEAU) / step) ** 0.5
        return self.peak * min(1.0, rising, falling)

    def __str__(self) -> str:
        """Name the norm, the warm-up, changed defaults, and the seed."""
        told = [self.norm, f"warm-up {self.warm_up}"]
        usual = Choices()
        for name in ("peak", "num_layers", "d_model", "smoothing"):
            if getattr(self, name) != getattr(usual, name):
                told.append(f"{name} {getattr(self, name)}")
        return ", ".join([*told, f"seed {self.seed}"])


@dataclass
class Curve:
    """The measurements of a run.

    Args:
        choices: How it was trained.
        steps: The updates after which it was measured.
        losses: The validation losses then, in nats per token.
        translation: The last translation of the book's sentence.
        speed: Target tokens per second in training.
    """

    choices: Choices
    steps: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    translation: str = ""
    speed: float = 0.0


@cache
def corpus() -> tuple[Tokenizer, list, list[Batch]]:
    """Return the tokenizer, the training pairs, and the validation batches."""
    drawn = splits(train=4000, validation=100, test=0, longer=0)
    texts = [text for pair in drawn.train for text in pair]
    tokenizer = Tokenizer.train(texts, vocab_size=1000)
    train, held_out = (
        [tuple(map(tokenizer.encode, pair)) for pair in part]
        for part in (drawn.train, drawn.validation)
    )
    return tokenizer, train, list(token_batches(held_out, 8 * MAX_TOKENS))


class Run:
    """A model that learns the grammar, an update at a time.

    Args:
        choices: The settings.

    Attributes:
        step: Updates made so far.
        curve: The measurements so far.
    """

    def __init__(self, choices: Choices) -> None:
        self.tokenizer, train, self.validation = corpus()
        with torch.random.fork_rng([]):
            torch.manual_seed(choices.seed)
            self.model = Transformer(
                TransformerConfig(
                    src_vocab_size=self.tokenizer.vocab_size,
                    tgt_vocab_size=self.tokenizer.vocab_size,
                    d_model=choices.d_model,
                    num_heads=4,
                    d_ff=2 * choices.d_model,
                    num_layers=choices.num_layers,
                    dropout=0.0,
                    norm_first=choices.norm == "pre-norm",
                    max_len=64,
                    share_embeddings=True,
                    tie_output=True,
                )
            )
        self.config = TrainingConfig(smoothing=choices.smoothing)
        parameters = self.model.parameters()
        self.optimizer = torch.optim.Adam(parameters, betas=(0.9, 0.98), eps=1e-9)
        self.batches = _endless(train, choices.seed)
        self.curve, self.step = Curve(choices), 0
        self._tokens, self._seconds = 0, 0.0

    def advance(self) -> None:
        """Make an update, and measure after every twentieth."""
        began = time.perf_counter()
        self.step += 1
        rate = self.curve.choices.rate(self.step)
        batch = next(self.batches)
        _, tokens = train_step(self.model, self.optimizer, batch, rate, self.config)
        self._tokens += tokens
        self._seconds += time.perf_counter() - began
        if self.step % EVERY == 0:
            self.measure()

    def measure(self) -> None:
        """Add a point to the curve."""
        self.curve.losses.append(evaluate(self.model, self.validation)[0])
        self.curve.steps.append(self.step)
        self.curve.speed = self._tokens / self._seconds
        self.curve.translation = self.translate(ENGLISH)

    def translate(self, english: str) -> str:
        """Translate greedily, as well as the model can by now."""
        src = make_batch([(self.tokenizer.encode(english), [])]).src
        written = greedy_decode(self.model, src, max_len=16)
        return self.tokenizer.decode(written[0])


def _endless(pairs: Sequence, seed: int) -> Iterator[Batch]:
    """Go through the pairs again and again, in a new order each time."""
    for epoch in count(1):
        yield from token_batches(pairs, MAX_TOKENS, seed=f"{seed} {epoch}")


class TrainingLaboratory(Panel):
    """A panel that trains in a thread of its own, so that the kernel stays free.

    It never starts by itself. Earlier runs stay in sight, the last four in all.

    Args:
        record: Recorded runs to begin with, as ``measurements/laboratory.py`` writes
            them: a row for each measurement, the rows of a run together.
    """

    def __init__(self, record: Sequence[dict[str, str]] = ()) -> None:
        self.curves = curves_of(record)
        self.active: Run | None = None
        self._halt, self._thread = threading.Event(), None
        self._waiting: threading.Thread | None = None
        super().__init__(
            "Training laboratory",
            self.wait,
            norm=choose("norm", ["post-norm", "pre-norm"], "post-norm"),
            warm_up=slide("warm-up", [0, 10, 25, 50, 100, 200], 0),
            peak=slide("peak rate", [0.001, 0.0025, 0.005, 0.0075, 0.015], 0.0075),
            num_layers=slide("layers", [1, 2, 3, 4], 2),
            d_model=slide("d_model", [32, 64, 128], 64),
            smoothing=slide("smoothing", [0.0, 0.1, 0.3], 0.1),
            seed=slide("seed", [1, 2, 3], 2),
            begin=press("Start a new run", self.begin),
            halt=press("Stop", self.halt),
            go_on=press("Go on", self.go_on),
            forget=press("Forget the runs", self.forget),
        )

    @property
    def is_running(self) -> bool:
        """Whether a run is under way."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self, **choices: str | float) -> tuple:
        """Say what a press of the button would begin."""
        return self._told(f"The next new run: {Choices(**choices)}.")

    def begin(self, **choices: str | float) -> tuple:
        """Begin a run anew; one that is under way ends."""
        self._end()
        self.active = None
        return self._train(Choices(**choices))

    def go_on(self, **choices: str | float) -> tuple:
        """Let the last run make more updates, as it was chosen when it began."""
        if self.is_running:
            return self._told("It runs already.")
        if self.active is None:
            return self._told("There is no run to go on with: start one.")
        return self._train(self.active.curve.choices)

    def halt(self, **choices: str | float) -> tuple:
        """Stop after the update that is being made."""
        if not self.is_running:
            return self._told("Nothing runs.")
        self._end()
        return self._told(f"Stopped after {self.active.step} updates.")

    def forget(self, **choices: str | float) -> tuple:
        """Take all curves away."""
        self._end()
        self.curves, self.active = [], None
        return self._told("All runs are forgotten.")

    def answer(self, call: Callable) -> None:
        """Answer as any panel does, and only then start a thread that was asked for.

        A thread that ended at once would otherwise answer first, and the answer to the
        button would replace what it said.
        """
        super().answer(call)
        thread, self._waiting = self._waiting, None
        if thread is not None:
            thread.start()

    def _train(self, choices: Choices) -> tuple:
        self._halt.clear()
        told = self._told(f"Training: {choices}.")
        self._thread = threading.Thread(target=self._work, args=(choices,), daemon=True)
        self._waiting = self._thread
        return told

    def _work(self, choices: Choices) -> None:
        """Make updates, and show how far they are, until told to stop."""
        try:
            if self.active is None:
                run = Run(choices)
                self.curves = [*self.curves, run.curve][-len(LINES) :]
                self.active = run
            run, drawn = self.active, 0.0
            for _ in range(UPDATES):
                if self._halt.is_set():
                    return
                run.advance()
                if time.monotonic() - drawn > REDRAW:
                    self.answer(lambda **_: self._told(f"Training: {choices}."))
                    drawn = time.monotonic()
            words = (
                f"Run {len(self.curves)} has made {run.step} updates: "
                f"its loss is {run.curve.losses[-1]:.2f}."
            )
            self.answer(lambda **_: self._told(words))
        except Exception as error:  # nobody sees what a thread raises
            self.answer(_raise(error))

    def _end(self) -> None:
        self._halt.set()
        if self._thread is not None:
            self._thread.join()

    def _told(self, words: str) -> tuple:
        """Give all that is to be seen, and the words."""
        if not self.curves:
            return (words,)
        return draw(self.curves), tabulate(self.curves), words


def _raise(error: Exception) -> Callable:
    def call(**_: object) -> None:
        raise error

    return call


def draw(curves: Sequence[Curve]) -> Figure:
    """Draw the losses of some runs, and beside them their learning rates."""
    figure = Figure(
        figsize=(7.2, 2.8), label="Validation loss and learning rate of each run"
    )
    losses, rates = figure.subplots(1, 2, width_ratios=(3, 2))
    for number, curve in enumerate(curves, 1):
        losses.plot(curve.steps, curve.losses, label=f"{number}")
        steps = range(1, max([UPDATES, *curve.steps]) + 1)
        rates.plot(steps, list(map(curve.choices.rate, steps)))
    losses.set(xlabel="update", ylabel="validation loss", ylim=(0, 6))
    losses.legend(frameon=False, title="run", loc="lower left")
    rates.set(xlabel="update", ylabel="learning rate", ylim=(0, None))
    return figure


def tabulate(curves: Sequence[Curve]) -> Table:
    """List the runs, and what each makes of the book's sentence by now."""
    columns = ["run", "choices", "updates", "loss", "tokens/s", f"“{ENGLISH}”"]
    rows = [
        [str(number), str(curve.choices)]
        + (
            [
                str(curve.steps[-1]),
                f"{curve.losses[-1]:.2f}",
                f"{curve.speed:,.0f}",
                curve.translation,
            ]
            if curve.steps
            else ["0", "", "", ""]
        )
        for number, curve in enumerate(curves, 1)
    ]
    return Table(columns, rows)


def curves_of(rows: Sequence[dict[str, str]]) -> list[Curve]:
    """Turn the rows of recorded runs into curves."""
    curves: dict[Choices, Curve] = {}
    for row in rows:
        choices = Choices(
            norm=row["norm"],
            warm_up=int(row["warm_up"]),
            peak=float(row["peak"]),
            num_layers=int(row["num_layers"]),
            d_model=int(row["d_model"]),
            smoothing=float(row["smoothing"]),
            seed=int(row["seed"]),
        )
        curve = curves.setdefault(choices, Curve(choices))
        curve.steps.append(int(row["step"]))
        curve.losses.append(float(row["validation_loss"]))
        curve.translation, curve.speed = row["translation"], float(row["speed"])
    return list(curves.values())
