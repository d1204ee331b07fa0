"""Open the notebooks in JupyterLab: `lab.py [OPTIONS]`.

Chapters open with the figures and controls of the build (``chapters.py``). JupyterLab
does not look for news or newer versions, and does not ask whether it may. It needs no
network.
"""

import os
import sys
from pathlib import Path

from jupyterlab.labapp import main as jupyterlab

from transformer_lib.javascript.weights import write_script
from website.builder.build import MODEL, without_model

ROOT = Path(__file__).resolve().parents[2]

SETTINGS = ROOT / "website" / "lab" / "jupyterlab"
QUIET = [
    f"--LabApp.app_settings_dir={SETTINGS}",  # overrides.json and page_config.json
    f"--LabApp.extra_labextensions_path={SETTINGS / 'extensions'}",  # the style
    "--LabApp.news_url=",
    "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate",
    "--ServerApp.contents_manager_class=website.lab.chapters.Chapters",
]
PAGES = "_build/html", "html"  # of the project, and of an unpacked archive


def main(root: Path, options: list[str]) -> None:
    """Pack the translator for its control, then start JupyterLab."""
    try:
        write_script(root / MODEL, root / "book/_static/made/translator.js")
    except (OSError, ValueError) as error:
        print(without_model(root) or error, file=sys.stderr)
    if getattr(os, "geteuid", lambda: 1)() == 0 and "--allow-root" not in options:
        print("As root, use: make lab OPTIONS=--allow-root", file=sys.stderr)
    folders = [root / pages / "_sources" / "book" for pages in PAGES]
    executed = next((folder for folder in folders if folder.is_dir()), None)
    if executed is None:
        print("make book adds figures and controls to the chapters.", file=sys.stderr)
    jupyterlab(
        [
            f"--ServerApp.root_dir={root / 'book'}",
            f"--Chapters.executed={executed or ''}",
            *QUIET,
            *options,
        ]
    )


if __name__ == "__main__":
    main(ROOT, sys.argv[1:])
