"""Killed at any moment: what lies there is whole, and the run ends as if undisturbed.

Only the sweep has these: each kill takes as long as it takes.
"""

import json
import multiprocessing
import os
import random
import time
from pathlib import Path

import pytest
import torch
from tiny_run import call, train_arguments, write_files

from transformer_lib.files import write_json
from transformer_lib.training import load_tensors
from transformer_lib.training.run import STATE
from transformer_lib.translation import Translator
from transformer_lib.translation.run import read_record
from transformer_lib.translation.translator import MODEL

pytestmark = [pytest.mark.sweep(only=True), pytest.mark.usefixtures("one_thread")]
EPOCHS, KILLS = 4, 40
PAUSE = 0.01


def write_slowly():
    """Take long over a file, so that a kill often comes in between."""
    write_bytes, replace, fsync = Path.write_bytes, Path.replace, os.fsync

    def in_halves(self, content):
        write_bytes(self, content[: len(content) // 2])
        time.sleep(PAUSE)
        write_bytes(self, content)

    def late(self, target):
        time.sleep(PAUSE)
        replace(self, target)
        time.sleep(PAUSE)

    def flush(number):
        time.sleep(PAUSE)
        fsync(number)

    Path.write_bytes, Path.replace, os.fsync = in_halves, late, flush


def train_in_a_child(files, folder):
    torch.set_num_threads(1)
    write_slowly()
    status, _, err = call(*train_arguments(files, folder, epochs=EPOCHS))
    if status:
        raise SystemExit(err)


def count_in_a_child(path, begun):
    begun.touch()
    write_slowly()
    for number in range(10**6):
        write_json(path, [number] * 1000)


@pytest.fixture(scope="module")
def start():
    """Start a function in a child that has imported what it needs."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["transformer_lib.translation.command"])

    def start(function, *arguments):
        child = context.Process(target=function, args=arguments)
        child.start()
        return child

    return start


def tensors_of(path):
    tensors, about = load_tensors(path)
    for epoch in about.get("history", []):
        del epoch["seconds"]
    tensors = {name: (p.dtype, p.numpy().tobytes()) for name, p in tensors.items()}
    return tensors, about


def look_at(folder):
    """Each file is whole, or there is none of this name."""
    if (folder / "run.json").exists():
        read_record(folder)
    if (folder / STATE).exists():
        load_tensors(folder / STATE)
    if (folder / MODEL).exists():
        Translator.load(folder)
        return
    with pytest.raises(FileNotFoundError, match=MODEL):
        Translator.load(folder)


def test_a_run_killed_at_any_moment_ends_as_one_never_stopped(start, tmp_path, seed):
    files, whole = write_files(tmp_path), tmp_path / "whole"
    start(int).join()  # who imports once for all
    began = time.monotonic()
    child = start(train_in_a_child, files, whole)
    child.join()
    assert child.exitcode == 0
    lasts = time.monotonic() - began
    expected = {name: tensors_of(whole / name) for name in (MODEL, STATE)}
    moments, kills, runs = random.Random(seed), 0, 0
    while kills < KILLS:
        folder = tmp_path / f"run {runs}"
        while True:
            child = start(train_in_a_child, files, folder)
            child.join(moments.uniform(0, 0.7 * lasts))
            if child.is_alive():
                child.kill()
                child.join()
            if child.exitcode == 0:
                break
            assert child.exitcode == -9
            kills += 1
            look_at(folder)
        runs += 1
        for name, before in expected.items():
            assert tensors_of(folder / name) == before


def test_a_file_killed_while_it_is_written_is_whole(start, tmp_path, seed):
    path, moments, found = tmp_path / "number.json", random.Random(seed), []
    for kill in range(KILLS):
        begun = tmp_path / f"begun {kill}"
        child = start(count_in_a_child, path, begun)
        while not begun.exists():
            child.join(0.01)
            assert child.is_alive()
        child.join(moments.uniform(0, 0.3))
        child.kill()
        child.join()
        if path.exists():
            (number,) = set(json.loads(path.read_text("utf-8")))
            found.append(number)
    assert len(found) > KILLS / 2
    assert len(set(found)) > 1
