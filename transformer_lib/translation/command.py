"""What the command does: train, evaluate, translate, download."""

import argparse
import json
import os
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from transformer_lib.checks import require_positive
from transformer_lib.data.corpora import multi30k
from transformer_lib.faster import ScaleEpoch
from transformer_lib.faster.distributed import (
    process_group,
    quiet_unless_main,
    world_size,
)
from transformer_lib.training.run import STATE
from transformer_lib.translation.corpus import Corpus
from transformer_lib.translation.options import PROGRAM, parser
from transformer_lib.translation.run import (
    PRESETS,
    Recipe,
    measure,
    read_record,
    require_choices,
    train_translator,
)
from transformer_lib.translation.scores import Scores
from transformer_lib.translation.text_files import lines_of, read_lines
from transformer_lib.translation.translator import Translator


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What comes after its name; by default what the user typed.

    Returns:
        0; 2 if an argument or a file is wrong, 1 if the computer fails (a full disk, no
        network, too little memory of a GPU), 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    with quiet_unless_main():
        options = parser().parse_args(arguments)
    options.typed = f"{PROGRAM} {shlex.join(arguments)}"
    sys.stdout.reconfigure(encoding="utf-8")
    try:
        with process_group(), quiet_unless_main():
            COMMANDS[options.command](options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # "| head" has seen enough
        return 1
    except (ValueError, FileNotFoundError) as error:
        say(f"error: {error}")
        return 2
    except (OSError, torch.OutOfMemoryError) as error:
        say(f"error: {error}")
        return 1
    return 0


def run_download(options: argparse.Namespace) -> None:
    """Fetch Multi30k."""
    place = multi30k.download()
    say(f"Multi30k is in {place}, for research and education that are not commercial.")


def run_train(options: argparse.Namespace) -> None:
    """Train, or go on where a run was stopped."""
    device = choose_device(options)
    corpus = training_corpus(options)
    if (Path(options.output) / STATE).exists():
        say(f"Going on with the run in {options.output}.")
    try:
        scores = train_translator(
            corpus,
            recipe(options, corpus, device),
            options.output,
            device=device,
            command=options.typed,
            on_epoch=print_epoch,
        )
    except (KeyboardInterrupt, OSError):
        if (Path(options.output) / STATE).exists():
            say(f"Stopped. The epochs so far are kept; to go on:\n  {options.typed}")
        raise
    print_scores(f"{corpus.title('validation')}, greedy", scores)
    say(f"The translator is in {options.output}.")


def run_evaluate(options: argparse.Namespace) -> None:
    """Print the scores of each split."""
    translator = load(options)
    corpus = evaluation_corpus(options)
    splits = corpus.names if options.files else options.split or ["validation"]
    beam, alpha = options.beam, options.alpha
    method = f"beam of {beam}, alpha {alpha:g}" if beam > 1 else "greedy"
    for split, pairs in {split: corpus.pairs(split) for split in splits}.items():
        say(f"Translating {len(pairs):,} sentences ...")
        began = time.perf_counter()
        scores = measure(translator, pairs, beam, alpha)
        seconds = time.perf_counter() - began
        if scores.sentences < len(pairs):
            say(f"{len(pairs) - scores.sentences:,} pairs without text do not count.")
        print_scores(f"{corpus.title(split)}, {method}, {seconds:.1f} s", scores)


def run_translate(options: argparse.Namespace) -> None:
    """Print the translation of a sentence, a file or the standard input."""
    if options.sentence and options.file is not None:
        raise ValueError("give a sentence or --file, not both")
    translator = load(options)
    if options.sentence:
        text = " ".join(options.sentence)
        print(*translator.translate([text], options.beam, options.alpha))
    elif options.file is not None:
        lines = read_lines(options.file)
        for translation in translator.translate(lines, options.beam, options.alpha):
            print(translation)
    else:
        answer_lines(translator, options.beam, options.alpha)


def answer_lines(translator: Translator, beam: int, alpha: float) -> None:
    """Translate each line of the standard input as it comes."""
    if sys.stdin.isatty():
        say("Type a sentence and press Enter; Ctrl-D ends.")
    for number, text in enumerate(lines_of(sys.stdin.buffer, "standard input"), 1):
        try:
            print(*translator.translate([text], beam, alpha), flush=True)
        except ValueError as error:
            raise ValueError(f"standard input, line {number}: {error}") from error


COMMANDS = {
    "download": run_download,
    "train": run_train,
    "evaluate": run_evaluate,
    "translate": run_translate,
}


def say(text: str) -> None:
    """Tell the user, apart from the results."""
    print(text, file=sys.stderr, flush=True)


def print_epoch(epoch: ScaleEpoch) -> None:
    """Print what an epoch came to, as one line."""
    skipped = f"  {epoch.skipped} updates skipped so far" if epoch.skipped else ""
    print(
        f"epoch {epoch.epoch:3}  loss {epoch.loss:.3f}  "
        f"validation loss {epoch.validation_loss:.3f}  "
        f"right tokens {epoch.validation_accuracy:.1%}  "
        f"{epoch.tokens / epoch.seconds:,.0f} tokens/s  {epoch.seconds:.0f} s{skipped}",
        flush=True,
    )


def print_scores(title: str, scores: Scores) -> None:
    """Print scores, each with its signature."""
    print(f"{title}: {scores.sentences:,} sentences")
    print(f"  BLEU  {scores.bleu:6.2f}  {scores.bleu_signature}")
    print(f"  chrF  {scores.chrf:6.2f}  {scores.chrf_signature}")
    print(f"  BLEU  {scores.bleu_lowercased:6.2f}  {scores.bleu_lowercased_signature}")
    print("                lowercased; papers on Multi30k tokenize with Moses")
    print(f"  exact {scores.exact:7.1%}", flush=True)


def load(options: argparse.Namespace) -> Translator:
    """Load the translator that the options name, onto its device."""
    device = choose_device(options)
    translator = Translator.load(options.model)
    translator.model.to(device)
    say(f"The model is {options.model}, on {device}.")
    return translator


def choose_device(options: argparse.Namespace) -> str:
    """Take the device asked for, or else a GPU where there is one."""
    if options.threads is not None:
        require_positive(threads=options.threads)
        torch.set_num_threads(options.threads)
    available = torch.cuda.is_available()
    if options.device == "cuda" and not available:
        raise ValueError("--device must be cpu: torch finds no GPU here, got cuda")
    device = options.device or ("cuda" if available else "cpu")
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if world_size() > 1 else 1
    if device == "cuda" and here > torch.cuda.device_count():
        raise ValueError(
            "--nproc_per_node must be at most the number of GPUs, "
            f"{torch.cuda.device_count()}, got {here}; --device cpu needs none"
        )
    return device


def training_corpus(options: argparse.Namespace) -> Corpus:
    """Find what to learn from: named data, or files."""
    named = named_corpus(options)
    if not (options.train or options.validation):
        return Corpus(**named)
    if not (options.train and options.validation) or named:
        raise ValueError(
            "--train and --validation must come together, and without --data, --source "
            "and --target"
        )
    files = {"train": options.train, "validation": options.validation}
    return Corpus(
        files={split: [*map(os.path.abspath, pair)] for split, pair in files.items()}
    )


def evaluation_corpus(options: argparse.Namespace) -> Corpus:
    """Find what to be judged by: files, named data, or what was learned from."""
    named = named_corpus(options)
    if not options.files:
        learned = read_record(options.model)["corpus"]
        return Corpus(**{**learned, "files": None, **named} if named else learned)
    if named or options.split:
        raise ValueError(
            "--files must come without --data, --source, --target and --split"
        )
    return Corpus(files={"files": options.files})


def named_corpus(options: argparse.Namespace) -> dict[str, str]:
    """Gather what the user said of named data."""
    chosen = {name: getattr(options, name) for name in ("data", "source", "target")}
    return {name: value for name, value in chosen.items() if value is not None}


def recipe(options: argparse.Namespace, corpus: Corpus, device: str) -> Recipe:
    """Start from a preset, and make the user's choices.

    Other ``epochs`` than the preset's change its cooldown in proportion.
    """
    of_the_grammar = corpus.files is None and corpus.data == "grammar"
    preset = PRESETS[options.preset or ("grammar" if of_the_grammar else "multi30k")]
    choices = {**preset, "seed": 0}
    shorter = device == "cuda" and torch.cuda.is_bf16_supported()
    choices["precision"] = "bfloat16" if shorter else "float32"
    given = {"epochs": options.epochs, "seed": options.seed}
    settings = {name: value for name, value in given.items() if value is not None}
    settings |= dict(parse_choice(text) for text in options.set)
    require_choices(settings)
    choices |= settings
    if "cooldown" not in settings:
        choices["cooldown"] = preset["cooldown"] * choices["epochs"] // preset["epochs"]
    return choices


def parse_choice(text: str) -> tuple[str, object]:
    """Split NAME=VALUE; a value is JSON, or else plain text."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
