"""Run a reader's code so that it can neither hang the notebook nor flood it."""

import contextlib
import copy
import io
import signal
import sys
import sysconfig
import threading
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
        room = PRINTED - self.tell()
        if room >= 0:
            super().write(text[:room])
            super().write("…" if len(text) > room else "")
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
            repeat()
            raise TooLong  # after this, Python no longer calls ``watch``
        return watch

    def insist(number, frame):
        ours = frame.f_code.co_filename.startswith((__file__, *LIBRARIES))
        if time.monotonic() > end and not ours:
            raise TooLong

    with alarm(insist) as repeat:
        sys.settrace(watch)
        try:
            return function(*arguments)
        finally:
            sys.settrace(before)


@contextlib.contextmanager
def alarm(handler: Callable) -> Iterator[Callable]:
    """Give a function that calls the handler ten times a second from then on.

    A bare ``except:`` in a loop catches ``TooLong`` once, but not every time. Without
    alarms (on Windows, in a thread) the function does nothing.
    """
    main = threading.current_thread() is threading.main_thread()
    if not main or not hasattr(signal, "setitimer"):
        yield lambda: None
        return
    before = signal.signal(signal.SIGALRM, handler)
    started = []

    def start() -> None:
        started.append(signal.setitimer(signal.ITIMER_REAL, 0.1, 0.1))

    try:
        yield start
    finally:
        if started:
            signal.setitimer(signal.ITIMER_REAL, *started[0])
        signal.signal(signal.SIGALRM, before or signal.SIG_DFL)


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
