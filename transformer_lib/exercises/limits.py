"""Run a reader's code so that it can neither hang the notebook nor flood it."""

import contextlib
import copy
import io
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator

try:
    import resource
except ImportError:  # Windows
    resource = None

SECONDS = 5.0  # for one call; a correct one needs milliseconds
MEMORY = 2 * 2**30  # bytes beyond what the process already has, on Linux
PRINTED = 500  # characters of output that are kept
LIBRARIES = "<frozen", *map(sysconfig.get_path, ("stdlib", "purelib", "platlib"))


class TooLong(BaseException):  # so that ``except Exception`` does not catch it
    """The time for one call is over."""


class Printed(io.StringIO):
    """Keeps the beginning of what is written."""

    def write(self, text: str) -> int:
        super().write(text[: max(0, PRINTED - self.tell())])
        return len(text)


def call(answer: Callable, arguments: list, printed: Printed) -> object:
    """Call an answer with copies of the arguments, within limits.

    Raises:
        TooLong: If it runs longer than ``SECONDS``.
        MemoryError: If it asks for more than ``MEMORY``.
        Exception: Whatever the answer raises.
    """
    redirect = contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed)
    with redirect[0], redirect[1], less_memory():
        try:
            return in_time(SECONDS, answer, *arguments)
        except RuntimeError as error:
            if "tried to allocate" in str(error):  # how torch says it
                raise MemoryError from error
            raise


def in_time(seconds: float, function: Callable, *arguments: object) -> object:
    """Call a function, and stop it if it runs longer.

    Raises:
        TooLong: If it does.
    """
    end = time.monotonic() + seconds
    before = sys.gettrace()

    def watch(frame, event, argument):
        # A library may be called by the garbage collector, which swallows exceptions.
        if frame.f_code.co_filename.startswith(LIBRARIES):
            return None
        if time.monotonic() > end:
            raise TooLong
        return watch

    sys.settrace(watch)
    try:
        return function(*arguments)
    finally:
        sys.settrace(before)


@contextlib.contextmanager
def less_memory() -> Iterator[None]:
    """Let the process grow by ``MEMORY`` at most, where the system can do this."""
    if resource is None or not sys.platform.startswith("linux"):
        yield
        return
    with open("/proc/self/statm", encoding="ascii") as file:
        used = int(file.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    limits = [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_AS, (min([used + MEMORY, *limits]), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def fresh(arguments: dict) -> dict:
    """Copy the arguments, so that a call cannot change them for the next one."""
    return copy.deepcopy(arguments)
