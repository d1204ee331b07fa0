"""The milestones of "Your Transformer": the whole model, made of the student's pieces.

Each has a function that runs the student's module and returns plain values, and one
that judges them, in another process where marks are given. The time never decides.
"""

import inspect
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from itertools import count, islice
from pathlib import Path
from types import ModuleType, SimpleNamespace

import torch
from torch import Tensor, nn

from bookkit.exercises.calling import NOT_THEIRS, own_lines, plain
from bookkit.exercises.report import Report
from bookkit.exercises.state import as_before
from transformer_lib.data import Batch, make_batch, pad, token_batches
from transformer_lib.data.corpora.toy import toy_pairs
from transformer_lib.decoding import greedy_decode
from transformer_lib.model import Transformer, inference
from transformer_lib.training import TrainingConfig, train_step
from transformer_lib.translation import Translator
from your_transformer.pieces import BOS, EOS, choices, made, twice

Values = dict[str, object]
TRANSLATOR = Path(__file__).parents[2] / "models" / "multi30k-en-de"
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


def reverse(adapters: ModuleType) -> Values:
    """Train the student's model to reverse words, and reverse a hundred new ones."""
    torch.manual_seed(1)
    sizes = {"d_model": 64, "num_heads": 4, "d_ff": 128}
    learner = Learner(adapters, Transformer(choices(vocab_size=20, **sizes)))
    if not any(parameter.requires_grad for parameter in learner.parameters()):
        raise ValueError("the model that `build` returns has no parameters to train")
    optimizer = torch.optim.Adam(learner.parameters(), betas=(0.9, 0.98), eps=1e-9)
    training, began = TrainingConfig(smoothing=0.0), time.perf_counter()
    for number, batch in enumerate(islice(words(), UPDATES), start=1):
        rate = 0.0075 * min(number / 100, (100 / number) ** 0.5)
        loss, tokens = train_step(learner, optimizer, batch, rate, training)
    seconds = time.perf_counter() - began
    with inference(learner):
        written = [
            adapters.greedy(learner.model, make_batch([(word, [])]).src, BOS, EOS, 12)
            for word, _ in new_words()
        ]
    return {"written": written, "loss": loss / tokens, "seconds": seconds}


def new_words() -> list[tuple[list[int], list[int]]]:
    return toy_pairs("reverse", 100, seed=0, held_out=True, longest=8)


def judge_reversed(values: Values) -> Report:
    """Your model learns to reverse words."""
    pairs, written = new_words(), values["written"]
    right = sum(found == pair[1] for found, pair in zip(written, pairs, strict=True))
    shown = f"{letters(pairs[0][0])} becomes {letters(written[0])}."
    took = f"{UPDATES} updates in {values['seconds']:.0f} seconds"
    if right < ENOUGH:
        says = f"After {took}, {right} of 100 new words are reversed, and {ENOUGH} are "
        says += "needed. "
        if values["loss"] < PEEKING:
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


def shipped(adapters: ModuleType, found: Translator) -> nn.Module:
    """Make the student's model with the weights of the shipped translator."""
    named = found.model.named_parameters()
    return made(adapters, found.model.config, {name: p.detach() for name, p in named})


@cache
def expected() -> list[list[int]]:
    """Translate all captions with the book's model."""
    found = translator()
    return [greedy_decode(found.model, src, max_len=LIMIT)[0] for src in sources(found)]


def written_by(
    found: Translator, decode: Callable, model: nn.Module
) -> Iterator[list[int]]:
    """Translate one caption after the other with a student's loop."""
    ids = found.tokenizer
    for src in sources(found):
        with torch.no_grad():
            yield decode(model, src, ids.bos_id, ids.eos_id, LIMIT)


def translate(adapters: ModuleType) -> Values:
    """Translate until a translation differs from the book's, and compare the logits."""
    found, written = translator(), []
    model = shipped(adapters, found)
    for each in written_by(found, adapters.greedy, model):
        written.append(each)
        if each != (wanted := expected()[len(written) - 1]):
            at = first_difference(each, wanted)
            src = sources(found)[len(written) - 1]
            tgt = torch.tensor([[found.tokenizer.bos_id, *wanted[:at]]])
            with torch.no_grad():
                theirs, ours = adapters.logits(model, src, tgt), found.model(src, tgt)
            if theirs.shape != ours.shape:
                return {"written": written, "shape": list(theirs.shape)}
            gap = (theirs - ours)[:, -1].abs().max().item()
            return {"written": written, "gap": gap}
    return {"written": written}


