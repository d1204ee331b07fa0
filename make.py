"""Run a command of the project: `python make.py book`; `help` lists them.

Where there is make, `make book` does the same. Any Python 3 can read this file.
"""

import os
import shutil
import signal
import subprocess
import sys

# Not the scripts beside it: they contain the path that they were installed to.
PYTHON = os.path.join(".venv", "Scripts" if os.name == "nt" else "bin", "python")
# One thread per worker, and one worker per core: a third on two cores takes longer.
PYTEST = ["-m", "pytest", "-n", "logical", "--maxprocesses=8"]


def call(*command):
    """Run a program, and end with its status if it fails."""
    # Force UTF-8 regardless of the terminal's locale.
    process = subprocess.Popen(command, env=dict(os.environ, PYTHONUTF8="1"))
    try:
        status = process.wait()
    except BaseException:
        process.terminate()
        process.wait()
        raise
    if status != 0:
        sys.exit(status)


def run(*arguments):
    """Run the Python of the project."""
    call(PYTHON, *arguments)


def pytest(*arguments):
    """Run tests."""
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["PYTHONDONTWRITEBYTECODE"] = ""  # else workers compile all tests
    run(*(PYTEST + list(arguments)))


def ready():
    """Create the environment, or install what it lacks."""
    index = os.environ.get("TORCH_INDEX")
    call(sys.executable, "website/builder/environment.py", *([index] if index else []))


def book(*options):
    """Build the book (warnings are errors), executing only what changed."""
    ready()
    run("-m", "website.builder.programs", "cc")
    run("-m", "website.builder.build", *options)


def quick(*options):
    """A minute after each edit: style and library, without book or browser."""
    style()
    fast = "not (slow or browser or book or program)"
    pytest("tests", "--dist", "worksteal", "-m", fast, *options)


def style():
    """Check the style with ruff, and print the budget of lines."""
    ready()
    run("tests/test_budget.py")
    run("-m", "ruff", "check", ".")
    run("-m", "ruff", "format", "--check", ".")


def test(*options):
    """Style, library, every page once in a browser, and each notebook that changed."""
    book()
    style()
    run("-m", "website.builder.programs", "chromium")
    places = "book", "tests", "-p", "website.builder.notebooks"
    pytest(*places, "--dist", "loadfile", "-m", "not slow", *options)


def slow(*options):
    """The rest: build, PDF, archive, JupyterLab, processes, grading, phone widths."""
    book()
    run("-m", "pip", "install", "--quiet", "-r", "course/requirements.txt")
    run("-m", "website.builder.programs", "chromium")
    pytest("tests", "--dist", "worksteal", "-m", "slow", *options)


def lab(*options):
    """Open your copy of the notebooks in JupyterLab; as root: lab --allow-root."""
    ready()
    run("-m", "website.edition.lab", *options)


def serve(port="8000"):
    """Serve the pages on localhost, at this port."""
    book()
    folder = os.path.join("_build", "html")
    run("-m", "http.server", port, "--bind", "127.0.0.1", "--directory", folder)


def bundle():
    """Pack pages, notebooks, library and models into one archive."""
    book()
    run("-m", "website.bundle.bundle")


def course():
    """Write the course for students and teachers, and its archive."""
    book()
    run("-m", "course.editions")


def pdf():
    """Print the whole book into one PDF."""
    book()
    run("-m", "website.builder.programs", "chromium")
    run("-m", "website.print.pdf")


def clean():
    """Delete the built pages and the executed notebooks."""
    shutil.rmtree("_build", ignore_errors=True)


def help():
    """List the commands."""
    for name, command in COMMANDS.items():
        print(f"{name:8} {command.__doc__}")


ALL = (book, quick, style, test, slow, lab, serve, bundle, course, pdf, clean, help)
COMMANDS = {command.__name__: command for command in ALL}


def end(number, frame):
    """Exit in order, so that the running command is stopped first."""
    sys.exit(128 + number)


if __name__ == "__main__":
    os.chdir(os.path.dirname(os.path.abspath(__file__)))
    signal.signal(signal.SIGTERM, end)
    name, options = sys.argv[1] if sys.argv[1:] else "help", sys.argv[2:]
    if name not in COMMANDS:
        sys.exit(f"there is no command {name}; python make.py help lists them")
    try:
        COMMANDS[name](*options)
    except KeyboardInterrupt:
        sys.exit(130)
