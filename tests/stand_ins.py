"""A small project that the real Makefile serves, and packages made of nothing.

Its packages lie in a folder, which stands for the network: to pip it is all there is.
"""

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

from book_files import ROOT

BACKEND = """
import pathlib, zipfile
def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "project-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder, name), "w") as file:
        file.writestr("project.pth", "import project_finder")
        where = f"import sys; sys.path.append({str(pathlib.Path.cwd())!r})"
        file.writestr("project_finder.py", where)
        about = "project-1.0.dist-info/"
        file.writestr(about + "METADATA", META.format("project", "1.0"))
        file.writestr(about + "WHEEL", WHEEL)
        file.writestr(about + "RECORD", "")
    return name
"""
META = "Metadata-Version: 2.1\nName: {}\nVersion: {}\n"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
PROJECT = """
[build-system]
requires = ["stand-in==1.0"]
build-backend = "stand_in"
[project]
name = "project"
requires-python = ">=3.11"
"""
SCRIPTS = ("website/builder/environment.py", "website/builder/programs.py")
SCRIPT = "import transformer_lib, tiny\nprint('done by', transformer_lib.__file__)\n"


def wheel(folder, name, version, source=""):
    """Write a package of one module."""
    folder.mkdir(exist_ok=True)
    module = name.replace("-", "_")
    path = folder / f"{module}-{version}-py3-none-any.whl"
    about = f"{module}-{version}.dist-info"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(f"{module}.py", source)
        file.writestr(f"{about}/METADATA", META.format(name, version))
        file.writestr(f"{about}/WHEEL", WHEEL)
        file.writestr(f"{about}/RECORD", "")


class Project:
    """The project in ``root``; ``network`` is the folder with its packages."""

    def __init__(self, root, network):
        self.root, self.network = root, network

    @classmethod
    def make_new(cls, root):
        network = root.with_name("network")
        wheel(network, "tiny", "1.0")
        backend = f"META, WHEEL = {META!r}, {WHEEL!r}\n{BACKEND}"
        wheel(network, "stand-in", "1.0", backend)
        (root / "website" / "builder").mkdir(parents=True)
        (root / "website" / "edition").mkdir()
        (root / "transformer_lib").mkdir()
        (root / "transformer_lib" / "__init__.py").touch()
        for name in ("Makefile", "make.py", *SCRIPTS):
            shutil.copy(ROOT / name, root / name)
        for name in ("builder/build", "edition/lab"):
            (root / "website" / f"{name}.py").write_text(SCRIPT)
        (root / "pyproject.toml").write_text(PROJECT)
        pins = "# A comment\ntiny==1.0\nstand-in==1.0\n-e .\n"
        (root / "requirements.txt").write_text(pins)
        return cls(root, network)

    def run(self, *command, network=True, **environment):
        """Run a command in the project; return its status and what was printed."""
        done = subprocess.run(
            command if network else [*without_network(), *command],
            cwd=self.root,
            env=self.environment(network) | environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
        )
        return done.returncode, done.stdout

    def make(self, goal="book", python=sys.executable, **more):
        return self.run("make", goal, f"PYTHON={python}", **more)

    def environment(self, network=True):
        mine = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PIP_", "PYTHON", "MAKE", "VIRTUAL_ENV"))
        }
        mine |= {"PIP_CONFIG_FILE": os.devnull, "PIP_NO_INDEX": "1"}
        mine["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{mine['PATH']}"
        return mine | ({"PIP_FIND_LINKS": str(self.network)} if network else {})


def without_network():
    """Give the words before a command that take its network away, if there are such.

    Where the computer does not allow it, pip at least is told to look nowhere.
    """
    words = ["unshare", "--map-root-user", "--net"]
    if shutil.which("unshare") and not subprocess.run([*words, "true"]).returncode:
        return words
    print("Only pip is without a network here: this computer gives no namespace.")
    return []
