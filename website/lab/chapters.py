"""Open chapters in JupyterLab with the outputs of the build, which no file stores.

A cell that has not been run shows what the build made of the same code. These outputs
come from the notebooks that the pages offer for download. They are removed before a
notebook is saved, so the project's notebooks stay without outputs. What a reader ran is
saved as usual.
"""

from pathlib import Path

import nbformat
from jupyter_server.services.contents.largefilemanager import AsyncLargeFileManager
from traitlets import Unicode, default

# Sources of pages that JupyterLab cannot show well. Links still open them.
NOT_LISTED = ["_static", "api*.md", "bibliography.md", "references.bib"]
NOT_LISTED += ["intro.md", "teaching.md"]


class Chapters(AsyncLargeFileManager):
    """The notebooks of the book, with the outputs of the build while they are open."""

    executed = Unicode(help="Folder of the notebooks with outputs.").tag(config=True)

    def __init__(self, **settings) -> None:
        super().__init__(**settings)
        self.shown: dict[tuple[str, str], list] = {}  # by path and cell

    @default("hide_globs")
    def _hide_globs_default(self) -> list[str]:
        return [*AsyncLargeFileManager.hide_globs.default(), *NOT_LISTED]

    async def get(self, path: str, content: bool = True, *rest, **others) -> dict:
        """Read a file; the cells of a notebook get the outputs of the build."""
        model = await super().get(path, content, *rest, **others)
        cells, name = not_run(model), path.strip("/")
        outputs = self.built(name) if cells else {}
        for cell in cells:
            built = outputs.get(cell["id"])
            if built and built.source == cell["source"] and not cell["outputs"]:
                cell["outputs"] = built.outputs
                cell["metadata"]["trusted"] = True  # this project wrote them
                # The next build may make others while this notebook is open.
                known = self.shown.setdefault((name, cell["id"]), [])
                if built.outputs not in known:
                    known.append(built.outputs)
        return model

    async def save(self, model: dict, path: str = "") -> dict:
        """Write a file; the cells of a notebook lose the outputs of the build."""
        cells, name = not_run(model), path.strip("/")
        outputs = self.built(name) if cells else {}
        for cell in cells:
            known = self.shown.get((name, cell["id"]), [])
            if built := outputs.get(cell["id"]):
                known = [*known, built.outputs]
            if cell["outputs"] in known:
                cell["outputs"] = []
        return await super().save(model, path)

    def built(self, name: str) -> dict[str, nbformat.NotebookNode]:
        """Read the cells of a notebook of the build that have outputs, by their ids."""
        folder = Path(self.executed).resolve()
        file = Path(folder, name).resolve()
        inside = self.executed and file.is_relative_to(folder)
        if not inside or not file.is_file():
            return {}
        try:
            cells = nbformat.read(file, as_version=4).cells
        except ValueError:  # a build has written only half of it so far
            return {}
        return {cell.id: cell for cell in cells if cell.get("outputs")}


def not_run(model: dict) -> list[dict]:
    """List the code cells of a notebook that have not been run."""
    if model.get("type") != "notebook" or not model.get("content"):
        return []
    cells = [cell for cell in model["content"]["cells"] if "outputs" in cell]
    return [c for c in cells if c.get("id") and c.get("execution_count") is None]
