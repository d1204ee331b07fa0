"""The options of the command and its help texts."""

import argparse
from pathlib import Path

from transformer_lib.translation.corpus import DATA
from transformer_lib.translation.run import PRESETS, RECIPE_CHOICES
from transformer_lib.translation.translator import ALPHA

PROGRAM = "python -m transformer_lib.translation"
SHIPPED = Path(__file__).resolve().parents[2] / "models" / "multi30k-en-de"

DESCRIPTION = """\
Train a Transformer that translates, measure it and use it.

The shipped model translates right away:
  {program} translate "A dog runs on the beach."
Train a small one on the grammar that comes with the book, in minutes:
  {program} train --output runs/grammar
  {program} translate --model runs/grammar "the cat reads a red book"
"""

DOWNLOAD = """\
Fetch Multi30k, captions of photographs in English and German, 1.4 MB, for
non-commercial research and education only. The files go to the folder that
MULTI30K_DIR names, or to your cache folder.

Example:
  {program} download
"""

TRAIN = """\
Train a translator. By default it learns the book's own grammar, which needs no
download and takes minutes. The preset for captions and files is meant for a GPU.

You can stop it at any time, with Ctrl-C or by pulling the plug: the same command
continues after the last finished epoch. The folder will contain tokenizer.json,
model.safetensors, run.json (the options, the time and the scores), log.csv (a row for
each epoch) and training.safetensors (what the next epoch needs).

torchrun starts several processes that train together, each on its own GPU or on the
CPU:
  torchrun --standalone --nproc_per_node=2 -m transformer_lib.translation train \\
      --output runs/grammar
Do this only in a network that you trust: torchrun's port listens on all interfaces
without authentication, and anyone who can reach it can run code. The README of
transformer_lib says how to protect it.

A text file holds one sentence a line, in UTF-8. Make two of a download that has columns
between tabs:
  cut -f1 pairs.tsv > train.en; cut -f2 pairs.tsv > train.fr

Examples:
  {program} train --output runs/more --set dropout=0.1 num_layers=3
  {program} train --data multi30k --output runs/en-de
  {program} train --data multi30k --source de --target en --output runs/de-en
  {program} train --output runs/fr-it \\
      --train train.fr train.it --validation dev.fr dev.it
"""

EVALUATE = """\
Translate sentences with known translations, and compare. The output is BLEU and chrF of
the text as it is, BLEU of the lowercased text, which papers on Multi30k report, each
with its signature, and the share of translations that match exactly.

The default is the validation set that the model was trained with. Look at a test set
only once, after all choices are made.

Examples:
  {program} evaluate --model runs/en-de
  {program} evaluate --model runs/en-de --beam 5 --split test_2016 test_2017 mscoco
  {program} evaluate --model runs/fr-it --files test.fr test.it
"""

TRANSLATE = """\
Translate a sentence, a file, or standard input, where each line is answered as it
arrives. Each line of UTF-8 gives one line on standard output. A line that is too long
for the model or not UTF-8 ends the command with an error that names it.

Examples:
  {program} translate "A dog runs on the beach."
  {program} translate --beam 5 --file captions.en > captions.de
  cat captions.en | {program} translate --model runs/en-de
"""


def parser() -> argparse.ArgumentParser:
    """Describe every option; ``options.command`` is the command that was chosen."""
    whole = argparse.ArgumentParser(
        prog=PROGRAM,
        description=DESCRIPTION.format(program=PROGRAM),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = whole.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, summary, text, add_options in (
        ("download", "fetch the captions of Multi30k", DOWNLOAD, lambda command: None),
        ("train", "train a translator", TRAIN, _train),
        ("evaluate", "measure a translator", EVALUATE, _evaluate),
        ("translate", "translate text", TRANSLATE, _translate),
    ):
        command = commands.add_parser(
            name,
            help=summary,
            description=text.format(program=PROGRAM),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        add_options(command)
    return whole


def _train(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    add(
        "--output",
        required=True,
        type=_folder,
        metavar="FOLDER",
        help="where to keep the run",
    )
    _data(command, "grammar")
    _files(command, "--train", "instead of --data")
    _files(command, "--validation", "with --train, to watch progress by")
    add(
        "--preset",
        choices=PRESETS,
        help="sizes and training (default: grammar for the grammar, else multi30k)",
    )
    add(
        "--epochs",
        type=int,
        help="passes through the data; a preset's cooldown changes in proportion",
    )
    add("--seed", type=int, help="the seed of the run (default: 0)")
    add(
        "--set",
        nargs="+",
        action="extend",
        default=[],
        metavar="NAME=VALUE",
        help="any other choice, which TransformerConfig and ScaleConfig explain in "
        "the book's reference: " + ", ".join(sorted(RECIPE_CHOICES)),
    )
    _device(command)


def _evaluate(command: argparse.ArgumentParser) -> None:
    add = command.add_argument
    _model(command)
    _data(command, "what the model was trained with")
    add(
        "--split",
        nargs="+",
        help="of the grammar: train, validation, test, longer; of Multi30k: train, "
        "validation, test_2016, test_2017, mscoco (default: validation)",
    )
    _files(command, "--files", "instead of --data")
    _device(command)


def _translate(command: argparse.ArgumentParser) -> None:
    command.add_argument("sentence", nargs="*", help="what to translate")
    command.add_argument("--file", help="a text file, one sentence a line")
    _model(command)
    _device(command)


def _folder(name: str) -> str:
    if not name:  # which would be the current folder
        raise argparse.ArgumentTypeError("must name a folder, got an empty name")
    return name


def _data(command: argparse.ArgumentParser, default: str) -> None:
    command.add_argument("--data", choices=DATA, help=f"(default: {default})")
    for name, where, usual in (("--source", "from", "en"), ("--target", "to", "de")):
        command.add_argument(
            name,
            choices=("en", "de"),
            help=f"language to translate {where} (default: {usual})",
        )


def _files(command: argparse.ArgumentParser, name: str, purpose: str) -> None:
    command.add_argument(
        name,
        nargs=2,
        metavar=("SOURCE", "TARGET"),
        help=f"{purpose}: two text files in any two languages; line n of one "
        "translates line n of the other",
    )


def _model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--model",
        default=SHIPPED,
        metavar="FOLDER",
        help="a finished run (default: the shipped model)",
    )
    command.add_argument(
        "--beam",
        type=int,
        default=1,
        metavar="N",
        help="follow N hypotheses; 1, the default, is greedy",
    )
    command.add_argument(
        "--alpha",
        type=float,
        default=ALPHA,
        help=f"length penalty of a beam (default: {ALPHA}; the paper's is 0.6)",
    )


def _device(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--device", choices=("cpu", "cuda"), help="(default: cuda if available)"
    )
    command.add_argument("--threads", type=int, help="threads of the CPU to use")
