"""Several processes: each takes a shard of a batch, and all make the same update.

``torchrun`` starts the same program several times. Inside ``process_group`` these
processes know of each other. Elsewhere, and in a program that was started alone, there
is one process, and everything here leaves things as they are. Whatever waits for other
processes raises ``ConnectionError`` if one has ended, or does not answer.
"""

import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import timedelta
from random import Random

import torch
from torch import distributed as dist
from torch import nn

from transformer_lib.data import Batch

PATIENCE = timedelta(minutes=10)  # how long a process waits for the others


def world_size() -> int:
    """Count the processes that train together; 1 for a program on its own."""
    return dist.get_world_size() if _is_joined() else 1


def rank() -> int:
    """Give this process's number, from 0 to ``world_size() - 1``."""
    return dist.get_rank() if _is_joined() else 0


def is_main() -> bool:
    """Say whether this is process 0, the one that writes files."""
    return rank() == 0


@contextmanager
def process_group() -> Iterator[None]:
    """Let the processes that ``torchrun`` has started find each other.

    Tensors on a CPU then travel by gloo, those on GPUs by NCCL; on a computer with
    GPUs, process n takes the n-th. A process that was started alone just goes on.

    An error or an interruption in one process ends all of them: the others find that it
    does not answer. The first to fail gets its error; in the others it becomes a
    ``SystemExit``, so that it is told once.

    Raises:
        ConnectionError: If the others do not come within ``PATIENCE``.
    """
    if not _is_launched():
        yield
        return
    here = int(os.environ["LOCAL_RANK"])  # its number on this computer
    if here < torch.cuda.device_count():
        torch.cuda.set_device(here)
    if os.environ["LOCAL_WORLD_SIZE"] == os.environ["WORLD_SIZE"]:
        _stay_on_this_computer()
    with _patience():
        store, number, count = next(dist.rendezvous("env://", timeout=PATIENCE))
        life = os.environ["TORCHELASTIC_RESTART_COUNT"]  # what others left is not ours
        store = dist.PrefixStore(f"life {life}", store)
        nccl = torch.cuda.is_available() and dist.is_nccl_available()
        dist.init_process_group(
            "cpu:gloo,cuda:nccl" if nccl else "gloo",
            store=store,
            rank=number,
            world_size=count,
            timeout=PATIENCE,
        )
    before = signal.signal(signal.SIGTERM, _told_to_end)
    try:
        yield
    except BaseException as error:  # the end of this process, which tells the others
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if _is_first(store):
            raise
        raise SystemExit(1) from error
    dist.destroy_process_group()
    signal.signal(signal.SIGTERM, before)


@contextmanager
def quiet_unless_main() -> Iterator[None]:
    """Let only process 0 print meanwhile: what all would say is said once."""
    if not _is_launched() or os.environ["RANK"] == "0":
        yield
        return
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        redirect_stdout(nowhere),
        redirect_stderr(nowhere),
    ):
        yield


def wait_for_main() -> None:
    """Go on when process 0 has come here, too."""
    broadcast(0)


def begin_together(model: nn.Module, step: int) -> None:
    """Give all processes the weights of process 0.

    Args:
        model: Of the same sizes in all of them.
        step: How many updates this process has made or read from a file.

    Raises:
        ValueError: If process 0 has made another number of updates.
    """
    (first,) = broadcast(step)
    if step != first:
        raise ValueError(
            f"step must be that of process 0, {first:.0f}, got {step}: all processes "
            "must see the same folder"
        )
    if world_size() > 1:
        with _patience():
            for parameter in model.parameters():
                dist.broadcast(parameter.detach(), src=0)


def own_random_numbers(seed: int, epoch: int) -> None:
    """Let dropout draw, in this epoch, what no other process draws.

    Process 0 goes on with the numbers that it has. Those of another follow from the
    arguments and its rank, so that nobody needs to write down how far it came.

    Args:
        seed: Of the whole run.
        epoch: Which pass through the data begins.
    """
    if not is_main():
        torch.manual_seed(Random(f"{seed} {epoch} {rank()}").getrandbits(63))


def shard(batch: Batch) -> Batch:
    """Take this process's pairs: every n-th of a batch, for n processes.

    Args:
        batch: The same in all processes, B pairs.

    Returns:
        B / n pairs, rounded up or down, with the padding that they had; perhaps none.
    """
    return Batch(*(ids[rank() :: world_size()] for ids in batch))


def all_reduce_gradients(parameters: Iterable[nn.Parameter], number: float) -> float:
    """Add up the gradients of all processes, and a number beside them.

    Everything travels at once, as one long vector.

    Args:
        parameters: The same in all processes, in the same order. Each that is not
            frozen has afterwards the sum of its gradients as ``grad``; one without a
            gradient adds zeros.
        number: What else to add up, such as a loss.

    Returns:
        The sum of the numbers.
    """
    if world_size() == 1:
        return number
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    for parameter in trained:
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
    rows = [parameter.grad.flatten() for parameter in trained]
    flat = torch.cat([*rows, rows[0].new_tensor([number])])
    with _patience():
        dist.all_reduce(flat)  # in each process, the sum over all
    *sums, total = flat.split([*map(len, rows), 1])
    for parameter, gradient in zip(trained, sums, strict=True):
        parameter.grad.copy_(gradient.view_as(parameter))
    return total.item()


def broadcast(*numbers: float) -> tuple[float, ...]:
    """Give the numbers that process 0 has found, so that all decide alike."""
    if world_size() == 1:
        return numbers
    found = torch.tensor(numbers, dtype=torch.float64)
    with _patience():
        dist.broadcast(found, src=0)
    return tuple(found.tolist())


def _is_joined() -> bool:
    return dist.is_available() and dist.is_initialized()


def _is_launched() -> bool:
    """Say whether ``torchrun`` has started this process."""
    return dist.is_available() and dist.is_torchelastic_launched()


def _is_first(store: "dist.Store") -> bool:
    """Say whether this process is the first to fail; the store counts."""
    try:
        return store.add("failed", 1) == 1
    except RuntimeError:  # the store has ended as well
        return True


@contextmanager
def _patience() -> Iterator[None]:
    """Say it in words if another process does not answer."""
    try:
        yield
    except RuntimeError as error:  # all that torch knows of it
        raise ConnectionError(
            "another process of this run has ended, or has not answered for "
            f"{PATIENCE.total_seconds() / 60:g} minutes"
        ) from error


def _told_to_end(*_: object) -> None:
    """Say it in words, too, if ``torchrun`` ends this process."""
    raise ConnectionError(
        "torchrun has ended this process, as it does when another one has ended"
    )


def _stay_on_this_computer() -> None:
    """Let gloo listen on loopback only; torchrun's own port stays on all interfaces."""
    if sys.platform == "linux":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