def judge_translated(values: Values) -> Report:
    """Your model translates with the weights of the shipped translator."""
    found, written = translator(), values["written"]
    for number, wanted in enumerate(expected()):
        ours = written[number] if number < len(written) else []
        if ours != wanted:
            says = difference(found, number, ours, wanted) + how_far(values)
            headline = f"{number} of 100 captions, then one differs."
            return failed("translate", headline, says)
    text = found.tokenizer.decode(written[-1])
    headline = "your model translates."
    says = "It writes the same 100 translations as the book's model, token for token. "
    says += f"The last one: “{captions()[-1]}” became “{text}”"
    return Report("translate", True, headline, says)


def first_difference(written: list[int], wanted: list[int]) -> int:
    """Return the first position at which two translations differ."""
    pairs = zip([*written, None], [*wanted, None], strict=False)
    return next(i for i, (one, other) in enumerate(pairs) if one != other)


def difference(
    found: Translator, number: int, written: list[int], wanted: list[int]
) -> str:
    """Describe the first token that differs."""
    at, ends = first_difference(written, wanted), [found.tokenizer.eos_id]
    one, other = (
        found.tokenizer.pieces((list(ids) + ends)[at : at + 1])[0]
        for ids in (written, wanted)
    )
    says = (
        f"Sentence {number}, “{captions()[number]}”, differs first at position {at}: "
    )
    return says + f"“{one}” and not “{other}”. "


def how_far(values: Values) -> str:
    """Say how far the logits are apart, and name the piece to check."""
    if "shape" in values:
        return f"The logits have the shape {tuple(values['shape'])}. Check `logits`."
    gap = values.get("gap", 0.0)
    says = f"Given the same prefix, the logits are up to {gap:.2g} apart. "
    if gap < 1e-3:
        return says + "That is rounding, so the model is right. Check `greedy`."
    return says + "That is no rounding. Check `logits`, which tests each part of it."


# -- 3: it translates with a cache -----------------------------------------------------


def remember(adapters: ModuleType) -> Values:
    """Translate without a cache and with it."""
    found, values = translator(), {"twice": twice(adapters)}
    model = shipped(adapters, found)
    for name in "greedy", "greedy_cached":
        began = time.perf_counter()
        values[name] = list(written_by(found, getattr(adapters, name), model))
        values[f"{name} seconds"] = time.perf_counter() - began
    return values


def judge_remembered(values: Values) -> Report:
    """Your model with a cache writes the same."""
    found, cached, plain = translator(), values["greedy_cached"], values["greedy"]
    times = f"greedy took {values['greedy seconds']:.1f} seconds, greedy_cached "
    times += f"{values['greedy_cached seconds']:.1f}."
    for number, wanted in enumerate(plain):
        written = cached[number] if number < len(cached) else []
        if written != wanted:
            says = difference(found, number, written, wanted)
            says += "Your decoder with a cache and the one without should agree. "
            says += (
                "The very first word differs: check what the cross-attention reads."
                if first_difference(written, wanted) == 0
                else "The first words agree, so look at what changes with each word: "
                "the position of the newest word, and the keys and values kept."
            )
            says += " Check `greedy_cached`."
            return failed("cache", f"{number} of 100 captions, then one differs.", says)
    if plain != expected():
        says = "They are not those of the book's model: reach `translate` first."
        return failed("cache", "the same translations, with and without it.", says)
    if says := values["twice"]:
        says += f" Check `greedy_cached`. The times: {times}"
        return failed("cache", "the same 100 translations, without a cache.", says)
    headline = "your cache forgets nothing."
    return Report("cache", True, headline, f"The same 100 translations. {times}")


# -- Running one -----------------------------------------------------------------------

# What runs the student's code, and what judges the values that it returned.
MILESTONES = {
    "reverse": (reverse, judge_reversed),
    "translate": (translate, judge_translated),
    "cache": (remember, judge_remembered),
}


def failed(name: str, headline: str, says: str) -> Report:
    """Report a milestone that was not reached."""
    return Report(name, False, headline, says)


def judged(name: str, values: Values) -> Report:
    """Judge what a student's code returned, whatever that is."""
    try:
        return MILESTONES[name][1](values)
    except Exception as error:  # whatever they are
        says = f"The values are of no use: {plain(error)}"
        return failed(name, "it returns no tokens.", says)


def milestone(name: str, adapters: ModuleType) -> Report:
    """Run a milestone; an error of the student's code becomes a report."""
    with as_before():
        try:
            values = MILESTONES[name][0](adapters)
        except NotImplementedError as error:
            lines = own_lines(error).splitlines()
            missing = lines[-2].rpartition(" in ")[2] if len(lines) > 1 else "a piece"
            return Report(name, None, f"not yet: {missing} is not written.")
        except BaseException as error:  # also exit() and Ctrl-C
            says = f"It raises {plain(error)}"
            return Report(name, False, "it stopped.", says, trace=own_lines(error))
    return judged(name, values)
