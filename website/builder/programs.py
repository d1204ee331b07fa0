"""Look for programs that pip cannot install: `programs.py NAME...`.

As root, on a computer with apt-get, it installs what is missing. Elsewhere it says in
one sentence what to install.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from typing import NamedTuple


class Program(NamedTuple):
    """A program, and how to get it.

    Attributes:
        commands: The names that it has on different systems.
        packages: The packages of Debian that contain it.
        use: What needs it.
        required: Whether nothing goes on without it.
    """

    commands: Sequence[str]
    packages: Sequence[str]
    use: str
    required: bool


PROGRAMS = {
    "chromium": Program(
        ("chromium", "chromium-browser", "google-chrome"),
        ("chromium",),
        "the tests of the pages and the PDF need a browser",
        required=True,
    ),
    "cc": Program(
        ("cc",),
        ("gcc", "libc6-dev"),
        "chapter 18 compiles a few lines of C and otherwise leaves them out",
        required=False,
    ),
}


def find(name: str) -> str | None:
    """Return the path of a program, or None if it is not installed."""
    return next(filter(None, map(shutil.which, PROGRAMS[name].commands)), None)


def advice(name: str) -> str:
    """Return one sentence that says what to install, and why."""
    program = PROGRAMS[name]
    packages = " ".join(program.packages)
    return f"{name} is missing: {program.use} (on Debian: sudo apt install {packages})."


def main(names: Sequence[str]) -> int:
    """Install the missing programs, or say how, and return the exit status."""
    missing = [name for name in names if find(name) is None]
    may_install = getattr(os, "geteuid", lambda: 1)() == 0 and shutil.which("apt-get")
    if missing and may_install:
        packages = [each for name in missing for each in PROGRAMS[name].packages]
        print(f"Installing {' '.join(packages)} with apt-get", flush=True)
        install = ["apt-get", "install", "-qq", "--no-install-recommends", "-y"]
        environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
        for command in (["apt-get", "update", "-qq"], [*install, *packages]):
            subprocess.run(command, env=environment, stdout=subprocess.DEVNULL)
        missing = [name for name in missing if find(name) is None]
    for name in missing:
        print(advice(name), file=sys.stderr)
    return int(any(PROGRAMS[name].required for name in missing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
