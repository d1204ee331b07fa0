"""Make `.venv` hold what requirements.txt names: `python3 scripts/environment.py`.

What is installed is looked at, not how old a file is: where nothing is missing, nothing
is fetched and no network is needed. An address as argument says where torch comes from.

Any Python 3 can read this file, however old, so that it can say that it is too old.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys

PYTHON = os.path.join(".venv", "bin", "python")
PIP = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
SELF = os.path.join("scripts", "environment.py")
PROJECT = "-e ."  # as requirements.txt names it


def main(torch_address=None):
    """Make the environment, or what it lacks, or nothing if it is ready."""
    missing = find_missing()
    if missing is None:
        if is_too_old():
            sys.exit(
                "The book needs Python {0}.{1} or a newer one, and this is Python {2}. "
                "Name another: make book PYTHON=python{0}.{1}".format(
                    *needed_version() + [sys.version.split()[0]]
                )
            )
        print("Making .venv with Python " + sys.version.split()[0], flush=True)
        run([sys.executable, "-m", "venv", "--clear", ".venv"])
        missing = requirements()
    if missing == [PROJECT]:
        # The folder was moved or copied. What is installed says where the old one was.
        print("The project lies in another folder now: noting which", flush=True)
        run([PYTHON, "-m", "venv", "--without-pip", ".venv"])
        run(PIP + ["--no-index", "--no-build-isolation", "--no-deps"] + PROJECT.split())
    elif missing:
        torch = [line for line in requirements() if line.startswith("torch==")]
        if torch_address and torch[0] in missing:
            run(PIP + ["--index-url", torch_address] + torch)
        run(PIP + ["--requirement", "requirements.txt"])


def needed_version():
    """Read the oldest Python that the project takes, such as [3, 11]."""
    with open("pyproject.toml", encoding="utf-8") as file:
        found = re.search(r'requires-python = ">=(\d+)\.(\d+)"', file.read())
    return [int(number) for number in found.groups()]


def is_too_old():
    return list(sys.version_info[:2]) < needed_version()


def requirements():
    """List the lines of requirements.txt without comments."""
    with open("requirements.txt", encoding="utf-8") as file:
        lines = [line.partition("#")[0].strip() for line in file]
    return [line for line in lines if line]


def find_missing():
    """List the requirements that `.venv` lacks; None if it is no use at all."""
    try:
        # -I: what PYTHONPATH names is not part of it.
        ask = [PYTHON, "-I", "-X", "utf8", SELF, "--missing"]
        answer = subprocess.check_output(ask)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.decode().splitlines()


def print_missing():
    """Do the work of `find_missing`, with the Python of `.venv`."""
    if is_too_old():
        sys.exit(1)
    import importlib.util
    from importlib import metadata

    def has(line):
        if line == PROJECT:
            package = importlib.util.find_spec("transformer_lib")
            here = os.path.join("transformer_lib", "__init__.py")
            return package is not None and os.path.samefile(package.origin, here)
        pin, _, system = line.partition("; platform_system == ")
        if system and system != '"{}"'.format(platform.system()):
            return True  # another system's
        name, _, version = pin.partition("==")
        try:  # 2.13.0+cpu is 2.13.0 for a certain kind of computer
            return metadata.version(name).partition("+")[0] == version
        except metadata.PackageNotFoundError:
            return False

    missing = [line for line in requirements() if not has(line)]
    if missing and importlib.util.find_spec("pip") is None:
        sys.exit(1)
    sys.stdout.writelines(line + "\n" for line in missing)


def run(command):
    """Run a command that says itself why it fails; then say what the book needs."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status = process.wait()
    except SystemExit:  # we are told to end, and so is everything that it began
        os.killpg(process.pid, signal.SIGTERM)
        raise
    if status != 0:
        missing = find_missing() or ["everything"]
        more = len(missing) - 3
        sys.exit(
            "\nThe environment is not ready; why, stands above. It lacks {}{}.\n"
            "To install it takes a network, or the packages in a folder (see "
            "book/teaching.md), and 2.3 GB\nof space, more where torch comes with its "
            "parts for a GPU. Free here: {:.1f} GB.".format(
                ", ".join(missing[:3]),
                " and {} more".format(more) if more > 0 else "",
                shutil.disk_usage(".").free / 1e9,
            )
        )


def end(number, frame):
    """Leave in order, and so not without the command that runs."""
    sys.exit(128 + number)


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    if sys.argv[1:] == ["--missing"]:
        print_missing()
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        main(*sys.argv[1:])
