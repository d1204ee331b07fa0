"""What the command does: train, evaluate, translate, download."""

import argparse
import json
import os
import re
import shlex
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import NamedTemporaryFile

import torch

from transformer_lib.checks import require_positive
from transformer_lib.data import multi30k
from transformer_lib.distributed import joined, one_voice, processes
from transformer_lib.files import write_json
from transformer_lib.full_training import FullEpoch
from transformer_lib.training_run import STATE
from transformer_lib.translation.corpus import (
    Corpus,
    lines_of,
    read_line,
    read_lines,
)
from transformer_lib.translation.options import PROGRAM, parser
from transformer_lib.translation.run import (
    PRESETS,
    Recipe,
    digest,
    measure,
    read_record,
    require_choices,
    train_translator,
)
from transformer_lib.translation.scores import Scores
from transformer_lib.translation.translator import MODEL, Translator

MODELS = Path(__file__).resolve().parents[2] / "models"  # of the repository
SHIPPED = ("multi30k-en-de", "grammar-en-de")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: What comes after its name; by default what the user typed.

    Returns:
        0; 2 if something given does not fit, 1 if the computer fails (a full disk, no
        network, too little memory), 130 after Ctrl-C.
    """
    arguments = sys.argv[1:] if arguments is None else arguments
    with one_voice():
        options = parser().parse_args(arguments)
    options.typed = f"{PROGRAM} {shlex.join(arguments)}"
    # The name of a file may hold any bytes; they are written as they are.
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    try:
        with joined(), one_voice():
            COMMANDS[options.command](options)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # "| head" has seen enough
        drop_output()
        return 1
    except (ValueError, FileNotFoundError) as error:
        say(f"error: {error}")
        return 2
    except OSError as error:
        say(f"error: {error}")
        drop_output()
        return 1
    except (MemoryError, RuntimeError) as error:
        if not re.search("MemoryError|allocate memory", repr(error)):  # as torch says
            raise
        say("error: too little memory; smaller sizes, max_tokens or --beam need less")
        return 1
    return 0


def run_download(options: argparse.Namespace) -> None:
    """Fetch Multi30k."""
    place = multi30k.download()
    say(f"Multi30k is in {place}, for research and education that are not commercial.")


def run_train(options: argparse.Namespace) -> None:
    """Train, or go on where a run was stopped."""
    if not options.output:
        raise ValueError("--output must name a folder, got ''")
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
    if options.json is not None:
        require_file(options.json)
    translator = load(options)
    corpus, known = evaluation_corpus(options)
    splits = corpus.names if options.files else options.split or ["validation"]
    method = "greedy"
    if options.beam > 1:
        method = f"beam of {options.beam}, alpha {options.alpha:g}"
    results = {}
    pairs_of = {split: corpus.pairs(split) for split in splits}
    for split, pairs in pairs_of.items():
        if known.get(split) not in (None, digest(pairs)):
            raise ValueError(
                f"{corpus.title(split)} must hold the sentences of the training run, "
                "got others; name files to be judged by with --files"
            )
    for split, pairs in pairs_of.items():
        say(f"Translating {len(pairs):,} sentences ...")
        began = time.perf_counter()
        scores = measure(translator, pairs, options.beam, options.alpha)
        seconds = round(time.perf_counter() - began, 1)
        print_scores(f"{corpus.title(split)}, {method}, {seconds} s", scores)
        results[split] = {**asdict(scores), "seconds": seconds}
    if options.json:
        about = {"command": options.typed, "corpus": asdict(corpus)}
        how = {"beam": options.beam, "alpha": options.alpha}
        write_json(options.json, {**about, **how, "scores": results})


def run_translate(options: argparse.Namespace) -> None:
    """Print the translation of a sentence, a file or the standard input."""
    if options.sentence and options.file is not None:
        raise ValueError("give a sentence or --file, not both")
    translator = load(options)
    if options.sentence:
        text = read_line(os.fsencode(" ".join(options.sentence)), "the sentence")
        print(*translator.translate([text], options.beam, options.alpha))
    elif options.file is not None:
        lines = read_lines(options.file)
        try:
            translations = translator.translate(lines, options.beam, options.alpha)
        except ValueError as error:
            raise ValueError(f"{options.file}: {error}") from error
        print(*translations, sep="\n", end="\n" if lines else "")
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


def drop_output() -> None:
    """Leave nothing that Python, as it ends, would fail to write once more."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def require_file(name: str) -> None:
    """Find out before the work whether its scores can be written after it.

    Raises:
        OSError: If the folder cannot be written, or the name is too long for it.
        ValueError: If the name is that of no file, but of a folder or a device.
    """
    path = Path(name)
    if path.exists() and not path.is_file():
        raise ValueError(f"--json must name a file, got {name!r}")
    path.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile(prefix=path.name, dir=path.parent):
        pass  # it is deleted again


