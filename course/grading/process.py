"""An answer in a process of its own, for marks.

The process gets the code of the student and the arguments of each call, and sends
back the returned values. The verdict is computed here, so what the answer prints, its
exit status and whatever it changes in its own process prove nothing. At the end, its
process group is killed. Linux and macOS.
"""

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from torch import Tensor

from bookkit.exercises import calling
from bookkit.exercises.calling import Raised, packed, unpacked
from bookkit.exercises.exercise import Build, Case
from bookkit.exercises.testing import Run

SECONDS = 10.0  # for one call; a correct one needs milliseconds
STARTING = 30.0  # for importing torch and running the student's code once
IN_ALL = 90.0  # for all calls of one answer
STARTS = 2  # how often the process is started again after it was stopped
MEMORY = 8 * 2**30  # bytes of addresses; torch alone takes two
LONGEST = 2**26  # bytes of a reply
NO_REPLY = "ValueError: its process sent a reply that cannot be read."
MARK = "GRADED_IN"  # in the environment of a process and its children


class Process:
    """A student's code in a process of its own, started again if it ends.

    Use it as a context: at the end, the process and its children are gone.

    Args:
        setup: The first request, which runs the student's code: a name and arguments.
        script: What runs there; None: ``calling``.
    """

    def __init__(self, setup: Sequence, script: Path | None = None) -> None:
        self.setup, self.script = list(setup), script or Path(calling.__file__)
        self.starts, self.process, self.began = 0, None, {}
        self.spent = 0.0

    def __enter__(self) -> "Process":
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        return self

    def __exit__(self, *error: object) -> None:
        self.end()
        self.folder.cleanup()

    def start(self) -> None:
        """Start the process, and run the student's code.

        Raises:
            Raised: If that fails, or was tried too often.
        """
        if self.starts > STARTS:
            raise Raised("It was stopped too often to be tried again.")
        self.starts += 1
        requests, replies = os.pipe(), os.pipe()
        self.out, self.replies = requests[1], replies[0]
        self.process = subprocess.Popen(
            [sys.executable, self.script, str(requests[0]), str(replies[1])],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(requests[0], replies[1]),
            start_new_session=True,
            cwd=self.folder.name,
            env=os.environ | {"OMP_NUM_THREADS": "1", MARK: self.folder.name},
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
        )
        os.close(requests[0])
        os.close(replies[1])
        os.set_blocking(self.out, False)
        self.began = self.exchange(self.setup, STARTING)

    def end(self) -> None:
        """End the process and its children."""
        if self.process is None:
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        for path in Path("/proc").glob("[0-9]*/environ"):  # a child of another group
            with contextlib.suppress(OSError):
                if f"{MARK}={self.folder.name}\0".encode() in path.read_bytes():
                    os.kill(int(path.parent.name), signal.SIGKILL)
        self.process.wait()
        os.close(self.out)
        os.close(self.replies)
        self.process = None

    def ask(self, *request: object, seconds: float = 0) -> dict:
        """Send a request, and return the reply.

        Raises:
            Raised: If the answer raises something, ends the process, or runs too long.
        """
        if self.process is None:
            self.start()
        if seconds:
            return self.exchange(request, seconds)
        began, left = time.monotonic(), IN_ALL - self.spent
        if left <= 0:
            raise Raised(f"TimeoutError: the tests took {IN_ALL:g} seconds.")
        try:
            return self.exchange(request, min(SECONDS, left))
        finally:
            self.spent += time.monotonic() - began

    def exchange(self, request: Sequence, seconds: float) -> dict:
        try:
            reply = json.loads(self.transfer(request, time.monotonic() + seconds))
        except TimeoutError:
            says = f"TimeoutError: it was stopped after {seconds:g} seconds. "
            reply = Raised(says + "Does a loop end?")
        except (BrokenPipeError, EOFError):
            reply = Raised("SystemExit: it exits Python. Remove the call that does so.")
        except MemoryError:
            reply = Raised("MemoryError: what it returns is far too large.")
        except (ValueError, RecursionError):
            reply = Raised(NO_REPLY)
        if isinstance(reply, Raised):
            self.end()
            raise reply
        if not isinstance(reply, dict):
            raise Raised(NO_REPLY)
        if "raises" in reply:
            raise Raised(str(reply["raises"]), str(reply.get("trace", "")))
        return reply

    def transfer(self, request: Sequence, end: float) -> bytes:
        """Write a request, and read a line, without ever waiting beyond the end."""
        rest, text = json.dumps(list(request)).encode() + b"\n", bytearray()
        while not text.endswith(b"\n"):
            left, writes = end - time.monotonic(), [self.out] if rest else []
            ready = select.select([self.replies], writes, [], max(left, 0))
            if left <= 0 or not any(ready):
                raise TimeoutError
            if ready[1]:
                rest = rest[os.write(self.out, rest) :]
            if ready[0]:
                text += (piece := os.read(self.replies, 2**16))
                if not piece:
                    raise EOFError
                if len(text) > LONGEST:
                    raise MemoryError
        return bytes(text)


class RunElsewhere(Run):
    """Calls an answer in its process, leniently, as a grader does.

    Args:
        build: The exercise.
        process: Where the answer is.
    """

    def __init__(self, build: Build, process: Process) -> None:
        super().__init__(build, None, lenient=True)
        self.process, self.name = process, build.call.partition("(")[0]

    def ask(self, *request: object) -> dict:
        return self.process.ask(request[0], self.name, *request[1:])

    def is_missing(self) -> bool:
        """Whether nothing was written."""
        with readable():
            return bool(self.ask("describe", 0)["missing"])

    def refusal(self) -> tuple[str, str]:
        with readable():
            reply = self.ask("describe", len(self.build.example))
            return str(reply["test"]), str(reply["says"])

    def attempt(self, case: Case, d_ff: int = 0) -> tuple[object, list]:
        with readable():
            reply = self.ask("call", packed(list(case.values())), d_ff)
            self.used.update(map(str, reply["used"]))
            self.printed.write(str(reply["printed"]))
            self.count = int(reply["count"])
            after = unpacked(reply["arguments"])
            return unpacked(reply["made"]), [after[i] for i in range(len(case))]

    def own_gradients(self, case: Case) -> list[Tensor | None]:
        with readable():
            reply = self.ask("gradients", packed(list(case.values())))
            found = unpacked(reply["gradients"])
            return [found[i] for i in range(len(case))]


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Take a reply that cannot be read as an error of the answer."""
    try:
        yield
    except (TypeError, ValueError, LookupError, AttributeError, RuntimeError):
        raise Raised(NO_REPLY) from None
