# Run this cell first. It finds the library of the book, or installs it.
def find_library(address=""):
    import json
    import os
    import site
    import subprocess
    import sys
    import sysconfig
    from importlib.util import find_spec
    from pathlib import Path

    from IPython.display import display

    if find_spec("bookkit"):
        return
    here, wanted = Path.cwd(), []
    project = [p for p in (here, *here.parents) if (p / "bookkit").is_dir()]
    if project:
        wanted = ["--editable", f"{project[0]}[chapters]"]
    elif address:
        wanted = [f"transformer-line-by-line[chapters] @ git+{address}"]
    if wanted:
        print("Installing the library. This may take some minutes.", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", *wanted]
        done = subprocess.run(pip, capture_output=True, text=True)
        site.addsitedir(sysconfig.get_path("purelib"))  # as at the start of Python
        if done.returncode == 0 and find_spec("bookkit"):
            return print("It is here: run all cells.")
    why = "The library could not be installed" if wanted else "The library is not here"
    why += " (the downloads of this page have it)"

    class Stop(Exception):
        def _render_traceback_(self):  # for IPython: one sentence
            return [f"{why}, so no cell runs, and nothing is lost."]

    said = f"{why}, so unchanged cells show what they showed, and nothing is lost."
    shell = get_ipython()  # noqa: F821
    if hasattr(shell, "try_own"):  # what an earlier run of this cell keeps still counts
        return print(said)
    try:  # JupyterLab clears all outputs before the first cell runs: show them again
        path = Path(os.environ["JPY_SESSION_NAME"])
        cells = json.loads(path.read_text("utf-8"))["cells"]
    except (KeyError, OSError, ValueError):
        raise Stop from None
    stored = {}  # by the text of a cell, which several cells may have
    for cell in cells[2:]:
        source = "".join(cell["source"]).strip()
        stored.setdefault(source, []).append(cell.get("outputs", []))

    def show_again(text):
        stored[text].append(outputs := stored[text].pop(0))
        for output in outputs:
            words = output.get("text") or "\n".join(output.get("traceback", ""))
            data = output.get("data", {"text/plain": words})
            display({kind: "".join(lines) for kind, lines in data.items()}, raw=True)

    def try_own(text):  # an error must not stop the cells below
        shell.input_transformers_cleanup.remove(keep)
        if not shell.run_cell(text).success:  # which raises nothing itself
            print(f"{why}.")
        shell.input_transformers_cleanup.append(keep)

    def keep(lines):
        if "find_library(" in (text := "".join(lines).strip()):
            return lines
        act = "show_again" if text in stored else "try_own"
        return [f"get_ipython().{act}({text!r})\n"]

    shell.show_again, shell.try_own = show_again, try_own
    shell.input_transformers_cleanup.append(keep)
    print(said)


find_library()
