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

    if find_spec("bookkit"):
        return
    here = Path.cwd()
    project = [p for p in (here, *here.parents) if (p / "bookkit").is_dir()]
    if project:
        wanted = ["--editable", f"{project[0]}[chapters]"]
    elif address:
        wanted = [f"transformer-line-by-line[chapters] @ git+{address}"]
    if project or address:
        print("Installing the library. This may take some minutes.", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", *wanted]
        done = subprocess.run(pip, capture_output=True, text=True)
        site.addsitedir(sysconfig.get_path("purelib"))  # as at the start of Python
        if done.returncode == 0 and find_spec("bookkit"):
            return
    why = "The library is not here"
    if project or address:
        why = "The library could not be installed"
    why += " (the menu of downloads on the page of this chapter has it)"

    class Stop(Exception):
        def _render_traceback_(self):  # for IPython: one sentence
            return [f"{why}, so no cell runs, and nothing is lost."]

    try:  # JupyterLab clears all outputs before the first cell runs: show them again
        path = Path(os.environ["JPY_SESSION_NAME"])
        cells = json.loads(path.read_text("utf-8"))["cells"]
    except (KeyError, OSError, ValueError):
        raise Stop from None
    stored = {}  # by the text of a cell, which several cells may have
    for cell in cells[2:]:
        text = "".join(cell["source"]).strip()
        stored.setdefault(text, []).append(cell.get("outputs", []))

    def show_again(text):
        from IPython.display import display

        waiting = stored[text]
        outputs = waiting.pop(0)
        waiting.append(outputs)
        for output in outputs:
            data = output.get("data", {"text/plain": output.get("text")})
            display({kind: "".join(lines) for kind, lines in data.items()}, raw=True)

    def keep(lines):
        text = "".join(lines).strip()
        return [f"get_ipython().show_again({text!r})\n"] if text in stored else lines

    shell = get_ipython()  # noqa: F821
    shell.show_again = show_again
    shell.input_transformers_cleanup.append(keep)
    print(f"{why}, so each cell that you do not change shows what it showed.")


find_library()
