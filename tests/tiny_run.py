"""A translator so small that it is trained in a blink, and its command."""

import io
import sys

import pytest
import torch

from transformer_lib.translation.command import main

LINES = {
    "train.xx": "ba de\nfi\nde go ba\ngo\nba ba\nfi de\n",
    "train.yy": "Kä osk\nMir'\nosk um Kä\num\nKä Kä\nMir' osk\n",
    "validation.xx": "de fi\ngo de\n",
    "validation.yy": "osk Mir'\num osk\n",
}
TINY = (
    "vocab_size=262 max_tokens=60 max_len=20 d_model=4 num_heads=2 d_ff=3 num_layers=1 "
    "dropout=0.1 warmup_steps=3 average=2 cooldown=1 norm_first=true"
).split()


def write_files(folder):
    for name, text in LINES.items():
        (folder / name).write_text(text, encoding="utf-8")
    return folder


def train_arguments(files, output, *, epochs=2, choices=TINY):
    sides = {
        split: [str(files / f"{split}.{side}") for side in ("xx", "yy")]
        for split in ("train", "validation")
    }
    return [
        *("train", "--output", str(output), "--epochs", str(epochs)),
        *("--device", "cpu", "--train", *sides["train"]),
        *("--validation", *sides["validation"], "--set", *choices),
    ]


def call(*arguments, given=b""):
    """Run the command here: its exit status, what it printed, what it said."""
    texts = [
        io.TextIOWrapper(io.BytesIO(content), encoding="utf-8", newline="\n")
        for content in (given, b"", b"")
    ]
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)  # as a user has it
    with pytest.MonkeyPatch.context() as patch:
        for name, text in zip(("stdin", "stdout", "stderr"), texts, strict=True):
            patch.setattr(sys, name, text)
        patch.setattr(sys, "argv", ["translation", *map(str, arguments)])
        try:
            status = main()
        except SystemExit as end:  # argparse's way
            status = end.code
        finally:
            torch.set_default_dtype(dtype)
    for text in texts[1:]:
        text.seek(0)
    return status, *(text.read() for text in texts[1:])
