"""Decoding: the same model, decoded in different ways."""

from collections.abc import Mapping

import torch
from torch import Tensor

from bookkit.controls.beam import beam_control
from bookkit.controls.control import Control
from pages.laboratory.panel import Panel, Table, choose, slide, write
from transformer_lib.data import make_batch
from transformer_lib.decoding import Hypothesis, beam_search, sample
from transformer_lib.translation import Translator

SAMPLES = 5
MOST_TOKENS = 60  # so that an answer comes at once
ALL = "all"


def decoding_panel(translators: Mapping[str, Translator]) -> Panel:
    """Let the reader choose how a trained model decodes.

    Args:
        translators: Maps the names to choose from to translators.
    """

    def run(
        sentence: str,
        model: str,
        beam: int,
        alpha: float,
        temperature: float,
        top_k: int | str,
        top_p: float,
        seed: int,
    ) -> tuple[Control, Table, str]:
        translator = translators[model]
        src = read(translator, sentence)
        tree, best = search(translator, src, beam, alpha)
        chances = {"temperature": temperature, "top_p": top_p}
        chances["top_k"] = None if top_k == ALL else top_k
        drawn = draw(translator, src, seed, **chances)
        rows = [[str(number), text] for number, text in enumerate(drawn, 1)]
        words = (
            f"The beam finds “{best}”. Different sentences among {SAMPLES} draws: "
            f"{len(set(drawn))}; like the beam's: {drawn.count(best)}."
        )
        return tree, Table(["draw", "by chance"], rows), words

    names = list(translators)
    return Panel(
        "Decoding laboratory",
        run,
        move={"sentence": "The king has lost his crown.", "beam": 8},
        sentence=write("English", "A dog runs on the beach."),
        model=choose("model", names, names[0]),
        beam=slide("beam", [1, 2, 3, 4, 6, 8], 3),
        alpha=slide("alpha", [0, 0.6, 1, 1.4, 2, 4], 0.6),
        temperature=slide("temperature", [0.1, 0.5, 0.8, 1, 1.5, 2, 4], 1),
        top_k=slide("top-k", [1, 2, 5, 10, 50, ALL], ALL),
        top_p=slide("top-p", [0.1, 0.5, 0.8, 0.9, 0.95, 1], 1),
        seed=slide("seed", range(10), 0),
    )


def read(translator: Translator, sentence: str) -> Tensor:
    """Make the token ids that the encoder reads, shape (1, S).

    Raises:
        ValueError: If the sentence is empty or longer than 60 tokens.
    """
    tokens = translator.tokenizer.encode(sentence)
    if not 0 < len(tokens) <= MOST_TOKENS:
        raise ValueError(
            f"the sentence must have 1 to {MOST_TOKENS} tokens, got {len(tokens)}"
        )
    return make_batch([(tokens, [])]).src


def search(
    translator: Translator, src: Tensor, beam: int, alpha: float
) -> tuple[Control, str]:
    """Search with a beam; return its tree and the best translation."""
    steps: list[list[Hypothesis]] = []
    tokenizer = translator.tokenizer
    found = beam_search(
        translator.model,
        src,
        beam_size=beam,
        alpha=alpha,
        on_step=lambda step: steps.append(step[0]),
    )
    tree = beam_control(steps, tokenizer.pieces, title=f"A beam of {beam}")
    return tree, tokenizer.decode(found[0][0].tokens)


def draw(translator: Translator, src: Tensor, seed: int, **chances) -> list[str]:
    """Sample some translations."""
    generator = torch.Generator().manual_seed(seed)
    several = src.expand(SAMPLES, -1)
    written = sample(translator.model, several, generator=generator, **chances)
    return list(map(translator.tokenizer.decode, written))