def print_epoch(epoch: FullEpoch) -> None:
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
    print(
        "                lowercased, as papers on Multi30k quote it; the tokenizer is"
    )
    print("                sacreBLEU's 13a, theirs is that of Moses")
    print(f"  exact {scores.exact:7.1%}", flush=True)


def load(options: argparse.Namespace) -> Translator:
    """Load the translator that the options name, onto its device."""
    device = choose_device(options)
    if options.model is None:
        options.model = shipped_model()
    translator = Translator.load(options.model)
    translator.model.to(device)
    translator.fast = not options.readable
    say(f"The model is {options.model}, on {device}.")
    return translator


def shipped_model() -> Path:
    """Find the best model that comes with the repository."""
    for name in SHIPPED:
        if (MODELS / name / MODEL).is_file():
            return MODELS / name
    raise FileNotFoundError(
        f"no model is shipped here. Train one, `{PROGRAM} train --output FOLDER`, and "
        "name it: `--model FOLDER`"
    )


def choose_device(options: argparse.Namespace) -> str:
    """Take the device asked for, or else a GPU where there is one."""
    if options.threads is not None:
        require_positive(threads=options.threads)
        most = os.cpu_count() or 1
        if options.threads > most:
            raise ValueError(
                f"threads must be at most {most}, the CPUs here, got {options.threads}"
            )
        torch.set_num_threads(options.threads)
    available = torch.cuda.is_available()
    if options.device == "cuda" and not available:
        raise ValueError("--device must be cpu: torch finds no GPU here, got cuda")
    device = options.device or ("cuda" if available else "cpu")
    here = int(os.environ["LOCAL_WORLD_SIZE"]) if processes() > 1 else 1
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


def evaluation_corpus(options: argparse.Namespace) -> tuple[Corpus, dict[str, str]]:
    """Find what to be judged by: files, named data, or what was learned from.

    Returns:
        It, and of what was learned from the SHA-256 of each split.
    """
    named = named_corpus(options)
    if not options.files:
        record = read_record(options.model)
        if record["corpus"]["files"] and named and not options.data:
            raise ValueError(
                "--source and --target must come with --data: the model was trained on "
                "files; name others with --files"
            )
        if named:
            return Corpus(**{**record["corpus"], "files": None, **named}), {}
        return Corpus(**record["corpus"]), record["sentences_sha256"]
    if named or options.split:
        raise ValueError(
            "--files must come without --data, --source, --target and --split"
        )
    return Corpus(files={"files": options.files}), {}


def named_corpus(options: argparse.Namespace) -> dict[str, str]:
    """Gather what the user said of named data."""
    chosen = {name: getattr(options, name) for name in ("data", "source", "target")}
    named = {name: value for name, value in chosen.items() if value is not None}
    for one, other in (("source", "target"), ("target", "source")):
        if one in named and other not in named:
            named[other] = "de" if named[one] == "en" else "en"
    return named


def recipe(options: argparse.Namespace, corpus: Corpus, device: str) -> Recipe:
    """Start from a preset, and make the user's choices.

    Other ``epochs`` than the preset's change its cooldown in proportion.
    """
    of_the_grammar = corpus.files is None and corpus.data == "grammar"
    preset = PRESETS[options.preset or ("grammar" if of_the_grammar else "multi30k")]
    choices = {**preset, "seed": 0}
    shorter = device == "cuda" and torch.cuda.is_bf16_supported()
    choices["precision"] = "bfloat16" if shorter else "float32"
    settings = dict(parse_choice(text) for text in options.set)
    require_choices(settings)
    for name in ("epochs", "seed"):
        value = getattr(options, name)
        if value is not None and settings.setdefault(name, value) != value:
            raise ValueError(
                f"{name} must be chosen once, got {value} and {settings[name]}"
            )
    choices |= settings
    if "cooldown" not in settings:
        choices["cooldown"] = preset["cooldown"] * choices["epochs"] // preset["epochs"]
    return choices


def parse_choice(text: str) -> tuple[str, object]:
    """Split NAME=VALUE; a value is JSON, or else plain text."""
    name, _, value = text.partition("=")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        return name, value
