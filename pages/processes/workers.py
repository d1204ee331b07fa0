"""Several processes on one computer, to try out how they exchange tensors."""

import contextlib
import io
import os
import pickle
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Self

import cloudpickle
import torch
from torch import distributed as dist

from transformer_lib.checks import require_positive


class Workers:
    """Processes that form one group, and wait for something to do.

    ``with Workers(2) as both: both(function)`` runs a function in each of the two.

    A function of a notebook is sent with copies of all that it uses.

    Args:
        size: How many.
        timeout: How long to wait for an answer, in seconds, before all are ended.

    Raises:
        ValueError: If ``size`` is not positive.
        TimeoutError: If they do not start in time.
    """

    def __init__(self, size: int, timeout: float = 60) -> None:
        require_positive(size=size)
        self.timeout = timeout
        self._folder = tempfile.TemporaryDirectory()
        self._processes, self._pipes = [], []
        context = get_context("spawn")
        for rank in range(size):
            ours, theirs = context.Pipe()
            arguments = theirs, rank, size, self._folder.name, timeout
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._pipes.append(ours)
        self._gather(timeout)

    def __call__(
        self, function: Callable, *arguments: Any, timeout: float | None = None
    ) -> list[Any]:
        """Run a function in every process, at the same time.

        What it prints is printed here, each line behind the rank of its process.

        Args:
            function: Its first argument is the number of the process, its rank.
            *arguments: The others, the same for all; each process gets its own copy.
            timeout: How long to wait, in seconds; None for that of the workers.

        Returns:
            What it returned in each process, by rank.

        Raises:
            RuntimeError: If it raises in one of them, with what that one said, if one
                has died, or all were ended before.
            TimeoutError: If one of them gives no answer in time. All are ended.
        """
        if not self._pipes:
            raise RuntimeError("the workers have ended: make new ones")
        task = cloudpickle.dumps((function, arguments))
        for pipe in self._pipes:
            with contextlib.suppress(BrokenPipeError):  # a dead one shows below
                pipe.send_bytes(task)
        results, errors = [], []
        answers = self._gather(self.timeout if timeout is None else timeout)
        for rank, (printed, result, error) in enumerate(answers):
            for line in printed.splitlines():
                print(f"rank {rank}: {line}")
            results.append(result)
            errors += [f"rank {rank}: {error}"] if error else []
        if errors:
            raise RuntimeError("\n".join(errors))
        return results

    def close(self) -> None:
        """End the processes."""
        for process, pipe in zip(self._processes, self._pipes, strict=True):
            pipe.close()
            process.kill()
            process.join()
            process.close()
        self._processes, self._pipes = [], []
        self._folder.cleanup()

    def __enter__(self) -> Self:
        """Give the workers."""
        return self

    def __exit__(self, *error: object) -> None:
        """End the processes."""
        self.close()

    def _gather(self, seconds: float) -> list[tuple[str, Any, str]]:
        """Wait for an answer of each, all in the same time."""
        end, silent = time.monotonic() + seconds, list(self._pipes)
        while silent and (came := wait(silent, max(0, end - time.monotonic()))):
            silent = [pipe for pipe in silent if pipe not in came]
        if silent:
            ranks = [str(self._pipes.index(pipe)) for pipe in silent]
            self.close()
            who = " and ".join(ranks)
            raise TimeoutError(f"rank {who} gave no answer in {seconds:g} s")
        answers = []
        for rank, pipe in enumerate(self._pipes):
            try:
                answers.append(pickle.loads(pipe.recv_bytes()))
            except (EOFError, ConnectionError):
                log = Path(self._folder.name, f"{rank}.log").read_text(errors="replace")
                self.close()
                raise RuntimeError(f"rank {rank} has died\n{log}".rstrip()) from None
        return answers


def _serve(pipe: Connection, rank: int, size: int, folder: str, seconds: float) -> None:
    """Be a worker: join the group, then run what is sent, until nobody is there."""
    log = os.open(Path(folder, f"{rank}.log"), os.O_CREAT | os.O_WRONLY)
    os.dup2(log, 1)  # what libraries write there would come at any time
    os.dup2(log, 2)
    torch.set_num_threads(1)
    meeting = Path(folder, "meeting").as_uri()
    group = {"init_method": meeting, "rank": rank, "world_size": size}
    dist.init_process_group("gloo", **group, timeout=timedelta(seconds=seconds))
    pipe.send_bytes(pickle.dumps(("", None, "")))
    while True:
        try:
            task = pipe.recv_bytes()
        except (EOFError, ConnectionError):
            os._exit(0)  # without a last word to the others, who may be gone
        printed, result, error = io.StringIO(), None, ""
        with contextlib.redirect_stdout(printed):
            try:
                function, arguments = pickle.loads(task)
                result = function(rank, *arguments)
            except Exception as raised:
                error = f"{type(raised).__name__}: {raised}"
        pipe.send_bytes(pickle.dumps((printed.getvalue(), result, error)))
