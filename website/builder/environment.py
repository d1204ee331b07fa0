"""Install what requirements.txt names in `.venv`: `environment.py`.

It compares the installed packages, not the dates of files. If nothing is missing, it
fetches nothing and needs no network. The optional argument is the index for torch.

Any Python 3 can read this file, so an old Python can say that it is too old.
"""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys

PYTHON = os.path.join(".venv", "Scripts" if os.name == "nt" else "bin", "python")
PIP = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
SELF = os.path.join("website", "builder", "environment.py")
PROJECT = "-e ."  # as requirements.txt names it, and some of what it installs
INSTALLED = "transformer_lib", "bookkit", os.path.join("course", "grading")


def main(torch_address=None):
    """Create the environment, or install what it lacks."""
    missing = find_missing()
    if missing is None:
        if is_too_old():
            sys.exit(
                "The book needs Python {0}.{1} or later, got Python {2}. "
                "Name a newer one: make book PYTHON=python{0}.{1}".format(
                    *needed_version() + [sys.version.split()[0]]
                )
            )
        print("Creating .venv with Python " + sys.version.split()[0], flush=True)
        run([sys.executable, "-m", "venv", "--clear", ".venv"])
        missing = requirements()
    if missing == [PROJECT]:
        # The folder was moved or copied, and .venv still contains the old path.
        print("The folder was moved: updating its path in .venv", flush=True)
        run([PYTHON, "-m", "venv", "--without-pip", ".venv"])
        options = ["--no-index", "--no-build-isolation", "--no-deps"]
        run(PIP + options + PROJECT.split())
    elif missing:
        torch = [line for line in requirements() if line.startswith("torch==")]
        if torch_address and torch[0] in missing:
            run(PIP + ["--index-url", torch_address] + torch)
        run(PIP + ["--requirement", "requirements.txt"])


def needed_version():
    """Read the oldest supported Python, such as [3, 11]."""
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
    """List the requirements that `.venv` lacks; None if it cannot be used at all."""
    try:
        # -I, because PYTHONPATH is not part of the environment.
        ask = [PYTHON, "-I", "-X", "utf8", SELF, "--missing"]
        answer = subprocess.check_output(ask)
    except (OSError, subprocess.CalledProcessError):
        return None
    return answer.decode().splitlines()


def print_missing():
    """Do the work of `find_missing` with the Python in `.venv`."""
    if is_too_old():
        sys.exit(1)
    import importlib.util
    from importlib import metadata

    def is_here(folder):
        package = importlib.util.find_spec(os.path.basename(folder))
        here = os.path.join(folder, "__init__.py")
        return package is not None and os.path.samefile(package.origin, here)

    def has(line):
        if line == PROJECT:
            return all(map(is_here, filter(os.path.isdir, INSTALLED)))
        pin, _, system = line.partition("; platform_system == ")
        if system and system != '"{}"'.format(platform.system()):
            return True  # for another system
        name, _, version = pin.partition("==")
        try:  # 2.13.0+cpu is a build of 2.13.0
            return metadata.version(name).partition("+")[0] == version
        except metadata.PackageNotFoundError:
            return False

    missing = [line for line in requirements() if not has(line)]
    if missing and importlib.util.find_spec("pip") is None:
        sys.exit(1)
    sys.stdout.writelines(line + "\n" for line in missing)


def run(command):
    """Run a command; if it fails, say what is missing."""
    process = subprocess.Popen(command, start_new_session=True)
    try:
        status = process.wait()
    except SystemExit:  # pass SIGTERM on to everything that the command started
        os.killpg(process.pid, signal.SIGTERM)
        raise
    if status != 0:
        missing = find_missing() or ["everything"]
        more = len(missing) - 3
        sys.exit(
            "\nThe environment is not ready; the reason is above. It lacks {}{}.\n"
            "Installing needs a network, or the packages in a folder (see "
            "book/teaching.md), and 2.3 GB\nof space, or more for a torch with GPU "
            "code. Free here: {:.1f} GB.".format(
                ", ".join(missing[:3]),
                " and {} more".format(more) if more > 0 else "",
                shutil.disk_usage(".").free / 1e9,
            )
        )


def end(number, frame):
    """Exit in order, so that the running command is stopped first."""
    sys.exit(128 + number)


if __name__ == "__main__":
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    if sys.argv[1:] == ["--missing"]:
        print_missing()
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, end)
        main(*sys.argv[1:])
