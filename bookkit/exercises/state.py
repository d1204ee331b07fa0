"""Settings that an answer may change, and that a check puts back."""

import builtins
import contextlib
import copy
import os
import random
import signal
import sys
import warnings
from collections.abc import Iterator

import numpy
import torch
from torch.nn import functional
from torch.nn.modules import module

# How to read a setting, and how to write it.
SETTINGS = [
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly),
    (
        torch.are_deterministic_algorithms_enabled,
        torch.use_deterministic_algorithms,
    ),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (os.getcwd, os.chdir),
    (sys.gettrace, sys.settrace),
]
SEEDS = [
    (torch.get_rng_state, torch.set_rng_state),
    (random.getstate, random.setstate),
    (numpy.random.get_state, numpy.random.set_state),
]
HOOKS = [name for name in vars(module) if name.startswith("_global_")]
PATCHED = (torch, torch.Tensor, functional, builtins)  # their functions


def device() -> torch.device | None:
    """Return the default device, None for the processor's."""
    found = torch.get_default_device()
    return None if found.type == "cpu" else found


def repair(owner: object, kept: dict) -> None:
    """Put the functions of a module or a class back."""
    for name in vars(owner).keys() | kept.keys():
        if name in kept and vars(owner).get(name) is kept[name]:
            continue
        with contextlib.suppress(AttributeError, TypeError):
            if name in kept:
                setattr(owner, name, kept[name])
            elif isinstance(owner, type):  # a module may have got a submodule
                delattr(owner, name)


@contextlib.contextmanager
def as_before() -> Iterator[None]:
    """Put back what the block changes: dtype, device, seeds, hooks, folder and more."""
    before = [read() for read, _ in SETTINGS]
    where, seeds = device(), [read() for read, _ in SEEDS]
    printing = torch._tensor_str.PRINT_OPTS
    options = dict(vars(printing))
    hooks = {name: copy.copy(getattr(module, name)) for name in HOOKS}
    functions = [dict(vars(owner)) for owner in PATCHED]
    environment = dict(os.environ)
    may_ring = hasattr(signal, "getitimer") and any(
        signal.getitimer(signal.ITIMER_REAL)
    )
    try:
        yield
    finally:
        for owner, kept in zip(PATCHED, functions, strict=True):
            if vars(owner) != kept:
                repair(owner, kept)
        for name, kept in hooks.items():
            found = getattr(module, name)
            if isinstance(kept, dict):
                found.clear()
                found.update(kept)
            else:
                setattr(module, name, kept)
        if device() != where:
            torch.set_default_device(where)
        with warnings.catch_warnings(action="ignore"):  # anomaly mode warns
            for (read, write), kept in zip(SETTINGS, before, strict=True):
                if read() != kept:
                    write(kept)
        for (_, write), kept in zip(SEEDS, seeds, strict=True):
            write(kept)
        vars(printing).update(options)
        if os.environ != environment:
            os.environ.clear()
            os.environ.update(environment)
        if hasattr(signal, "alarm") and not may_ring:
            signal.alarm(0)
