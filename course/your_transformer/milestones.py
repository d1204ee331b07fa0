"""The milestones of "Your Transformer": the whole model, made of the student's pieces.

Each takes the student's module and returns a ``Report``. The time is shown and never
decides.
"""

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor, nn

from transformer_lib.data import Batch, make_batch, pad, token_batches
from transformer_lib.data.toy import toy_pairs
from transformer_lib.decoding import greedy_decode
from 
from bookkit.exercises.testing import NOT_THEIRS, own_lines
from bookkit.exercises.report import Report
from transformer_lib.model import Transformer, inference
from transformer_lib.training import TrainingConfig, train_step
from transformer_lib.translation import Translator
from your_transformer.pieces import BOS, EOS, choices, made, twice

TRANSLATOR = Path(__file__).parents[2] / "models" / "multi30k-en-de"
MINUTES = 10  # for a milestone; half a minute is usual
NOT_THEIRS |= {__file__, inspect.getfile(train_step)}

# -- 1: it learns ----------------------------------------------------------------------

LETTERS = "abcdefghijklmnopq"  # ids 3 to 19
UPDATES, ENOUGH = 400, 90  # of 100 words
PEEKING = 0.01  # nats per letter; an honest model still has about 0.04


class Learner(nn.Module):
    """The student's model as ``train_step`` calls a model."""

    def __init__(self, adapters: ModuleType, start: Transformer) -> None:
        super().__init__()
        weights = dict(start.named_parameters())
        detached = {name: weight.detach() for name, weight in weights.items()}
        self.config = start.config
        self.model = made(adapters, start.config, detached)
        self.score = adapters.logits
        self.output = SimpleNamespace(weight=torch.empty(0))  # says where the model is

    def forward(self, src: Tensor, tgt: Tensor) -> Tensor:
        """Score every next token, as ``Transformer`` does."""
        return self.score(self.model, src, tgt)


def letters(ids: list[int]) -> str:
    """Write ids as a word; a dot stands for an id that is no letter."""
    return "".join(LETTERS[i - 3] if 3 <= i < 20 else "·" for i in ids)


def words() -> Iterator[Batch]:
    """Draw words to reverse, without end."""
    for epoch in count(1):
        pairs = toy_pairs("reverse", 1000, seed=epoch, longest=8)
        yield from token_batches(pairs, max_tokens=500, seed=epoch)


def learns(adapters: ModuleType) -> Report:
    """Your model learns to reverse words."""
    torch.manual_seed(1)
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 128}
    learner = Learner(adapters, Transformer(choices(vocab_size=20, **sizes)))
    if not any(parameter.requires_grad for parameter in learner.parameters()):
        says = "The model that `build` returns has no parameters to train."
        return failed("reverse", "nothing can learn.", says)
    optimizer = torch.optim.Adam(learner.parameters(), betas=(0.9, 0.98), eps=1e-9)
    training, began = TrainingConfig(smoothing=0.0), time.perf_counter()
    for number, batch in enumerate(islice(words(), UPDATES), start=1):
        rate = 0.0075 * min(number / 100, (100 / number) ** 0.5)
        loss, tokens = train_step(learner, optimizer, batch, rate, training)
    seconds = time.perf_counter() - began
    held_out = toy_pairs("reverse", 100, seed=0, held_out=True, longest=8)
    written = []
    with inference(learner):
        for word, _ in held_out:
            src = make_batch([(word, [])]).src
            written.append(adapters.greedy(learner.model, src, BOS, EOS, 12))
    right = sum(found == pair[1] for found, pair in zip(written, held_out, strict=True))
    shown = f"{letters(held_out[0][0])} becomes {letters(written[0])}."
    took = f"{UPDATES} updates in {seconds:.0f} seconds"
    if right < ENOUGH:
        says = f"After {took}, {right} of 100 new words are reversed, and {ENOUGH} are "
        says += "needed. "
        if loss / tokens < PEEKING:
            says += "Yet the training loss is nearly 0: does the decoder see what it "
            says += "must predict? "
        says += "Check `logits`, then `greedy`."
        return failed("reverse", f"{right} of 100 words.", f"{says} Now {shown}")
    headline = "your model has learned to reverse words."
    says = f"It had never seen these 100 words, and it reverses {right} ({took}). "
    says += f"Nobody told it how. For example, {shown}"
    return Report("reverse", True, headline, says)


# -- 2: it translates ------------------------------------------------------------------

WHO = (
    "a man", "a woman", "a little girl", "two boys", "a brown dog", "three children",
    "an old man in a hat", "a young woman in a red shirt", "a group of people",
    "two dogs",
)  # fmt: skip
ARE = {"two boys", "three children", "two dogs"}
DOES = (
    "sitting on a bench", "running through the grass", "standing in front of a house",
    "playing with a ball", "looking at the camera", "walking down the street",
    "jumping into the water", "lying on the floor", "waiting for a bus",
    "eating in the park",
)  # fmt: skip


LIMIT = 50  # tokens of a translation


def captions() -> list[str]:
    """Write a hundred sentences in the style of the captions."""
    return [
        f"{who} {'are' if who in ARE else 'is'} {does} .".capitalize()
        for who in WHO
        for does in DOES
    ]


def translator() -> Translator:
    """Load the shipped translator; its config no longer asks for dropout."""
    found = Translator.load(TRANSLATOR)
    found.model.config = replace(found.model.config, dropout=0.0)
    return found


def sources(found: Translator) -> list[Tensor]:
    """Encode the captions, padded to the length of the longest, shape (1, S) each."""
    tokenizer = found.tokenizer
    rows = [[*tokenizer.encode(text), tokenizer.eos_id] for text in captions()]
    return list(pad(rows, tokenizer.pad_id).split(1))


def translate(
    found: Translator, decode: Callable, model: nn.Module
) -> tuple[list[list[int]], float]:
    """Translate all captions with a student's loop: ids, and seconds."""
    ids, began = found.tokenizer, time.perf_counter()
    with torch.no_grad():
        written = [
            decode(model, src, ids.bos_id, ids.eos_id, LIMIT) for src in sources(found)
        ]
    return written, time.perf_counter() - began


def shipped(adapters: ModuleType, found: Translator) -> nn.Module:
    """Make the student's model with the weights of the shipped translator."""
    named = found.model.named_parameters()
    return made(adapters, found.model.config, {name: p.detach() for name, p in named})


def translates(adapters: ModuleType) -> Report:
    """Your model translates with the weights of the shipped translator."""
    found = translator()
    model = shipped(adapters, found)
    ids = {"bos_id": found.tokenizer.bos_id, "eos_id": found.tokenizer.eos_id}
    for number, src in enumerate(sources(found)):
        (expected,) = greedy_decode(found.model, src, max_len=LIMIT, **ids)
        with torch.no_grad():
            written = adapters.greedy(model, src, *ids.values(), LIMIT)
        if written != expected:
            says, at = difference(found, number, written, expected)
            apart = how_far(adapters, found, model, src, expected[:at])
            return failed(
                "translate",
                f"{number} of 100 captions, then one differs.",
                says + apart,
            )
    text = found.tokenizer.decode(written)
    headline = "your model translates."
    says = "It writes the same 100 translations as the book's model, token for token. "
    says += f"The last one: “{captions()[-1]}” became “{text}”"
    return Report("translate", True, headline, says)


def difference(
    found: Translator, number: int, written: list[int], expected: list[int]
) -> tuple[str, int]:
    """Describe the first token that differs, and return its position."""
    ends = [found.tokenizer.eos_id]
    pairs = zip([*written, *ends], [*expected, *ends], strict=False)
    at = next(i for i, (one, other) in enumerate(pairs) if one != other)
    one, other = (
        found.tokenizer.pieces((list(ids) + ends)[at : at + 1])[0]
        for ids in (written, expected)
    )
    says = (
        f"Sentence {number}, “{captions()[number]}”, differs first at position {at}: "
    )
    return says + f"“{one}” and not “{other}”. ", at


def how_far(
    adapters: ModuleType,
    found: Translator,
    model: nn.Module,
    src: Tensor,
    prefix: list[int],
) -> str:
    """Compare the logits after the last common prefix, and name the piece to check."""
    tgt = torch.tensor([[found.tokenizer.bos_id, *prefix]])
    with torch.no_grad():
        theirs, ours = adapters.logits(model, src, tgt), found.model(src, tgt)
    if theirs.shape != ours.shape:
        return f"The logits have the shape {tuple(theirs.shape)}. Check `logits`."
    gap = (theirs - ours)[:, -1].abs().max().item()
    says = f"Given the same prefix, the logits are up to {gap:.2g} apart. "
    if gap < 1e-3:
        return says + "That is rounding, so the model is right. Check `greedy`."
    return says + "That is no rounding. Check `logits`, which tests each part of it."


# -- 3: it translates with a cache -----------------------------------------------------


def remembers(adapters: ModuleType) -> Report:
    """Your model with a cache writes the same."""
    found = translator()
    model = shipped(adapters, found)
    plain, slow = translate(found, adapters.greedy, model)
    cached, fast = translate(found, adapters.greedy_cached, model)
    times = f"greedy took {slow:.1f} seconds, greedy_cached {fast:.1f}."
    for number, (written, expected) in enumerate(zip(cached, plain, strict=True)):
        if written != expected:
            says, at = difference(found, number, written, expected)
            says += "Your decoder with a cache and the one without should agree. "
            says += (
                "The very first word differs: check what the cross-attention reads."
                if at == 0
                else "The first words agree, so look at what changes with each word: "
                "the position of the newest word, and the keys and values kept."
            )
            says += " Check `greedy_cached`."
            return failed("cache", f"{number} of 100 captions, then one differs.", says)
    if says := twice(adapters):
        says += f" Check `greedy_cached`. The times: {times}"
        return failed("cache", "the same 100 translations, without a cache.", says)
    headline = "your cache forgets nothing."
    return Report("cache", True, headline, f"The same 100 translations. {times}")


# -- Running one -----------------------------------------------------------------------

MILESTONES = {"reverse": learns, "translate": translates, "cache": remembers}


def failed(name: str, headline: str, says: str) -> Report:
    """Report a milestone that was not reached."""
    return Report(name, False, headline, says)


def milestone(name: str, adapters: ModuleType) -> Report:
    """Run a milestone; an error of the student's code becomes a report."""
    with torch.random.fork_rng(devices=[]):
        try:
            return limits.in_time(60 * MINUTES, MILESTONES[name], adapters)
        except NotImplementedError as error:
            lines = own_lines(error).splitlines()
            missing = lines[-2].rpartition(" in ")[2] if len(lines) > 1 else "a piece"
            return Report(name, None, f"not yet: {missing} is not written.")
        except limits.TooLong as error:
            says = f"It was stopped after {MINUTES:g} minutes, and half a minute is "
            says += "usual. Does a loop end?"
            return Report(name, False, "too slow.", says, trace=own_lines(error))
        except (Exception, SystemExit) as error:
            says = f"It raises {type(error).__name__}: {error}"
            return Report(name, False, "it stopped.", says, trace=own_lines(error))
